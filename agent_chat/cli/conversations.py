"""topics, thread, receipts, search, log: what was talked about, and what became of it. No cursor is involved."""

from __future__ import annotations

from agent_chat import clock, conversations, ledger, messages
from agent_chat.cli import output
from agent_chat.cli.options import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message

DEEPEST = 20  # levels that are indented
LINES = {"thread": 100, "search": 20, "log": 20}


def run(call: Call) -> int:
    does = {"topics": _topics, "thread": _thread, "receipts": _receipts, "search": _search, "log": _log}
    with call.channel() as channel:
        return does[call.command](call, channel)


def _topics(call: Call, channel: Channel) -> int:
    found = conversations.topics(channel)
    rows = [("TOPIC", "COUNT", "LAST", "TIME")]
    rows += [(topic.name[:100], str(topic.count), f"#{topic.last}", topic.ts) for topic in found]
    result: dict[str, object] = {"channel": channel.name, "topics": [topic.record() for topic in found]}
    return output.answer(call, result, output.table(rows) if found else f"(no messages in {channel.name!r})")


def _thread(call: Call, channel: Channel) -> int:
    number = call.number("number", "thread", least=1)
    count = call.number("count", "-n", LINES["thread"], least=1)
    shape = output.message_format(call) if call.given("format") or call.wants_json else ""
    found = conversations.thread(channel, number)
    listed = [(depth, channel.log.message(entry.name)) for depth, entry in found.nodes[: None if shape else count]]
    shown = [(depth, message) for depth, message in listed if message]
    output.skipped(channel.name, channel.log.unreadable.values())
    if shape == "json":
        nodes = [{"depth": depth, "message": output.message_object(channel.name, message)} for depth, message in shown]
        result: dict[str, object] = {"channel": channel.name, "seq": number, "root": found.root}
        output.emit(output.as_json({**result, "is_root_there": not found.missing, "nodes": nodes}))
    elif shape:
        caution = output.CAUTION + "\n" if shape == "envelope" else ""
        output.emit(caution + output.page(channel.name, [message for _, message in shown], shape).text)
    else:
        lines = [f"#{found.root} (not there any more)"] if found.missing else []
        lines += ["  " * min(depth, DEEPEST) + _line(message) for depth, message in shown]
        left = len(found.nodes) - count
        lines += [_more(call, channel, left, "thread", str(number), len(found.nodes))] if left > 0 else []
        output.emit(output.visible("\n".join(lines)) + "\n")
    return 0


def _line(message: Message) -> str:
    """`#12 bob -> alice, docs/review, decision, expired: title`."""
    to = f" -> {message.to}" if message.recipients else ""
    words = [message.topic if message.topic != "general" else "", _status(message)]
    about = "".join(f", {word}" for word in words if word)
    return f"#{message.number} {message.sender}{to}{about}: {message.title}".replace("\n", " ")


def _status(message: Message) -> str:
    status = message.status if message.status != "discussion" else ""
    return " ".join(filter(None, [status, "expired" if output.is_expired(message) else ""]))


def _more(call: Call, channel: Channel, left: int, command: str, what: str, count: int) -> str:
    again = output.command_line((command, channel.name, what, "-n", str(count)), call.text("root"))
    return f"more: {left}; next: {again}"


def _receipts(call: Call, channel: Channel) -> int:
    from agent_chat import receipts

    number = call.number("number", "receipts", least=1)
    found = [(message, receipts.delivery(channel, message)) for message in messages.by_number(channel, number)]
    rows = [(name, verdict) for _, delivery in found for name, verdict in delivery.items()]
    listed = [{"file": message.name, "delivery": delivery} for message, delivery in found]
    result: dict[str, object] = {"channel": channel.name, "seq": number, "receipts": listed}
    return output.answer(call, result, output.table(rows) if rows else f"(#{number} has no recipients)")


def _search(call: Call, channel: Channel) -> int:
    words, count = call.words("words"), call.number("count", "-n", LINES["search"], least=1)
    found = conversations.search(channel, words)
    output.skipped(channel.name, channel.log.unreadable.values())
    shown = found[-count:]
    result: dict[str, object] = {"channel": channel.name, "count": len(found)}
    if call.wants_json:
        objects = [output.message_object(channel.name, message) for message in shown]
        return output.answer(call, {**result, "messages": objects}, "")
    lines = []
    for message in shown:
        snippet = conversations.snippet(message, words)
        lines.append(_line(message) + (f" | {snippet}" if snippet else ""))
    if len(found) > count:
        lines.append(f"({len(found) - count} older ones; -n {len(found)} shows them)")
    return output.answer(call, result, "\n".join(lines) or f"(nothing in {channel.name!r} has these words)")


def _log(call: Call, channel: Channel) -> int:
    count = call.number("count", "-n", LINES["log"], least=1)
    shown = messages.newest(channel, count)
    output.skipped(channel.name, channel.log.unreadable.values())
    noted = ledger.read(channel, count) if call.flag("ledger") else []
    rows = [(message.ts, _message_row(message)) for message in shown]
    rows += [(line["ts"], _ledger_row(line)) for line in noted]
    rows = sorted(rows, key=lambda row: _instant(row[0]))[-count:]
    result: dict[str, object] = {"channel": channel.name, "messages": [_record(message) for message in shown]}
    if call.flag("ledger"):
        result["ledger"] = noted
    lines = output.table([row for _, row in rows]) if rows else f"(no messages in {channel.name!r})"
    return output.answer(call, result, lines)


def _instant(ts: str) -> int:
    try:
        return clock.parse_stamp(ts)
    except ValueError:
        return 0


def _message_row(message: Message) -> tuple[str, ...]:
    to = message.to if message.recipients else "all"
    about = [f"{message.topic}:" if message.topic != "general" else "", message.title]
    return f"#{message.number}", message.ts, message.sender, to, _status(message), " ".join(filter(None, about))


def _ledger_row(line: dict[str, Any]) -> tuple[str, ...]:
    """What became of an attempt, and the beginning of what it said."""
    number = f"#{line['seq']}" if line["seq"] else "-"
    outcome = " ".join(filter(None, [line["outcome"], line["code"]]))
    return number, line["ts"][:19] + line["ts"][26:], line["from"], line["to"], outcome, line["text"][:200]


def _record(message: Message) -> dict[str, object]:
    found: dict[str, object] = {"seq": message.number, "ts": message.ts, "from": message.sender, "to": message.to}
    found.update(topic=message.topic, status=message.status, title=message.title)
    if message.reply_to:
        found["reply_to"] = message.reply_to
    return {**found, "expired": output.is_expired(message)}
