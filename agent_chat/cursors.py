"""How far each agent has read, and what is unread.

The cursor follows what was read, never what exists now: one look at the folder yields both the
messages and the next cursor. Calling sequence of a delivery:

    with reading(channel, agent):        # one at a time per agent, from the look to the cursor
        unread = look(channel, agent)
        with prepare(...) as move:       # fails here, before any output, where nothing can be written
            ... standard output takes it all ...
            move()                       # now the cursor moves and late entries go

A death before `move` leaves the cursor: the messages come again. `.cursors/<agent>.txt` holds one
decimal number; `.cursors/<agent>.late/` names late messages (log.py); `.cursors/<agent>.lock` is the lock.
"""

from __future__ import annotations

from agent_chat import arrivals, clock, names
from agent_chat.channel import Channel, Unlocked, note
from agent_chat.errors import AgentChatError
from agent_chat.log import CURSORS, keep_late
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent_chat.arrivals import Entry, Exclusion
    from agent_chat.frontmatter import Message
    from agent_chat.log import Look, Unreadable
    from agent_chat.storage.oslock import Lock

INDEX_PATIENCE = 1.0  # seconds; reading never fails for want of the channel's lock


class Unread:
    """One look on behalf of one agent: what is unread, and where the cursor stands.

    `entries` are the unread messages as the index knows them; `load` opens as many as one answer can hold.
    """

    __slots__ = (
        "beyond",
        "cursor",
        "entries",
        "expired",
        "expiring",
        "is_cut",
        "late",
        "latest",
        "messages",
        "missed",
        "stored",
        "tried",
        "unreadable",
    )

    def __init__(self, stored: int, latest: int) -> None:
        self.stored = stored  # what the file says; -1 without one
        self.latest = latest  # the newest message's number
        self.beyond = stored > latest
        self.cursor = min(max(stored, 0), latest)
        self.late: frozenset[str] = frozenset()  # names in `.late/` of messages that could be read
        self.entries: list[Entry] = []
        self.is_cut = False  # there may be older ones that were not looked at
        self.expired: list[Entry] = []  # what would be unread, and is delivered no more
        self.expiring: frozenset[str] = frozenset()  # names in the agent's own `.expiring/`; see receipts.py
        self.tried = 0  # entries that were opened
        self.messages: list[Message] = []  # those of them that could be read
        self.missed: set[str] = set()  # whole once, and not readable just now
        self.unreadable: list[Unreadable] = []

    def load(self, channel: Channel, limit: int = 0, max_bytes: int = 0) -> None:
        """Open the first `limit` messages, or `max_bytes` bytes of them and one more; 0: all.

        Messages that share a number stay together: a cursor cannot part them.
        """
        size = 0
        for entry in self.entries[self.tried :]:
            is_full = (limit and len(self.messages) >= limit) or (max_bytes and size > max_bytes)
            if is_full and entry.number != self.messages[-1].number:
                break
            self.tried += 1
            message = channel.log.message(entry.name)
            if message is None:
                self.missed.add(entry.name)
                self.unreadable.append(channel.log.unreadable[entry.name])
            else:
                self.messages.append(message)
                size += entry.size

    def left(self, count: int) -> int:
        """How many unread messages remain after the first `count`."""
        return len(self.messages) - count + len(self.entries) - self.tried

    def after(self, count: int) -> int:
        """The cursor once the first `count` messages were shown: the end of this look when these are all."""
        if not self.left(count):
            return self.latest
        return max([self.cursor, *(message.number for message in self.messages[:count])])

    def whole_numbers(self, count: int) -> int:
        """`count`, or a few more, so that messages that share a number stay together."""
        while 0 < count < len(self.messages) and self.messages[count].number == self.messages[count - 1].number:
            count += 1
        return count


def reading(channel: Channel, agent: str, seconds: float = disk.LOCK_PATIENCE) -> Lock | Unlocked:
    """The lock of one reading of `agent`. CURSOR_BUSY after 10 s behind one holder."""
    from agent_chat.storage import oslock

    with channel.folder.sub(CURSORS, create=True) as folder:
        try:
            lock = oslock.hold(folder, agent.lower() + ".lock", note(agent), seconds)
            channel.log.heed(lock.time)
            return lock
        except oslock.NoLocks:
            return Unlocked()
        except oslock.Busy as busy:
            raise AgentChatError(
                "CURSOR_BUSY",
                f"{agent} is being read for already, by {busy.holder}",
                ("read", channel.name, "--as", agent, "--peek"),
                {"holder": busy.holder},
            ) from None


