"""Lock, check, unlock, renew and recover paths. Several paths at once are all or nothing."""

from __future__ import annotations

import os

from agent_chat import clock, names, path_locks, tasks
from agent_chat.errors import AgentChatError
from agent_chat.path_locks import FIELDS, PATH_FIELDS, Lock, command, everything, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent_chat.change import Change, View
    from agent_chat.channel import Channel
    from agent_chat.path_locks import Wanted
    from agent_chat.workspace import Entry, Workspace

DEFAULT = 300 * clock.SECOND


def entries(space: Workspace, typed: Sequence[str]) -> list[Entry]:
    """The canonical entries of some typed paths. PATH_LOCK_CONFLICT when two of them can meet."""
    found: list[Entry] = []
    for text in typed:
        entry = space.entry(text)
        for other in found:
            if space.meet(other.kind, other.normalized_path, entry):
                text = f"{other.display_path} and {entry.display_path} of this request overlap"
                raise AgentChatError("PATH_LOCK_CONFLICT", text, ("lock", "--help"))
        found.append(entry)
    return found


def _meeting(wanted: Sequence[Entry], space: Workspace) -> Wanted:
    """Of locks: whether a path can be both in it and in one of these entries."""

    def meets(owner: str, paths: Iterable[tuple[str, str]]) -> bool:
        for kind, path in paths:  # of thousands of locks: a loop is quicker than any(...)
            for entry in wanted:
                if space.meet(kind, path, entry):
                    return True
        return False

    return meets


def check(channel: Channel, typed: Sequence[str], space: Workspace, actor: str = "") -> list[tuple[Lock, bool]]:
    """The locks that any of these paths can be in, each with whether it is expired. PATH_LOCK_TRANSACTION_PENDING."""
    wanted = [space.entry(text) for text in typed]

    def found(view: View) -> list[tuple[Lock, bool]]:
        listed = everything(view, actor, _meeting(wanted, space), path_locks.words(wanted, space))
        return [(lock, lock.is_expired(view.now)) for lock in listed]

    return channel.look("path", found, must_lock=True)


# ---- changing -----------------------------------------------------------------------------------------


def lock(channel: Channel, owner: str, typed: Sequence[str], length: int, space: Workspace) -> Lock:
    """Lock all of these paths or none. PATH_LOCK_CONFLICT, PATH_LOCK_RECOVERY_REQUIRED, PATH_LOCK_INVALID_PATH."""
    names.agent(owner, "PATH_LOCK_INVALID_OWNER")
    wanted = entries(space, typed)
    with channel.change("path.locked", owner) as change:
        met = everything(change, owner, _meeting(wanted, space), path_locks.words(wanted, space))
        if met:  # an active one first: recovering an expired one would not help
            raise _conflict(change, min(met, key=lambda held: held.is_expired(change.now)), typed)
        lock_id, stamp = os.urandom(16).hex(), clock.micro_stamp(change.now)
        record: dict[str, object] = dict.fromkeys(FIELDS)
        record.update({"channel": channel.name, "lock_id": lock_id, "owner": owner, "locked_at": stamp})
        record.update({"updated_at": stamp, "expires_at": _expiry(change.now, length)})
        record["paths"] = [dict(zip(PATH_FIELDS, (e.display_path, e.kind, e.normalized_path))) for e in wanted]
        made = Lock(names.lock_file(lock_id), record)
        change.put(made.path, made.encode())
        _audit(change, "path.locked", made)
    return made


def unlock(channel: Channel, target: str, owner: str, space: Workspace) -> Lock:
    """Give up one's own lock, expired or not. PATH_LOCK_NOT_FOUND, PATH_LOCK_OWNER_MISMATCH."""
    names.agent(owner, "PATH_LOCK_INVALID_OWNER")
    with channel.change("path.lock.unlocked", owner) as change:
        held = _own(change, _find(change, target, space))
        change.put(held.path, None)
        _audit(change, "path.lock.unlocked", held)
    return held


def renew(channel: Channel, target: str, owner: str, length: int, space: Workspace) -> Lock:
    """Prolong one's own unexpired lock. PATH_LOCK_RECOVERY_REQUIRED when it is expired."""
    names.agent(owner, "PATH_LOCK_INVALID_OWNER")
    with channel.change("path.lock.renewed", owner) as change:
        held = _own(change, _find(change, target, space))
        if held.is_expired(change.now):
            raise _conflict(change, held, [target])
        after = held.changed(change.now, expires_at=_expiry(change.now, length))
        change.put(after.path, after.encode())
        _audit(change, "path.lock.renewed", after)
    return after


def recover(channel: Channel, target: str, owner: str, reason: str, length: int, space: Workspace) -> Lock | str:
    """Take over an expired lock with its id and paths, or put a damaged record aside (then where it lies now).

    PATH_LOCK_INVALID_REASON, PATH_LOCK_NOT_FOUND, PATH_LOCK_NOT_STALE.
    """
    names.agent(owner, "PATH_LOCK_INVALID_OWNER")
    if not tasks.is_reason(reason):
        words = command("recover", channel.name, [target], "--as", owner, "--reason", "WHY")
        raise AgentChatError("PATH_LOCK_INVALID_REASON", "a recovery needs a reason", words)
    if target.endswith(".json"):
        aside = _put_aside(channel, target, owner, reason.strip())
        if aside:
            return aside
    with channel.change("path.lock.recovered", owner) as change:
        held = _find(change, target, space)
        if not held.is_expired(change.now):
            text = f"{held.lock_id} is {held.owner}'s until {held.expires_at}"
            raise AgentChatError("PATH_LOCK_NOT_STALE", text, ("locks", channel.name))
        previous: dict[str, object] = {"previous_owner": held.owner, "previous_expires_at": held.expires_at}
        previous["recovery_reason"] = reason.strip()
        stamp = clock.micro_stamp(change.now)
        values = {**previous, "owner": owner, "locked_at": stamp, "expires_at": _expiry(change.now, length)}
        after = held.changed(change.now, **values)
        change.put(after.path, after.encode())
        _audit(change, "path.lock.recovered", after, previous)
    return after


