"""One change of records stops before its n-th call, another command runs to its end, the first goes on: every pair.

Whatever the order, the answers and the records are those of one after the other, and nobody who only
looks sees the middle, waits for long, or is told of a crash that did not happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, assert_agree, assert_audited, journals, make, records
from faults import Child, Fault, copier, pause, run
from records_scene import CHANGING, LOOKING, assert_open, board, recoveries, task, timeless, told
from scene import assert_sound, message_bytes
from support import Result, Root

PATIENCE = 0.02  # seconds behind the lock of a command that does not go on
BUSY = "TASK_LOCK_TIMEOUT"
STRIDE = 29  # a sample: every 29th call, beginning elsewhere for each pair

# The same by somebody else, so that both want the same thing, and what settles a crash.
SECOND: dict[str, list[str]] = {
    **CHANGING,
    "claim-too": task("claim", "T-1", "eve"),
    "recover-too": task("recover", "T-4", "eve", "--reason", "r"),
    "create-too": task("create", "T-9", "eve", "--title", "t"),
    "next-too": ["task", "next", "c", "--as", "eve"],
    "recover-pending": ["task", "recover-pending", "c", "--as", "eve"],
}
PAIRS = [(first, second) for first in CHANGING for second in SECOND]

State = tuple[dict[str, Any], list[str]]


def state(root: Root) -> State:
    return timeless(records(root)), told(root)


class Serial:
    """What the commands answer and leave when they run one after the other."""

    def __init__(self, template: Root, path: Path) -> None:
        self._copies, self._found = copier(template, path), {}  # type: ignore[var-annotated]

    def run(self, *names: str) -> tuple[tuple[str, ...], State]:
        """The codes, and what is left; a name beginning with `-` is a command that was held up for too long."""
        if names not in self._found:
            root, codes = self._copies(), []
            for name in names:
                codes.append(BUSY if name[0] == "-" else root.run(*SECOND[name], **QUICK).code)
            self._found[names] = (tuple(codes), state(root))
        return self._found[names]

    def allowed(self, first: str, second: str) -> Iterator[tuple[str, str, State]]:
        """(code of the first, code of the second, what is left)"""
        (one, two), after = self.run(first, second)
        yield one, two, after
        (two, one), after = self.run(second, first)
        yield one, two, after
        (one, two), after = self.run(first, "-" + second)
        yield one, two, after


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return board(tmp_path_factory.mktemp("board"))


@pytest.fixture(scope="module")
def serial(template: Root, tmp_path_factory: pytest.TempPathFactory) -> Serial:
    return Serial(template, tmp_path_factory.mktemp("serial"))


def numbers(first: str, second: str, whole: bool) -> Iterator[int]:
    """Before which calls the first one stops; its caller ends the loop."""
    n = 1 if whole else 1 + (list(CHANGING).index(first) * 5 + len(second) * 3) % STRIDE
    while True:
        yield n
        n += 1 if whole else STRIDE


@pytest.mark.slow
@pytest.mark.parametrize("first, second", PAIRS, ids=lambda name: name)
def test_two_changes_are_one_after_the_other(
    template: Root, serial: Serial, tmp_path: Path, first: str, second: str, whole: bool
) -> None:
    copies = copier(template, tmp_path)
    allowed = list(serial.allowed(first, second))
    for n in numbers(first, second, whole):
        root = copies()
        with Child(root, CHANGING[first], Fault(pause, n)) as child:
            is_paused = child.is_paused()
            amid = run(root, SECOND[second], patience=PATIENCE)
            around = child.end()
        assert not around.died and "Traceback" not in around.err + amid.err
        assert (around.code, amid.code, state(root)) in allowed, (around, amid)
        for outcome in (around, amid):
            assert len(outcome.err.splitlines()) == bool(outcome.code), outcome
        assert_sound(root, message_bytes(template))
        assert_agree(root)
        assert_audited(root)
        assert recoveries(root) == [] and journals(root) == []
        if not is_paused:
            assert_open(root)
            return


def shown(result: Result, name: str) -> str:
    return result.out if name in ("list", "show") else ""


@pytest.mark.slow
@pytest.mark.parametrize("is_locked", [True, False], ids=["lock", "no-lock-for-readers"])
@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.parametrize("first", CHANGING)
def test_a_reader_sees_before_or_after(
    template: Root, tmp_path: Path, first: str, name: str, is_locked: bool, whole: bool
) -> None:
    copies, words = copier(template, tmp_path), LOOKING[name]
    before = shown(template.ok(*words, **QUICK), name) if name in ("list", "show") else ""
    for n in numbers(first, name, whole):
        root = copies()
        with Child(root, CHANGING[first], Fault(pause, n)) as child:
            is_paused = child.is_paused()
            amid = run(root, words, patience=PATIENCE if is_locked else 0, locks="real" if is_locked else "none")
            around = child.end()
        assert around.status == 0, around
        after = shown(root.ok(*words, **QUICK), name) if name in ("list", "show") else ""
        assert amid.status in ((0, 4) if name == "wait" else (0,)) and not amid.err, (n, amid, around)
        assert shown(amid, name) in (before, after), (n, amid, around)
        for message in root.messages():
            if message.number > len(message_bytes(template)):
                title = f"title: {message.title}"
                assert amid.out.count(title) <= root.ok("peek", "c", "-n", "99").out.count(title)
        if not is_paused:
            return


def test_two_readers_share_the_lock(template: Root, tmp_path: Path) -> None:
    root = copier(template, tmp_path)()
    with Child(root, LOOKING["list"], Fault(pause, 5, ["open"])) as child:
        assert child.is_paused()
        assert run(root, ["check", "c", "x", "--workspace", str(root.folder())], patience=PATIENCE).status == 0
        assert run(root, LOOKING["show"], patience=PATIENCE).status == 0
        assert child.end().status == 0


def test_a_stopped_holder_is_named_and_gives_nothing_up(template: Root, tmp_path: Path) -> None:
    """Case L3, for records: others wait, then say who holds it; it goes on as if nothing had been."""
    root = copier(template, tmp_path)()
    with Child(root, CHANGING["claim"], Fault(pause, 1, ["link"])) as child:
        assert child.is_paused()
        found = run(root, SECOND["claim-too"], patience=PATIENCE)
        assert found.code == BUSY and f"dave (pid {child.pid})" in found.err
        listed = run(root, LOOKING["list"], patience=PATIENCE)
        assert listed.status == 0 and not listed.err and listed.out == template.ok(*LOOKING["list"]).out
        assert child.end().status == 0
    assert root.ok(*LOOKING["list"]).out != listed.out
    make(root, "T-20")
    assert_audited(root)
