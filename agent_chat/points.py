"""What each message adds to the summary: a decision, a blocker, evidence, the completion of a task. Most add nothing.

A message counts by its status, the beginning of its title, or a heading in its body. Messages never change, so in
long channels what they add is remembered, twice: in `.index/points` what the whole folder adds, believed as long as
its time and its names are the same and what is no whole message stays so; in `.index/state` what each file adds, told
by its stamp (storage/digests.py), so that only what is new is opened. A message that is edited in place, which nobody
may do, is thus seen when something comes or goes, and always where every one is opened (`--strict`). Derived: both can
be deleted at any time, and nothing damaged is believed.
"""

from __future__ import annotations

import binascii
import sys

from agent_chat import __version__, clock, names, tasks
from agent_chat.errors import AgentChatError
from agent_chat.storage import digests, disk, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message

WORTH = 256  # messages: when so many had to be opened, what they add is kept
_WHOLE = "points"
_LIMIT = 64 * 1024 * 1024  # bytes
_ODD = 50  # files that are no whole messages and are looked at one by one
_SETTLED = 2_000_000_000  # ns
# Another version may have other rules, and another Python other letters (str.isalnum): each keeps its own.
_RULES = f"{__version__} {sys.version_info[0]}.{sys.version_info[1]}"


class Point:
    """What one message adds. `kinds`: names of Kinds; `done`: the task that it completed, in lower case, or empty."""

    __slots__ = ("author", "done", "done_at", "kinds", "name", "number", "text", "time", "title")

    def __init__(self, name: str, values: tuple[str, ...]) -> None:
        self.name = name
        self.number = names.message_number(name)
        kinds, self.author, self.time, self.title, self.text, self.done, self.done_at = values
        self.kinds = kinds.split()

    def values(self) -> tuple[str, ...]:
        texts = (self.author, self.time, self.title, self.text, self.done, self.done_at)
        return (" ".join(self.kinds), *texts)


class Kind:
    """What makes a message count: its status, how its title begins, a heading in its body."""

    __slots__ = ("headings", "name", "statuses", "titles")

    def __init__(self, name: str, statuses: Iterable[str], words: tuple[str, ...]) -> None:
        self.name = name
        self.statuses = frozenset(statuses)
        self.titles = tuple(start for word in words for start in (f"{word}:", f"[{word}]"))
        self.headings = words

    def counts(self, message: Message, low_body: str) -> bool:
        if message.status.lower() in self.statuses or message.title.lower().startswith(self.titles):
            return True
        return any(word in low_body and _has_heading(low_body, word) for word in self.headings)


DECISION = Kind("decision", ["decision"], ("decision",))
BLOCKER = Kind("blocker", ["blocker", "blocked"], ("blocker",))
EVIDENCE = Kind("evidence", ["verification", "verified"], ("verification", "evidence"))
KINDS = (DECISION, BLOCKER, EVIDENCE)


def _has_heading(low_body: str, word: str) -> bool:
    """Whether a line is `#`… and then just this word, or this word and something that is no letter or digit."""
    for line in low_body.split("\n"):
        if line.startswith("#"):
            text = line.lstrip("#").lstrip(" \t")
            if text.startswith(word) and not text[len(word) : len(word) + 1].isalnum():
                return True
    return False


# ---- of a channel -----------------------------------------------------------------------------------------


class Points:
    """The newest message's number, 0 for none, and what the messages add, by their numbers."""

    __slots__ = ("found", "last")

    def __init__(self, last: int, found: Iterable[Point]) -> None:
        self.last = last
        self.found = sorted(found, key=lambda point: (point.number, point.name))


def of_messages(channel: Channel, anew: bool = False) -> Points:
    """What the messages of a channel add. `anew`: every one is opened, whatever is remembered."""
    look = _look(channel.folder)
    remembered = None if anew else _remembered(channel.folder, look)
    return remembered or _gathered(channel, look, anew)


def _gathered(channel: Channel, look: list[list[object]], anew: bool) -> Points:
    known = digests.Digests(channel.folder, "state", version=_RULES)
    found: list[Point] = []
    odd: list[str] = []  # names of messages that are none, or not yet
    last = count = 0
    for where, name, digest in _listed(channel.folder, known):
        values = None if digest is None or anew else _loaded(digest)
        if values is None:
            if where:
                channel.log.places[name] = where
            message = channel.log.message(name)
            if message is None:
                odd.append(f"{where}/{name}" if where else name)
                continue
            values = _values(message)
            known.learn(name, [_dumped(values) if values else ""])
        count += 1
        number = name.partition("-")[0]  # of a message's name, but who knows in a damaged file
        last = max(last, int(number) if number.isdecimal() else 0)
        if values:
            found.append(Point(name, values))
    points = Points(last, found)
    known.save(WORTH)
    if count >= WORTH and len(odd) <= _ODD:
        _remember(channel.folder, look, odd, points)
    return points


