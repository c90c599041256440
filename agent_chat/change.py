"""Changing and reading a channel's records: `with channel.change(...)` and `channel.look(...)`.

A change takes the channel's lock, settles or refuses what a crash left, lets the caller decide, and then
runs storage/journal.py's steps: journal, records, audit message (the commit), journal gone. An exception
inside the block means that nothing was written. An error in the steps is settled at once, by the same
function that settles a crash.

A look sees the records before or after a change, never between: under the lock shared, or, where that
cannot be had, by looking again until nothing moved meanwhile.
"""

from __future__ import annotations

import os

from agent_chat import clock, names, recovery
from agent_chat.errors import AgentChatError
from agent_chat.recovery import Family, Pending
from agent_chat.storage import disk, journal, oslock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    from agent_chat.channel import Channel
    from agent_chat.storage.digests import Digests
    from agent_chat.storage.journal import Content

    Result = TypeVar("Result")

LOOK_PATIENCE = 1.0  # seconds a reader waits for the lock
_LOOKS = 5


# ---- reading --------------------------------------------------------------------------------------------


class View:
    """A consistent reading of the records. `pending`: a change that a dead writer left, seen under the lock."""

    __slots__ = ("_folder", "_images", "channel", "now", "pending")

    def __init__(self, channel: Channel, found: Pending | None) -> None:
        self.channel = channel
        self.now = clock.now()
        self.pending = found
        self._folder = channel.folder
        self._images: dict[str, bytes | None] = {}
        if found and found.journal and found.journal.recovery is None:  # with one, the records are settled
            is_after = found.phase == "published" or found.legacy_outcome == "after"
            self._images = {i.path: i.after if is_after else i.before for i in found.journal.images}

    def read(self, path: str) -> bytes | None:
        """The bytes of a record; None when there is none. STORAGE_* when it is no regular file."""
        return self._images[path] if path in self._images else journal.read(self._folder, path)

    def read_all(self, folder: str, digests: Digests | None = None) -> list[tuple[str, Content]]:
        """Path and bytes (or the digest of an unchanged one) of every record in a folder, or why it cannot be read."""
        return _with(self._images, folder, journal.read_all(self._folder, folder, digests), digests)

    def names(self, folder: str) -> list[str]:
        """The records in a folder, sorted by name; dot files are none."""
        found = set(_names(self._folder, folder))
        for path, data in self._images.items():
            if path.startswith(folder + "/"):
                (found.discard if data is None else found.add)(path[len(folder) + 1 :])
        return sorted(found)


def _with(
    known: Mapping[str, bytes | None], folder: str, found: list[tuple[str, Content]], digests: Digests | None
) -> list[tuple[str, Content]]:
    """What was found, but the records that are `known` as they are known."""
    if not known:
        return found
    if digests:  # the stamps are of what lies there, these bytes are of before or after it
        digests.pass_over(path.rpartition("/")[2] for path in known if path.startswith(folder + "/"))
    more: list[tuple[str, Content]] = [
        (path, data) for path, data in known.items() if data is not None and path.startswith(folder + "/")
    ]
    return [entry for entry in found if entry[0] not in known] + more


def _names(folder: disk.Folder, where: str) -> list[str]:
    try:
        with folder.sub(where) as sub:
            return list(filter(journal.is_listed, sub.names()))
    except FileNotFoundError:
        return []


def look(
    channel: Channel,
    family: Family,
    reader: Callable[[View], Result],
    must_lock: bool = False,
    patience: float = LOOK_PATIENCE,
) -> Result:
    """What `reader` makes of a consistent view. `must_lock`: wait for the lock, and refuse when one is pending.

    `patience`: seconds to wait for the lock otherwise; 0 for a reader that must never wait.
    """
    try:
        seconds = disk.LOCK_PATIENCE if must_lock else patience
        lock = oslock.hold(channel.folder, channel.LOCK, "", seconds, shared=True)
    except oslock.Busy as busy:
        if must_lock:
            raise _busy(channel, family, busy) from None
    except (oslock.NoLocks, OSError, AgentChatError):
        pass  # read-only media, none here, a link or a folder in its place: look without it
    else:
        with lock:
            found = recovery.pending(channel, family)
            if must_lock and found:
                raise found.refusal(channel.name, "")
            return reader(View(channel, found))
    for _ in range(_LOOKS):
        before = _state(channel, family)
        view = View(channel, recovery.pending(channel, family))
        view.pending = None  # its writer may be alive
        result = reader(view)
        if _state(channel, family) == before:
            break
    return result


