"""init, channels, roster, version."""

from __future__ import annotations

import os

from agent_chat import channel as channels
from agent_chat import log, messages, names
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import AgentChatError


def run(call: Call) -> int:
    return {"init": _init, "channels": _channels, "roster": _roster, "version": _version}[call.command](call)


def _version(call: Call) -> int:
    from agent_chat import __version__

    return output.answer(call, {"version": __version__}, f"agent-chat {__version__}")


def _init(call: Call) -> int:
    name = call.text("channel")
    recovery = call.text("recovery")
    if recovery not in ("", "explicit", "auto"):
        raise call.usage(f"--recovery is explicit or auto, not {recovery!r}")
    members = [part.strip() for part in call.text("members").split(",") if part.strip()]
    policy = {"recovery": recovery} if recovery else {}
    if call.flag("guards"):
        policy["guards"] = "on"
    channels.create(call.root, name, members, call.text("topic"), os.path.expanduser("~"), policy)
    with channels.find(call.root, name) as made:
        shown = f" with {', '.join(made.meta.members)}" if made.meta.members else " for anyone"
        result: dict[str, object] = {"channel": made.name, "members": made.meta.members, "topic": made.meta.topic}
        return output.answer(call, {**result, "root": call.root}, f"made channel {made.name}{shown} in {call.root}")


def _summary(channel: channels.Channel) -> dict[str, object]:
    count = channel.look_at_log().stamp.count
    if channel.folder.exists(names.ARCHIVE):
        from agent_chat import archived

        count += sum(1 for name in archived.places(channel.folder) if names.message_number(name))
    newest = messages.newest(channel, 1)
    last = (
        {"seq": newest[0].number, "from": newest[0].sender, "title": newest[0].title, "ts": newest[0].ts}
        if newest
        else None
    )
    return {
        "channel": channel.name,
        "count": count,
        "members": channel.listed(channel.meta.members),
        "topic": channel.meta.topic,
        "last": last,
    }


def _last_line(last: object) -> str:
    return f"#{last['seq']} {last['from']}: {last['title']}" if isinstance(last, dict) else "-"


def _channels(call: Call) -> int:
    found, refused = [], []
    for name in channels.list_names(call.root):
        try:
            with channels.find(call.root, name) as channel:
                found.append(_summary(channel))
        except AgentChatError as error:
            refused.append(error)
        except OSError as error:
            refused.append(output.explain(error, call.root, call.command))
    rows: list[tuple[str, ...]] = [("CHANNEL", "COUNT", "MEMBERS", "LAST")]
    for one in found:
        members = ",".join(one["members"]) if isinstance(one["members"], list) else ""
        rows.append((str(one["channel"]), str(one["count"]), members or "-", _last_line(one["last"])))
    for refusal in refused:
        output.refuse(refusal, False, call.text("root"))
    empty = f"(no channels in {call.root})"
    return output.answer(call, {"root": call.root, "channels": found}, output.table(rows) if found else empty)


def _roster(call: Call) -> int:
    with call.channel() as channel:
        summary = _summary(channel)
        read: dict[str, object] = {}
        try:
            with channel.folder.sub(log.CURSORS) as folder:
                readers = log.readers(folder)
        except FileNotFoundError:
            readers = []
        for agent in channel.listed(readers):
            try:
                read[agent] = channel.cursor_of(agent)
            except AgentChatError:
                read[agent] = None  # `read` and `doctor` name the cure
        so_far = [f"{agent} #{'?' if at is None else at}" for agent, at in read.items()]
        lines = [
            f"channel: {channel.name}",
            f"topic:   {channel.meta.topic or '-'}",
            f"members: {', '.join(channel.listed(channel.meta.members)) or '- (anyone)'}",
            f"count:   {summary['count']}",
            f"last:    {_last_line(summary['last'])}",
            f"read:    {', '.join(so_far) or '-'}",
        ]
        shown = "\n".join(line.replace("\n", " ") for line in lines)
        return output.answer(call, {**summary, "created": channel.meta.created, "cursors": read}, shown)
