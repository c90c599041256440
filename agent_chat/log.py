"""The numbered files of a channel's folder: which are messages, what is the next number.

A look tells what is there. As long as the folder has not changed since the arrival index (arrivals.py) was
in step with it, the index answers alone; else the folder is listed, and what is new is opened to see that
it is whole. A folder's time is believed only when it is older than its tick, 20 ms or 2 s (FAT), now and when it was
listed. It can lie all the same, so a listing is due when the last one is over a minute old and the folder changed
since, or where listing is cheap. What was put there by people, git or sync clients is thus seen at once in the
ordinary case and within a minute always.

Archived messages (archived.py) are looked for after the folder, and by name where the folder has not got one any
more, so that none is missed on its way there; one that is in both counts once. They are neither late nor new.

A name that arrives with a number not above the highest known is late (it came by git, by a sync client, or
only now became whole): a reader may have passed it. So before it enters the index, an empty file of its
name is made in `.cursors/<agent>.late/` for every agent with a cursor. Without an index everything there
counts as known.

Numbers: highest of all that lies there + 1, then taken by creating `.numbers/NNNN` exclusively, then the
folder is looked at once more. That is unique even where locks do nothing: a taker that slept between its
look and its taking finds the higher number that was used meanwhile, and takes a new one.
"""

from __future__ import annotations

import time

from agent_chat import arrivals, clock, frontmatter, names
from agent_chat.arrivals import Entry, Stamp
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_chat.arrivals import Enough

NUMBERS, CURSORS = ".numbers", ".cursors"
SETTLED = 10 * clock.SECOND  # an incomplete file that did not change for this long is named
LISTING_DUE = 60 * arrivals.SECOND
CHEAP = 5000  # messages whose names are listed in a fraction of the interpreter's start
_TRIES, _BETWEEN = 3, 0.003  # looks, seconds: a poster adds a line and then its stamp, which is no damage
_WATCHED = 50  # incomplete files that are watched one by one
_WHY = {"STORAGE_LINK_REFUSED": "a link", "STORAGE_NOT_A_FILE": "no regular file", "STORAGE_TOO_LARGE": "too large"}


class Unreadable:
    """A numbered name that is no message: damaged, not whole, a folder, a link, a stray name."""

    __slots__ = ("is_young", "name", "number", "why")

    def __init__(self, name: str, number: int, why: str, is_young: bool) -> None:
        self.name = name
        self.number = number
        self.why = why
        self.is_young = is_young  # it may still be on its way: not named yet, looked at again


class Look:
    """What was there at one moment: what the index holds, and what is new."""

    __slots__ = ("_has_archive", "_log", "indexed", "kept", "late", "new", "stamp")

    def __init__(self, log: Log, indexed: Stamp | None, stamp: Stamp) -> None:
        self._log = log
        self.indexed = indexed  # the stamp of the index where it counts; None when it must be made anew
        self.stamp = stamp  # what the stamp will be when this look is noted
        self.kept: list[bytes] = []  # without `indexed`: its lines that still count
        self.new: list[bytes] = []  # lines to be added
        self.late: list[str] = []  # names of these with a number that may have been passed
        self._has_archive: bool | None = None  # when it was last looked for

    @property
    def last(self) -> int:
        """The newest message's number; 0 when there is none."""
        return self.stamp.top if self._has_archive is False else self._log.archived_last(self.stamp.top)

    def above(self, number: int, count: int = 0, archived: bool = True, is_enough: Enough | None = None) -> list[Entry]:
        """The messages above `number` by their number, the newest `count` of them or all; `archived`: of the archive,
        too. With `is_enough`, as arrivals.entries_above, older ones may be missing."""
        found = self._sound_above(number, count, is_enough)
        if not archived:
            return found
        self._has_archive = self._log.folder.exists(names.ARCHIVE)  # after the folder was looked at, and not before
        if not self._has_archive:
            return found
        is_part = found and (len(found) < self.stamp.count if is_enough else 0 < count <= len(found))
        more = self._log.archived(found[0].number if is_part else number)
        if not more:
            return found
        known = {entry.name for entry in found}
        found = sorted([*found, *(entry for entry in more if entry.name not in known)], key=arrivals.order)
        return found[-count:] if count else found

    def _sound_above(self, number: int, count: int, is_enough: Enough | None) -> list[Entry]:
        """As `_above`; where the index moved on meanwhile, this look becomes a later one."""
        for _ in range(_TRIES):
            try:
                return self._above(number, count, is_enough)
            except (OSError, ValueError):
                time.sleep(_BETWEEN)
                self._become(self._log.look())
        arrivals.distrust(self._log.folder)  # it is damaged: it is derived, do without
        self._become(self._log._listing(is_index_sound=False))
        return self._above(number, count, is_enough)

    def _become(self, later: Look) -> None:
        self.indexed, self.stamp = later.indexed, later.stamp
        self.kept, self.new, self.late = later.kept, later.new, later.late

    def _above(self, number: int, count: int, is_enough: Enough | None) -> list[Entry]:
        found = [entry for entry in map(arrivals.entry, [*self.kept, *self.new]) if entry.number > number]
        if self.indexed is not None:
            found += arrivals.entries_above(self._log.folder, self.indexed, number, count, is_enough)
        found.sort(key=arrivals.order)
        return found[-count:] if count else found


