"""claim and unclaim: marker files."""

from __future__ import annotations

from agent_chat import markers
from agent_chat.cli import output
from agent_chat.cli.options import Call


def run(call: Call) -> int:
    agent, marker = call.agent(), call.text("marker")
    with call.channel() as channel:
        if call.command == "claim":
            name = markers.claim(channel, marker, agent)
            return output.answer(
                call, {"marker": marker, "owner": agent, "file": name}, f"claimed {marker} -> {channel.name}/{name}"
            )
        holder = markers.unclaim(channel, marker, agent, call.text("reason"))
        result: dict[str, object] = {"marker": marker, "previous_owner": holder, "file": marker}
        return output.answer(call, result, f"gave back {channel.name}/{marker} (was {holder}'s)")
