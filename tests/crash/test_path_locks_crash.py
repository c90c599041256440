"""A path-lock command dies, or a call of it fails, at its 1st, 2nd, 3rd ... change of the disk: case L10."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, following, journals
from faults import LOOKS, Call, Fault, Outcome, at_each_call, copier, die, fail, lie, run, short, tear
from locked import assert_audited, audits, damaged, lock, lock_expired, make_workspace, records
from scene import assert_sound, message_bytes
from support import Result, Root, make_root

BROKEN = "5" * 32 + ".json"
AUTO = {**QUICK, "AGENT_CHAT_RECOVERY": "auto"}


def words(verb: str, who: str, *more: str) -> list[str]:
    return [verb, "c", *more, "--as", who]


CHANGING: dict[str, list[str]] = {
    "lock": words("lock", "bob", "a", "src/", "*.md", "--ttl", "7777"),
    "unlock": words("unlock", "alice", "docs"),
    "renew-lock": words("renew-lock", "alice", "docs", "--ttl", "7777"),
    "recover": words("recover", "bob", "old.py", "--reason", "r"),
    "recover-damaged": words("recover", "bob", BROKEN, "--reason", "r"),
}
RECOVER = words("recover-pending", "carol")
NEXT = words("lock", "zoe", "next")  # what somebody does afterwards
UNDONE = {"PATH_LOCK_STORAGE_ERROR", "PATH_LOCK_AUDIT_FAILED"}
STANDS = {"", "PATH_LOCK_TRANSACTION_CLEANUP_FAILED", "OUTPUT_FAILED"}
STAYS = {"PATH_LOCK_AUDIT_ROLLBACK_FAILED", "PATH_LOCK_TRANSACTION_CLEANUP_FAILED"}  # the journal
PHASES = ("prepared", "applied", "published")
PASSING = ("lock_id", "expires_at", "locked_at", "updated_at", "previous_expires_at")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With --whole everything, else a sample of what asks for `whole`."""
    is_whole = metafunc.config.getoption("whole")
    if "phase" in metafunc.fixturenames:
        every = [(name, phase) for name in CHANGING for phase in PHASES]
        sample = [("lock", "published"), ("recover", "applied"), ("recover-damaged", "prepared")]
        metafunc.parametrize("name, phase", every if is_whole else sample)
    elif "name" in metafunc.fixturenames and "whole" in metafunc.fixturenames:
        metafunc.parametrize("name", CHANGING if is_whole else ["lock", "recover-damaged"])


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Root]:
    """alice holds docs, dave held old.py; in one of the two a record is damaged."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("sound", "damaged"):
            path = tmp_path_factory.mktemp(kind)
            found[kind] = make_root(path)
            patch.chdir(make_workspace(path))
            lock(found[kind], "docs", "Makefile")
            lock_expired(found[kind], "old.py", who="dave")
    (found["damaged"].folder() / "locks" / BROKEN).write_text("{torn")
    return found


@pytest.fixture(autouse=True)
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make_workspace(tmp_path))


@pytest.fixture
def template(templates: dict[str, Root], name: str) -> Root:
    return templates["damaged" if name == "recover-damaged" else "sound"]


# ---- what must hold -----------------------------------------------------------------------------------------


def state(root: Root) -> tuple[Any, ...]:
    """What the records say without ids and times, so that two runs can be compared, and what was put aside."""
    shown = []
    for data in records(root).values():
        try:
            shown.append(json.dumps({k: bool(v) if k in PASSING else v for k, v in json.loads(data).items()}))
        except ValueError:
            shown.append(data.decode())
    return sorted(shown), [path.read_text() for path in damaged(root)]


def told(root: Root) -> list[str]:
    """The events of the audit messages, those of recoveries left out."""
    return [audit.event for audit in audits(root) if not audit.event.startswith("path.lock.transaction.")]


def recoveries(root: Root) -> list[str]:
    return [audit.event for audit in audits(root) if audit.event.startswith("path.lock.transaction.")]


class Before:
    """A template as it is, and as a command leaves it."""

    def __init__(self, template: Root, after: Root, command: list[str]) -> None:
        self.records, self.messages, self.told = records(template), message_bytes(template), told(template)
        after.ok(*command, **QUICK)
        self.after, self.event = state(after), told(after)[-1]

    def assert_old_or_new(self, root: Root) -> bool:
        """Whether the change took place: wholly, with one audit message, or not at all."""
        assert_sound(root, self.messages)
        is_new = len(told(root)) > len(self.told)
        assert told(root) == [*self.told, *([self.event] if is_new else [])]
        if is_new:
            assert state(root) == self.after
        else:
            assert records(root) == self.records and not damaged(root)
        if BROKEN not in records(root):
            assert_audited(root)
        return is_new


def settle(root: Root) -> Result | None:
    """recover-pending, if something is pending: then the family is closed until somebody says so."""
    if not journals(root):
        return None
    for command in (["check", "c", "free"], NEXT, words("unlock", "alice", "docs")):
        refusal = root.run(*command, **QUICK)
        assert refusal.code == "PATH_LOCK_TRANSACTION_PENDING" and refusal.status == 2, refusal
    listed = root.run("locks", "c")  # as it was before the change, damage too
    assert len(listed.err.splitlines()) == 1 and listed.status == (2 if "PENDING" not in listed.err else 0), listed
    root.ok("task", "list", "c")
    assert following(refusal)[0] == "recover-pending"
    return root.ok(*RECOVER, **QUICK)


def assert_open(root: Root) -> None:
    """The family is open, and nothing is left lying about."""
    if BROKEN in records(root):
        assert root.run(*NEXT, **QUICK).code == "PATH_LOCK_INVALID_RECORD"
        root.ok("recover", "c", BROKEN, "--as", "zoe", "--reason", "r", **QUICK)
    root.ok(*NEXT, **QUICK)
    assert root.run("check", "c", "next").status == 3 and journals(root) == []
    assert "nothing is pending" in root.ok(*RECOVER, **QUICK).out


# ---- deaths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("act", [die, tear])
def test_a_death_leaves_old_or_new_and_at_most_one_recovery_to_do(
    template: Root, tmp_path: Path, name: str, act: Callable[[Call], object]
) -> None:
    copies, command = copier(template, tmp_path), CHANGING[name]
    expected = Before(template, copies(), command)
    seen = set()
    for n, root, outcome in at_each_call(copies, command, act, ["write"] if act is tear else []):
        assert outcome.died == bool(outcome.fired), (n, outcome)
        recovered = settle(root)
        is_new = expected.assert_old_or_new(root)
        assert is_new or not outcome.out, (n, outcome)
        event = f"path.lock.transaction.{'cleaned' if is_new else 'recovered'}"
        assert recoveries(root) == ([event] if recovered else []), (n, outcome)
        assert_open(root)
        seen.add((is_new, bool(recovered)))
    assert seen == {(False, False), (False, True), (True, True), (True, False)}, "every state was met"


def pending(template: Root, tmp_path: Path, name: str, phase: str) -> Root:
    """A root in which a command was interrupted in this phase."""
    copies = copier(template, tmp_path)
    for _, root, _ in at_each_call(copies, CHANGING[name], die):
        found = root.run("check", "c", "free").err
        if f"({phase})" in found:
            return root
    raise AssertionError(f"no death leaves {phase}")


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_death_inside_recover_pending_repeats_nothing(template: Root, tmp_path: Path, name: str, phase: str) -> None:
    crashed = pending(template, tmp_path, name, phase)
    made = tmp_path / "made"
    made.mkdir()
    expected = Before(template, copier(template, made)(), CHANGING[name])
    kept = copier(crashed, tmp_path / "work")()
    for n, root, outcome in at_each_call(copier(kept, made), RECOVER, die):
        assert root.ok(*RECOVER, **QUICK)
        assert expected.assert_old_or_new(root) == (phase == "published"), (n, outcome)
        event = "cleaned" if phase == "published" else "recovered"
        assert recoveries(root) == [f"path.lock.transaction.{event}"], "exactly one"
        assert_open(root)


@pytest.mark.parametrize("name", ["lock", "recover"])
def test_where_recovery_is_automatic_the_next_change_settles_it(template: Root, tmp_path: Path, name: str) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    for n, root, outcome in at_each_call(copies, CHANGING[name], die, environment=AUTO):
        was_pending = bool(journals(root))
        found = root.ok(*words("lock", "alice", "x/y"), **AUTO)
        assert len(found.err.splitlines()) == was_pending, (n, outcome, found)
        root.ok(*words("unlock", "alice", "x/y"), **AUTO)
        is_new = len(told(root)) - 2 > len(expected.told)
        assert state(root) == expected.after if is_new else records(root) == expected.records
        assert_audited(root)


@pytest.mark.parametrize("act", [die, fail(errno.EIO), fail(errno.ENOSPC)], ids=["die", "EIO", "ENOSPC"])
def test_what_no_journal_can_hold_is_at_its_place_or_aside_and_never_gone(
    templates: dict[str, Root], tmp_path: Path, act: Callable[[Call], object]
) -> None:
    """A link in a record's place is renamed: before that the family is closed, after that open."""
    source = copier(templates["sound"], tmp_path)()
    (source.folder() / "locks" / BROKEN).symlink_to("/etc/hostname")
    made = tmp_path / "made"
    made.mkdir()
    for n, root, outcome in at_each_call(copier(source, made), CHANGING["recover-damaged"], act):
        is_there = os.path.lexists(root.folder() / "locks" / BROKEN)
        assert [path.is_symlink() for path in damaged(root)] == [] if is_there else [True], (n, outcome)
        assert not is_there or outcome.died or outcome.status, (n, outcome)
        if outcome.status and not outcome.died and not is_there and outcome.code != "OUTPUT_FAILED":
            assert damaged(root)[0].name in outcome.err or outcome.code in STAYS, (n, outcome)
        settle(root)
        if is_there:
            root.ok(*CHANGING["recover-damaged"], **QUICK)
        assert [path.is_symlink() for path in damaged(root)] == [True]
        assert root.ok("check", "c", "free").out == "available\n"
        assert_open(root)