class Log:
    """The messages of one open channel folder."""

    __slots__ = ("_base", "_offset", "folder", "looks_again", "must_list", "places", "unreadable")

    def __init__(self, folder: disk.Folder) -> None:
        self.folder = folder
        self._offset = 0  # ns; between the file system's clock and ours
        self.must_list = False  # whatever the folder's time says
        self.looks_again = False  # once the tick of a change is over: until then what the index knows is enough
        self.unreadable: dict[str, Unreadable] = {}  # of the last look, and of what was read since
        self.places: dict[str, str] = {}  # the folders of archived messages that a look has met
        self._base: Look | None = None  # the look that the last number was taken on

    # ---- looking ------------------------------------------------------------------------------

    def look(self) -> Look:
        """What is there now."""
        return self.glance() or self._listing()

    def note(self) -> Look:
        """As `look`; what is new enters the index, and late names each reader's `.late/` first.

        To be called under the channel's lock: an earlier look may miss what another one noted since. Where
        the lock does nothing, or its holder is stopped, another may get between this look and its entry:
        then the index has another size than we say, and a second look finds what either of us missed.
        """
        here = self.look()
        while True:
            if here.indexed is here.stamp:
                return here  # the index alone told it
            if here.late:
                with self.folder.sub(CURSORS, create=True) as cursors:
                    for agent in readers(cursors):
                        keep_late(cursors, agent, here.late)
            if here.indexed is None:
                arrivals.rewrite(self.folder, here.stamp, [*here.kept, *here.new])
            else:
                arrivals.append(self.folder, here.stamp, here.new)
            if arrivals.is_in_step(self.folder, here.stamp):
                arrivals.keep_names(self.folder, here.stamp)
                noted = Look(self, here.stamp, here.stamp)
                noted.late = here.late
                return noted
            here = self._listing()

    def glance(self) -> Look | None:
        """A look by the index alone; None when the folder must be listed."""
        if self.must_list:
            return None
        stamp = arrivals.read_stamp(self.folder)
        if stamp is None or not self._is_current(stamp) or not arrivals.is_in_step(self.folder, stamp):
            return None
        self.unreadable = {}
        for name, size, changed in stamp.watched:
            try:
                found = self.folder.lstat(name)
            except OSError:
                return None
            if (found.st_size, found.st_mtime_ns) != (size, changed) or self._judge(name):
                return None
        return Look(self, stamp, stamp)

    def heed(self, now: int) -> None:
        """Go by the file system's own clock, which says `now` (ns), rather than by ours."""
        self._offset = now - time.time_ns()

    def _now(self) -> int:
        return time.time_ns() + self._offset

    def _is_current(self, stamp: Stamp) -> bool:
        """Whether the folder's time says that nothing came or went since the stamp, and may be believed."""
        changed, now = self.folder.stamp()[0], self._now()
        tick = 0 if self.looks_again and stamp.time == changed else arrivals.tick(changed)
        if 0 <= now - changed < tick == arrivals.TICK and stamp.count > CHEAP:
            time.sleep(tick / arrivals.SECOND)  # less than a listing would take, and a listing now would not settle it
            changed, now = self.folder.stamp()[0], now + tick
        is_due = now - stamp.listed > LISTING_DUE and (stamp.listed_time != changed or stamp.count <= CHEAP)
        return stamp.time == changed and now - changed >= tick and now >= stamp.listed and not is_due

    def _listing(self, is_index_sound: bool = True) -> Look:
        """A look by listing the folder, and opening what is new."""
        changed = self.folder.stamp()[0]
        for _ in range(_TRIES):
            base = arrivals.read_stamp(self.folder) if is_index_sound else None
            known = arrivals.known_names(self.folder, base)
            if known is not None or base is None:
                break
            time.sleep(_BETWEEN)
        listed = set(self.folder.names())
        came = listed.difference(known or ())
        here = Look(self, base or Stamp(), Stamp(base))
        if known is None or len(listed) - len(came) != len(known):
            lines = arrivals.lines(self.folder)
            listed = set(self.folder.names())
            here.indexed, here.kept = None, arrivals.kept(lines, listed)
            came = listed.difference(map(arrivals.name_of, here.kept))
            here.stamp.count = len(here.kept)
            here.stamp.top, here.late = arrivals.overtaken(here.kept)
        self.unreadable = {}
        self._add_new(here, came)
        here.stamp.listed, here.stamp.listed_time = self._now(), changed
        watched = {name for name, _, _ in base.watched} if base else ()
        is_news = any(arrivals.name_of(line) not in watched for line in here.new)
        was_frozen = base is not None and (base.frozen == changed or (base.time == changed and is_news))
        here.stamp.frozen = changed if was_frozen else 0
        is_settled = here.stamp.listed - changed >= arrivals.tick(changed)  # or more may come that does not move it
        here.stamp.time = changed if self._watch(here.stamp) and is_settled and not was_frozen else 0
        return here

    def _add_new(self, here: Look, names_found: Iterable[str]) -> None:
        stamp, known_top = here.stamp, here.stamp.top
        numbered = ((names.claimed_number(name), name) for name in names_found)
        for number, name in sorted(pair for pair in numbered if pair[0]):
            message = self._judge(name)
            if message is None:
                stamp.used = max(stamp.used, number)
                continue
            here.new.append(arrivals.line(message, stamp.top))
            stamp.top, stamp.count = max(stamp.top, number), stamp.count + 1
            if number <= known_top:
                here.late.append(name)

    def _judge(self, name: str) -> frontmatter.Message | None:
        """The message of this name; None, and an entry in `unreadable`, when it is none."""
        if names.message_number(name):
            return self.message(name)
        self.note_stray(name)
        return None

    def note_stray(self, name: str, where: str = "") -> None:
        """Note a numbered name that can be no message's, in the folder or in one of the archive."""
        path = "/".join(filter(None, [where, name]))
        self.unreadable[name] = Unreadable(path, names.claimed_number(name), "its name is no message's", False)

    def _watch(self, stamp: Stamp) -> bool:
        """Note size and time of what is not whole, since writing to it does not change the folder; False if in vain."""
        for name in self.unreadable:
            try:
                found = self.folder.lstat(name)
            except OSError:
                return False
            stamp.watched.append((name, found.st_size, found.st_mtime_ns))
        if len(stamp.watched) > _WATCHED:
            stamp.watched = []
            return False
        return True

    def message(self, name: str) -> frontmatter.Message | None:
        """The message in file `name`; None when it is none, and then `unreadable` says why."""
        try:
            return frontmatter.parse(name, self._read(name))
        except FileNotFoundError:
            why, is_young = "it is gone", True
        except frontmatter.NotWhole as error:
            why, is_young = str(error), name not in self.places and self._is_young(name)
        except AgentChatError as error:
            why, is_young = _WHY.get(error.code, error.message), False
        except OSError as error:
            why, is_young = error.strerror or "unreadable", False
        path = "/".join(filter(None, [self.places.get(name), name]))
        self.unreadable[name] = Unreadable(path, names.message_number(name), why, is_young)
        return None

    def _read(self, name: str) -> bytes:
        try:
            return self.folder.read(name)
        except FileNotFoundError:
            if not self.folder.exists(names.ARCHIVE):
                raise
        from agent_chat import archived

        return archived.read(self, name)

    def _is_young(self, name: str) -> bool:
        """Whether it may still be being written: changed within the last 10 s, the future not counted."""
        try:
            age = clock.now() - self.folder.lstat(name).st_mtime_ns // 1000
        except OSError:
            return True
        return 0 <= age < SETTLED

    # ---- the archive ------------------------------------------------------------------------------

    def archived(self, number: int) -> list[Entry]:
        """The archived messages numbered above `number`, in no order."""
        if not self.folder.exists(names.ARCHIVE):
            return []
        from agent_chat import archived

        return archived.entries(self, number)

    def archived_last(self, top: int) -> int:
        """`top`, or the number of the newest archived message where that is higher."""
        if not self.folder.exists(names.ARCHIVE):
            return top
        from agent_chat import archived

        return archived.last(self, top)

    # ---- numbers, and publishing under them ---------------------------------------------------------

    def take_number(self) -> int:
        """A number that no message has or will have. Best under the channel's lock; unique without it, too."""
        with self.folder.sub(NUMBERS, create=True) as taken:
            try:
                self._base = self.note()
                in_use = max(self._base.stamp.top, self._base.stamp.used)
                in_use = max(in_use, self._highest_archived(in_use))
            except OSError:
                self._base = None  # the index cannot be written just now; it is not needed
                in_use = self._highest()
            number = max(in_use, _highest_taken(taken)) + 1
            while True:
                if number > names.LAST_NUMBER:
                    text = "the channel has used up its numbers (9 digits)"
                    raise AgentChatError("CHANNEL_FULL", text, ("init", "--help"))
                if taken.create_new(f"{number:04d}"):
                    is_unused = self._is_unchanged() or self._highest() < number
                    if is_unused and _highest_taken(taken) == number:
                        return number
                    taken.remove(f"{number:04d}")
                number = max(number, self._highest(), _highest_taken(taken)) + 1

    def _is_unchanged(self) -> bool:
        """Whether nothing came or went since the number's look."""
        return self._base is not None and 0 < self._base.stamp.time == self.folder.stamp()[0]

    def publish(self, name: str, data: bytes) -> None:
        """Publish a message under the number that was just taken; durable when this returns.

        FileExistsError when the name is taken; disk.NotDurable when only the last sync failed.
        """
        with self.folder.temporary(data) as temporary:
            is_alone = self._is_unchanged()
            temporary.link_to(self.folder, name)
            try:
                self._note_own(name, data, is_alone)
            except OSError:
                pass  # whoever looks next finds the index out of step, and lists
            self.folder.sync_published(name)

    def _note_own(self, name: str, data: bytes, is_alone: bool) -> None:
        """Add a message of ours to the index, so that its readers need not list the folder."""
        here, self._base = self._base, None
        if here is None:
            return
        message, stamp = frontmatter.parse(name, data), here.stamp
        if message.number <= stamp.top:
            return  # somebody got past us without a lock: whoever lists the folder finds it late
        line = arrivals.line(message, stamp.top)
        changed = self.folder.stamp()[0]
        if changed == stamp.time:
            stamp.frozen = changed
        stamp.time = changed if is_alone and not stamp.frozen else 0
        stamp.top, stamp.count = message.number, stamp.count + 1
        arrivals.append(self.folder, stamp, [line])

    def give_back(self, number: int) -> None:
        """Undo `take_number` when nothing was published under it."""
        with self.folder.sub(NUMBERS) as taken:
            taken.remove(f"{number:04d}")

    def _highest(self) -> int:
        here = max(map(names.claimed_number, self.folder.names()), default=0)
        return max(here, self._highest_archived(here))

    def _highest_archived(self, above: int = 0) -> int:
        """The highest number that something in the archive uses, message or not; 0 when none is above `above`."""
        if not self.folder.exists(names.ARCHIVE):
            return 0
        from agent_chat import archived

        return max(map(names.claimed_number, archived.places(self.folder, above)), default=0)

    def forget_numbers(self, below: int) -> None:
        """Drop takings below the highest published number: no taker can get those again."""
        try:
            with self.folder.sub(NUMBERS) as taken:
                for name in taken.names():
                    if 0 < names.taken_number(name) < below:
                        taken.remove(name)
        except OSError:
            pass  # what was published stays so; the next one drops them


def _highest_taken(taken: disk.Folder) -> int:
    return max(map(names.taken_number, taken.names()), default=0)


def keep_late(cursors: disk.Folder, agent: str, late: Iterable[str]) -> None:
    """Name these messages as late for `agent`, whatever its cursor says; durable, as the cursor may be."""
    with cursors.sub(names.late_folder(agent), create=True) as folder:
        for name in late:
            folder.create_new(name)
        folder.sync()


def readers(cursors: disk.Folder) -> list[str]:
    """Every agent with a cursor, by the name of its file."""
    return sorted(name[:-4] for name in cursors.names() if name.endswith(".txt") and names.is_name(name[:-4]))