def _state(channel: Channel, family: Family) -> tuple[object, ...]:
    """What differs when a change began, went on or ended meanwhile: each comes and goes in the journals' folder."""
    try:
        with channel.folder.sub(journal.FOLDER) as journals:
            return channel.folder.stamp(), journals.stamp(), journal.load(channel.folder, family.name)
    except (FileNotFoundError, AgentChatError):
        return (channel.folder.stamp(),)


def _busy(channel: Channel, family: Family, busy: oslock.Busy) -> AgentChatError:
    text = f"{busy.holder} holds the lock of channel {channel.name!r}"
    return AgentChatError(family.lock, text, ("peek", channel.name), {"holder": busy.holder})


def sound(
    source: View | Change, folder: str, decode: Callable[[str, str, bytes | AgentChatError | OSError], Result]
) -> tuple[list[Result], list[AgentChatError]]:
    """Every sound record of a folder, and what is wrong with the others, by `decode(channel, path, data)`.

    A refusal where something else is in the folder's place.
    """
    found, damaged = [], []
    for path, data in source.read_all(folder):
        assert not isinstance(data, str)  # no digests were asked for
        try:
            found.append(decode(source.channel.name, path, data))
        except AgentChatError as error:
            damaged.append(error)
    return found, damaged


# ---- changing -------------------------------------------------------------------------------------------


