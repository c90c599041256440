"""state and compact."""

from __future__ import annotations

from agent_chat import compaction, names, state
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import OK, AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(call: Call) -> int:
    actor = call.agent() if call.is_agent_known() else names.SYSTEM
    is_writing = call.command == "compact" or call.flag("write")
    try:
        opened = call.channel("STATE_INVALID_CHANNEL", "STATE_CHANNEL_NOT_FOUND")
    except AgentChatError as error:
        if error.code == "CHANNEL_META_INVALID" and call.flag("strict"):
            raise AgentChatError("STATE_MALFORMED_SOURCE", error.message, error.next) from None
        raise
    with opened as channel:
        if call.flag("strict"):
            compaction.check_everything(channel)
        if not is_writing:
            return _print(call, state.derive(channel, anew=call.flag("strict")))

        def make(look: Any) -> tuple[dict[str, Any], bytes]:
            summary = state.derive(channel, look, anew=call.flag("strict"))
            return summary, output.visible(state.render(summary)).encode("utf-8")

        summary = compaction.compact(channel, actor, make, audit=not call.flag("no_audit"))
        if call.command == "state" or call.wants_json:
            return _print(call, summary)
        return output.answer(call, {}, f"wrote {channel.name}/{compaction.STATE_FILE} (up to #{summary['last_seq']})")


def _print(call: Call, summary: dict[str, Any]) -> int:
    if call.wants_json:
        import json

        output.emit(json.dumps(summary, sort_keys=True, indent=2) + "\n")
    else:
        output.emit(output.visible(state.render(summary)))
    return OK