def _put_aside(channel: Channel, name: str, owner: str, reason: str) -> str:
    """Move what a damaged record's name holds to `locks/.damaged/`, and say so; where it lies now, empty for none."""
    moved = ""
    try:
        with channel.change("path.lock.recovered", owner) as change:
            if name not in change.names("locks") or not _is_damaged(change, f"locks/{name}"):
                return ""
            stamp = "." + clock.micro_stamp(change.now).replace(":", "")[:24]
            is_record = names.is_record(name + stamp)
            stem = name[:-5] if is_record else "unnamed"
            aside = f"locks/.damaged/{stem}.json{stamp}"
            try:
                data = change.read(f"locks/{name}")
            except (AgentChatError, OSError):
                data = None
            if data is not None and is_record:
                change.put(aside, data)
                change.put(f"locks/{name}", None)
            else:
                # A link, a folder, what cannot be read: no journal holds it. It is renamed, itself and not what
                # it links to, before the message; a death between the two leaves it aside without its message.
                with channel.folder.sub("locks") as locks, locks.sub(".damaged", create=True) as damaged:
                    locks.move(name, aside[15:], damaged)
                    moved = aside
                    damaged.sync()
                    locks.sync()
            body: dict[str, object] = {"owner": None, "paths": [], "expires_at": None, "lease_expires_at": None}
            body.update({"transaction_id": change.id, "recovery_reason": reason, "previous_owner": None})
            body.update({"previous_expires_at": None, "put_aside": aside})
            change.audit("path.lock.recovered", {"lock_id": stem}, body, [])
    except (AgentChatError, OSError) as error:
        if not moved:
            raise
        known = error if isinstance(error, AgentChatError) else AgentChatError("PATH_LOCK_STORAGE_ERROR", str(error))
        text = f"{known.message}; but what was there lies at {moved} now"
        raise AgentChatError(known.code, text, known.next or ("locks", channel.name)) from None
    return aside


def _is_damaged(change: Change, path: str) -> bool:
    try:
        read(change, path)
    except AgentChatError:
        return True
    return False


def _find(change: Change, target: str, space: Workspace) -> Lock:
    """A lock by its id or by exactly one of its paths. PATH_LOCK_NOT_FOUND."""
    if names.is_lock_id(target):
        found = read(change, names.lock_file(target), change.actor)
        if found:
            return found
    wanted = space.entry(target)

    def is_of(owner: str, paths: Iterable[tuple[str, str]]) -> bool:
        return any(space.fold(*one) == wanted.normalized_path for one in paths)

    for held in everything(change, change.actor, is_of, path_locks.words([wanted], space)):
        return read(change, held.path, change.actor) or held  # as it lies there now, not as it was digested
    text = f"no lock has the id or exactly the path {target}"
    raise AgentChatError("PATH_LOCK_NOT_FOUND", text, ("locks", change.channel.name))


def _own(change: Change, held: Lock) -> Lock:
    if held.is_held_by(change.actor):
        return held
    text = f"{held.lock_id} ({held.shown_paths()}) is {held.owner}'s until {held.expires_at}"
    raise AgentChatError("PATH_LOCK_OWNER_MISMATCH", text, ("locks", change.channel.name), {"owner": held.owner})


def _conflict(change: Change, held: Lock, typed: Sequence[str]) -> AgentChatError:
    """Why `typed` cannot be had: `held` is active, or expired and not recovered."""
    channel, actor = change.channel.name, change.actor
    if held.is_expired(change.now):
        return path_locks.expired(channel, actor, held, change.now, held.shown_paths())
    details: dict[str, object] = {"lock_id": held.lock_id, "owner": held.owner, "expires_at": held.expires_at}
    text = f"{held.shown_paths()} is locked by {held.owner} until {held.expires_at} ({held.lock_id})"
    check = command("check", channel, typed, "--as", actor)
    renew = ("renew-lock", channel, held.lock_id, "--as", actor)
    return AgentChatError("PATH_LOCK_CONFLICT", text, renew if held.is_held_by(actor) else check, details)


def _expiry(now: int, length: int) -> str:
    try:
        return clock.micro_stamp(clock.expiry(now, length))
    except ValueError as error:
        raise AgentChatError("PATH_LOCK_INVALID_DURATION", str(error), ("lock", "--help")) from None


def _audit(change: Change, event: str, held: Lock, extra: dict[str, object] | None = None) -> None:
    extra = extra or {}
    body: dict[str, object] = {"owner": held.owner, "paths": held.paths, "expires_at": held.expires_at}
    body.update({"lease_expires_at": held.expires_at, "transaction_id": change.id, **extra})
    about = [held.owner, str(extra.get("previous_owner") or held.owner)]
    change.audit(event, {"lock_id": held.lock_id}, body, about)
