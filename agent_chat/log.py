"""The numbered files of a channel's folder: which are messages, what is the next number.

`Log.look()` is one listing. What it shows was whole at that moment. What has just arrived is told
from what was known by the arrival index `.index/arrivals`: one line a name, in the order in which
they were first seen whole. It is derived: without it everything there counts as known.

A name that arrives with a number not above the highest known is late (it came by git, by a sync
client, or only now became whole): a reader may have passed it. So before it enters the index, an
empty file of its name is made in `.cursors/<agent>.late/` for every agent with a cursor.

Numbers: highest of all that lies there + 1, then taken by creating `.numbers/NNNN` exclusively, then
the folder is looked at once more. That is unique even where locks do nothing: a taker that slept
between its look and its taking finds the higher number that was used meanwhile, and takes a new one.
"""

from __future__ import annotations

from agent_chat import clock, frontmatter, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

NUMBERS, INDEX, CURSORS = ".numbers", ".index", ".cursors"
_ARRIVALS = "arrivals"
_INDEX_LIMIT = 256 * 1024 * 1024  # bytes
_NONE: Mapping[str, frontmatter.Message] = {}
SETTLED = 10 * clock.SECOND  # an incomplete file that did not change for this long is named
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
    """One listing. `messages` holds (number, name); `new` those not in the index yet; `late` late ones of these."""

    __slots__ = ("highest", "late", "messages", "new", "strays")

    def __init__(self, entries: Iterable[str], known: Collection[str] | None) -> None:
        self.messages: list[tuple[int, str]] = []
        self.strays: list[tuple[int, str]] = []
        self.highest = 0  # of every number in use, also by what is no message
        for name in entries:
            number = names.claimed_number(name)
            if number:
                self.highest = max(self.highest, number)
                (self.messages if names.message_number(name) else self.strays).append((number, name))
        self.messages.sort()
        self.strays.sort()
        if known is None:
            self.new, self.late = self.messages, []
        else:
            self.new = [entry for entry in self.messages if entry[1] not in known]
            top = max(map(names.message_number, known), default=0)
            self.late = [entry for entry in self.new if entry[0] <= top]

    @property
    def last(self) -> int:
        """The newest message's number; 0 when there is none."""
        return self.messages[-1][0] if self.messages else 0

    def drop(self, unreadable: Collection[str]) -> None:
        """Take out what turned out to be no whole message: it is not there yet."""
        if unreadable:
            self.messages = [entry for entry in self.messages if entry[1] not in unreadable]
            self.new = [entry for entry in self.new if entry[1] not in unreadable]
            self.late = [entry for entry in self.late if entry[1] not in unreadable]


