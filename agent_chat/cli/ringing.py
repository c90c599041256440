"""ring: wake one agent, with a pointer to where the content is."""

from __future__ import annotations

from agent_chat import rings
from agent_chat.cli import output, posting
from agent_chat.cli.options import Call
from agent_chat.errors import OK

_WHY = {
    rings.DUPLICATE: "it got the same text less than 5 minutes ago",
    rings.FREQUENCY: f"it was rung {rings.MOST} times for this reference in 24 hours",
}


def run(call: Call) -> int:
    sender, to, ref = call.agent(), call.needed("to", "--to"), call.needed("ref", "--ref")
    with call.channel() as channel:
        rings.need_token(channel, sender)
        space = call.workspace(channel)
        gates = posting.guards(channel)
        found = rings.ring(channel, sender, to, ref, call.text("text"), space, call.flag("force"), gates)
        for warning in [*found.warnings, *channel.notices]:
            output.note(f"agent-chat: {warning}")
        result: dict[str, object] = {"ok": not found.reason, "channel": channel.name, "seq": found.number}
        result["file"] = found.name
        if found.reason:
            text = f"{to} was not rung: {_WHY[found.reason]}, by #{found.number} ({found.reason})"
            return output.answer(call, {**result, "reason": found.reason}, text)
        delivery = posting.delivery(channel, found.name)
        output.answer(call, {**result, "delivery": delivery}, f"rang {to} by #{found.number} ({delivery.get(to, '?')})")
    return OK
