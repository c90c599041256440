"""Write state.md, and check every source strictly."""

from __future__ import annotations

from agent_chat import change, claims, clock, events, log, messages, names, path_locks, recovery, tasks
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from agent_chat.change import View
    from agent_chat.channel import Channel

STATE_FILE = "state.md"
_LIMIT = 256 * 1024 * 1024  # bytes


def compact(
    channel: Channel, actor: str, make: Callable[[Any], tuple[dict[str, Any], bytes]], audit: bool
) -> dict[str, Any]:
    """Replace state.md with what `make(look)` derives, and publish state.compacted; the summary.

    STATE_IO_ERROR: the old file is kept. STATE_AUDIT_FAILED: the old file is put back.
    """

    def look(family: str, reader: Callable[[View], Any]) -> Any:
        return reader(change.View(channel, recovery.pending(channel, recovery.FAMILIES[family])))

    with channel.writing(actor):
        try:
            before = channel.folder.read(STATE_FILE, _LIMIT) if channel.folder.exists(STATE_FILE) else None
            summary, data = make(look)
            # Not synced: an error then would come too late to keep the old file. Publishing syncs the folder.
            channel.folder.replace(STATE_FILE, data, sync=False)
        except (OSError, AgentChatError) as error:
            raise _io_error(channel, error) from None
        if audit:
            try:
                _publish(channel, actor, summary)
            except (OSError, AgentChatError) as error:
                _put_back(channel, before)
                text = f"{STATE_FILE} is as before, since its audit message failed: {_why(error)}"
                raise AgentChatError("STATE_AUDIT_FAILED", text, ("state", channel.name)) from None
    return summary


def _publish(channel: Channel, actor: str, summary: dict[str, Any]) -> None:
    body: dict[str, object] = {
        "channel": channel.name,
        "event": "state.compacted",
        "compacted_at": clock.seconds_stamp(clock.now()),
    }
    body.update({"last_seq": summary["last_seq"], "open_tasks_count": len(summary["open_tasks"])})
    body.update({f"{key}_count": len(summary[key]) for key in ("path_locks", "decisions", "blockers")})
    while True:
        number = channel.log.take_number()
        message = recovery.audit_message(channel, number, actor, "state.compacted", {}, body, "", "")
        try:
            channel.log.publish(*message)
        except FileExistsError:
            continue  # a file of just this name was put there by another program
        except disk.NotDurable:
            pass  # it is there for every reader, and derived
        except BaseException:
            channel.log.give_back(number)
            raise
        channel.log.forget_numbers(number)
        return


def _put_back(channel: Channel, before: bytes | None) -> None:
    try:
        if before is None:
            channel.folder.remove(STATE_FILE)
        else:
            channel.folder.replace(STATE_FILE, before, sync=False)
    except OSError as error:
        raise _io_error(channel, error) from None


def _io_error(channel: Channel, error: Exception) -> AgentChatError:
    return AgentChatError("STATE_IO_ERROR", f"{STATE_FILE}: {_why(error)}", ("state", channel.name))


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


# ---- strict ---------------------------------------------------------------------------------------------


def check_everything(channel: Channel) -> None:
    """Read every source, claims, cursors and events included; the first damage is refused.

    STATE_MALFORMED_SOURCE: unreadable; STATE_INVALID_RECORD: readable and wrong, or a pending transaction;
    STATE_RECORD_NOT_FOUND: a record that another one needs.
    """
    for message in messages.everything(channel):
        if events.is_event(message):
            _wrap(channel, events.decode, channel.name, message)
    for bad in channel.log.unreadable.values():
        if names.message_number(bad.name) and not bad.is_young:
            raise _refusal(channel, "STATE_MALFORMED_SOURCE", f"{bad.name}: {bad.why}")
    channel.look("task", lambda view: _check_tasks(channel, view))
    channel.look("path", lambda view: _check_locks(channel, view))
    channel.look("turn", lambda view: _check_pending(channel, view))
    for reader in _wrap(channel, _readers, channel):
        _wrap(channel, channel.cursor_of, reader)


def _readers(channel: Channel) -> list[str]:
    try:
        with channel.folder.sub(log.CURSORS) as folder:
            return log.readers(folder)
    except FileNotFoundError:
        return []


def _check_tasks(channel: Channel, view: View) -> None:
    _check_pending(channel, view)
    for name in _wrap(channel, view.names, "tasks"):
        _parse(channel, view, f"tasks/{name}")
        _wrap(channel, tasks.decode, channel.name, f"tasks/{name}", view.read(f"tasks/{name}") or b"")
    found, _ = tasks.everything(view)
    known = {task.id.lower() for task in found}
    for name in _wrap(channel, view.names, "claims"):
        _parse(channel, view, f"claims/{name}")
        claim = _wrap(channel, claims.read, view, f"claims/{name}")
        if claim and claim.task_id.lower() not in known:
            raise _refusal(
                channel, "STATE_RECORD_NOT_FOUND", f"{claim.path} claims task {claim.task_id}, which is not there"
            )
    for task in found:
        for other in task.depends_on:
            if other.lower() not in known:
                raise _refusal(channel, "STATE_RECORD_NOT_FOUND", f"{task.id} depends on {other}, which is not there")
        _wrap(channel, claims.of_task, view, task)


def _check_locks(channel: Channel, view: View) -> None:
    _check_pending(channel, view)
    for name in _wrap(channel, view.names, "locks"):
        _parse(channel, view, f"locks/{name}")
        _wrap(channel, path_locks.read, view, f"locks/{name}")


def _check_pending(channel: Channel, view: View) -> None:
    if view.pending:
        raise _refusal(channel, "STATE_INVALID_RECORD", view.pending.refusal(channel.name, "").message)


def _parse(channel: Channel, view: View, path: str) -> None:
    """STATE_MALFORMED_SOURCE when the file holds no JSON object."""
    try:
        records.load(view.read(path) or b"{}")
    except (records.Damaged, AgentChatError, OSError) as error:
        raise _refusal(channel, "STATE_MALFORMED_SOURCE", f"{path}: {error}") from None


def _wrap(channel: Channel, read: Callable[..., Any], *arguments: object) -> Any:
    """What `read` returns; its refusal as STATE_INVALID_RECORD, or as STATE_MALFORMED_SOURCE when unreadable."""
    try:
        return read(*arguments)
    except OSError as error:
        raise _refusal(channel, "STATE_MALFORMED_SOURCE", f"{error.filename or ''}: {error.strerror}") from None
    except AgentChatError as error:
        ends = ("_STORAGE_INVALID", "_MALFORMED_BODY", "_IO_ERROR", "_STORAGE_ERROR")
        is_unreadable = error.code.startswith("STORAGE_") or error.code.endswith(ends)
        code = "STATE_MALFORMED_SOURCE" if is_unreadable else "STATE_INVALID_RECORD"
        raise _refusal(channel, code, error.message) from None


def _refusal(channel: Channel, code: str, text: str) -> AgentChatError:
    return AgentChatError(code, text, ("doctor", channel.name))