# ---- failing calls --------------------------------------------------------------------------------------------


def assert_clean(outcome: Outcome, codes: set[str]) -> None:
    """One line with one of these codes, or none when it worked."""
    assert outcome.code in codes and "Traceback" not in outcome.err, outcome
    assert len(outcome.err.splitlines()) == bool(outcome.code), outcome
    assert outcome.status == {"": 0, "OUTPUT_FAILED": 1}.get(outcome.code, 2), outcome
    if outcome.code in STAYS:
        assert following(outcome)[0] == "recover-pending"


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_one_failing_call_undoes_the_change_or_lets_it_stand(
    template: Root, tmp_path: Path, name: str, number: int
) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    for _, root, outcome in at_each_call(copies, CHANGING[name], fail(number)):
        assert_clean(outcome, UNDONE | STANDS | STAYS)
        assert bool(journals(root)) == (outcome.code in STAYS), outcome
        recovered = settle(root)
        assert expected.assert_old_or_new(root) == (outcome.code in STANDS), outcome
        assert len(recoveries(root)) == bool(recovered)
        if outcome.fired.startswith("link "):
            assert outcome.code == "PATH_LOCK_AUDIT_FAILED", outcome
        assert_open(root)


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
        assert expected.assert_old_or_new(root) or outcome.code not in STANDS, outcome
        assert_open(root)
        if not outcome.fired:
            break
    assert {"PATH_LOCK_STORAGE_ERROR", *STAYS} <= codes


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_a_look_that_fails_changes_nothing_or_what_it_says(template: Root, tmp_path: Path, name: str) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    for _, root, outcome in at_each_call(copies, CHANGING[name], fail(errno.EIO), LOOKS):
        assert outcome.code not in ("INTERNAL_ERROR", "PATH_LOCK_TRANSACTION_PENDING"), outcome
        assert "Traceback" not in outcome.err and outcome.status in (0, 1, 2), outcome
        settle(root)
        if name == "recover-damaged" and not outcome.code:
            continue  # what could not be read was renamed, or the copy was read in vain and is there all the same
        assert expected.assert_old_or_new(root) == (outcome.code in STANDS), outcome


