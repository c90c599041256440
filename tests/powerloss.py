"""What a power cut leaves: a model of a folder in which only what was synced is sure to be there.

    loss = PowerLoss(root.path)                # what is there now counts as synced
    trace = Trace(); run(root, words, trace=trace) ...
    state = loss.after(trace.events()[:n])     # the cut falls after the n-th event
    state.write(path, random.Random(seed))     # one of the folders that may be found afterwards

Rules, those of POSIX and no kinder file system's: fsync of a file makes its content sure, not its name;
fsync of a folder makes the names in it sure. Of what changed since, each name is found in any one of the
states it had, independently of all others; content that was not synced is whole, cut, empty or the older.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Union


class File:
    def __init__(self, content: bytes = b"") -> None:
        self.content = self.synced = content
        self.is_synced = False

    def found(self, chance: random.Random) -> bytes:
        if self.is_synced:
            return self.content
        cut = self.content[: chance.randint(0, len(self.content))]
        return chance.choice([self.content, cut, b"", self.synced])


class Folder:
    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.states: dict[str, list[Node | None]] = {}  # of each name since the last sync, the synced one first

    def put(self, name: str, node: Node | None) -> None:
        self.states.setdefault(name, [self.entries.get(name)]).append(node)
        if node is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = node

    def sync(self) -> None:
        self.states.clear()

    def found(self, chance: random.Random) -> dict[str, Node]:
        chosen = {name: chance.choice(self.states[name]) for name in sorted(self.states)}
        return {name: node for name, node in {**self.entries, **chosen}.items() if node}

    def write(self, path: Path, chance: random.Random | None = None) -> None:
        """Make this folder at `path`: as it was seen, or with a `chance` one that a power cut leaves."""
        path.mkdir(parents=True)
        for name, node in (self.found(chance) if chance else self.entries).items():
            if isinstance(node, Folder):
                node.write(path / name, chance)
            else:
                (path / name).write_bytes(node.found(chance) if chance else node.content)


Node = Union[File, Folder]


class PowerLoss:
    """The folder `path`, which may be empty, and everything that happens in it from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = {entry: _content(entry) for entry in sorted(path.rglob("*"))}

    def after(self, events: Iterable[list[Any]]) -> Folder:
        """The model after these events of a trace."""
        top = Folder()
        for path, content in self._start.items():
            folder, name = self._place(top, str(path))
            node: Node = Folder() if content is None else File(content)
            if isinstance(node, File):
                node.is_synced = True
            folder.entries[name] = node
        for _, call, *rest in events:
            if call != "fault" and _is_below(rest[0], str(self.path)):
                self._apply(top, call, rest)
        return top

    def _apply(self, top: Folder, call: str, rest: list[Any]) -> None:
        if call == "fsync" and rest[0] == str(self.path):
            return top.sync()
        folder, name = self._place(top, rest[0])
        node = folder.entries.get(name)
        if call == "create":
            if node is None:
                folder.put(name, File())
        elif call == "mkdir":
            folder.put(name, Folder())
        elif call in ("unlink", "rmdir"):
            folder.put(name, None)
        elif call in ("link", "rename", "replace"):
            target, new = self._place(top, rest[1])
            target.put(new, node)
            if call != "link":
                folder.put(name, None)
        elif isinstance(node, Folder):
            node.sync()
        elif node:
            self._change(node, call, rest)
        return None

    def _change(self, file: File, call: str, rest: list[Any]) -> None:
        if call == "fsync":
            file.is_synced, file.synced = True, file.content
            return
        file.is_synced = False
        if call == "write":
            at, data = rest[1], rest[2].encode("latin-1")
            file.content = file.content[:at].ljust(at, b"\0") + data + file.content[at + len(data) :]
        else:
            file.content = file.content[: rest[1]]

    def _place(self, top: Folder, path: str) -> tuple[Folder, str]:
        *above, name = Path(path).relative_to(self.path).parts
        folder = top
        for part in above:
            inner = folder.entries[part]
            assert isinstance(inner, Folder)
            folder = inner
        return folder, name


def _content(path: Path) -> bytes | None:
    return None if path.is_dir() else path.read_bytes()


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top + os.sep)
