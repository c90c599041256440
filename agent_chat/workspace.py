"""The one spelling of a workspace path, and whether two of them can meet (protocol, section 10).

For: locks that two agents spell differently but mean the same, and hints that must stay inside.
Calling sequence: `find(...)` gives the `Workspace`; `entry(typed)` an `Entry`, whose kind and
normalized_path go into the record; `meet(kind, path, entry)` tells whether that of a record and an entry share one.

What an entry covers and how patterns are read: patterns.py. A leading part that exists literally is that name and
no pattern. The rest is matched against normalized paths: in NFC and, where the file system folds case, folded
(there `?` is one of the two letters that `ß` becomes).

Reads the file system, changes nothing, never runs git, and knows neither the environment nor the
working directory: both are arguments. Every refusal is an AgentChatError PATH_LOCK_INVALID_PATH
or PATH_LOCK_PATH_OUTSIDE_WORKSPACE.
"""

from __future__ import annotations

import os
import sys

from agent_chat.errors import AgentChatError
from agent_chat.names import is_device
from agent_chat.patterns import (
    DIRECTORY,
    FILE,
    LEAF,
    PATH_LIMIT,
    PATTERN,
    TOP,
    foldable,
    is_glob,
    is_too_large,
    overlaps,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

INVALID = "PATH_LOCK_INVALID_PATH"
OUTSIDE = "PATH_LOCK_PATH_OUTSIDE_WORKSPACE"


def find(workspace: str | None, env_workspace: str | None, cwd: str, channel_path: str) -> Workspace:
    """`--workspace`, else $AGENT_CHAT_WORKSPACE, else the folder with `.git` at or above `cwd`, else the channel's."""
    given = workspace if workspace is not None else env_workspace or None
    if given is not None:
        if not given or not os.path.isdir(os.path.join(cwd, given)):
            raise _refusal(INVALID, f"the workspace {_shown(given)} is no directory")
        return Workspace(os.path.join(cwd, given), cwd)
    here = os.path.realpath(cwd)
    # A linked worktree and a submodule have a file `.git`. Each is its own top, so that all worktrees
    # of one repository spell their files alike.
    while not os.path.lexists(os.path.join(here, ".git")):
        above = os.path.dirname(here)
        if above == here:
            return Workspace(os.path.join(cwd, channel_path), cwd)
        here = above
    return Workspace(here, cwd)


class Entry:
    """A path as a lock holds it. `display_path` has the same form, in the case that was typed."""

    __slots__ = ("display_path", "kind", "normalized_path")

    def __init__(self, display_path: str, kind: str, normalized_path: str) -> None:
        self.display_path = display_path
        self.kind = kind
        self.normalized_path = normalized_path


class Workspace:
    """A folder that paths are relative to. `platform` and `folds_case` are given only in tests."""

    __slots__ = ("_cwd_parts", "_folds_case", "_paths", "cwd", "platform", "root")

    def __init__(self, root: str, cwd: str, platform: str = sys.platform, folds_case: bool | None = None) -> None:
        if platform == "win32":
            import ntpath

            self._paths: ModuleType = ntpath  # os.path itself on Windows
        else:
            import posixpath

            self._paths = posixpath
        self.platform = platform
        self._folds_case = folds_case
        self.root: str = self._paths.realpath(root)
        self.cwd: str = self._paths.realpath(cwd)
        self._cwd_parts: list[str] | None = self._below_root(self.cwd)

    @property
    def folds_case(self) -> bool:
        """Whether `a` and `A` are one name here; looked up once, and nothing is written for it."""
        if self._folds_case is None:
            self._folds_case = self._probe_case()
        return self._folds_case

    def entry(self, typed: str) -> Entry:
        """The canonical form of `typed`; AgentChatError when it can be none."""
        if not typed or len(typed) > PATH_LIMIT or not _is_text(typed):
            raise _refusal(INVALID, f"{_shown(typed)} is empty, too long or has control characters or broken Unicode")
        text = self._slashed(typed)
        base, parts = self._base_and_parts(typed, text)
        literal = 0  # how many leading parts are names and no patterns
        while literal < len(parts) and not (is_glob(parts[literal]) and not self._has(base, parts[: literal + 1])):
            literal += 1
        if base == self.root and not text.startswith(("/", "./", "../")):
            self._refuse_the_other_folder(typed, parts, literal)
        # Joined at once: by ntpath `C:/a` and `D:` would join to `D:`.
        target = self._paths.realpath(self._paths.join(base, "/".join(parts[:literal])))
        below = self._below_root(target)
        if below is None:
            raise _refusal(OUTSIDE, f"{_shown(typed)} is outside the workspace {self.root}")
        # NFC only now: on Linux the disk may hold the name in the other form, and only as typed.
        display = _composed("/".join(below + parts[literal:])) or TOP
        if display != TOP:
            _check(typed, display.split("/"))
        is_folder = text.endswith("/") or os.path.isdir(target)
        kind = PATTERN if literal < len(parts) else DIRECTORY if is_folder else FILE
        normalized = self.fold(kind, display)
        if is_too_large(kind, normalized):
            raise _refusal(INVALID, f"{_shown(typed)} is longer or has more `*` than a lock may hold")
        return Entry(display, kind, normalized)

    def place(self, path: str) -> Entry | None:
        """Where a file lies that is about to be written: no pattern, whatever its name; None when it is outside."""
        try:
            target = self._paths.realpath(self._paths.normpath(self._paths.join(self.cwd, path)))
        except ValueError:
            return None  # NUL or a lone surrogate: no file has that name
        below = self._below_root(target)
        display = _composed("/".join(below or ())) or TOP
        return None if below is None else Entry(display, LEAF, self.fold(FILE, display))

    def meet(self, kind: str, path: str, entry: Entry) -> bool:
        """Whether a path can be both in an entry of a record, which may be of another system, and in `entry`."""
        held, wanted = (kind, self.fold(kind, path)), (entry.kind, entry.normalized_path)
        if not overlaps(held, wanted):
            return False
        return PATTERN not in (kind, entry.kind) or overlaps(self._as_it_is(*held), self._as_it_is(*wanted))

    def _as_it_is(self, kind: str, path: str) -> tuple[str, str]:
        """A file that is there has nothing below it. Without this `**/*.md` would meet every file."""
        return (LEAF if kind == FILE and os.path.isfile(self._paths.join(self.root, path)) else kind, path)

    def fold(self, kind: str, path: str) -> str:
        """`path`, of an entry or of a record made on another system, in the case of this workspace."""
        if self._folds_case is False:
            return path
        # APFS and ext4 take `ß` for `ss`, NTFS does not: there two names may seem one.
        folded = _composed((foldable(path) if kind == PATTERN else path).casefold())
        return folded if folded != path and self.folds_case else path

    def check_hint(self, typed: str, code: str) -> None:
        """Raise `code` when a file hint is absolute, has a drive or a `..`, or a link takes it outside.

        Told by the rules of every system at once: a task is read on another one than it was written on.
        """
        text = typed.replace("\\", "/")
        leaves = text.startswith("/") or (text[:1].isalpha() and text[1:2] == ":") or ".." in text.split("/")
        if not leaves:
            try:
                target = self._paths.realpath(self._paths.join(self.root, self._slashed(typed)))
                leaves = self._below_root(target) is None
            except ValueError:
                pass  # NUL or a lone surrogate: no file has that name, so no link either
        if leaves:
            raise AgentChatError(code, f"{_shown(typed)} leaves the workspace {self.root}", ("task", "--help"))

    def _slashed(self, text: str) -> str:
        return text.replace("\\", "/") if self.platform == "win32" else text

    def _base_and_parts(self, typed: str, text: str) -> tuple[str, list[str]]:
        """The folder that `typed` starts from, and its parts from there; `text` has only `/`."""
        drive, rest = self._paths.splitdrive(text)
        if text.startswith("/") or (drive and rest.startswith("/")):
            if ".." in rest.split("/"):
                raise _refusal(INVALID, f"{_shown(typed)} has a `..` part")
            # join: on Windows `/x` is on the drive of the workspace.
            return self._paths.join(self.root, drive + "/"), _split(rest)
        parts = _split(text)
        if text.startswith(("./", "../")):
            if self._cwd_parts is None:
                raise _refusal(OUTSIDE, f"{_shown(typed)} starts in {self.cwd}, outside the workspace {self.root}")
            here = list(self._cwd_parts)
            while parts and parts[0] == "..":
                if not here:
                    raise _refusal(OUTSIDE, f"{_shown(typed)} leaves the workspace {self.root}")
                del here[-1], parts[0]
            parts = here + parts
        # Before the disk is asked: Windows opens a device for `con`, a stream for `a:b`.
        _check(typed, parts)
        return self.root, parts

    def _refuse_the_other_folder(self, typed: str, parts: list[str], literal: int) -> None:
        """Refuse a path that only exists below the working directory: it was not meant as it was typed."""
        for some in (parts, parts[:literal]):
            if self._cwd_parts and some and not self._has(self.root, some) and self._has(self.cwd, some):
                here, there = _shown("./" + "/".join(parts)), _shown("/".join(self._cwd_parts + parts))
                raise _refusal(INVALID, f"{_shown(typed)} is not in the workspace: say {here}, which is {there}")

    def _has(self, base: str, parts: list[str]) -> bool:
        return os.path.lexists(self._paths.join(base, "/".join(parts)))

    def _below_root(self, real: str) -> list[str] | None:
        """The parts of a real path below the root; None when it lies outside."""
        parts, top = _split(self._slashed(real)), _split(self._slashed(self.root))
        above, below = parts[: len(top)], parts[len(top) :]
        if above != top and self._compared(above) != self._compared(top):
            return None
        return below

    def _compared(self, parts: list[str]) -> str:
        return self.fold(FILE, _composed("/".join(parts)))

    def _probe_case(self) -> bool:
        """Look for a name that is there in the other case: the system's name says little.

        macOS has volumes that tell case apart, Linux folders that fold it (ext4 +F, WSL's /mnt/c, SMB).
        """
        try:
            with os.scandir(self.root) as entries:
                for entry in entries:
                    name, other = entry.name, entry.name.swapcase()
                    if name.isascii() and name != other:
                        other = self._paths.join(self.root, other)
                        return os.path.lexists(other) and os.path.samestat(os.lstat(entry.path), os.lstat(other))
        except OSError:
            pass  # not listable, or changing just now: what most volumes of this system do
        return self.platform in ("win32", "darwin")


# ---- spelling --------------------------------------------------------------------------------------


def _refusal(code: str, message: str) -> AgentChatError:
    return AgentChatError(code, message, ("check", "--help"))


def _shown(typed: str) -> str:
    return repr(typed if len(typed) <= 200 else typed[:200] + "...")


def _is_text(typed: str) -> bool:
    """No control characters and no lone surrogates (what Python makes of bytes that are not UTF-8)."""
    return not any(char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" for char in typed)


def _check(typed: str, parts: Iterable[str]) -> None:
    """Refuse a part that cannot be a file's name on every system."""
    for part in parts:
        if part[-1] in ". ":
            raise _refusal(INVALID, f"{_shown(typed)} has a part that is `..` or ends in a dot or space")
        if ":" in part or "\\" in part:
            raise _refusal(INVALID, f"{_shown(typed)} has a `:` or a backslash")
        if is_device(part):
            raise _refusal(INVALID, f"{_shown(typed)} has {_shown(part)}, a device of Windows")


def _split(text: str) -> list[str]:
    return [part for part in text.split("/") if part not in ("", ".")]


def _composed(text: str) -> str:
    if text.isascii():
        return text
    from unicodedata import normalize

    return normalize("NFC", text)
