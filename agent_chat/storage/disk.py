"""The one door to the disk.

For: every reading and changing of files below a chat root, from one descriptor per folder.
Calling sequence: `Folder.open(path)` for a channel, `sub(name)` for a folder in it; then `read`,
`names`, `publish`, `replace`, `create_new`, `append`, `move`, `remove`, `sync`.
What a reader may see: whole files only. Temporaries lie in the channel's `.tmp/`.
A death between two steps leaves at most a file in `.tmp/`.
Not promised: that a file replaced without `sync=True` survives a power cut (its older content may
come back), and anything about files that other programs write in place.

Relies on openat(2) with O_NOFOLLOW, linkat(2), renameat(2), fsync(2) of files and folders. Where
the system has no folder descriptors (Windows) paths are joined and links looked for beforehand.

Errors: FileNotFoundError and FileExistsError where a caller is expected to care, other OSErrors as
they come; AgentChatError STORAGE_LINK_REFUSED, STORAGE_NOT_A_FILE, STORAGE_TOO_LARGE.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time

from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MESSAGE_LIMIT = 64 * 1024 * 1024  # bytes; no reading is unbounded
TMP = ".tmp"
WINDOWS = sys.platform == "win32"
HAS_FOLDER_DESCRIPTORS = not WINDOWS and os.open in os.supports_dir_fd
SHARING_PATIENCE = 2.0  # seconds
LOCK_PATIENCE = 10.0  # seconds behind one holder (oslock.py)

durable = True  # False ($AGENT_CHAT_FSYNC=0) leaves syncing to the system

_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_SAFE |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
# Hard links: FAT and exFAT, some network shares and containers have none; Android denies them.
_NO_LINKS = frozenset([errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
_UNFOLLOWED = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}


class NotDurable(OSError):
    """The file is there for every reader, but the last sync failed."""


class Folder:
    """An open folder. `home` is the folder that holds `.tmp/`: the channel's."""

    __slots__ = ("fd", "home", "path")

    def __init__(self, path: str, fd: int | None, home: Folder | None = None) -> None:
        self.path = path
        self.fd = fd
        self.home = home or self

    @classmethod
    def open(cls, path: str, home: Folder | None = None, within: Folder | None = None) -> Folder:
        """Open `path`, or the entry `path` of `within`. FileNotFoundError; STORAGE_LINK_REFUSED, STORAGE_NOT_A_FILE."""
        full = os.path.join(within.path, path) if within else path
        name, at = (path, within.fd) if within and within.fd is not None else (full, None)
        if not HAS_FOLDER_DESCRIPTORS:
            found = os.lstat(full)
            if not stat.S_ISDIR(found.st_mode) or os.path.islink(full):
                raise _unsuitable(full, found.st_mode)
            return cls(full, None, home)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=at)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):  # Linux says ENOTDIR for a link, too
                raise _unsuitable(full, os.lstat(name, dir_fd=at).st_mode) from None
            raise
        return cls(full, fd, home)

    def sub(self, name: str, create: bool = False) -> Folder:
        """The folder `name` (or `name/name`) in this one, made first if asked; no part may be a link."""
        first, _, rest = name.partition("/")
        if rest:
            with self.sub(first, create) as between:
                return between.sub(rest, create)
        try:
            return Folder.open(name, self.home, self)
        except FileNotFoundError:
            if not create:
                raise
        target, at = self._at(name)
        try:
            os.mkdir(target, dir_fd=at)
            self.sync()
        except FileExistsError:
            pass  # another process made it: the goal is reached
        return Folder.open(name, self.home, self)

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _at(self, name: str) -> tuple[str, int | None]:
        """What the system calls take for an entry: a name and the folder's descriptor, or a path."""
        return (name, self.fd) if self.fd is not None else (os.path.join(self.path, name), None)

    # ---- looking ------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Every entry's name, in no order."""
        return os.listdir(self.path if self.fd is None else self.fd)

    def lstat(self, name: str) -> os.stat_result:
        target, at = self._at(name)
        return os.lstat(target, dir_fd=at)

    def exists(self, name: str) -> bool:
        """Whether an entry has this name, whatever it is."""
        try:
            self.lstat(name)
        except FileNotFoundError:
            return False
        return True

    def stamp(self) -> tuple[int, int, int]:
        """What changes when an entry comes or goes: time in ns, inode, links. One fstat(2) or stat(2)."""
        found = os.stat(self.path) if self.fd is None else os.fstat(self.fd)
        return found.st_mtime_ns, found.st_ino, found.st_nlink

    def is_gone(self) -> bool:
        """Whether the path no longer names this folder."""
        try:
            found = os.lstat(self.path)
            return self.fd is not None and not os.path.samestat(found, os.fstat(self.fd))
        except OSError:
            return True

    def read(self, name: str, limit: int = MESSAGE_LIMIT, start: int = 0) -> bytes:
        """The bytes of a regular file, from byte `start` on.

        FileNotFoundError; STORAGE_LINK_REFUSED, STORAGE_NOT_A_FILE, STORAGE_TOO_LARGE above `limit` bytes.
        """
        fd, size = self._open_sized(name, os.O_RDONLY)
        try:
            size -= os.lseek(fd, start, os.SEEK_SET) if start else 0
            if size > limit:
                raise AgentChatError(
                    "STORAGE_TOO_LARGE", f"{self._name(name)} has {size} bytes, at most {limit} are read"
                )
            data = os.read(fd, size + 1)
            while len(data) != size and len(data) < limit:  # it grows, or it is one whose size is not known
                part = os.read(fd, min(limit - len(data), 65536))
                if not part:
                    break
                data += part
            return data[:limit]
        finally:
            os.close(fd)

    def _open(self, name: str, flags: int, mode: int = 0o666) -> int:
        return self._open_sized(name, flags, mode)[0]

    def _open_sized(self, name: str, flags: int, mode: int = 0o666) -> tuple[int, int]:
        """Open a regular file without following a link and without waiting for a pipe's other end; and its size."""
        target, at = self._at(name)
        if WINDOWS and os.path.islink(target):
            raise _unsuitable(self._name(name), stat.S_IFLNK)
        try:
            fd = os.open(target, flags | _SAFE, mode, dir_fd=at)
        except OSError as error:
            # ELOOP: a link; EMLINK and EFTYPE: the same on BSDs; EISDIR, ENXIO: a folder, a pipe, a socket
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO, getattr(errno, "EFTYPE", -1)):
                raise _unsuitable(self._name(name), self.lstat(name).st_mode) from None
            error.filename = self._name(name)  # beside a descriptor the system knows only the last part
            raise
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise _unsuitable(self._name(name), found.st_mode)
        return fd, found.st_size

    def _name(self, name: str) -> str:
        return os.path.join(self.path, name)

    # ---- changing -----------------------------------------------------------------------------

    def publish(self, name: str, data: bytes, mode: int = 0o666) -> None:
        """Make `name` appear whole with these bytes, or not at all; durable when this returns.

        FileExistsError when the name is taken; NotDurable when only the last sync failed. `mode`: less the umask.
        """
        with self.temporary(data, mode=mode) as temporary:
            temporary.link_to(self, name)
            self.sync_published(name)

    def sync_published(self, name: str) -> None:
        """Make a published name durable. NotDurable when that fails."""
        try:
            self.sync()
        except OSError as error:
            raise NotDurable(error.errno, error.strerror, self._name(name)) from None

    def replace(self, name: str, data: bytes, sync: bool = True, derived: bool = False) -> None:
        """Put these bytes in place of the file `name`, atomically. A link is refused, not followed.

        `derived`: it can be made anew, and nothing is synced.
        """
        with self.prepare(name, data, not derived) as temporary:
            temporary.rename_to(self, name)
        if sync and not derived:
            self.sync()

    def prepare(self, name: str, data: bytes, sync: bool = True) -> Temporary:
        """All of `replace` that can fail for want of space or permission; then `rename_to(self, name)`."""
        try:
            mode = self.lstat(name).st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG | 0o666
        if not stat.S_ISREG(mode):
            raise _unsuitable(self._name(name), mode)
        return self.temporary(data, sync, stat.S_IMODE(mode))  # what was private stays so

    def temporary(self, data: bytes, sync: bool = True, mode: int = 0o666) -> Temporary:
        """A whole file in `.tmp/`: all of `publish` and `replace` that can fail for want of space."""
        folder = self.home.sub(TMP, create=True)
        temporary = Temporary(folder, f"{os.getpid()}-{os.urandom(6).hex()}")
        try:
            fd = folder._open(temporary.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                write_all(fd, data)
                if sync:
                    sync_file(fd)
            finally:
                os.close(fd)
        except BaseException:
            temporary.discard()
            raise
        return temporary

    def create_new(self, name: str) -> bool:
        """Make an empty file; False when the name is taken. Exclusive on every file system."""
        target, at = self._at(name)
        try:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o666, dir_fd=at)
        except FileExistsError:
            return False
        os.close(fd)
        return True

    def append(self, name: str, data: bytes) -> None:
        """Add whole lines at the end of a derived file; a torn line left by a crash is closed first."""
        fd = self._open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            if size:
                os.lseek(fd, size - 1, os.SEEK_SET)
                if os.read(fd, 1) != b"\n":
                    data = b"\n" + data
            write_all(fd, data)
        finally:
            os.close(fd)

    def move(self, name: str, new_name: str, into: Folder | None = None) -> None:
        """Rename a regular file; `into` another folder: whatever it is. FileNotFoundError, FileExistsError."""
        mode, target = self.lstat(name).st_mode, into or self
        if not stat.S_ISREG(mode) and not into:
            raise _unsuitable(self._name(name), mode)
        if target.exists(new_name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target._name(new_name))
        (old, old_at), (new, new_at) = self._at(name), target._at(new_name)
        _patient(os.rename, old, new, src_dir_fd=old_at, dst_dir_fd=new_at)

    def remove(self, name: str) -> bool:
        """Remove a file; False when there is none."""
        target, at = self._at(name)
        try:
            _patient(os.unlink, target, dir_fd=at)
        except FileNotFoundError:
            return False
        return True

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        target, at = self._at(name)
        os.rmdir(target, dir_fd=at)

    def sync(self) -> None:
        """Make names that came or went durable."""
        if durable and self.fd is not None:
            try:
                os.fsync(self.fd)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # SMB and 9p cannot sync a folder
                    raise

    def open_lock(self, name: str, write: bool = True) -> int:
        """A descriptor of a lock file, made if `write`; its bytes are only the holder's note."""
        return self._open(name, os.O_RDWR | os.O_CREAT if write else os.O_RDONLY)


