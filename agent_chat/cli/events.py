"""event post and event read."""

from __future__ import annotations

from agent_chat import events
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import OK, REFUSED

_NAMED = 3  # bad events named in one call


def run(call: Call) -> int:
    return _post(call) if call.command == "event post" else _read(call)


def _post(call: Call) -> int:
    agent, kind = call.agent("EVENT_INVALID_TEXT"), call.needed("type", "--type")
    event: dict[str, object] = {"agent": agent, "event": kind, "harness": call.needed("harness", "--harness")}
    if call.given("primitives"):
        event["primitives"] = call.listed("primitives")
    elif kind == events.CAPABILITY:
        event["primitives"] = list(events.PRIMITIVES)
    event.update({name: call.text(name) for name in ("status", "detail") if call.given(name)})
    with call.channel() as channel:
        number, name = events.post(channel, event)
        result: dict[str, object] = {"channel": channel.name, "seq": number, "file": name}
        return output.answer(call, result, f"posted #{number} -> {channel.name}/{name}")


def _read(call: Call) -> int:
    with call.channel() as channel:
        found, bad = events.read(channel, call.text("type"), call.text("agent"), call.flag("latest"))
        if call.wants_json:
            damaged = [{"code": error.code, "message": error.message} for error in bad]
            output.emit(output.as_json({"channel": channel.name, "events": found, "damaged": damaged}))
        else:
            import json

            lines = (json.dumps(event, sort_keys=True, ensure_ascii=False) for event in found)
            output.emit("".join(output.visible(line) + "\n" for line in lines))
        for error in bad[:_NAMED]:
            output.refuse(error, False, call.text("root"))
        if len(bad) > _NAMED:
            output.note(f"agent-chat: {len(bad) - _NAMED} more bad events")
    return REFUSED if bad else OK
