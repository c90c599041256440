"""storage/watch.py: sleeping until a folder may have changed. Time is a fake here, so nothing waits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_chat.storage import disk, watch


class Time:
    """A clock that only sleeping moves, and what happens at which moment."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self.plan: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.pauses.append(seconds)
        self.now += max(seconds, 1e-6)
        for entry in [entry for entry in self.plan if entry[0] <= self.now]:
            self.plan.remove(entry)
            entry[1]()

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        self.plan.append((1000.0 + seconds, happens))

    @property
    def passed(self) -> float:
        return self.now - 1000.0


class Stamp:
    def __init__(self) -> None:
        self.value, self.calls = 0, 0

    def __call__(self) -> int:
        self.calls += 1
        return self.value

    def change(self) -> None:
        self.value += 1


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(watch, "time", made)
    return made


def never() -> bool:
    return False


def settled(fake: Time, stamp: Stamp, pause: float | None = None) -> watch.Watch:
    """A watch that has done its first sleeps and is armed."""
    made = watch.Watch([stamp], pause)
    made.arm()
    made.sleep(fake.now + 100, False, never)  # each watch begins with a second look after a tick
    made.arm()
    return made


def test_a_change_ends_the_sleep(fake: Time) -> None:
    stamp = Stamp()
    watcher = settled(fake, stamp)
    began = fake.passed
    fake.at(began + 0.5, stamp.change)
    assert watcher.sleep(fake.now + 100, False, never) is True
    assert fake.passed - began < 0.5 + watch.LATER_PAUSE + 0.001


def test_a_change_during_the_look_ends_the_next_sleep_at_once(fake: Time) -> None:
    stamp = Stamp()
    watcher = settled(fake, stamp)
    stamp.change()  # after arm, before sleep: while the caller looked
    began = fake.passed
    assert watcher.sleep(fake.now + 100, False, never) is True
    assert fake.passed - began <= watch.LATER_PAUSE


def test_each_change_is_looked_at_once_more_after_a_tick(fake: Time) -> None:
    """A second change within the same tick of the folder's clock shows in no stamp."""
    stamp = Stamp()
    watcher = settled(fake, stamp)
    stamp.change()
    watcher.sleep(fake.now + 100, False, never)
    watcher.arm()
    began = fake.passed
    assert watcher.sleep(fake.now + 100, False, never) is True
    assert fake.passed - began <= watch.TICK + 0.001
    watcher.arm()
    began = fake.passed
    assert watcher.sleep(fake.now + 100, False, never) is True
    assert fake.passed - began >= watch.FULL_LOOK, "and then the quiet comes back"


def test_the_very_first_sleep_ends_after_a_tick(fake: Time) -> None:
    watcher = watch.Watch([Stamp()])
    watcher.arm()
    assert watcher.sleep(fake.now + 100, False, never) is True
    assert fake.passed <= watch.TICK + 0.001


@pytest.mark.parametrize("pause", [None, 0.01, 0.7, 60.0])
def test_a_frozen_stamp_is_looked_at_every_two_seconds_all_the_same(fake: Time, pause: float | None) -> None:
    """W6: a folder whose time does not move, on some network mounts."""
    watcher = settled(fake, Stamp(), pause)
    began = fake.passed
    assert watcher.sleep(fake.now + 100, False, never) is True
    assert watch.FULL_LOOK - 0.001 <= fake.passed - began <= watch.FULL_LOOK + 0.01


@pytest.mark.parametrize("trusts_times, least, most", [(False, 4, 6), (True, 190, 210)])
def test_a_dear_look_is_repeated_less_often(fake: Time, trusts_times: bool, least: float, most: float) -> None:
    watcher = settled(fake, Stamp())
    watcher.trusts_times = trusts_times
    watcher.arm()
    fake.now += 0.1  # the look took so long
    began = fake.passed
    watcher.sleep(fake.now + 1000, False, never)
    assert least < fake.passed - began < most


