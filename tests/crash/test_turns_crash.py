"""A command of turns, people or the operator dies or fails at its 1st, 2nd, 3rd ... change of the disk."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from board import QUICK, journals
from faults import Trace, at_each_call, copier, die, fail, run
from powerloss import PowerLoss
from scene import assert_sound
from support import Root
from turns_scene import (
    AUTO,
    CHANGING,
    NEXT,
    RECOVER,
    Before,
    assert_counted,
    assert_open,
    choose,
    recoveries,
    settle,
    state,
    templates,
    told,
)

pytest_generate_tests = choose
UNDONE = {"TURN_IO_ERROR", "TURN_AUDIT_FAILED"}
STANDS = {"", "TURN_TRANSACTION_CLEANUP_FAILED", "OUTPUT_FAILED"}
STAYS = {"TURN_AUDIT_ROLLBACK_FAILED", "TURN_TRANSACTION_CLEANUP_FAILED"}  # the journal


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Root]:
    return templates(tmp_path_factory.mktemp("turns"))


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_death_leaves_old_or_new_and_at_most_one_recovery_to_do(
    made: dict[str, Root], tmp_path: Path, name: str
) -> None:
    step = CHANGING[name]
    template = made[step.template]
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), step)
    by_itself = tmp_path / "auto"
    by_itself.mkdir()
    seen = set()
    for n, root, outcome in at_each_call(copies, step.words, die, first=step.first):
        assert outcome.died == bool(outcome.fired), (n, outcome)
        automatic = copier(root, by_itself)()
        recovered = settle(root)
        is_new = expected.assert_old_or_new(root)
        assert is_new or not outcome.out, (n, outcome)
        assert recoveries(root) == ([f"turn.transaction.{'cleaned' if is_new else 'recovered'}"] if recovered else [])
        assert_open(root)

        found = automatic.ok(*NEXT, **AUTO)
        assert len(found.err.splitlines()) == bool(recovered), (n, found)
        assert expected.assert_old_or_new(automatic) == is_new
        assert recoveries(automatic) == recoveries(root)
        seen.add((is_new, bool(recovered)))
    assert seen == {(False, False), (False, True), (True, True), (True, False)}, "every state was met"


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_an_error_is_undone_at_once_or_leaves_the_journal(made: dict[str, Root], tmp_path: Path, name: str) -> None:
    step = CHANGING[name]
    template = made[step.template]
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), step)
    for n, root, outcome in at_each_call(copies, step.words, fail(errno.EIO), first=step.first):
        assert not outcome.died and "Traceback" not in outcome.err, (n, outcome)
        if outcome.status not in (0, 4):
            assert outcome.code in UNDONE | STANDS | STAYS | {"STORAGE_IO_ERROR"}, (n, outcome)
        if journals(root):
            assert outcome.code in STAYS, (n, outcome)
            settle(root)
        is_new = expected.assert_old_or_new(root)
        if outcome.code in UNDONE:
            assert not is_new, (n, outcome)
        assert_open(root)


@pytest.mark.parametrize("name", ["assign", "report"])
def test_a_retry_with_its_request_id_after_a_death_anywhere_is_made_once(
    made: dict[str, Root], tmp_path: Path, name: str
) -> None:
    step = CHANGING[name]
    template = made[step.template]
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), step)
    for n, root, outcome in at_each_call(copies, step.words, die):
        for _ in range(2):
            root.ok(*step.words, **AUTO)
        assert expected.assert_old_or_new(root), (n, outcome)


@pytest.mark.parametrize("name", ["approve", "assign"])
def test_a_death_inside_recover_pending_repeats_nothing(made: dict[str, Root], tmp_path: Path, name: str) -> None:
    step = CHANGING[name]
    template = made[step.template]
    expected = Before(template, copier(template, tmp_path)(), step)
    seen = set()
    for at, crashed, _ in at_each_call(
        copier(template, tmp_path), step.words, die, ["replace", "link"], first=step.first
    ):
        if journals(crashed):
            place = tmp_path / str(at)
            place.mkdir()
            for n, root, _ in at_each_call(copier(crashed, place), RECOVER, die):
                root.ok(*RECOVER, **QUICK)
                seen.add(expected.assert_old_or_new(root))
                assert len(recoveries(root)) == 1, (at, n)
                assert_open(root)
    assert seen == {False, True}, "it died before the link of its message, and after"


@pytest.mark.slow
def test_what_was_answered_outlives_a_power_cut(tmp_path: Path, whole: bool) -> None:
    top = tmp_path / "top"
    root = templates(top / "home")["opened"]
    before, loss, trace = told(root), PowerLoss(top), Trace()
    lines = [
        "turn assign c --as alice --version 1 --title t",
        "join c --as bob --session s-1",
        "turn report c --as bob --version 2 --outcome done",
        "turn assign c --as alice --version 3 --title u",
    ]
    ends = []
    for line in lines:
        assert run(root, line.split(), trace=trace).status == 0
        ends.append(len(trace.events()))
    events, final = trace.events(), told(root)
    trace.close()
    for end in range(0, len(events) + 1, 1 if whole else 5):
        for seed in range(6 if whole else 1):
            place = tmp_path / f"{end}-{seed}"
            loss.after(events[:end]).write(place, random.Random(f"{end}-{seed}"))
            found = Root(place / "home" / "opened" / "root")
            settle(found)
            count = len(told(found)) - len(before)
            answered = sum(end >= one for one in ends)
            assert answered <= count <= answered + 1, (end, seed)
            assert told(found) == final[: len(told(found))]
            assert_sound(found, {})
            assert_counted(found)
            assert_open(found)
    assert state(root)["_turn.json"]["version"] == 4
