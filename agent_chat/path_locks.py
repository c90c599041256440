"""Path locks `locks/<lock id>.json`: files that an agent says it is about to change.

Paths are compared in the one spelling of workspace.py. Several paths at once are all or nothing. A record
that cannot be read might cover anything, so it stops every check and lock until `recover` puts it aside.
"""

from __future__ import annotations

import os

from agent_chat import claims, clock, names, patterns, tasks
from agent_chat.errors import AgentChatError
from agent_chat.storage import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from agent_chat.change import Change, View
    from agent_chat.channel import Channel
    from agent_chat.tasks import Source
    from agent_chat.workspace import Entry, Workspace

FIELDS = (
    *("channel", "expires_at", "lock_id", "locked_at", "owner", "paths"),
    *("previous_expires_at", "previous_owner", "recovery_reason", "updated_at"),
)
_OPTIONAL = ("previous_expires_at", "previous_owner", "recovery_reason")
_KINDS = (patterns.FILE, patterns.DIRECTORY, patterns.PATTERN)
PATH_FIELDS = ("display_path", "kind", "normalized_path")
DEFAULT = 300 * clock.SECOND


class Lock:
    """A sound lock record. `path` is its file in the channel."""

    __slots__ = (*FIELDS, "path")

    channel: str
    expires_at: str
    lock_id: str
    locked_at: str
    owner: str
    paths: list[dict[str, str]]
    previous_expires_at: str | None
    previous_owner: str | None
    recovery_reason: str | None
    updated_at: str
    path: str

    def __init__(self, path: str, record: dict[str, Any]) -> None:
        self.path = path
        for key in FIELDS:
            setattr(self, key, record.get(key))

    def record(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in FIELDS}

    def changed(self, now: int, **values: object) -> Lock:
        return Lock(self.path, {**self.record(), **values, "updated_at": clock.micro_stamp(now)})

    def encode(self) -> bytes:
        return records.dump(self.record(), sort_keys=True)

    def is_held_by(self, agent: str) -> bool:
        return self.owner.lower() == agent.lower()

    def is_expired(self, now: int) -> bool:
        is_over = now >= clock.parse_stamp(self.expires_at)
        return is_over or clock.parse_stamp(self.updated_at) > now + claims.CLOCK_SKEW

    def meets(self, entry: Entry, space: Workspace) -> bool:
        """Whether a path can be both in this lock and in `entry`."""
        return any(space.meet(one["kind"], one["normalized_path"], entry) for one in self.paths)

    def line(self) -> str:
        """`locked <id> owner=bob expires=…`."""
        return f"locked {self.lock_id} owner={self.owner} expires={self.expires_at}"

    def shown_paths(self) -> str:
        return ", ".join(one["display_path"] for one in self.paths)


def command(verb: str, channel: str, typed: Sequence[str], *options: str) -> tuple[str, ...]:
    """The words of a command about paths, also when one looks like an option."""
    if any(text.startswith("-") for text in typed):
        return (verb, channel, *options, "--", *typed)
    return (verb, channel, *typed, *options)


# ---- reading ------------------------------------------------------------------------------------------


def everything(source: Source, actor: str = "") -> list[Lock]:
    """All locks by id. The code of the first damaged record, which closes the family."""
    found, damaged = survey(source, actor)
    if damaged:
        raise damaged[0]
    return found


def survey(source: Source, actor: str = "") -> tuple[list[Lock], list[AgentChatError]]:
    """All sound locks by id, and what is wrong with the other records. `actor`: for the command that clears them."""
    try:
        listed = source.read_all("locks")
    except AgentChatError as error:
        raise tasks.storage_invalid("PATH_LOCK_STORAGE_INVALID", source, error) from None
    found, damaged = [], []
    for path, data in listed:
        try:
            found.append(decode(source.channel.name, path, data, actor))
        except AgentChatError as error:
            damaged.append(error)
    return found, damaged


def read(source: Source, path: str, actor: str = "") -> Lock | None:
    """The lock in a file; None when it is gone. The codes of a damaged record."""
    try:
        data: bytes | AgentChatError | OSError | None = source.read(path)
    except (AgentChatError, OSError) as error:
        data = error
    return None if data is None else decode(source.channel.name, path, data, actor)


def decode(channel: str, path: str, data: bytes | AgentChatError | OSError, actor: str = "") -> Lock:
    """The lock in a record's bytes; one AgentChatError names all of its problems, with the first one's code.

    `data`: also why it cannot be read: a link, a folder, ... in its place, or an error of the disk.
    """
    if isinstance(data, AgentChatError):
        raise _damaged(channel, path, [("PATH_LOCK_STORAGE_INVALID", data.message)], actor)
    if isinstance(data, OSError):
        problem = ("PATH_LOCK_STORAGE_ERROR", f"{path} cannot be read: {data.strerror}")
        raise _damaged(channel, path, [problem], actor)
    try:
        record = records.load(data)
    except records.Damaged as error:
        problems = [("PATH_LOCK_INVALID_RECORD", str(error))]
    else:
        problems = list(_problems(channel, path, record))
        if not problems:
            return Lock(path, record)
    raise _damaged(channel, path, problems, actor)


