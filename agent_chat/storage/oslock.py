"""A lock over one file, held by the kernel.

For: one writer of a channel, one reading of an agent. Calling sequence: `with hold(folder, name, who):`.
A reader of the lock file sees a note naming the holder; it is a courtesy, never the lock itself.
A death releases the lock: the kernel closes the descriptor. The file is never unlinked.
Not promised: fairness, and anything between two machines that share the folder.

Relies on flock(2) (never lockf or fcntl locks, which a process loses when it closes any descriptor
of the file) and on msvcrt.locking of one byte beyond the note on Windows.

Errors: `Busy` after waiting `seconds` behind the same holder; `NoLocks` where the file system has none.
"""

from __future__ import annotations

import errno
import os
import time

from agent_chat.storage import disk

WINDOWS = disk.WINDOWS
_NOTE_LIMIT = 200  # bytes
_LOCKED_BYTE = 1 << 30  # msvcrt: a locked byte cannot be read by others, and the note must be
_NONE_HERE = frozenset([errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL])


class Busy(Exception):
    """Somebody else holds the lock; `holder` is their note, printable ASCII."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class NoLocks(Exception):
    """This file system has no kernel locks."""


class Lock:
    """A held lock. Leaving the `with` block releases it."""

    __slots__ = ("fd", "time")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.time = os.fstat(fd).st_mtime_ns  # of the note just written: the file system's own now, in ns

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def release(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)


def hold(folder: disk.Folder, name: str, who: str, seconds: float = disk.LOCK_PATIENCE, shared: bool = False) -> Lock:
    """Take the lock; `who` is the note, ASCII. A shared hold of a file that is not there is FileNotFoundError.

    `seconds` behind one holder; a shared hold waits no longer in all, since its taker can do without.
    """
    patience, seen, pause = time.monotonic() + seconds, "", 0.0005
    while True:
        fd = folder.open_lock(name, write=not shared)
        try:
            if _try(fd, shared):
                if _is_still(folder, name, fd):
                    if not shared:
                        disk.overwrite(fd, who.encode("ascii", "replace")[:_NOTE_LIMIT])
                    held, fd = Lock(fd), -1
                    return held
                continue  # the file was replaced between open and lock: start again
            holder = _note(fd)
        finally:
            if fd >= 0:
                os.close(fd)
        if holder != seen and not shared:  # they take turns: only waiting behind one and the same holder is a hang
            patience, seen = time.monotonic() + seconds, holder
        if time.monotonic() >= patience:
            raise Busy(holder)
        time.sleep(pause)
        pause = min(pause * 2, 0.01)


def _try(fd: int, shared: bool) -> bool:
    """Whether the lock could be had at once."""
    try:
        if WINDOWS:
            _lock_byte(fd)
        else:
            import fcntl

            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return False  # EACCES, EDEADLK: what msvcrt says for a held byte
        if error.errno in _NONE_HERE:
            raise NoLocks from None
        raise
    return True


def _lock_byte(fd: int) -> None:
    """Windows has no shared form here: readers of a look exclude each other, for its few milliseconds."""
    import msvcrt

    os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
    msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]


def _is_still(folder: disk.Folder, name: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), folder.lstat(name))
    except FileNotFoundError:
        return False


def _note(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    text = os.read(fd, _NOTE_LIMIT).decode("ascii", "replace")
    return "".join(ch if ch.isprintable() else "?" for ch in text) or "an unnamed process"
