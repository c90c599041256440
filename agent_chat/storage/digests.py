"""What was made of each record when it was last read, so that an unchanged one need not be opened again.

For: commands that must know something of every record in a folder. Calling sequence: `Digests(folder, where)`,
`journal.read_all(..., digests)`, which gives the digest of a record instead of its bytes where that is known;
`learn` for each whose bytes came and that is sound; `save`.
People edit records in place, so each is stamped by itself: name, size, time of its last change, inode. The time is
ctime, which no tool can set back; on Windows, where that is the time of creation, mtime. What changed less than 2 s
ago is not learned: within one tick of the file system's clock it could change again unseen.
A digest is some printable texts. With it goes a word by which a caller can ask for a part of the digests; what has
none is in every part. Derived: `.index/<where>` can be deleted at any time. It is replaced whole, so that no lock is
needed for it; where it cannot be written everything is read anew.
Format: a line with the version and a checksum; then, for all records in one order and with form feeds between, the
lines of their stamps, of their words, of their digests. So of thousands that are not asked for only two are compared.
"""

from __future__ import annotations

import binascii
import os
import time

from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

INDEX = ".index"
_VERSION = "2"
_LIMIT = 64 * 1024 * 1024  # bytes
_SETTLED = 2_000_000_000  # ns
_GONE = 8  # the file is written when more than this part of it is of records that are gone
_NEW = 250  # or when as much as this part was learned: to read that again costs a tenth of the writing


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    Lines = list[str]


class Digests:
    """The digests of one folder of records. `words`: only those with one of these words or none are wanted.

    `version`: of what a digest says; what was kept by another one is not believed.
    """

    __slots__ = (
        *("_digests", "_folder", "_kept", "_known", "_learned", "_listed"),
        *("_unknown", "_version", "_wanted", "_words", "where"),
    )

    def __init__(self, folder: disk.Folder, where: str, words: Container[str] | None = None, version: str = "") -> None:
        self.where = where
        self._version = version
        self._folder = folder
        self._known, self._words, self._digests = self._read()  # of the same records, in the same order
        self._wanted = self._asked_for(words)
        self._listed: Lines = []  # the stamps of what is there
        self._kept = 0  # how many of them are known
        self._learned: dict[str, tuple[str, str]] = {}  # by stamp: word, digest
        self._unknown: dict[str, str] = {}  # name -> stamp of what may be learned

    def _read(self) -> tuple[Lines, Lines, memoryview]:
        """Stamps, words, and all digests as they lie there: these are megabytes, and often none of them is wanted.

        Of so many bytes each copy costs as much as all that is done with the stamps.
        """
        try:
            with self._folder.sub(INDEX) as index:
                data = index.read(self.where, _LIMIT)
            view, stamps_at = memoryview(data), data.index(b"\n") + 1
            words_at = data.index(b"\f", stamps_at) + 1
            digests_at = data.index(b"\f", words_at) + 1
            if data[: stamps_at - 1] == self._head(view[stamps_at:]):
                stamps = str(view[stamps_at : words_at - 1], "utf-8").split("\n")
                words = str(view[words_at : digests_at - 1], "utf-8").split("\n")
                if len(stamps) == len(words) == data.count(b"\n", digests_at) + 1:
                    return stamps, words, view[digests_at:]
        except (OSError, AgentChatError, ValueError):
            pass
        return [], [], memoryview(b"")  # none, or of another version, torn or damaged

    def _asked_for(self, words: Container[str] | None) -> dict[str, str]:
        """The digests that are wanted, by stamp."""
        wanted = [at for at, word in enumerate(self._words) if words is None or not word or word in words]
        digests = self._lines() if wanted else []
        return {self._known[at]: digests[at] for at in wanted}

    def _lines(self) -> Lines:
        return str(self._digests, "utf-8", "replace").split("\n")

    def names(self, folder: disk.Folder, is_record: Callable[[str], bool]) -> list[tuple[str, str | None]]:
        """The records in the opened folder by name, each with its digest; None for one that must be read."""
        settled = time.time_ns() - _SETTLED  # by the time before the records are looked at
        stamps = _stamps(folder)
        unknown: Lines = []
        gone: set[str] = set()
        if stamps != self._known:  # or else nothing changed, not even their order
            known = set(self._known)
            unknown = [stamp for stamp in stamps if stamp not in known]
            gone = known.difference(stamps)
        self._listed += stamps
        self._kept += len(self._known) - len(gone)
        here = self._wanted.keys() - gone
        found: list[tuple[str, str | None]] = [(_name(stamp), self._wanted[stamp]) for stamp in here]
        for stamp in unknown:
            name = _name(stamp)
            if is_record(name):
                found.append((name, None))
                if int(stamp.split(" ", 2)[1]) < settled:
                    self._unknown[name] = stamp
        return sorted(found)

    def learn(self, name: str, digest: Sequence[str], word: str = "") -> None:
        """What was made of a record that `names` did not know; it comes back with tabs between."""
        stamp = self._unknown.get(name)
        if stamp and all(map(str.isprintable, (stamp, word, *digest))):
            self._learned[stamp] = word, "\t".join(digest)

    def save(self, worth: int = 1) -> None:
        """Write what was learned, when it is of so many records, or when too many that are known are gone."""
        known = len(self._known)
        if len(self._learned) < max(worth, known // _NEW) and known - self._kept <= known // _GONE:
            return
        texts = {**dict(zip(self._known, zip(self._words, self._lines()))), **self._learned}
        kept = {stamp: (stamp, *texts[stamp]) for stamp in self._listed if stamp in texts}
        data = "\f".join(map("\n".join, zip(*kept.values()))).encode()
        try:
            with self._folder.sub(INDEX, create=True) as index:
                index.replace(self.where, self._head(data) + b"\n" + data, derived=True)
        except (OSError, AgentChatError):
            pass  # read-only media, or no index: everything is read anew next time

    def _head(self, data: bytes | memoryview) -> bytes:
        return " ".join(filter(None, [_VERSION, f"{binascii.crc32(data):08x}", self._version])).encode()


def _stamps(folder: disk.Folder) -> Lines:
    """`size time inode name` of everything in the opened folder."""
    found = []
    is_windows = disk.WINDOWS
    with os.scandir(folder.path if folder.fd is None else folder.fd) as entries:
        for entry in entries:  # thousands, so that each operation counts
            try:
                stat = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            changed = stat.st_mtime_ns if is_windows else stat.st_ctime_ns
            found.append(f"{stat.st_size} {changed} {stat.st_ino} {entry.name}")
    return found


def _name(stamp: str) -> str:
    return stamp.split(" ", 3)[3]
