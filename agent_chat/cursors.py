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

from agent_chat import audit, names
from agent_chat.channel import Channel, Unlocked, note
from agent_chat.errors import AgentChatError
from agent_chat.log import CURSORS, keep_late
from agent_chat.storage import disk, oslock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_chat.frontmatter import Message
    from agent_chat.log import Look, Unreadable

_CURSOR_LIMIT = 64  # bytes
INDEX_PATIENCE = 1.0  # seconds; reading never fails for want of the channel's lock


class Unread:
    """One look on behalf of one agent: the unread messages and where the cursor stands."""

    __slots__ = ("beyond", "cursor", "late", "latest", "messages", "stored", "unreadable")

    def __init__(self, stored: int, latest: int) -> None:
        self.stored = stored  # what the file says; -1 without one
        self.latest = latest  # the newest message's number
        self.beyond = stored > latest
        self.cursor = min(max(stored, 0), latest)
        self.late: frozenset[str] = frozenset()  # names in `.late/` of messages that could be read
        self.messages: list[Message] = []
        self.unreadable: list[Unreadable] = []

    def after(self, count: int) -> int:
        """The cursor once the first `count` messages were shown: the end of this look when these are all."""
        if count >= len(self.messages):
            return self.latest
        return max([self.cursor, *(message.number for message in self.messages[:count])])

    def whole_numbers(self, count: int) -> int:
        """`count`, or a few more, so that messages that share a number stay together: a cursor cannot part them."""
        while 0 < count < len(self.messages) and self.messages[count].number == self.messages[count - 1].number:
            count += 1
        return count


def reading(channel: Channel, agent: str, seconds: float = oslock.PATIENCE) -> oslock.Lock | Unlocked:
    """The lock of one reading of `agent`. CURSOR_BUSY after 10 s behind one holder."""
    with channel.folder.sub(CURSORS, create=True) as folder:
        try:
            return oslock.hold(folder, agent.lower() + ".lock", note(agent), seconds)
        except oslock.NoLocks:
            return Unlocked()
        except oslock.Busy as busy:
            raise AgentChatError(
                "CURSOR_BUSY",
                f"{agent} is being read for already, by {busy.holder}",
                ("read", channel.name, "--as", agent, "--peek"),
                {"holder": busy.holder},
            ) from None


def stored(channel: Channel, agent: str) -> int:
    """The cursor of `agent`, -1 without one. CURSOR_INVALID, STORAGE_LINK_REFUSED."""
    try:
        with channel.folder.sub(CURSORS) as folder:
            data = folder.read(names.cursor_file(agent), _CURSOR_LIMIT)
    except FileNotFoundError:
        return -1
    except AgentChatError as error:
        if error.code != "STORAGE_TOO_LARGE":
            raise
        data = b"?"
    text = data.decode("ascii", "replace").strip()
    if not text.isdigit():
        raise AgentChatError(
            "CURSOR_INVALID",
            f"the cursor of {agent} in {channel.name!r} is no number: {text[:20]!r}",
            ("ack", channel.name, "--as", agent, "--upto", "0"),
        )
    return int(text)


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
        folder.replace(own, b"0\n", sync=False)


def look(channel: Channel, agent: str, every_audit: bool = False, persist: bool = False) -> Unread:
    """What is unread for `agent`, in order of number. `persist`: what has just arrived enters the index."""
    here, opened = channel.log.look()
    if persist and here.new:
        here, opened = _note_arrivals(channel, agent, opened)
    own, late = stored(channel, agent), _late_names(channel, agent)
    late |= frozenset(name for _, name in here.late)
    unread, missed = Unread(own, here.last), set()
    for number, name in here.messages:
        if number > unread.cursor or name in late:
            message = opened.get(name) or channel.log.message(name)
            if not message:
                missed.add(name)  # it was whole once, and cannot be read just now
            elif audit.is_news(message, agent, every_audit):
                unread.messages.append(message)
    if late:
        unread.late = late.intersection(name for _, name in here.messages) - missed
    if persist and missed:
        with channel.folder.sub(CURSORS, create=True) as folder:
            keep_late(folder, agent, missed)
    unread.unreadable = sorted(
        (bad for bad in channel.log.unreadable.values() if bad.number > unread.cursor), key=lambda bad: bad.name
    )
    return unread


def _note_arrivals(channel: Channel, agent: str, opened: dict[str, Message]) -> tuple[Look, dict[str, Message]]:
    try:
        with channel.writing(agent, INDEX_PATIENCE):
            return channel.log.note_arrivals(opened)
    except AgentChatError as error:
        if error.code != "CHANNEL_BUSY":
            raise
    # a stopped holder: without the lock a late message may come twice, but none is lost
    return channel.log.note_arrivals(opened)


def _late_names(channel: Channel, agent: str) -> frozenset[str]:
    try:
        with channel.folder.sub(CURSORS) as cursors, cursors.sub(names.late_folder(agent)) as folder:
            return frozenset(name for name in folder.names() if names.message_number(name))
    except FileNotFoundError:
        return frozenset()


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
    return Move(channel, agent, unread.stored, unread.after(count), sorted(unread.late - left))


def acknowledge(channel: Channel, agent: str, upto: int, force: bool = False) -> int:
    """Move the cursor to `upto`, or to the end when that is less, without showing anything.

    CURSOR_BACKWARDS unless `force`, or unless the present one is no number.
    """
    with reading(channel, agent):
        try:
            begin(channel, agent)
            present = stored(channel, agent)
        except AgentChatError as error:
            if error.code != "CURSOR_INVALID":
                raise
            present = -1
        here, opened = channel.log.look()
        if here.new:
            here, _ = _note_arrivals(channel, agent, opened)  # what comes below `upto` from now on is late
        end = here.last
        upto = min(upto, end)
        if upto < min(present, end) and not force:
            raise AgentChatError(
                "CURSOR_BACKWARDS",
                f"the cursor of {agent} stands at #{present}; moving back shows messages again",
                ("ack", channel.name, "--as", agent, "--upto", str(upto), "--force"),
            )
        done = [name for name in _late_names(channel, agent) if names.message_number(name) <= upto]
        with Move(channel, agent, present, upto, done) as move:
            move()
    return upto
