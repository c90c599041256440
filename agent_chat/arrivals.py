"""The arrival index `.index/`: the headers of the messages, in the order in which they were first seen whole.

Derived: it can be deleted at any time, and whoever finds it missing, torn or out of step makes it anew.
`arrivals` is appended to, one line a message; `stamp` is replaced and says how much of it counts and how the
folder looked then. Both are written under the channel's lock. Where two writers got past each other without
one, the size that a stamp names is not the size of `arrivals`, and then neither is believed. `names` holds the
names of the first so many bytes of a long `arrivals` once more, to be compared with a listing: to cut them out of
100,000 lines takes longer than the listing.

A line holds, between tabs: name, number, highest number before this line, sender, to, topic, status,
request id, ts, size in bytes, whom it concerns (audit.py), the number that it answers (0 for none), expiry, session,
hop, `yes` when a person wrote or decided it.
So it is read backwards from its end, and reading stops where everything earlier has lower numbers.
"""

from __future__ import annotations

from agent_chat import clock, frontmatter, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    Enough = Callable[[Sequence["Entry"]], bool]

INDEX = ".index"
_ARRIVALS, _STAMP, _NAMES = "arrivals", "stamp", "names"
_VERSION = "4"
_LIMIT = 512 * 1024 * 1024  # bytes
_STAMP_LIMIT = 64 * 1024  # bytes
_BLOCK = 16 * 1024  # bytes read at once from the end
_FIELDS = 16
_STEP = 8  # messages; after each so many it is asked whether they are enough
_FOOT = 100  # bytes, more than the last line of `names` has
_NAMES_DUE = 256 * 1024  # bytes of lines that are not yet in `names`, at which it is written anew


SECOND = 1_000_000_000  # ns
TICK, _COARSE_TICK = SECOND // 50, 2 * SECOND


def tick(changed: int) -> int:
    """How long (ns) something may come to a folder without giving it another time than this one."""
    return TICK if changed % SECOND else _COARSE_TICK


class Entry:
    """What the index knows of a message."""

    __slots__ = (
        "about",
        "expires_at",
        "hop",
        "is_operators",
        "name",
        "number",
        "recipients",
        "reply_to",
        "request_id",
        "sender",
        "session",
        "size",
        "status",
        "to",
        "topic",
        "ts",
    )

    def __init__(self, fields: Sequence[str]) -> None:
        self.name, number, _, self.sender, self.to, self.topic, self.status, self.request_id = fields[:8]
        self.ts, size, self.about, reply_to, self.expires_at, self.session, hop, operator = fields[8:]
        self.number = int(number)
        self.size = int(size)
        self.reply_to = int(reply_to)  # 0 for none
        self.hop = int(hop) if hop and hop.isascii() and hop.isdigit() and len(hop) <= 6 else 0  # 0: begins a chain
        self.is_operators = operator == "yes"
        self.recipients = frontmatter.recipients(self.to)

    def is_news(self, agent: str, every_audit: bool = False) -> bool:
        """Whether it is addressed to `agent` or everyone, not its own, and of concern if an audit message."""
        low = agent.lower()
        if self.sender.lower() == low or (self.recipients and low not in self.recipients):
            return False
        return every_audit or not self.about or not {names.EVERYONE, low}.isdisjoint(self.about.split(","))

    def is_persons(self) -> bool:
        """Whether a person posted it."""
        return self.is_operators and not self.about

    def is_expired(self, now: int) -> bool:
        """Whether it is delivered no more."""
        return self.expires_at != "" and has_expired(self.expires_at, now)


class Exclusion:
    """What a reader leaves out: topics, and senders by their name or their session's. Called with an entry."""

    __slots__ = ("_senders", "_sessions", "_topics")

    def __init__(self, topics: Iterable[str], senders: Iterable[str]) -> None:
        self._topics = frozenset(topics)
        self._sessions = frozenset(senders)
        self._senders = frozenset(name.lower() for name in self._sessions)

    def __call__(self, entry: Entry) -> bool:
        return entry.topic in self._topics or entry.sender.lower() in self._senders or entry.session in self._sessions


