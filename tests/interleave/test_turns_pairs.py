"""A change of turns, people or policies stops before its n-th call, another runs to its end, the first goes on.

Whatever the order, answers and records are those of one after the other, and who only looks sees no middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, journals
from faults import Child, Fault, copier, pause, run
from scene import assert_sound, message_bytes
from support import Root
from turns_scene import CHANGING, Step, assert_counted, assert_open, recoveries, state, templates, told, turn

PATIENCE = 0.02  # seconds behind the lock of a command that does not go on
STRIDE = 17  # a sample: every 17th call, beginning elsewhere for each pair
FIRST = ("report", "return", "approve", "roles", "leave", "policy")
SECOND: dict[str, Step] = {
    **{name: step for name, step in CHANGING.items() if step.template == "assigned"},
    "report-too": Step("assigned", "turn report c --as bob --version 2 --outcome blocked --request-id r-2"),
    "take-too": Step("assigned", "join c --as bob --session s-2"),
}
PAIRS = [(first, second) for first in FIRST for second in SECOND]

State = tuple[dict[str, Any], list[str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return templates(tmp_path_factory.mktemp("turns"))["assigned"]


def left(root: Root) -> State:
    return state(root), told(root)


class Serial:
    """What two commands answer and leave when they run one after the other; `-name` was held up for too long."""

    def __init__(self, template: Root, path: Path) -> None:
        self._copies = copier(template, path)
        self._found: dict[tuple[str, ...], tuple[tuple[str, ...], State]] = {}

    def _run(self, *names: str) -> tuple[tuple[str, ...], State]:
        if names not in self._found:
            root, codes = self._copies(), []
            for name in names:
                codes.append("CHANNEL_BUSY" if name[0] == "-" else SECOND[name].run(root, environment=QUICK).code)
            self._found[names] = (tuple(codes), left(root))
        return self._found[names]

    def allowed(self, first: str, second: str) -> Iterator[tuple[str, str, State]]:
        (one, two), after = self._run(first, second)
        yield one, two, after
        (two, one), after = self._run(second, first)
        yield one, two, after
        (one, two), after = self._run(first, "-" + second)
        yield one, two, after


@pytest.fixture(scope="module")
def serial(template: Root, tmp_path_factory: pytest.TempPathFactory) -> Serial:
    return Serial(template, tmp_path_factory.mktemp("serial"))


@pytest.mark.slow
@pytest.mark.parametrize("first, second", PAIRS, ids=lambda name: name)
def test_two_changes_are_one_after_the_other(
    template: Root, serial: Serial, tmp_path: Path, first: str, second: str, whole: bool
) -> None:
    copies, allowed = copier(template, tmp_path), list(serial.allowed(first, second))
    start, step = (1, 1) if whole else (1 + PAIRS.index((first, second)) * 5 % STRIDE, STRIDE)
    for n in range(start, 200, step):
        root = copies()
        with Child(root, SECOND[first].words, Fault(pause, n), first=SECOND[first].first) as child:
            is_paused = child.is_paused()
            amid = SECOND[second].run(root, patience=PATIENCE)
            around = child.end()
        assert not around.died and "Traceback" not in around.err + amid.err
        assert (around.code, amid.code, left(root)) in allowed, (n, around, amid)
        assert_sound(root, message_bytes(template))
        assert_counted(root)
        assert recoveries(root) == [] and journals(root) == []
        if not is_paused:
            assert_open(root)
            return


@pytest.mark.slow
@pytest.mark.parametrize("first", ["report", "return", "roles"])
def test_whoever_looks_sees_exactly_one_holder_before_or_after(
    template: Root, tmp_path: Path, first: str, whole: bool
) -> None:
    copies = copier(template, tmp_path)
    before = turn(template)
    for n in range(1, 200, 1 if whole else 4):
        root = copies()
        with Child(root, SECOND[first].words, Fault(pause, n), first=SECOND[first].first) as child:
            is_paused = child.is_paused()
            seen = [run(root, ["turn", "show", "c", "--json"], patience=PATIENCE).json["turn"] for _ in range(2)]
            waits = {
                who: run(root, ["turn", "wait", "c", "--as", who, "--timeout", "0"], patience=PATIENCE).status
                for who in ("alice", "bob")
            }
            child.end()
        after = turn(root)
        assert all(one["version"] in (before["version"], after["version"]) for one in seen), n
        assert all(
            one["holder"] == (before if one["version"] == before["version"] else after)["holder"] for one in seen
        )
        assert list(waits.values()).count(0) == 1 or first == "roles", (n, waits)
        if not is_paused:
            return
