"""show and peek: messages without a cursor."""

from __future__ import annotations

from agent_chat import messages
from agent_chat.cli import output
from agent_chat.cli.options import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message


def run(call: Call) -> int:
    shape = output.message_format(call)
    if call.command == "show":
        number = call.number("number", "show", least=1)
        with call.channel() as channel:
            return _print(channel, messages.by_number(channel, number), shape)
    count = call.number("count", "-n", default=3, least=1)
    excluded = call.excluded()
    with call.channel() as channel:
        found = messages.newest(channel, count, excluded)
        output.skipped(channel.name, channel.log.unreadable.values())
        if not found and shape != "json":
            output.emit(f"(no messages in {channel.name!r})\n")
            return 0
        return _print(channel, found, shape)


def _print(channel: Channel, found: list[Message], shape: str) -> int:
    if shape == "json":
        listed = [output.message_object(channel.name, message) for message in found]
        output.emit(output.as_json({"channel": channel.name, "messages": listed}))
    else:
        caution = output.CAUTION + "\n" if shape == "envelope" else ""
        output.emit(caution + output.page(channel.name, found, shape).text)
    return 0
