"""Path locks: records, what conflicts, renewing, giving up, recovering; what is audited and whom it concerns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, following, refused, write
from locked import (
    assert_audited,
    audits,
    check,
    file_of,
    held,
    lock,
    lock_expired,
    make_workspace,
    records,
)
from support import FrozenClock, Root, make_root, open_channel

from agent_chat import clock, locking, path_locks
from agent_chat.errors import AgentChatError
from agent_chat.workspace import Workspace

FIELDS = """channel expires_at lock_id locked_at owner paths
    previous_expires_at previous_owner recovery_reason updated_at""".split()
DAY = ["--lease-seconds", "86400"]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_workspace(tmp_path)
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def root(tmp_path: Path, work: Path) -> Root:
    return make_root(tmp_path)


# ---- lock -----------------------------------------------------------------------------------------------


def test_a_record_is_two_space_json_with_exactly_these_keys_in_this_order(root: Root) -> None:
    record = lock(root, "src/", "Makefile", "*.md", seconds=60)
    data = file_of(root, record).read_bytes()
    assert data == json.dumps(record, indent=2, sort_keys=True).encode() + b"\n"
    assert list(json.loads(data)) == FIELDS and len(record["lock_id"]) == 32
    assert [list(one) for one in record["paths"]] == [["display_path", "kind", "normalized_path"]] * 3
    assert [(one["kind"], one["normalized_path"]) for one in record["paths"]] == [
        *(("directory", "src"), ("file", "Makefile"), ("pattern", "*.md"))
    ]
    assert (record["owner"], record["channel"]) == ("alice", "c")
    assert record["previous_owner"] is record["previous_expires_at"] is record["recovery_reason"] is None
    assert record["locked_at"] == record["updated_at"]


def test_an_expiry_is_now_plus_the_duration_exactly(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = FrozenClock(1_800_000_000_123_456)
    monkeypatch.setattr(clock, "now", frozen)
    record = lock(root, "a", seconds=0.000001)
    assert record["expires_at"] == clock.micro_stamp(frozen.instant + 1)
    frozen.instant += 1  # now >= expiry
    refused(root, "PATH_LOCK_RECOVERY_REQUIRED", "lock", "c", "a", "--as", "bob")


@pytest.mark.parametrize(
    "taken, wanted",
    [
        *(("src/a.py", "src/a.py"), ("src/a.py", "src"), ("src", "src/a.py"), ("src/a.py", ".")),
        *(("pkg//x.py", "./pkg/./x.py"), ("pkg/", "pkg"), ("src/**", "src/deep/b.py"), ("*.py", "x.py")),
        *(("src/*.py", "src"), ("src/a.py", "src/?.py"), ("**", "anything"), ("a/*", "*/b"), ("a[0-9]", "a7")),
        *(("caf\u00e9.py", "cafe\u0301.py"), ("link/x.py", "real/x.py"), ("app/[id]/page.tsx", "app/[id]/page.tsx")),
    ],
)
def test_what_could_meet_conflicts_whoever_comes_first(root: Root, work: Path, taken: str, wanted: str) -> None:
    """Cases L11 to L15."""
    (work / "real").mkdir()
    (work / "link").symlink_to("real")
    for first, second in ((taken, wanted), (wanted, taken)):
        record = lock(root, first)
        for who in ("bob", "alice"):
            error = refused(root, "PATH_LOCK_CONFLICT", "lock", "c", "--as", who, "--", second).err
            assert "locked by alice" in error and record["expires_at"] in error
        assert check(root, second).status == 3
        root.ok("unlock", "c", "--as", "alice", "--", first, **QUICK)


@pytest.mark.parametrize(
    "taken, free",
    [
        *(("src/a.py", "src/a.py2"), ("src/a", "src/ab"), ("src/*.py", "docs/a.md"), ("*.py", "src/a.py")),
        *(("app/[id]/page.tsx", "app/i/page.tsx"), ("a?", "abc"), ("src/**/t.py", "docs")),
    ],
)
def test_what_cannot_meet_is_free(root: Root, work: Path, taken: str, free: str) -> None:
    write(work / "app/[id]/page.tsx", "")  # a name that is there is no pattern
    lock(root, taken)
    assert check(root, free).out == "available\n"
    lock(root, free, who="bob")
    assert_audited(root)


def test_several_paths_are_all_or_nothing(root: Root) -> None:
    lock(root, "b")
    before = records(root)
    for wanted in (["a", "b", "c"], ["b", "a"], ["a", "c", "."]):
        refused(root, "PATH_LOCK_CONFLICT", "lock", "c", *wanted, "--as", "bob")
    refused(root, "PATH_LOCK_INVALID_PATH", "lock", "c", "a", "b:c", "--as", "bob")
    assert records(root) == before and check(root, "a", "c").out == "available\n"
    assert len(lock(root, "a", "c", who="bob")["paths"]) == 2


def test_paths_of_one_request_must_not_meet(root: Root) -> None:
    for pair in (["y", "y/z"], ["y", "y"], ["*.py", "a.py"], ["./y", "y//"]):
        error = refused(root, "PATH_LOCK_CONFLICT", "lock", "c", *pair, "--as", "bob").err
        assert "of this request" in error
    assert records(root) == {}


def test_a_conflict_names_an_active_lock_before_an_expired_one(root: Root) -> None:
    lock_expired(root, "a", who="dave")
    lock(root, "b", who="alice")
    assert "alice" in refused(root, "PATH_LOCK_CONFLICT", "lock", "c", "a", "b", "--as", "bob").err


def test_the_command_that_a_conflict_names_runs(root: Root, work: Path) -> None:
    """Case L16. One's own lock is renewed; another's is looked at."""
    lock(root, "-x", "a b")
    for wanted in (["a b"], ["--", "-x"], ["q", "./a b"]):
        words = following(refused(root, "PATH_LOCK_CONFLICT", "lock", "c", "--as", "bob", *wanted))
        assert words[0] == "check" and root.run(*words).status == 3
    words = following(refused(root, "PATH_LOCK_CONFLICT", "lock", "c", "--as", "alice", "a b"))
    assert words[0] == "renew-lock" and "a b" in root.ok(*words, **QUICK).out


def test_it_names_the_workspace_that_was_typed(root: Root, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    there = ["--workspace", str(tmp_path / "other")]
    root.ok("lock", "c", "a", "--as", "alice", *DAY, *there)
    wanted = ["lock", "c", str(tmp_path / "other/a"), "--as", "bob", *there]
    words = following(refused(root, "PATH_LOCK_CONFLICT", *wanted))
    assert root.run(*words).status == 3


def test_channels_know_nothing_of_each_other(root: Root) -> None:
    root.ok("init", "d")
    lock(root, "a")
    assert root.ok("check", "d", "a").out == "available\n"
    root.ok("lock", "d", "a", "--as", "bob")


# ---- unlock, renew, recover -----------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["lock_id", "first", "second", "other spelling"])
def test_a_lock_is_named_by_its_id_or_exactly_one_of_its_paths(root: Root, by: str) -> None:
    record = lock(root, "src/a.py", "docs/**")
    target = {"first": "src/a.py", "second": "docs/**", "other spelling": "./src//a.py"}.get(by, record["lock_id"])
    root.ok("renew-lock", "c", target, "--as", "ALICE", **QUICK)
    root.ok("unlock", "c", target, "--as", "alice", **QUICK)
    assert records(root) == {}
    assert_audited(root)


def test_renewing_keeps_everything_but_the_expiry(root: Root) -> None:
    before = lock(root, "a", seconds=60)
    after = root.ok("renew-lock", "c", "a", "--as", "alice", *DAY, "--json", **QUICK).json["lock"]
    assert after["expires_at"] > before["expires_at"] and after["updated_at"] > before["updated_at"]
    changed = {"expires_at", "updated_at"}
    assert {k: v for k, v in after.items() if k not in changed} == {k: v for k, v in before.items() if k not in changed}
    shorter = root.ok("renew-lock", "c", "a", "--as", "alice", "--ttl", "1", "--json", **QUICK).json["lock"]
    assert shorter["expires_at"] < after["expires_at"]
    assert_audited(root)


def test_one_may_give_up_what_is_expired_but_not_another(root: Root) -> None:
    lock_expired(root, "a")
    refused(root, "PATH_LOCK_OWNER_MISMATCH", "unlock", "c", "a", "--as", "bob")
    root.ok("unlock", "c", "a", "--as", "alice", **QUICK)
    assert records(root) == {}


@pytest.mark.parametrize("who", ["bob", "alice"])
def test_a_recovery_keeps_id_and_paths_and_says_whose_it_was(root: Root, who: str) -> None:
    before = lock_expired(root, "a", "b/**")
    words = ["recover", "c", "b/**", "--as", who, "--reason", " gone home ", *DAY, "--json"]
    after = root.ok(*words, **QUICK).json["lock"]
    assert (after["lock_id"], after["paths"], after["owner"]) == (before["lock_id"], before["paths"], who)
    assert (after["previous_owner"], after["previous_expires_at"]) == ("alice", before["expires_at"])
    assert after["recovery_reason"] == "gone home" and after["locked_at"] == after["updated_at"] > before["expires_at"]
    refused(root, "PATH_LOCK_NOT_STALE", "recover", "c", "a", "--as", "carol", "--reason", "r")
    assert_audited(root)
    body = audits(root)[-1].body
    assert (body["previous_owner"], body["recovery_reason"]) == ("alice", "gone home")
    renewed = root.ok("renew-lock", "c", "a", "--as", who, "--json", **QUICK).json["lock"]
    assert renewed["previous_owner"] == "alice", "where it comes from is kept"


def test_nothing_expired_is_ever_taken_silently(root: Root) -> None:
    lock_expired(root, "a")
    for who in ("bob", "alice"):
        words = following(refused(root, "PATH_LOCK_RECOVERY_REQUIRED", "lock", "c", "a", "--as", who))
        assert words[0] == "recover" and words[words.index("--as") + 1] == who
    refused(root, "PATH_LOCK_RECOVERY_REQUIRED", "renew-lock", "c", "a", "--as", "alice")
    root.ok(*words, **QUICK)
    assert held(root)[0]["owner"] == "alice"


@pytest.mark.parametrize("back, is_free", [(4 * 60, False), (6 * 60, True), (24 * 3600, True)])
def test_a_clock_set_back_locks_nobody_out_for_ever(
    root: Root, monkeypatch: pytest.MonkeyPatch, back: int, is_free: bool
) -> None:
    """Case L7: what claims to be of more than five minutes ahead of now counts as expired."""
    frozen = FrozenClock()
    monkeypatch.setattr(clock, "now", frozen)
    record = lock(root, "a", seconds=3600)
    frozen.pass_seconds(-back)
    assert check(root, "a").out.rstrip().endswith(" expired") == is_free
    if is_free:
        error = refused(root, "PATH_LOCK_RECOVERY_REQUIRED", "lock", "c", "a", "--as", "bob")
        assert "clock ahead" in error.err
        root.ok(*following(error), **QUICK)
    else:
        refused(root, "PATH_LOCK_CONFLICT", "lock", "c", "a", "--as", "bob")
        frozen.instant = clock.parse_stamp(record["expires_at"])
        refused(root, "PATH_LOCK_RECOVERY_REQUIRED", "lock", "c", "a", "--as", "bob")


# ---- records by other hands -------------------------------------------------------------------------------


def by_hand(root: Root, **changes: Any) -> dict[str, Any]:
    record = {**lock(root, "a"), **changes}
    write(file_of(root, record), json.dumps(record))
    return record


@pytest.mark.parametrize("stamp", ["2099-01-01T00:00:00Z", "2099-01-01T07:00:00+07:00", "2099-01-01 00:00:00.5-01:30"])
def test_any_time_with_an_offset_is_read(root: Root, stamp: str) -> None:
    """Case L8."""
    by_hand(root, expires_at=stamp)
    assert check(root, "a").out.rstrip().endswith(f"expires={stamp}")


def test_keys_in_another_order_and_names_in_another_case_are_read(root: Root) -> None:
    record = by_hand(root, owner="Alice", channel="C")
    write(file_of(root, record), json.dumps(dict(reversed(record.items()))))
    assert check(root, "a", who="ALICE").status == 0
    root.ok("unlock", "c", "a", "--as", "alice", **QUICK)


def test_a_record_in_another_case_meets_where_the_file_system_folds(root: Root, work: Path) -> None:
    """A record made on Linux, read on macOS."""
    lock(root, "Src/Main.py")
    with open_channel(root) as channel:
        for folds, count in ((True, 1), (False, 0)):
            space = Workspace(str(work), str(work), folds_case=folds)
            assert len(locking.check(channel, ["src/main.PY"], space)) == count


def test_a_hostile_record_is_compared_in_no_time(root: Root) -> None:
    pattern = {"display_path": "x", "kind": "pattern", "normalized_path": "*" + "a*" * 20_000}
    by_hand(root, paths=[pattern])
    assert check(root, "anything").status == 3, "what is too large to compare might meet"


def test_all_damaged_records_are_known_and_the_sound_ones_beside_them(root: Root) -> None:
    sound = lock(root, "a")
    for number in range(3):
        write(root.folder() / f"locks/{number}.json", "{")
    with open_channel(root) as channel:
        found, wrong = channel.look("path", path_locks.survey)
        assert [one.lock_id for one in found] == [sound["lock_id"]]
        assert [error.details["file"] for error in wrong] == [f"locks/{number}.json" for number in range(3)]
        with pytest.raises(AgentChatError) as caught:
            channel.look("path", path_locks.everything)
        assert caught.value.details["file"] == "locks/0.json"


def test_what_is_no_record_is_not_looked_at(root: Root) -> None:
    lock(root, "a")
    for name in ("notes.txt", ".hidden.json", "README"):
        write(root.folder() / "locks" / name, "{")
    (root.folder() / "locks/folder").mkdir()
    assert check(root, "b").out == "available\n"
    assert root.ok("locks", "c").out.count("\n") == 1


# ---- whom it concerns -------------------------------------------------------------------------------------


def test_whom_a_change_concerns(root: Root) -> None:
    lock(root, "a")
    root.ok("renew-lock", "c", "a", "--as", "alice", **QUICK)
    root.ok("unlock", "c", "a", "--as", "alice", **QUICK)
    lock_expired(root, "b")
    root.ok("recover", "c", "b", "--as", "bob", "--reason", "r", **QUICK)
    assert [(audit.event, audit.sender, audit.concerns) for audit in audits(root)] == [
        ("path.locked", "alice", set()),
        ("path.lock.renewed", "alice", set()),
        ("path.lock.unlocked", "alice", set()),
        ("path.locked", "alice", set()),
        ("path.lock.recovered", "bob", {"alice"}),
    ]
    assert "path.lock.recovered" in root.ok("read", "c", "--as", "alice").out
    assert "path.lock" not in root.ok("read", "c", "--as", "carol").out


# ---- an interrupted change ----------------------------------------------------------------------------------

MARKER = {
    **{"version": 1, "actor": "alice", "operation": "unlock", "event": "path.lock.unlocked", "phase": "prepared"},
    **{"target": "0" * 32 + ".json", "before": None, "after": None, "transaction_id": "1" * 32},
}


def test_a_pending_change_closes_the_family_and_nothing_else(root: Root) -> None:
    lock(root, "a")
    write(root.folder() / "locks/.path-lock-transaction.json", json.dumps(MARKER))
    for words in (["check", "c", "b"], ["lock", "c", "b", "--as", "bob"], ["unlock", "c", "a", "--as", "alice"]):
        found = refused(root, "PATH_LOCK_TRANSACTION_PENDING", *words)
        assert "path.lock.unlocked" in found.err and "prepared" in found.err and "by alice" in found.err
    listed = root.ok("locks", "c")
    assert "owner=alice" in listed.out and "PATH_LOCK_TRANSACTION_PENDING" in listed.err
    root.post()
    root.ok("task", "create", "c", "T-1", "--from", "bob", "--title", "t", **QUICK)
    words = following(found)
    assert words[0] == "recover-pending"
    assert root.ok(*words, **QUICK).out == "settled: path.lock.transaction.recovered\n"
    assert check(root, "a").status == 3
    assert "nothing is pending" in root.ok(*words).out, "with paths that is no refusal"
