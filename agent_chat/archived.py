"""Archived messages: what lies in `archive/NNNN-NNNN/`, for every reader.

A folder there is named by the lowest and the highest number in it; whatever its name says, a message's own name rules.
Messages never change, so the headers of archived ones are kept in `.index/archived`, in lines as in arrivals.py: a name
that has none there is opened. The file is derived, and written by `archive` alone. Imported where `archive/` is there.
"""

from __future__ import annotations

from agent_chat import arrivals, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.arrivals import Entry
    from agent_chat.log import Log

_INDEX = "archived"
_LIMIT = 512 * 1024 * 1024  # bytes


def folders(folder: disk.Folder) -> list[tuple[int, int, str]]:
    """(lowest number, highest number, name) of each folder of the archive, in this order; nothing where it is none."""
    try:
        with folder.sub(names.ARCHIVE) as archive:
            ranges = ((*names.archive_range(name), name) for name in archive.names())
            return sorted(one for one in ranges if one[0])
    except (FileNotFoundError, AgentChatError):
        return []


def places(folder: disk.Folder, above: int = 0, upto: int = names.LAST_NUMBER) -> dict[str, str]:
    """The names in the archive that use a number above `above`, up to `upto`, each with its folder's path."""
    found: dict[str, str] = {}
    for low, high, name in folders(folder):
        if high <= above or low > upto:
            continue
        where = f"{names.ARCHIVE}/{name}"
        try:
            with folder.sub(where) as inner:
                found.update((one, where) for one in inner.names() if above < names.claimed_number(one) <= upto)
        except (FileNotFoundError, AgentChatError):
            continue  # a file or a link of this name
    return found


def read(log: Log, name: str) -> bytes:
    """The bytes of an archived message. FileNotFoundError, and what `Folder.read` says."""
    for where in (log.places.get(name), None):
        if where is None:
            number = names.message_number(name)
            where = places(log.folder, number - 1, number).get(name)
        if where is None:
            break
        log.places[name] = where
        try:
            with log.folder.sub(where) as inner:
                return inner.read(name)
        except FileNotFoundError:
            continue
    log.places.pop(name, None)
    raise FileNotFoundError(name)


def entries(log: Log, above: int = 0) -> list[Entry]:
    """The archived messages numbered above `above`, in no order."""
    there = places(log.folder, above)
    if not there:
        return []
    log.places.update(there)
    known, found = headers(log.folder), []
    for name, where in there.items():
        entry = _entry(known[name]) if name in known else None
        if entry is None and names.message_number(name):
            message = log.message(name)
            entry = arrivals.of_message(message) if message else None
        elif entry is None:
            log.note_stray(name, where)
        if entry:
            found.append(entry)
    return found


def _entry(line: bytes) -> Entry | None:
    return arrivals.entry(line) if arrivals.is_sound(line) else None


def requested(log: Log, request_id: str) -> list[Entry]:
    """The archived messages of a request id, and those that nothing is known of."""
    there, known = places(log.folder), headers(log.folder)
    log.places.update(there)
    mark = b"\t%s\t" % request_id.encode("ascii")
    found = [_entry(line) for name, line in known.items() if mark in line and name in there]
    for name in there.keys() - known.keys():
        message = log.message(name) if names.message_number(name) else None
        found.append(arrivals.of_message(message) if message else None)
    return [entry for entry in found if entry]


def last(log: Log, top: int) -> int:
    """`top`, or the highest number of an archived message where that is higher."""
    there = places(log.folder, top)
    log.places.update(there)
    numbered = ((names.message_number(name), name) for name in there)
    for number, name in sorted(numbered, reverse=True):
        if number and log.message(name):
            return number
    return top


def headers(folder: disk.Folder) -> dict[str, bytes]:
    """The lines of the index of the archive, by name, sound or not; without the one that is torn."""
    try:
        with folder.sub(arrivals.INDEX) as index:
            data = index.read(_INDEX, _LIMIT)
    except (FileNotFoundError, AgentChatError):
        return {}
    return {arrivals.name_of(line): line for line in data.split(b"\n")[:-1]}


def write_headers(log: Log) -> None:
    """Put every archived message into the index of the archive; under the channel's lock."""
    there, known = places(log.folder), headers(log.folder)
    log.places.update(there)
    lines = []
    for name in sorted(there):
        line = known.get(name)
        if line is None or not arrivals.is_sound(line):
            message = log.message(name) if names.message_number(name) else None
            line = arrivals.line(message, 0) if message else None
        if line:
            lines.append(line + b"\n")
    with log.folder.sub(arrivals.INDEX, create=True) as index:
        index.replace(_INDEX, b"".join(lines), derived=True)