class Temporary:
    """A whole, synced file in `.tmp/`, on its way to its name, or any file for `link_to`. `with` discards it."""

    __slots__ = ("folder", "name")

    def __init__(self, folder: Folder, name: str) -> None:
        self.folder = folder
        self.name = name

    def link_to(self, folder: Folder, name: str) -> None:
        """Give it a name in `folder`, exclusively. FileExistsError when the name is taken."""
        (old, old_at), (new, new_at) = self.folder._at(self.name), folder._at(name)
        try:
            os.link(old, new, src_dir_fd=old_at, dst_dir_fd=new_at, **_UNFOLLOWED)
        except FileExistsError:
            # NFS: the link was made, its answer lost, and the repeat found the name taken
            if not os.path.samestat(folder.lstat(name), self.folder.lstat(self.name)):
                raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if folder.exists(name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), folder._name(name)) from None
            _patient(os.rename, old, new, src_dir_fd=old_at, dst_dir_fd=new_at)  # on Windows it excludes, too
            self.name = ""

    def rename_to(self, folder: Folder, name: str) -> None:
        (old, old_at), (new, new_at) = self.folder._at(self.name), folder._at(name)
        _patient(os.replace, old, new, src_dir_fd=old_at, dst_dir_fd=new_at)
        self.name = ""

    def discard(self) -> None:
        try:
            if self.name:
                self.folder.remove(self.name)
        except OSError:
            pass  # swept later; nothing reads .tmp/
        self.folder.close()

    def __enter__(self) -> Temporary:
        return self

    def __exit__(self, *exception: object) -> None:
        self.discard()


