"""What was made of each record when it was last read, so that an unchanged one need not be opened again.

For: commands that must know something of every record in a folder. Calling sequence: `Digests(folder, where)`,
`journal.read_all(..., digests)`, which gives the digest of a record instead of its bytes where that is known;
`learn` for each whose bytes came and that is sound; `save`.
People edit records in place, so each is stamped by itself: name, size, time of its last change, inode. The time is
ctime, which no tool can set back; on Windows, where that is the time of creation, mtime. What changed less than 2 s
ago is not learned: within one tick of the file system's clock it could change again unseen.
A digest is some printable texts. Derived: `.index/<where>` can be deleted at any time. It is replaced whole, so
that no lock is needed for it; where it cannot be written everything is read anew.
"""

from __future__ import annotations

import binascii
import os
import time

from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

INDEX = ".index"
_VERSION = "1"
_LIMIT = 64 * 1024 * 1024  # bytes
_SETTLED = 2_000_000_000  # ns
_SHARE = 8  # the file is written when more than this part of it is of records that are gone


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Digests:
    """The digests of one folder of records. `having`: only those are wanted that hold one of these texts.

    `version`: of what a digest says; what was kept by another one is not believed.
    """

    __slots__ = ("_folder", "_having", "_known", "_learned", "_seen", "_unknown", "_version", "where")

    def __init__(self, folder: disk.Folder, where: str, having: Sequence[str] = ("",), version: str = "") -> None:
        self.where = where
        self._version = version
        self._folder = folder
        self._having = having
        self._known = self._read()
        self._seen: list[str] = []  # keys of unchanged records
        self._learned: dict[str, str] = {}
        self._unknown: dict[str, str] = {}  # name -> key of what may be learned

    def _read(self) -> dict[str, str]:
        try:
            with self._folder.sub(INDEX) as index:
                text = index.read(self.where, _LIMIT).decode("utf-8")
        except (OSError, AgentChatError, UnicodeDecodeError):
            return {}
        head, _, lines = text.partition("\n")
        if head != self._head(lines):
            return {}  # another version, torn or damaged
        return dict([line.split("\t", 1) for line in lines.split("\n")[:-1]])

    def names(self, folder: disk.Folder, is_record: Callable[[str], bool]) -> list[tuple[str, str | None]]:
        """The records in the opened folder by name, each with its digest; None for one that must be read."""
        found: list[tuple[str, str | None]] = []
        known, having, seen, settled = self._known, self._having, self._seen, time.time_ns() - _SETTLED
        is_windows = disk.WINDOWS
        with os.scandir(folder.path if folder.fd is None else folder.fd) as entries:
            for entry in entries:  # thousands: two millionths of a second each
                name = entry.name
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # gone meanwhile
                changed = stat.st_mtime_ns if is_windows else stat.st_ctime_ns
                key = f"{stat.st_size} {changed} {stat.st_ino} {name}"
                digest = known.get(key)
                if digest is not None:
                    seen.append(key)
                    for text in having:
                        if text in digest:
                            found.append((name, digest))
                            break
                elif is_record(name):
                    found.append((name, None))
                    if changed < settled:
                        self._unknown[name] = key
        return sorted(found)

    def learn(self, name: str, digest: Sequence[str]) -> None:
        """What was made of a record that `find` did not know; it comes back with tabs between."""
        key = self._unknown.get(name)
        if key and all(map(str.isprintable, (key, *digest))):
            self._learned[key] = "\t".join(digest)

    def save(self, worth: int = 1) -> None:
        """Write what was learned, when it is of so many records, or when too many that are known are gone."""
        gone = len(self._known) - len(self._seen)
        if len(self._learned) < worth and gone <= len(self._known) // _SHARE:
            return  # whereas one that must be read costs the import of json
        kept = {key: self._known[key] for key in self._seen}
        lines = "".join([f"{key}\t{digest}\n" for key, digest in {**kept, **self._learned}.items()])
        try:
            with self._folder.sub(INDEX, create=True) as index:
                index.replace(self.where, f"{self._head(lines)}\n{lines}".encode(), derived=True)
        except (OSError, AgentChatError):
            pass  # read-only media, or no index: everything is read anew next time

    def _head(self, lines: str) -> str:
        return " ".join(filter(None, [_VERSION, f"{binascii.crc32(lines.encode('utf-8')):08x}", self._version]))