class Stamp:
    """How the channel's folder looked when the index was last in step with it.

    `size` bytes of `arrivals` count; they hold `count` messages, the highest numbered `top`. `used` is the
    highest number that something else uses. `time` is the folder's time (ns), 0 when it must not be believed;
    `listed` when the folder was last listed (s), `listed_time` its time then. `frozen` is a time that was seen
    not to move although something came; 0 for none. `made` is when `arrivals` was begun (us). `watched` are the
    numbered files that are no whole messages: (name, size, time). Of `base` it takes what is said of the lines.
    """

    __slots__ = ("count", "frozen", "listed", "listed_time", "made", "size", "time", "top", "used", "watched")

    def __init__(self, base: Stamp | None = None) -> None:
        self.size: int = base.size if base else 0
        self.count: int = base.count if base else 0
        self.top: int = base.top if base else 0
        self.made: int = base.made if base else 0
        self.used = self.time = self.listed = self.listed_time = self.frozen = 0
        self.watched: list[tuple[str, int, int]] = []

    def encode(self) -> bytes:
        found = (self.time, self.listed, self.listed_time, self.frozen)
        numbers = (self.size, self.count, self.top, self.used, self.made, *found)
        watched = [part for one in self.watched for part in map(str, one)]
        text = "\t".join([_VERSION, *map(str, numbers), *map(_escaped, watched), "end"]) + "\n"
        return text.encode("utf-8", "surrogatepass")  # a watched file's name may be no text


def read_stamp(folder: disk.Folder) -> Stamp | None:
    """The stamp; None when there is none that can be understood."""
    try:
        with folder.sub(INDEX) as index:
            parts = index.read(_STAMP, _STAMP_LIMIT).decode("utf-8", "surrogatepass").rstrip("\n").split("\t")
        if parts[0] != _VERSION or parts[-1] != "end" or len(parts) < 11 or (len(parts) - 11) % 3:
            return None
        stamp = Stamp()
        stamp.size, stamp.count, stamp.top, stamp.used, stamp.made = (int(part) for part in parts[1:6])
        stamp.time, stamp.listed, stamp.listed_time, stamp.frozen = (int(part) for part in parts[6:10])
        rest = parts[10:-1]
        stamp.watched = [(_unescaped(rest[i]), int(rest[i + 1]), int(rest[i + 2])) for i in range(0, len(rest), 3)]
    except (FileNotFoundError, AgentChatError, ValueError):
        return None  # any other error of the system is no word on the index: without it late ones go unnoticed
    return stamp


def line(message: frontmatter.Message, top: int) -> bytes:
    """The index line of a message that is seen whole after messages numbered up to `top`; without its end."""
    values = (message.name, str(message.number), str(top), message.sender, message.to, message.topic, message.status)
    size = len(message.text.encode("utf-8"))
    header = message.header
    about = ""
    if "." in message.status:  # as that of every audit message
        from agent_chat import audit

        about = audit.about(message)
    later = (header.get("request_id", ""), message.ts, str(size), about, str(message.reply_to))
    ends = [header.get(key, "") for key in ("expires_at", "session", "hop", "operator")]
    return "\t".join(map(_escaped, (*values, *later, *ends))).encode("utf-8")


def entry(text: bytes) -> Entry:
    """The entry of a sound line."""
    return Entry([_unescaped(field) for field in text.decode("utf-8").split("\t")])


def of_message(message: frontmatter.Message) -> Entry:
    """The entry of a message."""
    return entry(line(message, 0))


def has_expired(stamp: str, now: int) -> bool:
    """Whether the time in `expires_at:` is over; what is no time never is, so that nothing is lost for it."""
    try:
        return bool(stamp) and clock.parse_stamp(stamp) <= now
    except ValueError:
        return False


def name_of(text: bytes) -> str:
    """The name in a line."""
    return text.partition(b"\t")[0].decode("ascii", "replace")