def test_a_full_look_follows_each_change_and_then_one_a_minute_where_times_move(fake: Time) -> None:
    stamp = Stamp()
    watcher = settled(fake, stamp)
    watcher.trusts_times = True
    for pauses in ([watch.SELDOM_LOOK], [watch.FULL_LOOK, watch.SELDOM_LOOK, watch.SELDOM_LOOK]):
        for seconds in pauses:
            began = fake.passed
            assert watcher.sleep(fake.now + 1000, False, never) is True
            assert fake.passed - began == pytest.approx(seconds, abs=0.01) and watcher.is_full_look
            watcher.arm()
        stamp.change()
        assert watcher.sleep(fake.now + 1000, False, never) is True and not watcher.is_full_look
        watcher.arm()
        assert watcher.sleep(fake.now + 1000, False, never) is True and not watcher.is_full_look, "after a tick"
        watcher.arm()


def test_a_restless_folder_is_looked_at_five_times_a_second(fake: Time) -> None:
    watcher = settled(fake, Stamp())
    began = fake.passed
    assert watcher.sleep(fake.now + 100, True, never) is True
    assert fake.passed - began <= watch.RESTLESS_LOOK + 0.001


def test_the_deadline_ends_the_sleep_in_time(fake: Time) -> None:
    watcher = settled(fake, Stamp(), pause=0.7)
    began = fake.passed
    assert watcher.sleep(fake.now + 1.0, False, never) is False
    assert fake.passed - began == pytest.approx(1.0, abs=0.001)
    assert watcher.sleep(fake.now, False, never) is False
    assert watcher.sleep(fake.now - 5, False, never) is False


def test_whatever_ended_is_noticed_within_two_seconds(fake: Time) -> None:
    for pause in (None, 3600.0):
        watcher = settled(fake, Stamp(), pause)
        fake.now += 1.0  # a dear look
        began = fake.passed
        assert watcher.sleep(fake.now + 10_000, False, lambda began=began: fake.passed - began > 0.5) is False
        assert fake.passed - began <= 0.5 + watch.FULL_LOOK + 0.01


def test_the_interval_is_the_pause_between_two_stats(fake: Time) -> None:
    watcher = settled(fake, Stamp(), pause=0.25)
    fake.pauses.clear()
    watcher.sleep(fake.now + 100, False, never)
    assert set(fake.pauses) <= {0.25} | {pause for pause in fake.pauses if pause < 0.25}
    assert len(fake.pauses) <= 9


def test_several_folders_are_watched_at_once(fake: Time) -> None:
    first, second = Stamp(), Stamp()
    watcher = watch.Watch([first, second])
    watcher.arm()
    watcher.sleep(fake.now + 100, False, never)
    watcher.arm()
    second.change()
    began = fake.passed
    assert watcher.sleep(fake.now + 100, False, never) is True
    assert fake.passed - began < 0.1


def test_polling_is_slower_after_the_first_second(fake: Time) -> None:
    watcher = settled(fake, Stamp())
    fake.now += watch.FIRST_PHASE
    fake.pauses.clear()
    watcher.sleep(fake.now + 1, False, never)
    assert len(fake.pauses) <= 21, "at most twenty stats a second"


def test_a_real_folder_wakes_a_real_watch(tmp_path: Path) -> None:
    with disk.Folder.open(str(tmp_path)) as folder:
        watcher = watch.Watch([watch.time_of(folder)])
        watcher.arm()
        watcher.sleep(time.monotonic() + 5, False, never)
        watcher.arm()
        (tmp_path / "x").write_bytes(b"")
        started = time.monotonic()
        assert watcher.sleep(started + 30, False, never) is True
        assert time.monotonic() - started < 1.5
        watcher.sleep(time.monotonic() + 5, False, never)
        watcher.arm()
        os.unlink(tmp_path / "x")
        assert watcher.sleep(time.monotonic() + 30, False, never) is True