class Log:
    """The messages of one open channel folder."""

    __slots__ = ("_seen", "folder", "unreadable")

    def __init__(self, folder: disk.Folder) -> None:
        self.folder = folder
        self._seen = 0  # bytes of the index that the last look knew
        self.unreadable: dict[str, Unreadable] = {}  # of the last look

    # ---- looking ------------------------------------------------------------------------------

    def look(self, opened: Mapping[str, frontmatter.Message] = _NONE) -> tuple[Look, dict[str, frontmatter.Message]]:
        """What is there now, and the messages that had to be opened to know that they are whole.

        `opened`: those of an earlier look, which never change.
        """
        known = self._known()
        look = Look(self.folder.names(), known)
        self.unreadable = {
            name: Unreadable(name, number, "its name is no message's", False) for number, name in look.strays
        }
        found = {
            name: message for _, name in look.new for message in [opened.get(name) or self.message(name)] if message
        }
        look.drop(self.unreadable)
        return look, found

    def message(self, name: str) -> frontmatter.Message | None:
        """The message in file `name`; None when it is none, and then `unreadable` says why."""
        try:
            return frontmatter.parse(name, self.folder.read(name))
        except FileNotFoundError:
            why, is_young = "it is gone", True
        except frontmatter.NotWhole as error:
            why, is_young = str(error), self._is_young(name)
        except AgentChatError as error:
            why, is_young = _WHY.get(error.code, error.message), False
        except OSError as error:
            why, is_young = error.strerror or "unreadable", False
        self.unreadable[name] = Unreadable(name, names.message_number(name), why, is_young)
        return None

    def _is_young(self, name: str) -> bool:
        """Whether it may still be being written: changed within the last 10 s, the future not counted."""
        try:
            age = clock.now() - self.folder.lstat(name).st_mtime_ns // 1000
        except OSError:
            return True
        return 0 <= age < SETTLED

    # ---- the arrival index ----------------------------------------------------------------------

    def _known(self) -> set[str] | None:
        """The names in the index; None when there is no index."""
        data = self._index()
        self._seen = len(data or b"")
        return None if data is None else set(_names_in(data))

    def _index(self) -> bytes | None:
        try:
            with self.folder.sub(INDEX) as index:
                return index.read(_ARRIVALS, _INDEX_LIMIT)
        except (FileNotFoundError, AgentChatError):
            return None

    def note_arrivals(
        self, opened: Mapping[str, frontmatter.Message] = _NONE
    ) -> tuple[Look, dict[str, frontmatter.Message]]:
        """Look, and put what is new into the index, late names into each reader's `.late/` first.

        To be called under the channel's lock: an earlier look may miss what another reader has noted
        since. Where the lock does nothing, or its holder is stopped, another may still note something
        between this look and its entry. Its look may have passed ours by: what lies below its highest
        counts as late; and ours may have missed some of its own, so we look once more.
        """
        while True:
            look, found = self.look(opened)
            opened = {**opened, **found}
            self._keep_late([name for _, name in look.late])
            if not look.new:
                return look, opened
            data = "".join(name + "\n" for _, name in look.new).encode()
            with self.folder.sub(INDEX, create=True) as index:
                index.append(_ARRIVALS, data)
                if index.lstat(_ARRIVALS).st_size <= self._seen + len(data):
                    return look, opened
            top = max(map(names.message_number, _names_in((self._index() or b"")[self._seen :])), default=0)
            self._keep_late([name for number, name in look.new if number < top])

    def _keep_late(self, late: Collection[str]) -> None:
        if late:
            with self.folder.sub(CURSORS, create=True) as cursors:
                for agent in readers(cursors):
                    keep_late(cursors, agent, late)

    # ---- numbers -------------------------------------------------------------------------------

    def take_number(self) -> int:
        """A number that no message has or will have. Best under the channel's lock; unique without it, too."""
        with self.folder.sub(NUMBERS, create=True) as taken:
            number = max(self._highest(), _highest_taken(taken)) + 1
            while True:
                if number > names.LAST_NUMBER:
                    raise AgentChatError(
                        "CHANNEL_FULL", "the channel has used up its numbers (9 digits)", ("init", "--help")
                    )
                if taken.create_new(f"{number:04d}"):
                    if self._highest() < number and _highest_taken(taken) == number:
                        return number
                    taken.remove(f"{number:04d}")
                number = max(number, self._highest(), _highest_taken(taken)) + 1

    def give_back(self, number: int) -> None:
        """Undo `take_number` when nothing was published under it."""
        with self.folder.sub(NUMBERS) as taken:
            taken.remove(f"{number:04d}")

    def _highest(self) -> int:
        return max(map(names.claimed_number, self.folder.names()), default=0)

    def forget_numbers(self, below: int) -> None:
        """Drop takings below the highest published number: no taker can get those again."""
        try:
            with self.folder.sub(NUMBERS) as taken:
                for name in taken.names():
                    if 0 < names.taken_number(name) < below:
                        taken.remove(name)
        except OSError:
            pass  # what was published stays so; the next one drops them


def _names_in(index: bytes) -> list[str]:
    """The names in a piece of the index; a torn line is none."""
    return [name for name in index.decode("utf-8", "replace").split("\n") if names.message_number(name)]


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
