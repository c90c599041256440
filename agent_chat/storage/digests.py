"""What was made of each record when it was last read, so that an unchanged one need not be opened again.

For: commands that must know something of every record in a folder. Calling sequence: `Digests(folder, where)`,
`journal.read_all(..., digests)`, which gives the digest of a record instead of its bytes where that is known;
`learn` for each whose bytes came and that is sound; `save`. Whoever takes other bytes for a record than those in its
file, as of a journal, tells it to `pass_over` that one.
People edit records in place, so each is stamped by itself: name, size, time of its last change, inode. The time is
ctime, which no tool can set back; on Windows, where that is the time of creation, mtime. What changed less than 2 s
ago is not learned: within one tick of the file system's clock it could change again unseen.
A digest is some printable texts. With it goes a word by which a caller can ask for a part of the digests; what has
none is in every part. Derived: both files can be deleted at any time. Each is replaced whole, so that no lock is
needed for them; where they cannot be written everything is read anew.
Format, all of it for the records in one order. `.index/<where>`: a line with a checksum of what follows, the version,
how many there are, the checksum of the other file, the version of the digests; size, time and inode of each, as native
numbers of 8 bytes; the lines of the names; a form feed; the lines of the words. `.index/<where>.digests`: a line each.
So of thousands that nobody asks for none is read, and each costs hardly more than its stat.
"""

from __future__ import annotations

import binascii
import os
import sys
import time

from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

INDEX = ".index"
_DIGESTS = ".digests"  # what the name of their file ends with
_VERSION = "3"
_NUMBERS = 24  # bytes of a stamp, less its name
_LIMIT = 64 * 1024 * 1024  # bytes
_SETTLED = 2_000_000_000  # ns
_GONE = 8  # the file is written when more than this part of it is of records that are gone
_NEW = 250  # or when as much as this part was learned: to read that again costs a tenth of the writing


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    Lines = list[str]
    Stamp = tuple[int, int, int, str]  # size in bytes, time in ns, inode, name
    Stamps = tuple[list[int], Lines]  # the numbers of all, one after the other, and the names


