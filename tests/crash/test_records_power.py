"""A power cut at any moment of a day's work on tasks: what was answered is there, records and messages agree."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from board import QUICK, assert_agree, assert_audited, journals, records
from faults import Fault, Outcome, Trace, die, run
from powerloss import PowerLoss
from records_scene import CHANGING, RECOVER, assert_open, board, recoveries, remove_next, settle, task, timeless, told
from scene import assert_sound, message_bytes
from support import Root

SEEDS, ALL_SEEDS = 2, 12
STRIDE = 3  # a sample: every third moment
ANSWER = re.compile(r"^(created|updated|claimed|renewed|recovered|released|done|blocked) task", re.MULTILINE)
DAY = [
    CHANGING["claim"],
    task("update", "T-1", "dave", "--title", "x"),
    CHANGING["renew"],
    CHANGING["recover"],
    CHANGING["done"],
    CHANGING["create"],
    CHANGING["release-plain"],
    task("release", "T-1", "dave"),
]


class Day:
    """Commands one after another; amid them one that dies when it has changed its records, and its recovery."""

    def __init__(self, top: Path) -> None:
        (top / "home").mkdir(parents=True)
        self.root = board(top / "home")
        self.before = told(self.root)
        self.loss, self._trace = PowerLoss(top), Trace()
        self._outcomes = [self._run(words) for words in DAY[:4]]
        assert run(self.root, CHANGING["done-plain"], Fault(die, 1, ["link"]), trace=self._trace).died
        self._outcomes += [self._run(words) for words in [RECOVER, *DAY[4:]]]
        assert all(outcome.status == 0 for outcome in self._outcomes), self._outcomes
        self.events = self._trace.events()
        self.told, self.messages = told(self.root), message_bytes(self.root)
        self._trace.close()

    def _run(self, words: list[str]) -> Outcome:
        return run(self.root, words, trace=self._trace)

    def answered(self, end: int) -> int:
        """How many changes had been answered."""
        said = "".join(event[4] for event in self.events[:end] if event[1:3] == ["write", "<stdout>"])
        return len(ANSWER.findall(said))

    def found(self, end: int, seed: int, top: Path) -> Root:
        self.loss.after(self.events[:end]).write(top, random.Random(f"{end}-{seed}"))
        root = Root(top / "home" / "root")
        assert root.path.is_dir()
        return root


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    return Day(tmp_path_factory.mktemp("power") / "top")


@pytest.mark.slow
def test_what_was_answered_outlives_a_power_cut(day: Day, tmp_path: Path, whole: bool) -> None:
    for end in range(0, len(day.events) + 1, 1 if whole else STRIDE):
        for seed in range(ALL_SEEDS if whole else SEEDS):
            root = day.found(end, seed, tmp_path / f"{end}-{seed}")
            was_pending, settled_before = journals(root), recoveries(root)
            settle(root)
            remove_next(root)
            count = len(told(root)) - len(day.before)
            assert day.answered(end) <= count <= day.answered(end) + 1, (end, seed)
            assert told(root) == day.told[: len(told(root))], (end, seed)
            assert_sound(root, {})
            for name, data in message_bytes(root).items():
                assert was_pending or data == day.messages[name], (end, seed, name)
            assert len(recoveries(root)) <= len(settled_before) + bool(was_pending)
            assert_agree(root)
            assert_audited(root)
            assert_open(root)


@pytest.mark.slow
def test_a_power_cut_needs_no_operator_where_the_policy_says_so(day: Day, tmp_path: Path, whole: bool) -> None:
    for end in range(1, len(day.events) + 1, 1 if whole else 4 * STRIDE):
        root = day.found(end, 0, tmp_path / str(end))
        (root.folder() / "_policy.json").write_text('{"recovery": "auto"}')
        root.ok("task", "create", "c", "T-12", "--from", "zed", "--title", "t", **QUICK)
        assert_agree(root)
        assert_audited(root)


def test_the_day_ends_as_if_nothing_had_happened(day: Day, tmp_path: Path) -> None:
    day.loss.after(day.events).write(tmp_path / "model")
    model = Root(tmp_path / "model" / "home" / "root")
    assert records(model) == records(day.root) and told(model) == told(day.root)
    assert recoveries(day.root) == ["lease.transaction.recovered"]
    assert timeless(records(day.root))["tasks/T-1.json"]["status"] == "open"
