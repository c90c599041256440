"""Who is waiting: a held lock, never a heartbeat.

For: whatever blocks on behalf of an agent (`wait`, `watch`, `turn wait`), and whoever wants to know. Calling
sequence: `announce(channels, agent)` before the blocking, `end()` after it; `waiting(channel)` from anywhere.
Each waiter holds an exclusive kernel lock on a file of its own, `.waiters/<name>.<pid>-<random>`. Whoever gets a
shared lock on such a file knows that its holder is gone, and removes it: a crash never leaves a false "online".
A stopped process holds its lock and counts as waiting; the file's note says since when.
Not promised: anything where the file system has no locks, or cannot be written. There nobody seems to wait.
"""

from __future__ import annotations

import os

from agent_chat import channel as channels
from agent_chat import clock, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk, oslock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_chat.channel import Channel

FOLDER = ".waiters"
_TICK = 2_000_000_000  # ns; FAT counts in these
_PATIENCE = 1.0 if disk.WINDOWS else 0.2  # seconds behind a probe of a file that was just made


class Announced:
    """Files that say that an agent waits, until `end`."""

    __slots__ = ("_held", "times_move")

    def __init__(self) -> None:
        self._held: list[tuple[disk.Folder, str, oslock.Lock]] = []
        self.times_move = True  # whether making these files moved the times of their folders

    def add(self, channel: Channel, agent: str) -> None:
        folder = channel.folder.sub(FOLDER, create=True)
        try:
            for name in folder.names():  # what killed waiters of this agent left
                if _agent_of(name).lower() == agent.lower():
                    _holder(folder, name)
            name = f"{agent}.{os.getpid()}-{os.urandom(6).hex()}"
            lock = oslock.hold(folder, name, channels.note(agent), _PATIENCE)
        except BaseException:
            folder.close()
            raise
        self._held.append((folder, name, lock))
        self.times_move &= abs(folder.stamp()[0] - lock.time) <= _TICK

    def end(self) -> None:
        """The waiting is over: take the files away."""
        while self._held:
            folder, name, lock = self._held.pop()
            with folder:
                _remove(folder, name, lock)


def announce(opened: Sequence[Channel], agent: str) -> Announced:
    """Say that `agent` waits in each of these channels. Where that cannot be written it waits unannounced."""
    announced = Announced()
    for channel in opened:
        try:
            announced.add(channel, agent)
        except (OSError, AgentChatError, oslock.Busy, oslock.NoLocks):
            announced.times_move = False  # it is not known
    return announced


def waiting(channel: Channel) -> dict[str, str]:
    """Who waits in a channel, as they spelled themselves, and since when (a timestamp; empty when it is not told)."""
    found: dict[str, str] = {}
    try:
        with channel.folder.sub(FOLDER) as folder:
            for name in sorted(folder.names()):
                agent = _agent_of(name)
                since = _holder(folder, name) if agent else None
                if since is not None and (agent not in found or since < found[agent]):
                    found[agent] = since
    except (OSError, AgentChatError):
        pass  # nobody has waited here yet, or something else is in its place
    return found


def is_waiting(channel: Channel, agent: str) -> bool:
    """Whether somebody waits for this agent in a channel."""
    try:
        with channel.folder.sub(FOLDER) as folder:
            mine = [name for name in folder.names() if _agent_of(name).lower() == agent.lower()]
            return any(_holder(folder, name) is not None for name in mine)
    except (OSError, AgentChatError):
        return False


def ended(channel: Channel) -> int:
    """How many files killed waiters left; they stay."""
    try:
        with channel.folder.sub(FOLDER) as folder:
            mine = [name for name in folder.names() if _agent_of(name)]
            return sum(_holder(folder, name, sweep=False) is None for name in mine)
    except (OSError, AgentChatError):
        return 0


def _agent_of(name: str) -> str:
    """Whose file this is: `<name>.<pid>-<random>`; empty for anything else."""
    agent, _, rest = name.rpartition(".")
    pid, _, random = rest.partition("-")
    is_ours = pid.isascii() and pid.isdigit() and len(random) == 12 and names.is_lock_id(random.rjust(32, "0"))
    return agent if is_ours and names.is_agent(agent) else ""


def _holder(folder: disk.Folder, name: str, sweep: bool = True) -> str | None:
    """Since when its holder waits; None when it has none. `sweep`: then the file is removed."""
    try:
        lock = oslock.hold(folder, name, "", _PATIENCE if disk.WINDOWS else 0, shared=True)
    except oslock.Busy as busy:
        return _since(busy.holder)
    except (OSError, AgentChatError, oslock.NoLocks):
        return None  # gone meanwhile, no regular file, or no locks here
    if sweep:
        _remove(folder, name, lock)
    lock.release()
    return None


def _since(note: str) -> str:
    stamp = note.rpartition(" since ")[2]
    try:
        clock.parse_stamp(stamp)
    except ValueError:
        return ""  # not written yet
    return stamp


def _remove(folder: disk.Folder, name: str, lock: oslock.Lock) -> None:
    """Take a file away while it is locked, so that nobody holds it meanwhile; no name is ever used twice."""
    try:
        if disk.WINDOWS:
            lock.release()  # an open file cannot be removed there, a waiter's own keeps it from this
        folder.remove(name)
    except OSError:
        pass  # read-only media; nobody is held to be waiting for it
    finally:
        lock.release()