class Digests:
    """The digests of one folder of records. `words`: only those with one of these words or none are wanted.

    `version`: of what a digest says; what was kept by another one is not believed.
    """

    __slots__ = (
        *("_digests_sum", "_folder", "_kept", "_known", "_learned", "_listed", "_names", "_numbers"),
        *("_unknown", "_version", "_wanted", "_words", "where"),
    )

    def __init__(self, folder: disk.Folder, where: str, words: Container[str] | None = None, version: str = "") -> None:
        self.where = where
        self._version = version
        self._folder = folder
        self._digests_sum = ""
        self._numbers: list[int] = []  # of what is known; of the same records, in the same order:
        self._names = ""  # lines
        self._words: Lines = []
        self._read()
        self._known: list[Stamp] = []  # the same, once that is needed
        self._wanted = self._asked_for(words)
        self._listed: list[Stamps] = []  # what is there
        self._kept = 0  # how many of them are known
        self._learned: dict[Stamp, tuple[str, str]] = {}  # word, digest
        self._unknown: dict[str, Stamp] = {}  # by name, of what may be learned

    def _read(self) -> None:
        """What is known, less the digests; nothing when it is of another version, torn or damaged."""
        try:
            with self._folder.sub(INDEX) as index:
                data = index.read(self.where, _LIMIT)
            view, numbers_at = memoryview(data), data.index(b"\n") + 1
            said, version, count, digests_sum, of_digests = data[: numbers_at - 1].decode("ascii").split(" ", 4)
            of_records = int(count)
            names_at = numbers_at + _NUMBERS * of_records
            if (version, of_digests) == (_VERSION, self._version) and said == _checksum(view[len(said) + 1 :]):
                names, words = str(view[names_at:], "utf-8").split("\f")
                lines = words.split("\n")[:of_records]
                if len(lines) == of_records and names.count("\n") == max(of_records, 1) - 1:
                    self._numbers = view[numbers_at:names_at].cast("Q").tolist()
                    self._names, self._words, self._digests_sum = names, lines, digests_sum
        except (OSError, AgentChatError, TypeError, ValueError):
            pass

    def _asked_for(self, words: Container[str] | None) -> dict[int, str]:
        """The digests that are wanted, by where they lie."""
        wanted = [at for at, word in enumerate(self._words) if words is None or not word or word in words]
        digests = self._digests() if wanted else []
        return {at: digests[at] for at in wanted} if digests else {}

    def _digests(self) -> Lines:
        """Of all that is known; without them, when they were not written with the rest, nothing is."""
        try:
            with self._folder.sub(INDEX) as index:
                data = index.read(self.where + _DIGESTS, _LIMIT)
            lines = data.decode("utf-8").split("\n")
            if _checksum(data) == self._digests_sum and len(lines) == len(self._words):
                return lines
        except (OSError, AgentChatError, ValueError):
            pass
        self._numbers, self._names, self._words = [], "", []
        return []

    def names(self, folder: disk.Folder, is_record: Callable[[str], bool]) -> list[tuple[str, str | None]]:
        """The records in the opened folder by name, each with its digest; None for one that must be read."""
        settled = time.time_ns() - _SETTLED  # by the time before the records are looked at
        numbers, listed = _look(folder)
        self._listed.append((numbers, listed))
        if numbers == self._numbers and "\n".join(listed) == self._names:  # nothing changed, not even their order
            self._kept += len(self._words)
            return sorted((listed[at], digest) for at, digest in self._wanted.items())
        if not self._known:
            self._known = list(_stamps(self._numbers, self._names.split("\n")))
        here = set(_stamps(numbers, listed))
        unknown = here.difference(self._known)
        self._kept += len(here) - len(unknown)
        wanted = ((self._known[at], digest) for at, digest in self._wanted.items())
        found: list[tuple[str, str | None]] = [(stamp[3], digest) for stamp, digest in wanted if stamp in here]
        for stamp in unknown:
            _, changed, _, name = stamp
            if is_record(name):
                found.append((name, None))
                if 0 <= changed < settled:
                    self._unknown[name] = stamp
        return sorted(found)

    def pass_over(self, names: Iterable[str]) -> None:
        """Learn nothing of these: what the caller takes for their bytes is not what `names` looked at."""
        for name in names:
            self._unknown.pop(name, None)

    def learn(self, name: str, digest: Sequence[str], word: str = "") -> None:
        """What was made of a record that `names` did not know; it comes back with tabs between."""
        stamp = self._unknown.get(name)
        if stamp and all(map(str.isprintable, (name, word, *digest))):
            self._learned[stamp] = word, "\t".join(digest)

    def save(self, worth: int = 1) -> None:
        """Write what was learned, when it is of so many records, or when too many that are known are gone."""
        known = len(self._words)
        if len(self._learned) < max(worth, known // _NEW) and known - self._kept <= known // _GONE:
            return
        digests = self._digests()  # first: it may be that nothing is known
        texts = dict(zip(_stamps(self._numbers, self._names.split("\n")), zip(self._words, digests)))
        texts.update(self._learned)
        listed = (stamp for stamps in self._listed for stamp in _stamps(*stamps))
        kept = [stamp for stamp in dict.fromkeys(listed) if stamp in texts]
        lines = "\n".join(texts[stamp][1] for stamp in kept).encode()
        head = f" {_VERSION} {len(kept)} {_checksum(lines)} {self._version}\n".encode("ascii")
        numbers = b"".join(number.to_bytes(8, sys.byteorder) for stamp in kept for number in stamp[:3])
        names, words = "\n".join(stamp[3] for stamp in kept), "\n".join(texts[stamp][0] for stamp in kept)
        data = head + numbers + f"{names}\f{words}".encode()
        try:
            with self._folder.sub(INDEX, create=True) as index:
                index.replace(self.where + _DIGESTS, lines, derived=True)
                index.replace(self.where, _checksum(data[1:]).encode("ascii") + data, derived=True)
        except (OSError, AgentChatError):
            pass  # read-only media, or no index: everything is read anew next time


def _checksum(data: bytes | memoryview) -> str:
    return f"{binascii.crc32(data):08x}"


def _look(folder: disk.Folder) -> Stamps:
    """At everything in the opened folder."""
    numbers: list[int] = []
    names: Lines = []
    is_windows = disk.WINDOWS
    with os.scandir(folder.path if folder.fd is None else folder.fd) as entries:
        for entry in entries:  # thousands, so that each operation counts
            try:
                stat = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            changed = stat.st_mtime_ns if is_windows else stat.st_ctime_ns
            numbers += stat.st_size, changed, stat.st_ino
            names.append(entry.name)
    return numbers, names


def _stamps(numbers: list[int], names: Lines) -> Iterator[Stamp]:
    each = iter(numbers)
    return zip(each, each, each, names)
