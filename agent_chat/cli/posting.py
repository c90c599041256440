"""post."""

from __future__ import annotations

import os
import sys

from agent_chat import messages
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

SILENCE = 2.0  # seconds until a waiting reader of stdin says what it waits for


def run(call: Call) -> int:
    sender = call.agent()
    title = call.needed("title", "--title")
    reply = call.number("reply", "--reply", least=1)
    if call.given("body") and call.given("body_file"):
        raise call.usage("--body and --body-file exclude each other")
    with call.channel() as channel:
        text = call.text("body") if call.given("body") else body(call)
        draft = messages.Draft(sender, title, text, call.text("to"), reply, call.text("status"), call.flag("force"))
        number, name, warnings = messages.post(channel, draft)
        for warning in warnings:
            output.note(f"agent-chat: {warning}")
        result: dict[str, object] = {"channel": channel.name, "seq": number, "file": name, "warnings": warnings}
        try:
            return output.answer(call, result, f"posted #{number} -> {channel.name}/{name}")
        except AgentChatError as error:
            said = f"posted as #{number}, do not repeat it; but {error.message}"
            raise AgentChatError(error.code, said, ("show", channel.name, str(number)), result) from None


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
