"""Block until a folder may have changed, by polling one stat, adaptively.

For: `wait` and what is like it. Calling sequence, again and again: `arm()`, look at the folder,
`sleep(...)`. `arm` comes first, so that a change during the look ends the next sleep at once.

A folder's time is a hint and never proof that nothing changed: it moves in ticks (4 ms on Linux,
2 s on FAT), not at all on some network mounts, and not when a file is only written to. So each
change that woke a sleep is looked at once more after a tick, and fully after 2 s: then the caller
must not believe the folder's time. While nothing changes a full look is due each minute, or each
2 s unless `trusts_times` says that folder times are known to move. Where a look is dear these
come less often: at most a 50th of the time goes into those of 2 s, a 2000th into those of a minute.

Native notices (inotify and the like) are not used: they cost start-up, fail on shared folders, and
polling must be right anyway.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_chat.storage.disk import Folder

FIRST_PAUSE, LATER_PAUSE, FIRST_PHASE = 0.02, 0.05, 1.0  # seconds
BATCH = 0.5  # seconds of polling between two looks at the clock and the parent
TICK = 0.03  # seconds after which a change in the same tick of the folder's clock shows
FULL_LOOK, SELDOM_LOOK = 2.0, 60.0  # seconds
RESTLESS_LOOK = 0.2  # seconds, while a file there is not whole: writing to it moves no folder time
_SHARE, _SELDOM_SHARE = 50, 2000


def time_of(folder: Folder) -> Callable[[], int]:
    """For `Watch`: asks for the time of an open folder, in ns, by one fstat(2) or stat(2) and hardly anything else."""
    fstat, fd, path = os.fstat, folder.fd, folder.path
    if fd is None:
        return lambda: os.stat(path).st_mtime_ns
    return lambda: fstat(fd).st_mtime_ns


class Watch:
    """Polls `stamps`, each a function whose value differs after a change. `pause`: seconds, fixed if given."""

    __slots__ = (
        "_armed",
        "_changed",
        "_is_owed",
        "_looks_from",
        "_pause",
        "_stamp",
        "_started",
        "is_full_look",
        "trusts_times",
    )

    def __init__(self, stamps: Sequence[Callable[[], object]], pause: float | None = None) -> None:
        self._stamp = stamps[0] if len(stamps) == 1 else lambda: [stamp() for stamp in stamps]
        self._pause = pause
        self._armed: object = None
        self._changed, self._is_owed = True, False  # the latter: a full look after a change that woke us
        self.is_full_look = False  # whether the look that is due must not believe the folder's time
        self.trusts_times = False
        self._started = self._looks_from = time.monotonic()

    def arm(self) -> None:
        """Remember the present stamps; to be called before each look."""
        self._looks_from = time.monotonic()
        self._armed = self._stamp()

    def sleep(self, deadline: float, restless: bool, ended: Callable[[], bool]) -> bool:
        """Sleep until another look is due; False at `deadline` (monotonic seconds) or when `ended()`."""
        looked = time.monotonic()
        cost = looked - self._looks_from
        if self.is_full_look:
            self._is_owed = False
        self.is_full_look = not self._changed and not restless
        if self._changed:
            due = looked + TICK
        elif restless:
            due = looked + RESTLESS_LOOK
        elif self._is_owed or not self.trusts_times:
            due = looked + max(FULL_LOOK, cost * _SHARE)
        else:
            due = looked + max(SELDOM_LOOK, cost * _SELDOM_SHARE)
        self._changed = False
        while True:
            now = time.monotonic()
            if now >= deadline or ended():
                return False
            if now >= due:
                return True
            if self._polled(min(deadline, due) - now, self._next_pause(now)):
                self._changed, self._is_owed, self.is_full_look = True, True, False
                return True

    def _polled(self, seconds: float, pause: float) -> bool:
        """Poll for `seconds` or about `BATCH`; whether something changed.

        What runs between two sleeps is most of what an idle waiter costs: keep it this short.
        """
        stamp, armed, sleep = self._stamp, self._armed, time.sleep
        pause = min(pause, seconds)
        for _ in range(max(1, int(min(seconds, BATCH) / pause))):
            sleep(pause)
            if stamp() != armed:
                return True
        return False

    def _next_pause(self, now: float) -> float:
        if self._pause is not None:
            return min(self._pause, FULL_LOOK)  # or the end of the parent would go unnoticed
        return FIRST_PAUSE if now - self._started < FIRST_PHASE else LATER_PAUSE
