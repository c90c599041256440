"""Claim records: names that are never parsed, agreement with the task, damage that stops only itself (L8, L9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from board import (
    FAR_AHEAD,
    HOUR,
    LONG_AGO,
    assert_agree,
    claim,
    claims,
    do,
    edit,
    lease_expired,
    make,
    refused,
    task,
    write,
)
from support import Root, make_root

from agent_chat import claims as records
from agent_chat import clock
from agent_chat.errors import AgentChatError

SOUND: dict[str, Any] = {
    "task_id": "T-1",
    "channel": "c",
    "owner": "bob",
    "lease_expires_at": FAR_AHEAD,
    "claimed_at": LONG_AGO,
    "updated_at": LONG_AGO,
    "previous_owner": None,
    "previous_lease_expires_at": None,
    "recovery_reason": None,
}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    make(root, "T-1")
    return root


# ---- the record ------------------------------------------------------------------------------------------


def problems(path: str = "claims/T-1.bob.json", **changes: Any) -> list[str]:
    record = {key: value for key, value in {**SOUND, **changes}.items() if value is not ...}
    try:
        records.decode("c", path, json.dumps(record).encode())
    except AgentChatError as error:
        return [str(problem) for problem in error.details["problems"]]  # type: ignore[attr-defined]
    return []


@pytest.mark.parametrize("key", SOUND)
def test_every_key_is_needed(key: str) -> None:
    assert problems(**{key: ...}) == ["LEASE_REQUIRED_FIELD_MISSING"]


@pytest.mark.parametrize("key", SOUND)
def test_every_value_is_a_text_or_where_it_may_be_null(key: str) -> None:
    assert problems(**{key: 3}) == ["LEASE_INVALID_RECORD"]
    may_be_null = key in ("previous_owner", "previous_lease_expires_at", "recovery_reason")
    assert problems(**{key: None}) == ([] if may_be_null else ["LEASE_INVALID_RECORD"])


def test_one_error_names_every_problem() -> None:
    found = problems(
        task_id="/", channel="..", owner="all", lease_expires_at="x", recovery_reason=" ", previous_owner=""
    )
    codes = "TASK_ID CHANNEL OWNER OWNER TIMESTAMP REASON".split()
    assert found == [*(f"LEASE_INVALID_{code}" for code in codes), "LEASE_RECORD_ID_MISMATCH"]


@pytest.mark.parametrize(
    "stamp, instant",
    [
        ("2020-01-01T00:00:00Z", 1_577_836_800),
        ("2020-01-01T07:00:00+07:00", 1_577_836_800),
        ("2019-12-31T19:30:00.000-0430", 1_577_836_800),
        ("2020-01-01T00:00:00", None),
        ("2020-02-30T00:00:00Z", None),
        ("1577836800", None),
        ("", None),
    ],
)
def test_times_are_read_with_any_offset_and_not_without(stamp: str, instant: int | None) -> None:
    assert problems(lease_expires_at=stamp) == ([] if instant else ["LEASE_INVALID_TIMESTAMP"])
    if instant:
        found = records.Claim("", {**SOUND, "lease_expires_at": stamp})
        at = instant * clock.SECOND
        assert not found.is_expired(at - 1) and found.is_expired(at)


def test_one_that_was_made_over_five_minutes_ahead_counts_as_expired() -> None:
    made = clock.parse_stamp("2026-01-01T00:00:00Z")
    found = records.Claim("", {**SOUND, "updated_at": "2026-01-01T00:00:00Z"})
    assert not found.is_expired(made - 300 * clock.SECOND) and found.is_expired(made - 300 * clock.SECOND - 1)


# ---- names ----------------------------------------------------------------------------------------------


def test_a_name_taken_by_another_tasks_claim_is_a_conflict_naming_that_task(root: Root) -> None:
    make(root, "a")
    make(root, "a.b")
    do(root, "claim", "a", "b.c")
    found = refused(root, "LEASE_CONFLICT", "task", "claim", "c", "a.b", "--as", "c")
    assert "claim of a" in found.err and "b.c" in found.err
    do(root, "claim", "a.b", "d")
    do(root, "done", "a", "b.c")
    do(root, "done", "a.b", "d")
    assert claims(root) == []


def test_the_record_inside_rules_not_the_name(root: Root) -> None:
    make(root, "T-1.x")
    do(root, "claim", "T-1.x", "bob")
    do(root, "claim", "T-1", "carol")
    assert claims(root) == ["T-1.carol", "T-1.x.bob"]
    do(root, "renew", "T-1", "carol")
    do(root, "done", "T-1", "carol")
    do(root, "done", "T-1.x", "bob")


def test_a_recovery_does_not_take_a_name_that_another_claim_has(root: Root) -> None:
    make(root, "a")
    make(root, "a.b")
    do(root, "claim", "a.b", "c")
    lease_expired(root, "a", "eve")
    refused(root, "LEASE_CONFLICT", "task", "recover", "c", "a", "--as", "b.c", "--reason", "r")
    do(root, "recover", "a", "dave", "--reason", "r")
    assert claims(root) == ["a.b.c", "a.dave"]


# ---- task and claim agree ---------------------------------------------------------------------------------


def test_times_that_are_equal_in_another_spelling_agree(root: Root) -> None:
    do(root, "claim", "T-1", "bob")
    edit(root, "claims/T-1.bob.json", lease_expires_at="2099-01-01T07:00:00+07:00")
    edit(root, "tasks/T-1.json", lease_expires_at="2099-01-01T00:00:00Z")
    do(root, "renew", "T-1", "bob")
    assert_agree(root)


def test_a_claim_left_by_a_task_that_is_gone_is_found_when_it_comes_back(root: Root) -> None:
    do(root, "claim", "T-1", "bob")
    (root.folder() / "tasks/T-1.json").unlink()
    refused(root, "LEASE_INCONSISTENT", "task", "create", "c", "T-1", "--from", "alice", "--title", "t")
    (root.folder() / "claims/T-1.bob.json").unlink()
    (root.folder() / "0001-alice-task-created-t-1.md").unlink()
    make(root, "T-1")


def test_a_channel_that_was_renamed_keeps_to_its_records(root: Root) -> None:
    do(root, "claim", "T-1", "bob")
    edit(root, "claims/T-1.bob.json", channel="C")
    edit(root, "tasks/T-1.json", channel="C")
    do(root, "renew", "T-1", "bob")
    edit(root, "claims/T-1.bob.json", channel="other")
    refused(root, "LEASE_INCONSISTENT", "task", "renew", "c", "T-1", "--as", "bob")


# ---- one damaged record blocks only itself -----------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", "[]", '{"task_id": "T-1"}', "\0", "null"])
def test_a_truncated_claim_blocks_only_its_task(root: Root, text: str) -> None:
    for name in ("T-1.2", "T-10", "T-2"):
        make(root, name)
    for name in ("T-1", "T-1.2"):
        do(root, "claim", name, "bob")
    write(root.folder() / "claims/T-1.bob.json", text)
    for verb in ("renew", "done", "release", "claim"):
        found = root.run("task", verb, "c", "T-1", "--as", "bob")
        assert found.code.startswith("LEASE_") and "claims/T-1.bob.json" in found.err
    do(root, "renew", "T-1.2", "bob")
    do(root, "claim", "T-10", "carol")
    do(root, "done", "T-1.2", "bob")
    assert root.ok("task", "next", "c", "--as", "dave").out == "claimed task T-2 [in_progress]\n"
    assert len(root.ok("task", "list", "c").out.splitlines()) == 5


def test_a_damaged_claim_of_a_longer_id_does_not_block_the_shorter(root: Root) -> None:
    make(root, "T-1.2")
    do(root, "claim", "T-1.2", "bob")
    write(root.folder() / "claims/T-1.2.bob.json", "{")
    do(root, "claim", "T-1", "carol")
    do(root, "done", "T-1", "carol")
    refused(root, "LEASE_INVALID_RECORD", "task", "renew", "c", "T-1.2", "--as", "bob")


def test_a_damaged_claim_that_may_be_its_own_blocks_a_task(root: Root) -> None:
    make(root, "T-1.2")
    write(root.folder() / "claims/T-1.2.bob.json", "{")
    refused(root, "LEASE_INVALID_RECORD", "task", "claim", "c", "T-1", "--as", "carol")
    write(root.folder() / "tasks/T-1.2.json", "{")
    refused(root, "LEASE_INVALID_RECORD", "task", "claim", "c", "T-1", "--as", "carol")


def test_other_files_in_the_folder_are_no_claims(root: Root) -> None:
    for name in (".T-1.eve.json", "T-1.eve.json~", "T-1.txt", "T-1.eve.json.tmp"):
        write(root.folder() / "claims" / name, "{")
    do(root, "claim", "T-1", "bob")
    do(root, "done", "T-1", "bob")


def test_an_expired_lease_is_told_by_its_own_length(root: Root) -> None:
    lease_expired(root, ago=HOUR)
    assert clock.parse_stamp(claim(root)["lease_expires_at"]) < clock.now()
    assert task(root)["lease_expires_at"] == claim(root)["lease_expires_at"]
    assert_agree(root)