def _escaped(text: str) -> str:
    if "\\" not in text and "\t" not in text and "\n" not in text:
        return text
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return "\\".join(part.replace("\\t", "\t").replace("\\n", "\n") for part in text.split("\\\\"))


def entries_above(
    folder: disk.Folder, stamp: Stamp, above: int, count: int = 0, is_enough: Enough | None = None
) -> list[Entry]:
    """The messages numbered above `above`, at most the `count` highest numbered ones, or as many as are enough.

    By number. `is_enough` is asked now and then with what was found, the latest first.
    ValueError when the index is out of step with its stamp.
    """
    if stamp.top <= above:
        return []
    with folder.sub(INDEX) as index:
        if index.lstat(_ARRIVALS).st_size != stamp.size:
            raise ValueError("the index has another size than its stamp says")
        length = _BLOCK
        while True:
            start = max(0, stamp.size - length)
            text = index.read(_ARRIVALS, _LIMIT, start).decode("utf-8", "replace")
            found = _found(text.split("\n")[(1 if start else 0) : -1], above, count, is_enough)
            if found is not None or not start:
                return found or []
            length *= 4


def _found(text: list[str], above: int, count: int, is_enough: Enough | None) -> list[Entry] | None:
    """As `entries_above`, of the last lines of the index; None when earlier ones may hold some, too."""
    found: list[Entry] = []
    before = 0
    for one in reversed(text):
        fields = one.split("\t")
        if len(fields) != _FIELDS:
            raise ValueError("a line of the index is torn")
        number = int(fields[1])
        if number > above:
            if names.message_number(fields[0]) != number:
                raise ValueError("a line of the index names no message of its number")
            found.append(Entry(fields if "\\" not in one else [_unescaped(field) for field in fields]))
        before = int(fields[2])
        if before <= above:
            break
        if count and len(found) >= count:
            found = sorted(found, key=order)[-count:]
            if before < found[0].number:
                break
        elif is_enough and len(found) % _STEP == 0 and is_enough(found) and before < min(found, key=order).number:
            break
    else:
        if before:
            return None
    return sorted(found, key=order)


def order(entry: Entry) -> tuple[int, str]:
    """The order in which messages are shown."""
    return entry.number, entry.name


def lines(folder: disk.Folder) -> list[bytes]:
    """Every line, in order of arrival; without a stamp that is in step with them some may be damaged."""
    try:
        with folder.sub(INDEX) as index:
            found = index.read(_ARRIVALS, _LIMIT).split(b"\n")
    except (FileNotFoundError, AgentChatError):
        return []
    found.pop()  # what follows the last line feed: nothing, or a torn line
    return found


def known_names(folder: disk.Folder, stamp: Stamp | None) -> list[str] | None:
    """The names in the index, quickly: there may be 100,000. None when it is out of step with its stamp.

    Nothing without an index.
    """
    try:
        with folder.sub(INDEX) as index:
            return _names(index, stamp) if stamp else None if index.exists(_ARRIVALS) else []
    except (FileNotFoundError, AgentChatError):
        return [] if stamp is None or stamp.size == 0 else None


def keep_names(folder: disk.Folder, stamp: Stamp) -> None:
    """Put the names into a file of their own when many came since that was written; under the channel's lock."""
    if stamp.size < _NAMES_DUE:
        return
    with folder.sub(INDEX) as index:
        if stamp.size - _covered(_names_kept(index, _FOOT), stamp) < _NAMES_DUE:
            return
        found = _names(index, stamp)
        if found is not None:
            foot = "\t".join(map(str, (_VERSION, stamp.made, stamp.size, len(found))))
            index.replace(_NAMES, "\n".join([*found, foot]).encode("ascii", "replace"), derived=True)


def _names(index: disk.Folder, stamp: Stamp) -> list[str] | None:
    """As `known_names`, with an index."""
    if index.lstat(_ARRIVALS).st_size != stamp.size:
        return None
    found = _names_kept(index)
    covered = _covered(found, stamp, len(found) - 1)
    found = found[:-1] if covered else []
    data = index.read(_ARRIVALS, _LIMIT, covered)
    found += [text.partition("\t")[0] for text in data.decode("ascii", "replace").split("\n")[:-1]]
    return found if len(found) == stamp.count else None


