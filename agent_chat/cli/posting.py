"""post."""

from __future__ import annotations

import os
import sys

from agent_chat import clock, messages
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel
    from agent_chat.conditions import Conditions
    from agent_chat.messages import Draft, Gate

SILENCE = 2.0  # seconds until a waiting reader of stdin says what it waits for


def run(call: Call) -> int:
    sender = call.agent()
    title = call.needed("title", "--title")
    reply = call.number("reply", "--reply", least=1)
    if call.given("body") and call.given("body_file"):
        raise call.usage("--body and --body-file exclude each other")
    topic, expires_in, conditions = call.text("topic"), _duration(call), _conditions(call)
    if call.given("topic"):
        messages.check_topic(topic)
    with call.channel() as channel:
        text = call.text("body") if call.given("body") else body(call)
        draft = messages.Draft(
            sender,
            title,
            text,
            call.text("to"),
            reply,
            call.text("status"),
            call.flag("force"),
            topic,
            expires_in,
            conditions,
            guards(channel),
        )
        number, name, warnings = _post(call, channel, draft)
        for warning in [*warnings, *channel.notices]:
            output.note(f"agent-chat: {warning}")
        result: dict[str, object] = {"channel": channel.name, "seq": number, "file": name, "warnings": warnings}
        told = f"posted #{number} -> {channel.name}/{name}"
        if draft.is_repeat:
            told += " (before; nothing was written)"
        if call.wants_json:
            result.update(repeated=draft.is_repeat, delivery=delivery(channel, name))
            if any(gate.is_repeat for gate in draft.gates):
                result["code"] = "GUARD_DUPLICATE"
        try:
            return output.answer(call, result, told)
        except AgentChatError as error:
            said = f"posted as #{number}, do not repeat it; but {error.message}"
            raise AgentChatError(error.code, said, ("show", channel.name, str(number)), result) from None


def guards(channel: Channel) -> tuple[Gate, ...]:
    """What the policy's limits ask of a post; nothing where it sets none."""
    if channel.policy is None or not channel.policy.is_guarded():
        return ()
    from agent_chat.guards import Guards

    return (Guards(channel.policy, os.isatty(0) and _is_person()),)


def _is_person() -> bool:
    from agent_chat.cli import operator  # for whoever has a terminal

    return operator.is_person()


def _post(call: Call, channel: Channel, draft: Draft) -> tuple[int, str, list[str]]:
    """As messages.post, noted in the ledger; the text of a refused one is kept where --save-refused says."""
    try:
        if channel.policy is None or channel.policy.value("ledger") == "off":
            return messages.post(channel, draft)
        from agent_chat import ledger

        asked = draft.conditions.request_id if draft.conditions else ""
        with ledger.Attempt(channel, "post", draft.sender, draft.to, draft.title, draft.body, asked) as attempt:
            done = messages.post(channel, draft)
            code = "GUARD_DUPLICATE" if any(gate.is_repeat for gate in draft.gates) else ""
            attempt.came_to(done[0], ledger.DUPLICATE if draft.is_repeat else ledger.POSTED, code)
        return done
    except AgentChatError as error:
        if not call.given("save_refused") or error.code == "MESSAGE_NOT_DURABLE":
            raise
        name = call.text("save_refused")
        why = _save(name, draft.body.encode("utf-8", "surrogateescape"))
        said = f"its text was not kept in {name}: {why}" if why else f"its text is kept in {name}"
        details = {**error.details, "saved": None if why else name}
        raise AgentChatError(error.code, f"{error.message}; {said}", error.next, details) from None


def _save(name: str, data: bytes) -> str:
    """Write a new file; why that failed, or nothing. One that says the same already will do."""
    try:
        with open(name, "xb") as stream:
            stream.write(data)
            stream.flush()
            disk.sync_file(stream.fileno())
    except FileExistsError:
        try:
            return "" if _file(name) == data else "a file of this name is there"
        except OSError as error:
            return error.strerror or str(error)
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def _duration(call: Call) -> int:
    """--expires-in in microseconds; 0 without. MESSAGE_INVALID_DURATION."""
    if not call.given("expires_in"):
        return 0
    try:
        duration = clock.parse_duration(call.text("expires_in"))
    except ValueError as error:
        text = f"--expires-in takes seconds above 0: {error}"
        raise AgentChatError("MESSAGE_INVALID_DURATION", text, ("post", "--help")) from None
    messages.expiry(clock.now(), duration)
    return duration


def _conditions(call: Call) -> Conditions | None:
    """What must hold for this post; None for nothing."""
    if not (call.given("request_id") or call.given("if_latest") or call.flag("if_read")):
        return None
    from agent_chat.conditions import Conditions

    if call.given("request_id") and not call.text("request_id"):
        raise call.usage("--request-id takes an id, not an empty word")
    return Conditions(call.text("request_id"), call.number("if_latest", "--if-latest", -1), call.flag("if_read"))


def delivery(channel: Channel, name: str) -> dict[str, str]:
    """What becomes of a message that was just posted; nothing where that cannot be told: it is posted all the same."""
    from agent_chat import receipts

    try:
        message = channel.log.message(name)
        return receipts.delivery(channel, message) if message else {}
    except (AgentChatError, OSError):
        return {}


def body(call: Call) -> str:
    """The body from --body-file or stdin. MESSAGE_BODY_UNREADABLE."""
    name = call.text("body_file", "-")
    try:
        data = _stdin() if name == "-" else _file(name)
        return data.decode("utf-8")
    except OSError as error:
        why = error.strerror or str(error)
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    where = "stdin" if name == "-" else name
    raise AgentChatError("MESSAGE_BODY_UNREADABLE", f"cannot take the body from {where}: {why}", ("post", "--help"))


def _file(name: str) -> bytes:
    with open(name, "rb") as stream:
        return stream.read(disk.MESSAGE_LIMIT + 1)


def _stdin() -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        return b""  # refused as an empty body
    fd = sys.stdin.fileno()
    if not _has_input(fd):
        output.note("agent-chat: waiting for the body on stdin (end it with Ctrl-D, or give --body)")
    parts, left = [], disk.MESSAGE_LIMIT + 1
    while left > 0:
        try:
            part = os.read(fd, min(left, 1 << 20))
        except BlockingIOError:  # a pipe that somebody made non-blocking
            _has_input(fd)
            continue
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _has_input(fd: int) -> bool:
    """Whether something came within the patience; Windows cannot ask that of a pipe."""
    if sys.platform == "win32":
        return True
    import select

    return bool(select.select([fd], [], [], SILENCE)[0])