class Change:
    """One transaction. Leaving the `with` block commits what was put, or an audit message alone; else nothing."""

    __slots__ = ("_after", "_audit", "_before", "_lock", "actor", "channel", "event", "family", "id", "now")

    def __init__(self, channel: Channel, event: str, actor: str, family: Family) -> None:
        self.channel = channel
        self.event = event
        self.actor = actor
        self.family = family
        self.id = os.urandom(16).hex()
        self.now = 0
        self._lock: oslock.Lock | None = None
        self._before: dict[str, bytes | None] = {}
        self._after: dict[str, bytes | None] = {}
        self._audit: tuple[dict[str, str], dict[str, object], str] = ({}, {}, "")

    def __enter__(self) -> Change:
        self._lock = take_lock(self.channel, self.family, self.actor)
        try:
            recovery.settle_or_refuse(self.channel, self.family, self.actor)
            self.now = clock.now()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        try:
            is_changed = self._after != {path: self._before[path] for path in self._after}
            if kind is None and (is_changed or (self._audit[0] and not self._after)):
                self._commit()
        finally:
            if self._lock:
                self._lock.release()

    def read(self, path: str) -> bytes | None:
        """The bytes of a record, which become its before image."""
        if path not in self._before:
            self._before[path] = journal.read(self.channel.folder, path)
        return self._before[path]

    def read_all(self, folder: str, digests: Digests | None = None) -> list[tuple[str, Content]]:
        """As View.read_all; what was read before stays."""
        found = _with(self._before, folder, journal.read_all(self.channel.folder, folder, digests), digests)
        self._before.update((path, data) for path, data in found if isinstance(data, bytes))
        return found

    def names(self, folder: str) -> list[str]:
        """The records in a folder, sorted by name."""
        return sorted(_names(self.channel.folder, folder))

    def put(self, path: str, data: bytes | None) -> None:
        """Give a record these bytes, or remove it."""
        self.read(path)
        self._after[path] = data

    def audit(self, event: str, subject: dict[str, str], body: dict[str, object], concerns: Iterable[str]) -> None:
        """What the audit message says: `subject` ({"task_id": ...}) gives its title, `concerns` whom it is news for."""
        low = {name.lower(): name for name in concerns}
        low.pop(self.actor.lower(), None)
        everyone = names.EVERYONE in low
        self.event = event
        self._audit = (subject, body, names.EVERYONE if everyone else ",".join(low[name] for name in sorted(low)))

    def _commit(self) -> None:
        for _ in range(2):
            number = self.channel.log.take_number()
            subject, body, concerns = self._audit
            body = {**body, **subject, "channel": self.channel.name, "event": self.event}
            stamp = clock.micro_stamp(self.now)
            message = recovery.audit_message(
                self.channel, number, self.actor, self.event, subject, body, stamp, concerns
            )
            images = [journal.Image(path, self._before[path], data) for path, data in self._after.items()]
            entry = journal.Journal(self.channel.name, self.id, self.event, self.actor, subject, images, message)
            if self._run(entry):
                self.channel.log.forget_numbers(number)
                return
        text = f"{self.event}: its name was taken twice by another program; nothing was changed"
        raise AgentChatError(self.family.audit_failed(self.event), text, ("peek", self.channel.name))

    def _run(self, entry: journal.Journal) -> bool:
        """Steps 3 to 7. False when the message's name was taken by other bytes, and everything is as before."""
        folder, family = self.channel.folder, self.family.name
        code = self.family.io
        try:
            journal.write(folder, family, entry)
            journal.apply(folder, family, entry)
            code = self.family.audit_failed(self.event)
            if entry.message:
                self.channel.log.publish(*entry.message)
        except journal.Changed as changed:
            self._give_back(entry)
            text = f"{changed} was changed by another program just now; nothing was done"
            raise AgentChatError(self.family.changed, text, (*self.family.list_words, self.channel.name)) from None
        except disk.NotDurable as error:
            raise self._stays("TRANSACTION_CLEANUP_FAILED", f"{_why(error)}; the change stands") from None
        except BaseException as error:
            if not self._undo(entry, error):
                if isinstance(error, FileExistsError):
                    return False
                if isinstance(error, (OSError, AgentChatError)):
                    text = f"{self.event}: {_why(error)}; nothing was changed"
                    raise AgentChatError(code, text, ("peek", self.channel.name)) from None
                raise
            self._clean()
            if not isinstance(error, OSError):
                raise  # interrupted when it was committed
        else:
            self._clean()
        return True

    def _clean(self) -> None:
        """Step 7."""
        try:
            journal.remove(self.channel.folder, self.family.name)
        except OSError as error:
            raise self._stays("TRANSACTION_CLEANUP_FAILED", f"{_why(error)}; the change stands") from None

    def _undo(self, entry: journal.Journal, error: BaseException) -> bool:
        """Settle an ordinary error at once; True when the change turns out to be committed and stands."""
        folder = self.channel.folder
        try:
            is_committed = entry.is_committed(folder)
            journal.settle(folder, entry, is_committed)
            if is_committed:
                folder.sync()
            else:
                journal.remove(folder, self.family.name)
        except (OSError, journal.Unclear, AgentChatError) as again:
            text = f"{_why(error) or 'interrupted'}; undoing failed too: {_why(again)}"
            raise self._stays("AUDIT_ROLLBACK_FAILED", text) from None
        if not is_committed:
            self._give_back(entry)
        return is_committed

    def _give_back(self, entry: journal.Journal) -> None:
        if entry.message:
            try:
                self.channel.log.give_back(names.claimed_number(entry.message[0]))
            except OSError:
                pass  # a gap in the numbers

    def _stays(self, what: str, why: str) -> AgentChatError:
        """A failure that leaves the journal, and with it the family closed."""
        words = (*self.family.words, self.channel.name, "--as", self.actor)
        return AgentChatError(self.family.code(what), f"{self.event}: {why}; the journal stays", words)


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)


def take_lock(channel: Channel, family: Family, actor: str) -> oslock.Lock:
    """The channel's exclusive lock. The family's timeout code; STORAGE_NO_LOCKS where there are none."""
    try:
        return channel.exclusive(actor)
    except oslock.Busy as busy:
        raise _busy(channel, family, busy) from None
    except oslock.NoLocks:
        text = f"the file system of channel {channel.name!r} has no locks; records cannot be changed, messages can"
        raise AgentChatError("STORAGE_NO_LOCKS", text, ("doctor", channel.name)) from None
