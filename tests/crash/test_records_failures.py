"""Calls that fail, lie or do half while records change: undone at once, or closed until recovery; never half."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, following, journals, records
from faults import LOOKS, Call, Fault, Outcome, at_each_call, copier, fail, lie, run, short
from records_scene import (
    CHANGING,
    LOOKING,
    Before,
    assert_open,
    board,
    choose,
    left,
    recoveries,
    remove_next,
    settle,
)
from support import Root

pytest_generate_tests = choose


UNDONE = {"TASK_IO_ERROR", "TASK_AUDIT_FAILED", "LEASE_AUDIT_FAILED"}
STANDS = {"", "LEASE_TRANSACTION_CLEANUP_FAILED", "OUTPUT_FAILED"}
STAYS = {"LEASE_AUDIT_ROLLBACK_FAILED", "LEASE_TRANSACTION_CLEANUP_FAILED"}  # the journal
AUDIT = {"task.created": "TASK_AUDIT_FAILED", "task.updated": "TASK_AUDIT_FAILED"}  # else LEASE_AUDIT_FAILED


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return board(tmp_path_factory.mktemp("board"))


def assert_clean(outcome: Outcome, codes: set[str]) -> None:
    """One line with one of these codes, or none when it worked."""
    assert outcome.code in codes and "Traceback" not in outcome.err, outcome
    assert len(outcome.err.splitlines()) == bool(outcome.code), outcome
    assert outcome.status == {"": 0, "OUTPUT_FAILED": 1}.get(outcome.code, 2), outcome
    if outcome.code in STAYS:
        assert following(outcome)[:2] == ["task", "recover-pending"]


def assert_told_the_truth(root: Root, expected: Before, outcome: Outcome) -> None:
    """What the answer says is what the folder holds, before and after somebody settles it."""
    assert_clean(outcome, UNDONE | STANDS | STAYS)
    assert bool(journals(root)) == (outcome.code in STAYS), outcome
    if outcome.code in UNDONE:
        assert records(root) == expected.records, outcome
    recovered = settle(root)
    remove_next(root)
    is_new = expected.assert_old_or_new(root)
    assert is_new == (outcome.code in STANDS), outcome
    assert len(recoveries(root)) == bool(recovered) == (outcome.code in STAYS), outcome
    assert_open(root)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_one_failing_call_undoes_the_change_or_lets_it_stand(
    template: Root, tmp_path: Path, name: str, number: int
) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    for _, root, outcome in at_each_call(copies, CHANGING[name], fail(number)):
        assert_told_the_truth(root, expected, outcome)
        if outcome.fired.startswith("link "):
            assert outcome.code == AUDIT.get(expected.event, "LEASE_AUDIT_FAILED"), outcome
        elif outcome.fired.startswith(("rename", "replace", "write")) and "stdout" not in outcome.fired:
            # the arrival index may fail: then it stands, which was looked at above
            assert outcome.code in UNDONE or outcome.status == 0, outcome


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_disk_that_fails_from_some_call_on_leaves_nothing_half_without_a_journal(
    template: Root, tmp_path: Path, name: str
) -> None:
    copies, codes = copier(template, tmp_path), set()
    expected = Before(template, copies(), CHANGING[name])
    for n in range(1, 100):
        root = copies()
        outcome = run(root, CHANGING[name], Fault(fail(errno.EIO), n, forever=True))
        codes.add(outcome.code)
        assert_clean(outcome, UNDONE | STANDS | STAYS)
        settle(root)
        remove_next(root)
        is_new = expected.assert_old_or_new(root)
        assert is_new or outcome.code not in STANDS, outcome
        assert_open(root)
        if not outcome.fired:
            break
    assert {"TASK_IO_ERROR", "LEASE_AUDIT_ROLLBACK_FAILED", "LEASE_TRANSACTION_CLEANUP_FAILED"} <= codes


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_full_disk_changes_nothing(template: Root, tmp_path: Path, name: str) -> None:
    def full(call: Call) -> Any:
        return call.go() if call.where == ["<stdout>"] else fail(errno.ENOSPC)(call)

    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    for n in range(1, 100):
        root = copies()
        outcome = run(root, CHANGING[name], Fault(full, n, ["create", "write", "mkdir", "link"], forever=True))
        assert_clean(outcome, UNDONE | STAYS | {""})
        settle(root)
        remove_next(root)
        assert expected.assert_old_or_new(root) == (not outcome.code), outcome
        if not outcome.fired:
            return


@pytest.mark.parametrize("name", ["recover"])
def test_a_look_that_fails_changes_nothing_or_what_it_says(template: Root, tmp_path: Path, name: str) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    for _, root, outcome in at_each_call(copies, CHANGING[name], fail(errno.EIO), LOOKS):
        assert outcome.code not in ("INTERNAL_ERROR", "LEASE_TRANSACTION_PENDING"), outcome
        assert "Traceback" not in outcome.err and outcome.status in (0, 1, 2), outcome
        settle(root)
        remove_next(root)
        is_new = expected.assert_old_or_new(root)
        assert is_new == (outcome.code in STANDS), outcome
        assert_open(root)


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_reader_survives_a_look_that_fails(template: Root, tmp_path: Path, looking: str) -> None:
    before = records(template)
    for _, root, outcome in at_each_call(copier(template, tmp_path), LOOKING[looking], fail(errno.EIO), LOOKS):
        assert outcome.code != "INTERNAL_ERROR" and "Traceback" not in outcome.err, outcome
        assert "PENDING" not in outcome.err and records(root) == before


def no_folder_sync(call: Call) -> Any:
    """SMB and 9p say EINVAL."""
    return fail(errno.EINVAL)(call) if os.path.isdir(call.where[0]) else call.go()


LACKING: dict[str, Fault] = {
    "no-hard-links": Fault(fail(errno.EPERM), 1, ["link"], forever=True),
    "link-made-but-EEXIST": Fault(lie(errno.EEXIST), 1, ["link"]),
    "link-made-but-EIO": Fault(lie(errno.EIO), 1, ["link"]),
    "short-writes": Fault(short, 1, ["write"], forever=True),
    "no-sync-of-folders": Fault(no_folder_sync, 1, ["fsync"], forever=True),
}


@pytest.mark.parametrize("fault", LACKING.values(), ids=LACKING)
@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_what_a_file_system_lacks_is_made_up_for(template: Root, tmp_path: Path, name: str, fault: Fault) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    root = copies()
    assert_clean(run(root, CHANGING[name], fault), {""})
    assert expected.assert_old_or_new(root)
    assert_open(root)


@pytest.mark.parametrize("name", ["claim", "create"])
def test_a_name_that_another_program_takes_is_passed_by_once(template: Root, tmp_path: Path, name: str) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    for times in (1, 2):
        root = copies()

        def take(call: Call, times: int = times, taken: list[str] = []) -> Any:  # noqa: B006 (a fresh child each)
            if len(taken) < times:
                taken.append(call.where[1])
                with open(call.where[1], "xb") as stranger:
                    stranger.write(b"---\nfrom: git\nto: all\ntitle: t\n---\nx\n")
            return call.go()

        outcome = run(root, CHANGING[name], Fault(take, 1, ["link"], forever=True))
        strangers = [entry for entry in root.names() if b"from: git" in (root.folder() / entry).read_bytes()]
        assert len(strangers) == times
        codes = {""} if times == 1 else UNDONE - {"TASK_IO_ERROR"}
        assert_clean(outcome, codes)
        assert expected.assert_old_or_new(root) == (times == 1)
        assert journals(root) == []
        assert_open(root)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_recovery_that_fails_can_be_repeated(tmp_path: Path, pending: str, number: int) -> None:
    crashed = left(pending, tmp_path / "made")
    for n, root, outcome in at_each_call(copier(crashed.root, tmp_path), crashed.words, fail(number)):
        assert "Traceback" not in outcome.err and len(outcome.err.splitlines()) == bool(outcome.status), outcome
        assert outcome.code in ("", "TASK_IO_ERROR", "OUTPUT_FAILED"), (n, outcome)
        again = root.run(*crashed.words, **QUICK)
        assert again.status == 0 or again.code == "LEASE_TRANSACTION_NOT_FOUND", (n, outcome, again)
        assert records(root) == crashed.wanted and recoveries(root) == [crashed.event], (n, outcome)
        assert_open(root)


def test_an_error_while_it_settles_by_itself_is_an_input_output_error(tmp_path: Path) -> None:
    crashed = left("half", tmp_path / "made")
    words, environment = ["task", "block", "c", "T-1", "--as", "bob"], {"AGENT_CHAT_RECOVERY": "auto"}
    act: Callable[[Call], Any] = fail(errno.ENOSPC)
    for _, root, outcome in at_each_call(copier(crashed.root, tmp_path), words, act, environment=environment):
        lines = [line for line in outcome.err.splitlines() if not line.startswith("agent-chat: settled ")]
        assert len(lines) == bool(outcome.status) and "Traceback" not in outcome.err, outcome
        assert outcome.code in UNDONE | STANDS | STAYS or outcome.status == 0, outcome
        root.run(*words, **environment)
        root.ok(*words, **environment)
        assert recoveries(root)[0] == crashed.event
        assert_open(root)


def test_a_record_that_the_disk_does_not_give_blocks_only_itself(template: Root, tmp_path: Path) -> None:
    def unreadable(call: Call) -> Any:
        return fail(errno.EIO)(call) if call.where[0].endswith("/T-6.json") else call.go()

    fault = Fault(unreadable, 1, ["open"], forever=True)
    root = copier(template, tmp_path)()
    listed = run(root, LOOKING["list"], fault)
    assert listed.status == 2 and "TASK_IO_ERROR" in listed.err and "tasks/T-6.json" in listed.err
    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == ["T-1", "T-2", "T-3", "T-4", "T-5", "T-7"]
    for name in ("claim", "renew", "done", "next", "create", "recover"):
        assert_clean(run(root if name != "next" else copier(template, tmp_path)(), CHANGING[name], fault), {""})
    assert_clean(run(root, CHANGING["release-plain"], fault), {"TASK_IO_ERROR"})
