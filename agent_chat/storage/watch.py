"""Block until a folder may have changed, by polling one stat, adaptively.

For: `wait` and what is like it. Calling sequence, again and again: `arm()`, look at the folder,
`sleep(...)`. `arm` comes first, so that a change during the look ends the next sleep at once.

A folder's time is a hint and never proof that nothing changed: it moves in ticks (4 ms on Linux,
2 s on FAT), not at all on some network mounts, and not when a file is only written to. So each
change that woke a sleep is looked at once more after a tick, and whatever the time says a full look
is due every 2 s, or less often where looking is dear: at most a 500th of the time goes into it.

Native notices (inotify and the like) are not used: they cost start-up, fail on shared folders, and
polling must be right anyway.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRST_PAUSE, LATER_PAUSE, FIRST_PHASE = 0.02, 0.05, 1.0  # seconds
TICK = 0.03  # seconds after which a change in the same tick of the folder's clock shows
FULL_LOOK = 2.0  # seconds
RESTLESS_LOOK = 0.2  # seconds, while a file there is not whole: writing to it moves no folder time
_SHARE = 500


class Watch:
    """Polls `stamps`, each a function whose value differs after a change. `pause`: seconds, fixed if given."""

    __slots__ = ("_armed", "_changed", "_looks_from", "_pause", "_stamps", "_started")

    def __init__(self, stamps: Sequence[Callable[[], object]], pause: float | None = None) -> None:
        self._stamps = stamps
        self._pause = pause
        self._armed: list[object] = []
        self._changed = True
        self._started = self._looks_from = time.monotonic()

    def arm(self) -> None:
        """Remember the present stamps; to be called before each look."""
        self._looks_from = time.monotonic()
        self._armed = [stamp() for stamp in self._stamps]

    def sleep(self, deadline: float, restless: bool, ended: Callable[[], bool]) -> bool:
        """Sleep until another look is due; False at `deadline` (monotonic seconds) or when `ended()`."""
        looked = time.monotonic()
        due = looked + max(FULL_LOOK, (looked - self._looks_from) * _SHARE)
        if self._changed:
            due = looked + TICK
        elif restless:
            due = looked + RESTLESS_LOOK
        self._changed = False
        while True:
            now = time.monotonic()
            if now >= deadline or ended():
                return False
            if now >= due:
                return True
            time.sleep(max(0.0, min(self._next_pause(now), deadline - now, due - now)))
            if [stamp() for stamp in self._stamps] != self._armed:
                self._changed = True
                return True

    def _next_pause(self, now: float) -> float:
        if self._pause is not None:
            return min(self._pause, FULL_LOOK)  # or the end of the parent would go unnoticed
        return FIRST_PAUSE if now - self._started < FIRST_PHASE else LATER_PAUSE