def _names_kept(index: disk.Folder, length: int = _LIMIT) -> list[str]:
    """The last `length` bytes of `names`, as lines: a name each, and at its end what it covers."""
    try:
        start = max(0, index.lstat(_NAMES).st_size - length)
        return index.read(_NAMES, _LIMIT, start).decode("ascii", "replace").split("\n")
    except (FileNotFoundError, AgentChatError):
        return [""]


def _covered(found: Sequence[str], stamp: Stamp, count: int = -1) -> int:
    """How many bytes of the lines `names` covers, by its last line; 0 when it belongs to others or has not `count`."""
    try:
        version, made, size, names_there = found[-1].split("\t")
        is_sound = (version, made) == (_VERSION, str(stamp.made)) and count in (-1, int(names_there))
        return int(size) if is_sound and 0 <= int(size) <= stamp.size else 0
    except ValueError:
        return 0


def kept(found: Sequence[bytes], listed: Container[str]) -> list[bytes]:
    """The sound lines of messages that are still there, each once: two may have noted the same one."""
    sound = [text for text in found if is_sound(text)]
    first = {name_of(text): text for text in reversed(sound)}
    return [text for text in sound if first[name_of(text)] is text and name_of(text) in listed]


def is_sound(text: bytes) -> bool:
    """Whether a line is whole, and names a message of its number."""
    try:
        return entry(text).number == names.message_number(name_of(text)) > 0 and int(text.split(b"\t", 3)[2]) >= 0
    except ValueError:
        return False


def distrust(folder: disk.Folder) -> None:
    """Let the next writer check every line: the index was found to be damaged."""
    try:
        with folder.sub(INDEX) as index:
            index.remove(_STAMP)
    except (OSError, AgentChatError):
        pass  # read-only media, or no index: whoever reads it finds out again


def is_in_step(folder: disk.Folder, stamp: Stamp) -> bool:
    """Whether the index has the size that its stamp names."""
    try:
        with folder.sub(INDEX) as index:
            return index.lstat(_ARRIVALS).st_size == stamp.size
    except (FileNotFoundError, AgentChatError):
        return stamp.size == 0


def overtaken(found: Iterable[bytes]) -> tuple[int, list[str]]:
    """The highest number in some lines, and the names that say they are in order and are not.

    Those were added by a writer whom another one got past without a lock: nobody was told that they are late.
    """
    top, late = 0, []
    for text in found:
        name, number, before, _ = text.split(b"\t", 3)
        if int(before) < int(number) <= top:
            late.append(name.decode("ascii"))
        top = max(top, int(number))
    return top, late


def append(folder: disk.Folder, stamp: Stamp, added: Sequence[bytes]) -> None:
    """Add lines and put the stamp, which gets their size; under the channel's lock."""
    with folder.sub(INDEX, create=True) as index:
        data = b"".join(text + b"\n" for text in added)
        if data:
            index.append(_ARRIVALS, data)
        stamp.size += len(data)
        stamp.made = stamp.made or clock.now()
        index.replace(_STAMP, stamp.encode(), derived=True)


def rewrite(folder: disk.Folder, stamp: Stamp, kept: Sequence[bytes]) -> None:
    """Make the index anew of these lines, each with the highest number before it."""
    parts, top = [], 0
    for text in kept:
        name, number, _, rest = text.split(b"\t", 3)
        parts.append(b"\t".join((name, number, b"%d" % top, rest)) + b"\n")
        top = max(top, int(number))
    data = b"".join(parts)
    with folder.sub(INDEX, create=True) as index:
        index.replace(_ARRIVALS, data, derived=True)
        stamp.size, stamp.made = len(data), clock.now()
        index.replace(_STAMP, stamp.encode(), derived=True)
