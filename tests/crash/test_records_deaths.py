"""A command that changes tasks or leases dies before its 1st, 2nd, 3rd ... change of the disk: case L10."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from board import QUICK, assert_agree, assert_audited, journals, records
from faults import Call, Fault, at_each_call, copier, die, run, tear
from records_scene import (
    AUTO,
    CHANGING,
    LOOKING,
    NEXT,
    RECOVER,
    Before,
    Left,
    assert_open,
    board,
    choose,
    left,
    legacy,
    recoveries,
    remove_next,
    settle,
    timeless,
    told,
)
from support import Root

CREATE = ["task", "create", "c", "T-11", "--from", "yan", "--title", "t"]


pytest_generate_tests = choose


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return board(tmp_path_factory.mktemp("board"))


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("act", [die, tear])
def test_a_death_leaves_old_or_new_and_at_most_one_recovery_to_do(
    template: Root, tmp_path: Path, name: str, act: Callable[[Call], object]
) -> None:
    copies, words = copier(template, tmp_path), CHANGING[name]
    expected = Before(template, copies(), words)
    by_itself = tmp_path / "auto"
    by_itself.mkdir()
    only = ["write"] if act is tear else []  # elsewhere it is the same as `die`
    seen = set()
    for n, root, outcome in at_each_call(copies, words, act, only):
        assert outcome.died == bool(outcome.fired), (n, outcome)
        answered = outcome.out != ""
        listed = root.ok(*LOOKING["list"], **QUICK)
        assert len(listed.err.splitlines()) == bool(journals(root))
        automatic = copier(root, by_itself)()

        recovered = settle(root)
        remove_next(root)
        is_new = expected.assert_old_or_new(root)
        assert is_new or not answered, (n, outcome)
        event = "cleaned" if is_new else "recovered"
        assert recoveries(root) == ([f"lease.transaction.{event}"] if recovered else []), (n, outcome)
        assert_open(root)

        found = automatic.ok(*NEXT, **AUTO)
        assert len(found.err.splitlines()) == bool(recovered), (n, outcome, found)
        remove_next(automatic)
        assert expected.assert_old_or_new(automatic) == is_new
        assert recoveries(automatic) == recoveries(root)
        seen.add((is_new, bool(recovered)))
    assert seen == {(False, False), (False, True), (True, True), (True, False)}, "every state was met"


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_death_inside_recover_pending_repeats_nothing(tmp_path: Path, pending: str) -> None:
    crashed = left(pending, tmp_path / "made")
    copies = copier(crashed.root, tmp_path)
    for n, root, outcome in at_each_call(copies, crashed.words, die):
        again = root.run(*crashed.words, **QUICK)
        assert again.status == 0 or again.code == "LEASE_TRANSACTION_NOT_FOUND", (n, outcome, again)
        assert (again.status == 0) or recoveries(root)
        assert_settled(root, crashed)
        if not outcome.fired:
            assert again.status, "it was done"


def assert_settled(root: Root, crashed: Left) -> None:
    assert records(root) == crashed.wanted
    assert recoveries(root) == [crashed.event], "exactly one recovery message"
    assert told(root).count(crashed.interrupted) == told(crashed.root).count(crashed.interrupted) + (
        crashed.is_published and not crashed.was_published
    )
    assert_agree(root)
    assert_audited(root)
    assert_open(root)


@pytest.mark.parametrize("name", ["prepared", "half", "applied", "published"])
def test_a_death_amid_settling_by_itself_repeats_nothing(tmp_path: Path, name: str) -> None:
    crashed = left(name, tmp_path / "made")
    for _, root, outcome in at_each_call(copier(crashed.root, tmp_path), CREATE, die, environment=AUTO):
        for _ in range(2):  # a death in the change that follows leaves another journal
            root.run(*CREATE, **AUTO)
        assert root.run(*CREATE, **AUTO).code == "TASK_ALREADY_EXISTS", outcome
        assert recoveries(root)[0] == crashed.event and len(recoveries(root)) <= 2
        found = records(root)
        del found["tasks/T-11.json"]
        assert found == crashed.wanted and told(root).count("task.created") == told(crashed.root).count(
            "task.created"
        ) + (1 + (crashed.interrupted == "task.created" and not crashed.was_published))
        assert_audited(root)


def test_a_death_while_a_journal_of_0_7_5_is_settled_repeats_nothing(template: Root, tmp_path: Path) -> None:
    source = copier(template, tmp_path)()
    legacy(source)
    made = tmp_path / "made"
    made.mkdir()
    for _, copy, outcome in at_each_call(copier(source, made), RECOVER, die):
        again = copy.run(*RECOVER, **QUICK)
        assert again.status == 0 or again.code == "LEASE_TRANSACTION_NOT_FOUND", (outcome, again)
        assert records(copy) == records(template) and recoveries(copy) == ["lease.transaction.recovered"]
        assert not (copy.folder() / "claims/.lease-transaction.json").exists()
        assert_open(copy)


def test_a_death_while_a_damaged_journal_is_put_aside_keeps_it(template: Root, tmp_path: Path) -> None:
    source = copier(template, tmp_path)()
    (source.folder() / ".journal").mkdir(exist_ok=True)
    (source.folder() / ".journal/task.json").write_text("{torn")
    made = tmp_path / "made"
    made.mkdir()
    words = [*RECOVER, "--discard-journal", "--reason", "r"]
    for _, root, outcome in at_each_call(copier(source, made), words, die):
        again = root.run(*words, **QUICK)
        assert again.status == 0 or again.code == "LEASE_TRANSACTION_NOT_FOUND", (outcome, again)
        kept = [path.read_text() for path in (root.folder() / ".journal/.damaged").glob("*[0-9]")]
        assert set(kept) == {"{torn"}
        assert_open(root)


def test_the_policy_of_init_needs_no_operator_either(template: Root, tmp_path: Path) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING["claim"])

    def with_policy() -> Root:
        root = copies()
        (root.folder() / "_policy.json").write_text('{"recovery": "auto"}')
        return root

    for n, root, outcome in at_each_call(with_policy, CHANGING["claim"], die):
        root.ok(*NEXT, **QUICK)
        remove_next(root)
        expected.assert_old_or_new(root)
        assert len(recoveries(root)) <= 1, (n, outcome)


def test_a_change_that_dies_again_and_again_is_settled_each_time(template: Root, tmp_path: Path) -> None:
    root = copier(template, tmp_path)()
    at = 1
    while run(root, CHANGING["claim"], Fault(die, at, ["replace", "link", "unlink"]), environment=AUTO).died:
        at += 1
    assert at > 5
    root.run(*CHANGING["claim"], **AUTO)
    assert timeless(records(root))["tasks/T-1.json"]["owner"] == "dave"
    assert told(root).count("lease.claimed") == told(template).count("lease.claimed") + 1
    assert_agree(root)
    assert_audited(root)
