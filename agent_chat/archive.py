"""Move old messages to the archive, or delete them: the only place where a message leaves the folder.

Steps of a move, for a few hundred messages at a time under the channel's lock: what has just arrived is noted (a
late message is thus late for its readers before it moves), each file is linked to its name in `archive/NNNN-NNNN/`,
those folders are synced, the names in the channel's folder go, the channel's folder is synced. A death anywhere
leaves each message in one of the two or in both, with the same bytes; in both it counts once, and the next run goes
on. A reader that lists the folder first and the archive then misses none.

The newest message always stays, so that numbers never start again, and so does what a pending transaction needs. The
folder of the journals is synced first: a journal that came back after a power cut must find its message.
"""

from __future__ import annotations

import stat

from agent_chat import archived, clock, cursors, log, messages, names, policy, recovery, requests, tasks
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk, journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agent_chat.arrivals import Entry
    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message

FULL = 1000  # files in one folder: as many as hosting sites list
BATCH = 500  # messages moved in one hold of the channel's lock
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_ASKING = frozenset(["question", "request"])  # statuses that want an answer


class Age:
    """Which messages are old: numbered below `before`, or written before `until`. 0: no such bound."""

    __slots__ = ("before", "until")

    def __init__(self, before: int = 0, until: int = 0) -> None:
        self.before = before
        self.until = until

    def covers(self, entry: Entry) -> bool:
        if self.before and entry.number >= self.before:
            return False
        if not self.until:
            return True
        try:
            return clock.parse_stamp(entry.ts) < self.until
        except ValueError:
            return False  # without a time it has no age


def age(text: str) -> int:
    """`14d`, `36h`, `90m`, `30s`, in microseconds. ValueError."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit() and 0 < len(number) <= 9 and int(number)):
        raise ValueError(f"no age: {text!r}")
    return int(number) * _UNITS[unit] * clock.SECOND


def retention(channel: Channel) -> Age | None:
    """What the channel's policy counts as old; None when it does not say."""
    said = policy.load(channel.folder, channel.name).value("retention")
    return None if said == policy.OFF else Age(until=clock.now() - age(said))


def old(channel: Channel, wanted: Age, is_everywhere: bool = False) -> list[Entry]:
    """The old messages in the folder, or `is_everywhere` also in the archive, but for the newest; by number."""
    here = channel.log.look()
    listed = here.above(0, archived=is_everywhere)
    newest = here.last
    return [entry for entry in listed if entry.number < newest and wanted.covers(entry)]


# ---- moving -----------------------------------------------------------------------------------------------


def move(channel: Channel, wanted: Age) -> list[Entry]:
    """Move the old messages to the archive; those that were moved. CHANNEL_BUSY."""
    found = old(channel, wanted)
    moved: list[Entry] = []
    for start in range(0, len(found), BATCH):
        with channel.writing("archive"):
            moved += _move(channel, found[start : start + BATCH])
    if moved:
        with channel.writing("archive"):
            archived.write_headers(channel.log)  # until then each is opened by whoever wants to know of it
    return moved


def _move(channel: Channel, wanted: Sequence[Entry]) -> list[Entry]:
    folder, here = channel.folder, channel.log.note()
    pending = _pending(channel)
    top, used = here.last, dict[str, _Place]()
    moved: list[Entry] = []
    try:
        with folder.sub(names.ARCHIVE, create=True) as archive:
            for entry in wanted:
                if entry.number >= top or entry.name in pending:
                    continue
                try:
                    is_linked = _link(folder, archive, used, entry)
                except FileNotFoundError:
                    continue  # another one has moved it
                if is_linked:
                    moved.append(entry)
                else:
                    text = f"{entry.name} stays: the archive holds another file of that name; next: doctor"
                    channel.notices.append(text)
            for inner in (*(place.folder for place in used.values()), archive, folder):  # before any name goes
                inner.sync()
    finally:
        for place in used.values():
            place.folder.close()
    _forget(channel, moved)
    return moved


class _Place:
    """A folder of the archive, and what lies in it."""

    __slots__ = ("folder", "names")

    def __init__(self, folder: disk.Folder) -> None:
        self.folder = folder
        self.names = set(folder.names())


def _link(folder: disk.Folder, archive: disk.Folder, used: dict[str, _Place], entry: Entry) -> bool:
    """Give a message its place in the archive; False when that is taken by something else."""
    if not stat.S_ISREG(folder.lstat(entry.name).st_mode):
        return False
    place = _place(archive, used, entry)
    try:
        disk.Temporary(folder, entry.name).link_to(place.folder, entry.name)
    except FileExistsError:
        return place.folder.read(entry.name) == folder.read(entry.name)
    place.names.add(entry.name)
    return True


def _place(archive: disk.Folder, used: dict[str, _Place], entry: Entry) -> _Place:
    """The folder for a message: that of its thousand, or one for its number alone where that is full."""
    low = (entry.number - 1) // FULL * FULL + 1
    for bounds in ((low, low + FULL - 1), (entry.number, entry.number)):
        name = names.archive_folder(*bounds)
        if name not in used:
            used[name] = _Place(archive.sub(name, create=True))
        if len(used[name].names) < FULL or entry.name in used[name].names:
            break
    return used[name]