def begin(channel: Channel, agent: str) -> None:
    """Make sure `agent` has a cursor before its look, so that late messages find it; take over an older one.

    In format 0.7.5 the file is named by the slug of the name. That one is taken when it is nobody
    else's: no other agent of that name is known, and no reading lock of ours lies beside it.
    """
    with channel.folder.sub(CURSORS, create=True) as folder:
        own, older = names.cursor_file(agent), names.slug(agent) + ".txt"
        if folder.exists(own):
            return
        if older != own and folder.exists(older) and not folder.exists(names.slug(agent) + ".lock"):
            from agent_chat import messages

            if not channel.meta.has(names.slug(agent)) and not messages.has_posted(channel, names.slug(agent)):
                folder.move(older, own)
                return
        if channel.folder.exists(names.ARCHIVE):
            folder.replace(own, b"%d\n" % _start(channel, folder, agent), sync=False)
        else:
            folder.replace(own, b"0\n", sync=False)


def _start(channel: Channel, folder: disk.Folder, agent: str) -> int:
    """The cursor of who starts with what is not archived: the newest archived number; what lies below it is late."""
    here = channel.log.look().above(0, archived=False)
    start = max((entry.number for entry in channel.log.archived(0)), default=0)
    below = [entry.name for entry in here if entry.number <= start]
    if below:
        keep_late(folder, agent, below)
    return start


def look(
    channel: Channel,
    agent: str,
    every_audit: bool = False,
    persist: bool = False,
    excluded: Exclusion | None = None,
    newest: int = 0,
) -> Unread:
    """What is unread for `agent`, in order of number.

    `persist`: what has just arrived enters the index. `excluded`: what is left out; the cursor passes over it.
    `newest`: look at so many of the newest messages only (0: all), for those who count and do not read.
    """
    here = _noted(channel, agent) if persist else channel.look_at_log()
    at = channel.cursor_of(agent)
    # who has no cursor yet starts with what is not archived
    entries = here.above(max(at, 0), newest, archived=at >= 0)
    unread = Unread(at, here.last)
    if unread.beyond:
        entries = here.above(unread.cursor, newest)
    unread.is_cut = 0 < newest <= len(entries)
    late, unread.expiring = _marks(channel, agent)
    late |= frozenset(here.late)
    if late:
        readable = [message for name in late for message in [channel.log.message(name)] if message]
        unread.late = frozenset(message.name for message in readable)
        unread.missed = set(late - unread.late)
        present = {entry.name for entry in entries}
        entries += [arrivals.of_message(message) for message in readable if message.name not in present]
        entries.sort(key=arrivals.order)
    _choose(unread, entries, agent, every_audit, excluded)
    unread.unreadable = sorted(
        (bad for bad in channel.log.unreadable.values() if bad.number > unread.cursor), key=lambda bad: bad.name
    )
    return unread


def since(
    channel: Channel, agent: str, number: int, every_audit: bool = False, excluded: Exclusion | None = None
) -> Unread:
    """What is relevant for `agent` above a number, read or not."""
    here = channel.look_at_log()
    entries = here.above(number)
    unread = Unread(channel.cursor_of(agent), here.last)
    _choose(unread, entries, agent, every_audit, excluded)
    unread.unreadable = [bad for _, bad in sorted(channel.log.unreadable.items()) if bad.number > number]
    return unread


def _choose(
    unread: Unread, entries: Iterable[Entry], agent: str, every_audit: bool, excluded: Exclusion | None
) -> None:
    now = clock.now()
    for entry in entries:
        if not entry.is_news(agent, every_audit):
            continue
        if entry.expires_at and entry.is_expired(now):
            unread.expired.append(entry)
        elif excluded is None or not excluded(entry):
            unread.entries.append(entry)


def _noted(channel: Channel, agent: str) -> Look:
    """A look that is in the index; under the channel's lock where something has to be put there."""
    here = channel.log.glance()
    if here:
        return here
    try:
        with channel.writing(agent, INDEX_PATIENCE):
            return channel.log.note()
    except AgentChatError as error:
        if error.code != "CHANNEL_BUSY":
            raise
    # a stopped holder: without the lock a late message may come twice, but none is lost
    return channel.log.note()