@pytest.mark.parametrize("command", [["check", "c", "docs"], ["locks", "c"]], ids=lambda command: command[0])
def test_a_reader_whose_look_fails_refuses_and_never_says_available(
    templates: dict[str, Root], tmp_path: Path, command: list[str]
) -> None:
    template = templates["sound"]
    for _, root, outcome in at_each_call(copier(template, tmp_path), command, fail(errno.EIO), LOOKS):
        assert outcome.code not in ("INTERNAL_ERROR", "PATH_LOCK_TRANSACTION_PENDING"), outcome
        assert "Traceback" not in outcome.err and "available" not in outcome.out, outcome
        assert records(root) == records(template)
        if outcome.status in (0, 3):
            assert "owner=alice" in outcome.out, outcome


def no_folder_sync(call: Call) -> Any:
    """SMB and 9p say EINVAL."""
    return fail(errno.EINVAL)(call) if os.path.isdir(call.where[0]) else call.go()


LACKING: dict[str, Fault] = {
    "no-hard-links": Fault(fail(errno.EPERM), 1, ["link"], forever=True),
    "link-made-but-EEXIST": Fault(lie(errno.EEXIST), 1, ["link"]),
    "short-writes": Fault(short, 1, ["write"], forever=True),
    "no-sync-of-folders": Fault(no_folder_sync, 1, ["fsync"], forever=True),
}


@pytest.mark.parametrize("fault", LACKING.values(), ids=LACKING)
@pytest.mark.parametrize("name", CHANGING)
def test_what_a_file_system_lacks_is_made_up_for(template: Root, tmp_path: Path, name: str, fault: Fault) -> None:
    copies = copier(template, tmp_path)
    expected = Before(template, copies(), CHANGING[name])
    root = copies()
    assert_clean(run(root, CHANGING[name], fault), {""})
    assert expected.assert_old_or_new(root)
    assert_open(root)


@pytest.mark.parametrize("name", ["lock"])
def test_without_kernel_locks_nothing_changes_and_looking_goes_on(template: Root, tmp_path: Path, name: str) -> None:
    root = copier(template, tmp_path)()
    for command in CHANGING.values():
        assert run(root, command, locks="none").code == "STORAGE_NO_LOCKS"
    assert run(root, ["check", "c", "docs"], locks="none").status == 3
    assert "owner=alice" in run(root, ["locks", "c"], locks="none").out
    assert records(root) == records(template)
