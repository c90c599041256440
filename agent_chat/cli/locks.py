"""lock, check, unlock, renew-lock, recover, locks, recover-pending: path locks."""

from __future__ import annotations

from agent_chat import leases, locking, path_locks, recovery
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.cli.recovering import recover_pending, tell_pending
from agent_chat.errors import HELD, OK, AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.change import View
    from agent_chat.channel import Channel
    from agent_chat.path_locks import Lock


def run(call: Call) -> int:
    with call.channel("PATH_LOCK_INVALID_CHANNEL", "PATH_LOCK_CHANNEL_NOT_FOUND") as channel:
        if call.command == "check":
            return _check(call, channel)
        if call.command == "locks":
            return _locks(call, channel)
        if call.command == "recover-pending":
            return recover_pending(call, channel, recovery.PATH, recovery.TURN)
        try:
            return _change(call, channel)
        except AgentChatError as error:
            if error.next[:1] == ("check",) and call.given("workspace"):  # its paths mean something only there
                error.next = (*error.next[:2], "--workspace", call.text("workspace"), *error.next[2:])
            raise
        finally:
            for notice in channel.notices:
                output.note(f"agent-chat: {notice}")


def _change(call: Call, channel: Channel) -> int:
    owner, space = call.agent("PATH_LOCK_INVALID_OWNER"), call.workspace(channel)
    typed = call.text("duration")
    length = leases.duration(typed, "PATH_LOCK_INVALID_DURATION") if call.given("duration") else locking.DEFAULT
    target = call.text("target")
    if call.command == "lock":
        held = locking.lock(channel, owner, call.words("paths"), length, space)
        return output.answer(call, {"lock": held.record()}, _line(held))
    if call.command == "unlock":
        held = locking.unlock(channel, target, owner, space)
        return output.answer(call, {"lock": held.record()}, f"unlocked {held.lock_id} {held.shown_paths()}")
    if call.command == "renew-lock":
        held = locking.renew(channel, target, owner, length, space)
        return output.answer(call, {"lock": held.record()}, _line(held))
    found = locking.recover(channel, target, owner, call.text("reason"), length, space)
    if isinstance(found, str):
        return output.answer(call, {"put_aside": found}, f"put the damaged record aside: {channel.name}/{found}")
    return output.answer(call, {"lock": found.record()}, _line(found))


def _line(held: Lock) -> str:
    return f"locked {held.lock_id} owner={held.owner} expires={held.expires_at} {held.shown_paths()}"


def _check(call: Call, channel: Channel) -> int:
    agent = call.agent("PATH_LOCK_INVALID_OWNER") if call.is_agent_known() else ""
    found = locking.check(channel, call.words("paths"), call.workspace(channel), agent)
    is_free = all(held.is_held_by(agent) and not is_expired for held, is_expired in found)
    shown = [{**held.record(), "expired": is_expired} for held, is_expired in found]
    lines = [held.line() + " expired" * is_expired for held, is_expired in found]
    output.answer(call, {"available": is_free, "locks": shown}, "\n".join(lines) or "available")
    return OK if is_free else HELD


def _locks(call: Call, channel: Channel) -> int:
    def read(view: View) -> tuple[View, list[Lock]]:
        return view, path_locks.everything(view)

    view, found = channel.look("path", read)
    tell_pending(view.pending, channel.name, call.text("root"))
    shown = [{**held.record(), "expired": held.is_expired(view.now)} for held in found]
    lines = [f"{held.line()}{' expired' * held.is_expired(view.now)} {held.shown_paths()}" for held in found]
    result: dict[str, object] = {"channel": channel.name, "locks": shown}
    return output.answer(call, result, "\n".join(lines) or f"(no locks in {channel.name!r})")