def _marks(channel: Channel, agent: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names in `.late/` and those in `.expiring/`."""
    try:
        with channel.folder.sub(CURSORS) as cursors:
            late, expiring = (
                _names(cursors, folder) for folder in (names.late_folder(agent), names.expiring_folder(agent))
            )
    except FileNotFoundError:
        return frozenset(), frozenset()
    return frozenset(name for name in late if names.message_number(name)), frozenset(expiring)


def _names(cursors: disk.Folder, name: str) -> list[str]:
    try:
        with cursors.sub(name) as folder:
            return folder.names()
    except FileNotFoundError:
        return []


def late_names(channel: Channel, agent: str) -> frozenset[str]:
    """The late messages that `agent` has not been shown."""
    return _marks(channel, agent)[0]


class Move:
    """A prepared move of a cursor. Leaving the `with` block without calling it leaves the cursor."""

    __slots__ = ("_agent", "_done", "_folder", "_temporary")

    def __init__(self, channel: Channel, agent: str, present: int, number: int, done: Sequence[str] = ()) -> None:
        self._folder = channel.folder.sub(CURSORS, create=True)
        self._agent = agent
        self._done = done  # names to take out of `.late/`
        self._temporary: disk.Temporary | None = None
        if number != present:
            channel.folder.sync()  # what a cursor has passed must not vanish: its number would be given once more
            self._temporary = self._folder.prepare(names.cursor_file(agent), b"%d\n" % number)

    def __enter__(self) -> Move:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._temporary:
            self._temporary.discard()
        self._folder.close()

    def __call__(self) -> None:
        if self._temporary:
            self._temporary.rename_to(self._folder, names.cursor_file(self._agent))
        if self._done:
            with self._folder.sub(names.late_folder(self._agent)) as folder:
                for name in self._done:
                    folder.remove(name)


def prepare(channel: Channel, agent: str, unread: Unread, count: int) -> Move:
    """The move of the cursor over the first `count` unread messages, held by whoever holds `reading`."""
    left = {message.name for message in unread.messages[count:]}
    left |= {entry.name for entry in unread.entries[unread.tried :]}
    if unread.missed:
        with channel.folder.sub(CURSORS, create=True) as folder:
            keep_late(folder, agent, unread.missed)
    end = unread.after(count)
    if unread.expired:
        _tell_senders(channel, agent, [entry for entry in unread.expired if entry.number <= end])
    return Move(channel, agent, unread.stored, end, sorted(unread.late - left - unread.missed))


def _tell_senders(channel: Channel, agent: str, passed: Iterable[Entry]) -> None:
    """Note beside what its senders wait to hear of that `agent` passed it over when it had expired."""
    for entry in passed:
        if not names.is_agent(entry.sender):
            continue
        try:
            with channel.folder.sub(f"{CURSORS}/{names.expiring_folder(entry.sender)}") as folder:
                if folder.exists(entry.name):
                    folder.create_new(f"{entry.name}.{agent.lower()}")
        except (FileNotFoundError, AgentChatError):
            continue  # the sender has been told, or something else is in its place


def acknowledge(channel: Channel, agent: str, upto: int, force: bool = False) -> int:
    """Move the cursor to `upto`, or to the end when that is less, without showing anything.

    CURSOR_BACKWARDS unless `force`, or unless the present one is no number.
    """
    with reading(channel, agent):
        try:
            begin(channel, agent)
            present = channel.cursor_of(agent)
        except AgentChatError as error:
            if error.code != "CURSOR_INVALID":
                raise
            present = -1
        end = _noted(channel, agent).last  # what comes below `upto` from now on is late
        upto = min(upto, end)
        if upto < min(present, end) and not force:
            raise AgentChatError(
                "CURSOR_BACKWARDS",
                f"the cursor of {agent} stands at #{present}; moving back shows messages again",
                ("ack", channel.name, "--as", agent, "--upto", str(upto), "--force"),
            )
        done = [name for name in late_names(channel, agent) if names.message_number(name) <= upto]
        with Move(channel, agent, present, upto, done) as move:
            move()
    return upto
