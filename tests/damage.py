"""Damage a channel as disks, editors, merges, strangers and crashes do: at random, the same for the same seed."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 10**30, 1.5, 1e308, "", " ", "x", "\x00", "\x1b[0m", "\u202e", "a\nb", "all", "CON"),
    *("../../../etc/passwd", "/etc/passwd", "tasks/../../x", "c:\\x", "x" * 300, "9" * 40, "-5", "nan", "\u0661\u0662"),
    *(
        "2999-01-01T00:00:00.000000+00:00",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-02-30T00:00Z",
    ),
    *([], {}, [None], [[]], ["x", "x"], {"x": 1}, [["a"] * 3] * 3, "T-1", ["T-1", "T-2", "T-3"], "AAAA", "bob"),
]
ODD_TEXTS = [
    *(
        b"",
        b"\n",
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"{}",
        b"[]",
        b"null",
        b"{",
        b'{"a": 1, "a": 2}',
        b"---\n---\n",
    ),
    *(b"-5", b"9" * 40, b"1e9", "\u0661".encode(), b" 12 \n", b"<<<<<<< HEAD\n{}\n=======\n", b"[" * 5000, b"NaN"),
    *(b"---\nfrom: a\nto: all\ntitle: t\n---\nbody\n", b"---\nfrom: a\nto: all\n---\n", b'{"version": 1}'),
]
ODD_NAMES = [
    *(b"0001.md", b"0003-.md", b"0004-a-b (conflicted copy).md", b"0005-a\nb-c.md", b"0006-\xff.md", b"0007-A-b.md"),
    *(b"9999999999-a-b.md", b"0000-a-b.md", b"999999999-a-b.md", b"00000002-a-b.md", b"12-a-b.md", b"0008-a-b.md~"),
    *(
        b"0009-a-b.md.tmp",
        b"tasks/.json",
        b"tasks/a b.json",
        b"tasks/T-1.json.orig",
        b"tasks/t-1.json",
        b"locks/x.json",
    ),
    *(b"claims/x.json", b"claims/T-1.x.y.json", b"claims/\xff.json", b".cursors/\xff.txt", b".cursors/a b.txt"),
    *(
        b".cursors/BOB.txt",
        b".journal/other.json",
        b"requests/R-0.json",
        b".sessions/x.json",
        b"task-\xff.md",
        b"_x.md",
    ),
    *(b"claims/.lease-transaction.json", b"locks/.path-lock-transaction.json", b"archive/0001-1000/0001-a-b.md"),
]
_FOLDERS = "tasks claims locks .cursors .journal .numbers .index .tmp .waiters requests .sessions archive".split()
OTHER_FILES = [
    "_policy.json",
    "_turn.json",
    "state.md",
    ".index/arrivals",
    ".index/stamp",
    ".index/points",
    ".index/state",
    ".index/tasks",
    ".index/locks",
    ".lock",
    ".numbers/0999",
    ".tmp/x",
]


class Damage:
    """Does a few random things to a channel's folder, and tells them in `done`."""

    def __init__(self, folder: Path, seed: int, journals: dict[str, bytes]) -> None:
        self.folder, self.journals = folder, journals
        self.random = random.Random(seed)
        self.done: list[str] = []
        kinds: list[Callable[[], str]] = [
            *(
                [self._flip, self._cut, self._odd_text, self._swap, self._odd_value, self._odd_value, self._odd_header]
                * 2
            ),
            *(self._remove, self._grow, self._special, self._special, self._folder, self._name, self._time, self._copy),
            *(self._pending, self._pending, self._sparse),
        ]
        for _ in range(self.random.randint(1, 6)):
            kind = self.random.choice(kinds)
            try:
                self.done.append(f"{kind.__name__[1:]} {kind()}")
            except (
                OSError,
                ValueError,
                IndexError,
                RecursionError,
            ) as error:  # what it chose has become something else
                self.done.append(f"{kind.__name__[1:]}: {error}")

    # ---- what it may choose --------------------------------------------------------------------------

    def _files(self) -> list[Path]:
        found = ((path, path.lstat()) for path in self.folder.rglob("*"))
        return sorted(path for path, about in found if stat.S_ISREG(about.st_mode) and about.st_size < 2**20)

    def _any(self) -> Path:
        """A file, messages no likelier than records."""
        kinds: dict[Path, list[Path]] = {}
        for path in self._files():
            kinds.setdefault(path.parent, []).append(path)
        kinds.setdefault(self.folder, []).append(self.folder / self.random.choice(OTHER_FILES))
        return self.random.choice(kinds[self.random.choice(sorted(kinds))])

    def _shown(self, path: Path) -> str:
        return os.fsdecode(path.relative_to(self.folder))

    def _write(self, path: Path, data: bytes) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return self._shown(path)

    # ---- what it does --------------------------------------------------------------------------------

    def _flip(self) -> str:
        path = self._any()
        data = bytearray(path.read_bytes())
        for _ in range(self.random.randint(1, 8)):
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        return self._write(path, bytes(data))

    def _cut(self) -> str:
        path = self._any()
        data = path.read_bytes()
        return self._write(path, data[: self.random.randrange(len(data))])

    def _odd_text(self) -> str:
        return self._write(self._any(), self.random.choice(ODD_TEXTS))

    def _grow(self) -> str:
        path = self._any()
        return self._write(path, path.read_bytes() + self.random.choice(ODD_TEXTS) * self.random.randint(1, 3))

    def _swap(self) -> str:
        one, other = self._any(), self._any()
        data = one.read_bytes()
        return f"{self._write(one, other.read_bytes())} {self._write(other, data)}"

    def _copy(self) -> str:
        return self._write(self._any(), self._any().read_bytes())

    def _remove(self) -> str:
        path = self._any()
        path.unlink()
        return self._shown(path)

    def _odd_value(self) -> str:
        """A value, somewhere in a JSON file, is another one, gone, or one too many."""
        path = self.random.choice([path for path in self._files() if path.suffix == ".json"])
        found = json.loads(path.read_bytes())
        place = found
        while isinstance(place, (dict, list)) and place:
            key = self.random.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], (dict, list)) or not place[key] or self.random.random() < 0.4:
                break
            place = place[key]
        else:
            return self._write(path, json.dumps(self.random.choice(ODD_VALUES)).encode())
        what = self.random.randrange(8)
        if what == 0:
            del place[key]
        elif what == 1 and isinstance(place, dict):
            place["more"] = self.random.choice(ODD_VALUES)
        else:
            place[key] = self.random.choice(ODD_VALUES)
        return f"{self._write(path, json.dumps(found).encode())} {key}"

    def _odd_header(self) -> str:
        path = self.random.choice([path for path in self._files() if path.suffix == ".md" and path.name[0].isdigit()])
        lines = path.read_bytes().split(b"\n")
        at = self.random.randrange(min(len(lines), 10))
        odd = str(self.random.choice(ODD_VALUES)).replace("\n", " ").encode("utf-8", "surrogatepass")
        lines[at] = self.random.choice([lines[at].partition(b":")[0] + b": " + odd, b'title: "' + odd, b"---", odd])
        return self._write(path, b"\n".join(lines))

    def _special(self) -> str:
        """Something else lies where a file was."""
        path = self._any()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        what = self.random.choice(
            ["folder", "pipe", "link to a file", "link to itself", "link to a folder", "dangling"]
        )
        if what == "folder":
            path.mkdir()
        elif what == "pipe":
            os.mkfifo(path)
        else:
            targets = {"link to a file": "/etc/hostname", "link to itself": path.name, "link to a folder": "/etc"}
            path.symlink_to(targets.get(what, "nowhere"))
        return f"{self._shown(path)} {what}"

    def _folder(self) -> str:
        """Something else lies where a folder was."""
        name = self.random.choice(_FOLDERS)
        path = self.folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        what = self.random.choice(["file", "link", "pipe", "gone"])
        if what == "file":
            path.write_bytes(b"x")
        elif what == "link":
            path.symlink_to("/etc")
        elif what == "pipe":
            os.mkfifo(path)
        return f"{name} {what}"

    def _name(self) -> str:
        """A copy of something under an odd name."""
        name = os.fsdecode(self.random.choice(ODD_NAMES))
        return self._write(self.folder / name, self._any().read_bytes())

    def _time(self) -> str:
        path, when = self._any(), self.random.choice([0, 1, 2**31, 2**33, -1])
        os.utime(path, (when, when))
        return f"{self._shown(path)} {when}"

    def _pending(self) -> str:
        """A journal that a crash left, its records as before, as after, or some of each."""
        family = self.random.choice(sorted(self.journals))
        entry = json.loads(self.journals[family])
        import base64

        for one in entry.get("records", []):
            image = one[self.random.choice(["before", "after"])]
            path = self.folder / one["path"]
            if image is None:
                path.unlink(missing_ok=True)
            else:
                self._write(path, base64.b64decode(image))
        where = family if "/" in family else f".journal/{family.partition(' ')[0]}.json"
        return self._write(self.folder / where, self.journals[family])

    def _sparse(self) -> str:
        """A file that says it is enormous."""
        path = self._any()
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as file:
            file.truncate(self.random.choice([70 * 1024 * 1024, 2**40]))
        return self._shown(path)


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a folder that is no derived file or lock: what it is, and its bytes."""
    derived = {".index", ".waiters", ".tmp", ".lock", ".numbers"}
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if parts[0] in derived or (parts[0] == ".cursors" and parts[-1].endswith(".lock")):
            continue
        mode = path.lstat().st_mode
        data: object = None
        if stat.S_ISLNK(mode):
            data = os.readlink(path)
        elif stat.S_ISREG(mode):
            size = path.lstat().st_size
            data = size if size > 2**26 else path.read_bytes()
        found[os.fsdecode(path.relative_to(folder))] = (stat.S_IFMT(mode), data)
    return found