def _damaged(channel: str, path: str, problems: list[tuple[str, str]], actor: str) -> AgentChatError:
    """It might cover anything, so it stops every check and lock; `recover` puts it aside."""
    text = f"{path} is damaged: {'; '.join(text for _, text in problems)}"
    words = command("recover", channel, [path.rpartition("/")[2]], "--as", actor or "NAME", "--reason", "WHY")
    return AgentChatError(problems[0][0], text, words, {"file": path, "problems": [p[0] for p in problems]})


def _problems(channel: str, path: str, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    shape = list(_shape(record))
    yield from shape
    if shape:
        return
    if not names.is_lock_id(record["lock_id"]) or names.lock_file(record["lock_id"]) != path:
        yield "PATH_LOCK_INVALID_LOCK_ID", f"lock_id {record['lock_id']!r}"
    if record["channel"].lower() != channel.lower():
        yield "PATH_LOCK_INVALID_CHANNEL", f"it belongs to channel {record['channel']!r}"
    for key in ("owner", "previous_owner"):
        if record[key] is not None and not names.is_agent(record[key]):
            yield "PATH_LOCK_INVALID_OWNER", f"{key} {record[key]!r}"
    stamps = {record[key]: key for key in ("expires_at", "locked_at", "previous_expires_at", "updated_at")}
    for stamp, key in stamps.items():  # each once: reading them is most of the work of reading a record
        if stamp is not None and not tasks.is_stamp(stamp):
            yield "PATH_LOCK_INVALID_TIMESTAMP", f"{key} {stamp!r}"
    if record["recovery_reason"] is not None and not record["recovery_reason"].strip():
        yield "PATH_LOCK_INVALID_REASON", "recovery_reason is blank"
    for one in record["paths"]:
        parts = one["normalized_path"].split("/")
        if not parts[0] or ".." in parts or one["kind"] not in _KINDS:
            yield "PATH_LOCK_INVALID_PATH", f"path {one['normalized_path']!r} of kind {one['kind']!r}"


def _shape(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    code = "PATH_LOCK_INVALID_RECORD"
    for key in FIELDS:
        if key not in record:
            yield code, f"no {key}"
        elif key != "paths" and not isinstance(record[key], str) and not (record[key] is None and key in _OPTIONAL):
            yield code, f"{key} has the wrong type"
    for key in sorted(set(record) - set(FIELDS)):
        yield code, f"unknown field {key!r}"
    listed = record.get("paths")
    if not isinstance(listed, list) or not listed:
        yield code, "paths is no list of paths"
    elif not all(isinstance(one, dict) and set(one) == set(PATH_FIELDS) for one in listed) or not all(
        isinstance(value, str) for one in listed for value in one.values()
    ):
        yield code, "a path in paths has not its three texts"


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


def check(channel: Channel, typed: Sequence[str], space: Workspace, actor: str = "") -> list[tuple[Lock, bool]]:
    """The locks that any of these paths can be in, each with whether it is expired. PATH_LOCK_TRANSACTION_PENDING."""
    wanted = [space.entry(text) for text in typed]

    def found(view: View) -> list[tuple[Lock, bool]]:
        listed = (lock for lock in everything(view, actor) if any(lock.meets(entry, space) for entry in wanted))
        return [(lock, lock.is_expired(view.now)) for lock in listed]

    return channel.look("path", found, must_lock=True)


# ---- changing -----------------------------------------------------------------------------------------


def lock(channel: Channel, owner: str, typed: Sequence[str], length: int, space: Workspace) -> Lock:
    """Lock all of these paths or none. PATH_LOCK_CONFLICT, PATH_LOCK_RECOVERY_REQUIRED, PATH_LOCK_INVALID_PATH."""
    names.agent(owner, "PATH_LOCK_INVALID_OWNER")
    wanted = entries(space, typed)
    with channel.change("path.locked", owner) as change:
        met = [held for held in everything(change, owner) if any(held.meets(entry, space) for entry in wanted)]
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
    wanted = space.entry(target).normalized_path
    for held in everything(change, change.actor):
        if any(space.fold(one["kind"], one["normalized_path"]) == wanted for one in held.paths):
            return held
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
        return expired(channel, actor, held, change.now, held.shown_paths())
    details: dict[str, object] = {"lock_id": held.lock_id, "owner": held.owner, "expires_at": held.expires_at}
    text = f"{held.shown_paths()} is locked by {held.owner} until {held.expires_at} ({held.lock_id})"
    check = command("check", channel, typed, "--as", actor)
    renew = ("renew-lock", channel, held.lock_id, "--as", actor)
    return AgentChatError("PATH_LOCK_CONFLICT", text, renew if held.is_held_by(actor) else check, details)


def expired(channel: str, actor: str, held: Lock, now: int, what: str) -> AgentChatError:
    """PATH_LOCK_RECOVERY_REQUIRED: `what` is under an expired lock."""
    is_over = now >= clock.parse_stamp(held.expires_at)
    why = "which is over" if is_over else "by a clock ahead of this one: expired"
    details: dict[str, object] = {"lock_id": held.lock_id, "owner": held.owner, "expires_at": held.expires_at}
    text = f"{what} was locked by {held.owner} until {held.expires_at}, {why}"
    words = ("recover", channel, held.lock_id, "--as", actor or "NAME", "--reason", "WHY")
    return AgentChatError("PATH_LOCK_RECOVERY_REQUIRED", text, words, details)


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