def _listed(folder: disk.Folder, known: digests.Digests) -> Iterator[tuple[str, str, str | None]]:
    """(path of its folder, name, digest if it is known) of every message; one that is in several of them once."""
    seen: set[str] = set()
    for where, inner in _folders(folder):
        listed = [entry for entry in known.names(inner, _is_message) if entry[0] not in seen]
        seen.update(name for name, _ in listed)
        for name, digest in listed:
            yield where, name, digest


def _folders(folder: disk.Folder) -> Iterator[tuple[str, disk.Folder]]:
    """The channel's folder, then those of the archive, each with its path."""
    yield "", folder
    if not folder.exists(names.ARCHIVE):
        return
    from agent_chat import archived

    for _, _, name in archived.folders(folder):
        where = f"{names.ARCHIVE}/{name}"
        try:
            inner = folder.sub(where)
        except (OSError, AgentChatError):
            continue  # gone, or a file or a link of this name
        with inner:
            yield where, inner


def _is_message(name: str) -> bool:
    return names.message_number(name) > 0


def _dumped(value: object) -> str:
    import json  # which a channel where nothing counts does without

    return json.dumps(value, separators=(",", ":"))


def _loaded(digest: str) -> tuple[str, ...] | None:
    """The values in a digest, empty when the message adds nothing; None when it is none of ours."""
    if not digest:
        return ()
    try:
        return _checked(records.value(digest))
    except (ValueError, TypeError, RecursionError):
        return None


def _checked(values: list[str]) -> tuple[str, ...] | None:
    """The values of a Point as `_values` makes them, else None. TypeError, ValueError."""
    "".join(values).encode("utf-8")  # all are texts, without lone surrogates
    is_ours = isinstance(values, list) and len(values) == 7 and "\n" not in "".join([*values[:4], *values[5:]])
    return tuple(values) if is_ours else None


def _values(message: Message) -> tuple[str, ...]:
    """The values of a Point; empty when the message adds nothing."""
    low = message.body.lower()
    kinds = [kind.name for kind in KINDS if kind.counts(message, low)]
    done = _completed(message) if message.status.lower() in ("lease.completed", "task.updated") else None
    if not kinds and not done:
        return ()
    text = message.body.rstrip("\n") if kinds else ""
    return (" ".join(kinds), message.sender, message.ts, message.title, text, *(done or ("", "")))


def _completed(message: Message) -> tuple[str, str] | None:
    """The task, in lower case, that an audit message says was completed, and when."""
    try:
        body = records.load(message.body.encode("utf-8"))
    except records.Damaged:
        return None
    is_done = body.get("event") == message.status and body.get("status") == tasks.DONE
    if is_done and body.get("previous_status") != tasks.DONE and isinstance(body.get("task_id"), str):
        return body["task_id"].lower(), str(body.get("updated_at") or message.ts)
    return None


# ---- what a whole folder adds, as long as it stays as it is -----------------------------------------------


def _look(folder: disk.Folder) -> list[list[object]]:
    """What is another one when a file comes, goes or is replaced: each folder's time and inode, and its names."""
    return [[where, *_look_at(inner)] for where, inner in _folders(folder)]


def _look_at(folder: disk.Folder) -> tuple[int, int, int, int]:
    changed, inode, _ = folder.stamp()
    listed = sorted(name for name in folder.names() if name[0].isdigit())
    return changed, inode, len(listed), binascii.crc32("/".join(listed).encode("utf-8", "surrogatepass"))


def _stamps(folder: disk.Folder, listed: Iterable[str]) -> list[list[object]]:
    """Name, size, times and inode of some files. OSError."""
    found = ((name, folder.lstat(name)) for name in listed)
    return [[name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino] for name, stat in found]


def _remember(folder: disk.Folder, look: list[list[object]], odd: list[str], points: Points) -> None:
    settled = clock.now() * 1000 - _SETTLED
    if not all(isinstance(changed, int) and changed <= settled for _, changed, *_ in look):
        return  # within one tick of the clock more may come unseen
    try:
        rows = [[point.name, *point.values()] for point in points.found]
        text = _dumped([look, _stamps(folder, odd), points.last, rows])
        with folder.sub(digests.INDEX, create=True) as index:
            index.replace(_WHOLE, f"{_head(text)}\n{text}".encode("ascii"), derived=True)
    except (OSError, AgentChatError):
        pass  # read-only media, or no index: it is gathered again


def _remembered(folder: disk.Folder, look: list[list[object]]) -> Points | None:
    """What was remembered, when the folder still looks like this; None for anything else."""
    try:
        with folder.sub(digests.INDEX) as index:
            head, _, text = index.read(_WHOLE, _LIMIT).decode("ascii").partition("\n")
        if head != _head(text):
            return None
        before, odd, last, rows = records.value(text)
        if before != look or _stamps(folder, [one[0] for one in odd]) != odd or not isinstance(last, int):
            return None
        checked = ((name, _checked(rest)) for name, *rest in rows if _is_message(name))
        found = [Point(name, values) for name, values in checked if values]
    except (OSError, AgentChatError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None
    return Points(last, found) if len(found) == len(rows) else None


def _head(text: str) -> str:
    return f"{binascii.crc32(text.encode('ascii')):08x} {_RULES}"