def make_folders(path: str, private_below: str = "") -> None:
    """Make a folder and its parents, durably; those below `private_below` (a home) are for its owner alone."""
    parent = os.path.dirname(path)
    if not os.path.isdir(path):
        if parent and parent != path:
            make_folders(parent, private_below)
        home = os.path.join(private_below, "")
        try:
            os.mkdir(path, 0o700 if private_below and path.startswith(home) else 0o777)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
    try:  # also when it was there: whoever made it may have died before this
        with Folder.open(os.path.realpath(parent)) as above:
            above.sync()
    except PermissionError:
        pass  # it may be passed through, not read; its owner made the folder


def write_all(fd: int, data: bytes) -> None:
    """os.write until all is taken: a signal, a pipe or a full disk may take a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def overwrite(fd: int, data: bytes) -> None:
    """Put a new note into a lock file that this process holds."""
    os.lseek(fd, 0, os.SEEK_SET)
    write_all(fd, data)
    os.ftruncate(fd, len(data))


def sync_file(fd: int) -> None:
    if not durable:
        return
    if sys.platform == "darwin":  # fsync(2) leaves the data in the drive's cache there
        import fcntl

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError:
            pass  # not on network volumes: fsync is all there is
    os.fsync(fd)


def _patient(call: Callable[..., None], *names: str, **folders: Any) -> None:
    """Run a call; on Windows again for a while, since virus scanners and indexers open new files."""
    if not WINDOWS:
        return call(*names, **folders)
    deadline = time.monotonic() + SHARING_PATIENCE
    while True:
        try:
            return call(*names)  # no folder descriptors there
        except PermissionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _unsuitable(path: str, mode: int) -> AgentChatError:
    if stat.S_ISLNK(mode):
        return AgentChatError("STORAGE_LINK_REFUSED", f"{path} is a link, and links are not followed", ("doctor",))
    kind = "a folder" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "no regular file"
    return AgentChatError("STORAGE_NOT_A_FILE", f"{path} is {kind}", ("doctor",))
