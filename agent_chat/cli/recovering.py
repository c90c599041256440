"""recover-pending of every family, and the line about what is pending."""

from __future__ import annotations

from agent_chat import change, leases, recovery
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel


def tell_pending(found: recovery.Pending | None, channel: str, typed_root: str = "") -> None:
    """One line on standard error about an unfinished transaction."""
    if found:
        output.refuse(found.refusal(channel, ""), False, typed_root)


def recover_pending(call: Call, channel: Channel, *families: recovery.Family) -> int:
    """Settle what a crash left; nothing pending is a refusal of the tasks' command only."""
    actor = call.agent()
    if call.flag("discard_journal"):
        return _discard(call, channel, families, actor)
    resolve = call.text("resolve_publication") if call.given("resolve_publication") else None
    events = []
    for family in families:
        try:
            events.append(leases.recover_pending(channel, family, actor, resolve))
        except OSError as error:
            why = f"{error.strerror}; settling was not finished and can be repeated"
            raise AgentChatError(family.io, why, (*family.words, channel.name, "--as", actor)) from None
        except AgentChatError as error:
            if error.code != family.code("TRANSACTION_NOT_FOUND") or family is recovery.TASK:
                raise
    result: dict[str, object] = {"channel": channel.name, "event": events[0] if events else None}
    if not events:
        return output.answer(call, result, f"nothing is pending in channel {channel.name!r}")
    return output.answer(call, result, f"settled: {', '.join(events)}")


def _discard(call: Call, channel: Channel, families: tuple[recovery.Family, ...], actor: str) -> int:
    """Put a damaged journal aside: of several families the first one that has a journal."""
    if not call.text("reason").strip():
        raise call.usage("--discard-journal needs --reason")
    family = next((one for one in families if recovery.pending(channel, one)), families[0])
    with change.take_lock(channel, family, actor):
        path = recovery.discard_journal(channel, family, actor, call.text("reason").strip())
    result: dict[str, object] = {"channel": channel.name, "discarded": path}
    return output.answer(call, result, f"put the damaged journal aside: {channel.name}/{path}")