def _forget(channel: Channel, gone: Iterable[Entry]) -> None:
    """Take names out of the folder, and put the index in step."""
    for entry in gone:
        channel.folder.remove(entry.name)
    channel.folder.sync()
    channel.log.must_list = True
    channel.log.note()
    channel.log.must_list = False


def _pending(channel: Channel, is_refused: bool = False) -> frozenset[str]:
    """The messages that unfinished transactions name; and no journal that is gone comes back.

    `is_refused`: nothing may be pending. The code of the family, as for a journal that cannot be understood.
    """
    try:
        with channel.folder.sub(journal.FOLDER) as journals:
            journals.sync()
    except FileNotFoundError:
        pass
    listed: list[str] = []
    for family in recovery.FAMILIES.values():
        found = recovery.pending(channel, family)
        if found and (is_refused or found.broken or not found.journal):
            raise found.refusal(channel.name, "")
        if found and found.journal:
            listed += [part[0] for part in (found.journal.message, found.journal.recovery) if part]
    return frozenset(listed)


# ---- deleting ---------------------------------------------------------------------------------------------


def needs(channel: Channel) -> Callable[[Entry, Message], str]:
    """A function that says who still needs a message, in a few words; empty for nobody."""
    found, _ = channel.look("task", tasks.everything)
    open_tasks = [task.id for task in found if task.status not in tasks.FINAL]
    asked, _ = channel.look("turn", requests.everything)
    open_requests = [request.id for request in asked if request.state == requests.OPEN]
    answered = {entry.reply_to for entry in channel.log.look().above(0)}
    readers = list(_readers(channel))

    def need(entry: Entry, message: Message) -> str:
        text = f"{message.title}\n{message.body}"
        for what, ids in (("open task", open_tasks), ("open request", open_requests)):
            for one in ids:
                if _names(text, one):
                    return f"{what} {one}"
        if entry.status.lower() in _ASKING and entry.number not in answered:
            return "unanswered"
        for agent, cursor, late in readers:
            if (entry.number > cursor or entry.name in late) and entry.is_news(agent):
                return f"unread by {agent}"
        return ""

    return need


def _names(text: str, word: str) -> bool:
    """Whether an id stands in a text by itself, without regard to case."""
    low, word, at = text.lower(), word.lower(), -1
    while (at := low.find(word, at + 1)) >= 0:
        before, after = low[at - 1 : at] if at else "", low[at + len(word) : at + len(word) + 1]
        if not (before.isalnum() or before in ("-", "_") or after.isalnum() or after in ("-", "_")):
            return True
    return False


def _readers(channel: Channel) -> Iterator[tuple[str, int, frozenset[str]]]:
    for agent in messages.readers(channel):
        try:
            yield agent, channel.cursor_of(agent), cursors.late_names(channel, agent)
        except AgentChatError:
            yield agent, 0, frozenset()  # a damaged cursor has passed nothing


def delete(channel: Channel, chosen: Sequence[Entry]) -> int:
    """Remove messages for good, wherever they lie, after a message that says so; how many. For the operator alone."""
    _pending(channel, is_refused=True)
    numbers = f"{chosen[0].number}-{chosen[-1].number}"
    with channel.change("archive.deleted", names.SYSTEM) as change:
        change.audit("archive.deleted", {"numbers": numbers}, {"count": len(chosen)}, ())
    count = 0
    for start in range(0, len(chosen), BATCH):
        with channel.writing("archive --delete"):
            count += _delete(channel, chosen[start : start + BATCH])
    if channel.folder.exists(names.ARCHIVE):
        with channel.writing("archive --delete"):
            archived.write_headers(channel.log)
    return count


def _delete(channel: Channel, chosen: Sequence[Entry]) -> int:
    folder, top = channel.folder, channel.log.note().last
    _pending(channel, is_refused=True)
    gone = [entry for entry in chosen if entry.number < top]
    places: dict[str, list[str]] = {}
    for entry in gone:
        where = archived.places(folder, entry.number - 1, entry.number).get(entry.name)
        if where:
            places.setdefault(where, []).append(entry.name)
    for where, listed in places.items():
        with folder.sub(where) as inner:
            for name in listed:
                inner.remove(name)
            inner.sync()
    _drop_late(channel, {entry.name for entry in gone})
    _forget(channel, gone)
    return len(gone)


def _drop_late(channel: Channel, gone: set[str]) -> None:
    """Nobody can be shown them any more."""
    try:
        with channel.folder.sub(log.CURSORS) as folder:
            for agent in log.readers(folder):
                try:
                    with folder.sub(names.late_folder(agent)) as late:
                        for name in gone.intersection(late.names()):
                            late.remove(name)
                except FileNotFoundError:
                    continue
    except FileNotFoundError:
        pass  # nobody has read here
