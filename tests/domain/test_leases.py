"""Leases: claim, renew, release, done, recover, next; exact ends; a clock that was set back; library calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from board import (
    assert_agree,
    assert_audited,
    claim,
    claims,
    do,
    edit,
    following,
    last,
    lease_expired,
    make,
    refused,
    task,
)
from support import FrozenClock, Root, make_root, open_channel

from agent_chat import clock, leases
from agent_chat.errors import AgentChatError

DAY = 24 * 3600.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> FrozenClock:
    frozen = FrozenClock(1_800_000_000_123_456)
    monkeypatch.setattr(clock, "now", frozen)
    return frozen


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    make(root, "T-1")
    return root


def stamp(seconds: float) -> str:
    return clock.micro_stamp(1_800_000_000_123_456 + round(seconds * clock.SECOND))


# ---- what a lease is ------------------------------------------------------------------------------------


def test_a_claim_stands_in_both_records(now: FrozenClock, root: Root) -> None:
    assert do(root, "claim", "T-1", "bob").out == "claimed task T-1 [in_progress]\n"
    found = task(root)
    assert (found["status"], found["owner"], found["lease_expires_at"]) == ("in_progress", "bob", stamp(300))
    expected = {"task_id": "T-1", "channel": "c", "owner": "bob", "lease_expires_at": stamp(300)}
    expected.update({"claimed_at": stamp(0), "updated_at": stamp(0)})
    expected.update(dict.fromkeys(["previous_owner", "previous_lease_expires_at", "recovery_reason"]))
    data = (root.folder() / "claims/T-1.bob.json").read_bytes()
    assert claim(root) == expected and list(claim(root)) == list(expected)
    assert data == json.dumps(expected, indent=2).encode() + b"\n"


@pytest.mark.parametrize("option", ["--lease-seconds", "--lease", "--ttl"])
@pytest.mark.parametrize("typed, seconds", [("60", 60), ("0.25", 0.25), ("1e3", 1000), ("0.0000001", 0.000001)])
def test_it_ends_exactly_its_length_after_now(
    now: FrozenClock, root: Root, option: str, typed: str, seconds: float
) -> None:
    do(root, "claim", "T-1", "bob", option, typed)
    assert task(root)["lease_expires_at"] == stamp(seconds)


def test_the_longest_lease_fits_a_timestamp(now: FrozenClock, root: Root) -> None:
    left = (253_402_300_799_000_000 - now()) / clock.SECOND
    refused(root, "LEASE_INVALID_DURATION", "task", "claim", "c", "T-1", "--as", "bob", "--ttl", f"{left + 1:.0f}")
    do(root, "claim", "T-1", "bob", "--ttl", f"{left - 1:.0f}")
    assert task(root)["lease_expires_at"].startswith("9999-12-31T23:59:5")
    refused(root, "LEASE_CONFLICT", "task", "claim", "c", "T-1", "--as", "carol")


def test_it_is_over_from_its_end_on(now: FrozenClock, root: Root) -> None:
    do(root, "claim", "T-1", "bob", "--ttl", "10")
    now.pass_seconds(9.999999)
    refused(root, "LEASE_NOT_EXPIRED", "task", "recover", "c", "T-1", "--as", "carol", "--reason", "r")
    do(root, "update", "T-1", "bob", "--title", "still mine")
    now.pass_seconds(0.000001)
    refused(root, "LEASE_RECOVERY_REQUIRED", "task", "renew", "c", "T-1", "--as", "bob")
    do(root, "recover", "T-1", "carol", "--reason", "r")


def test_a_conflict_says_who_and_until_when(now: FrozenClock, root: Root) -> None:
    do(root, "claim", "T-1", "bob")
    found = refused(root, "LEASE_CONFLICT", "task", "claim", "c", "T-1", "--as", "carol")
    assert "bob" in found.err and stamp(300) in found.err
    error = json.loads(root.run("task", "claim", "c", "T-1", "--as", "carol", "--json").err)["error"]
    assert error["details"] == {"owner": "bob", "expires_at": stamp(300)}


def test_a_task_assigned_to_another_names_them(root: Root) -> None:
    make(root, "T-2", "--owner", "dave")
    assert "assigned to dave" in refused(root, "LEASE_CONFLICT", "task", "claim", "c", "T-2", "--as", "bob").err
    do(root, "claim", "T-2", "Dave")
    assert claims(root) == ["T-2.Dave"] and task(root, "T-2")["owner"] == "Dave"


@pytest.mark.parametrize("status", ["open", "blocked", "in_progress"])
def test_what_is_not_over_can_be_claimed(root: Root, status: str) -> None:
    edit(root, "tasks/T-1.json", status=status)
    do(root, "claim", "T-1", "bob")
    assert last(root).body["previous_status"] == status


# ---- renew, release, done, update ------------------------------------------------------------------------


def test_renew_keeps_when_it_was_claimed(now: FrozenClock, root: Root) -> None:
    do(root, "claim", "T-1", "bob")
    now.pass_seconds(100)
    assert do(root, "renew", "T-1", "BOB", "--ttl", "60").out == "renewed task T-1 [in_progress]\n"
    found = claim(root)
    assert (found["claimed_at"], found["updated_at"], found["lease_expires_at"]) == (stamp(0), stamp(100), stamp(160))
    assert task(root)["lease_expires_at"] == stamp(160) and task(root)["owner"] == found["owner"] == "bob"
    do(root, "renew", "T-1", "bob")
    assert task(root)["lease_expires_at"] == stamp(400), "300 s by default"


def test_renew_of_a_recovered_lease_keeps_its_history(root: Root) -> None:
    lease_expired(root)
    do(root, "recover", "T-1", "carol", "--reason", "gone")
    do(root, "renew", "T-1", "carol")
    assert claim(root, "T-1.carol")["recovery_reason"] == "gone"


@pytest.mark.parametrize("verb, status, word", [("release", "open", "released"), ("done", "done", "done")])
def test_release_and_done_drop_claim_owner_and_expiry(root: Root, verb: str, status: str, word: str) -> None:
    do(root, "claim", "T-1", "bob")
    assert do(root, verb, "T-1", "Bob").out == f"{word} task T-1 [{status}]\n"
    found = task(root)
    assert (found["status"], found["owner"], found["lease_expires_at"]) == (status, None, None) and claims(root) == []


def test_the_owner_may_change_what_the_lease_does_not_decide(root: Root) -> None:
    do(root, "claim", "T-1", "bob")
    before = claim(root)
    do(root, "update", "T-1", "Bob", "--title", "x", "--branch", "b", "--acceptance", "a")
    assert task(root)["title"] == "x" and claim(root) == before
    assert last(root).event == "task.updated"
    assert_agree(root)


def test_what_the_lease_decides_is_for_lease_commands(root: Root) -> None:
    do(root, "claim", "T-1", "bob")
    own = refused(root, "LEASE_MUTATION_REQUIRED", "task", "block", "c", "T-1", "--as", "bob")
    assert following(own) == ["task", "release", "c", "T-1", "--as", "bob"]
    others = refused(root, "LEASE_MUTATION_REQUIRED", "task", "update", "c", "T-1", "--as", "eve", "--clear-owner")
    assert following(others) == ["task", "show", "c", "T-1"], "nobody is told to act in another's name"


LEASE_EVENTS = {
    "claim": "lease.claimed",
    "renew": "lease.renewed",
    "release": "lease.released",
    "done": "lease.completed",
    "recover": "lease.recovered",
}


@pytest.mark.parametrize("verb", LEASE_EVENTS)
def test_each_publishes_its_event_with_these_keys(root: Root, verb: str) -> None:
    if verb == "recover":
        lease_expired(root)
    elif verb != "claim":
        do(root, "claim", "T-1", "bob")
    count = len(root.names())
    do(root, verb, "T-1", "bob", *(["--reason", " because \n"] if verb == "recover" else []))
    audit, record = last(root), task(root)
    keys = "channel event updated_at task_id status owner lease_expires_at changed_fields previous_status"
    keys += " lease_owner transaction_id"
    keys += " previous_owner previous_lease_expires_at recovery_reason" if verb == "recover" else ""
    assert sorted(audit.body) == sorted(keys.split()) and len(root.names()) == count + 1
    assert (audit.event, audit.sender, audit.title) == (LEASE_EVENTS[verb], "bob", f"{LEASE_EVENTS[verb]} T-1")
    assert {key: audit.body[key] for key in ("status", "owner")} == {key: record[key] for key in ("status", "owner")}
    assert audit.body["lease_owner"] == "bob" and len(audit.body["transaction_id"]) == 32
    text = root.messages()[-1].body
    assert text == json.dumps(audit.body, indent=2, sort_keys=True) + "\n"
    if verb == "recover":
        assert (audit.body["previous_owner"], audit.body["recovery_reason"]) == ("bob", "because")


# ---- recover ---------------------------------------------------------------------------------------------


def test_recover_records_who_until_when_and_why(now: FrozenClock, root: Root) -> None:
    do(root, "claim", "T-1", "bob", "--ttl", "10")
    now.pass_seconds(60)
    assert do(root, "recover", "T-1", "carol", "--reason", "stale", "--lease", "20").out == (
        "recovered task T-1 [in_progress]\n"
    )
    found = claim(root, "T-1.carol")
    assert claims(root) == ["T-1.carol"] and task(root)["owner"] == "carol"
    assert (found["previous_owner"], found["previous_lease_expires_at"]) == ("bob", stamp(10))
    assert (found["recovery_reason"], found["claimed_at"], found["lease_expires_at"]) == ("stale", stamp(60), stamp(80))
    assert_agree(root)


@pytest.mark.parametrize("spelling", ["bob", "BOB"])
def test_the_old_owner_may_name_itself(root: Root, spelling: str) -> None:
    lease_expired(root)
    do(root, "recover", "T-1", spelling, "--reason", "was away")
    assert claims(root) == ["T-1.bob"] and claim(root)["previous_owner"] == "bob" and claim(root)["owner"] == spelling
    do(root, "done", "T-1", "bob")
    assert claims(root) == []


def test_nothing_expired_is_ever_taken_silently(root: Root) -> None:
    lease_expired(root)
    for verb, who in (("claim", "carol"), ("claim", "bob"), ("renew", "bob"), ("done", "bob"), ("release", "bob")):
        found = refused(root, "LEASE_RECOVERY_REQUIRED", "task", verb, "c", "T-1", "--as", who)
        assert following(found)[:4] == ["task", "recover", "c", "T-1"] and "bob" in found.err
    refused(root, "TASK_NOT_FOUND", "task", "next", "c", "--as", "carol")
    for verb in ("renew", "done", "release"):
        refused(root, "LEASE_OWNER_MISMATCH", "task", verb, "c", "T-1", "--as", "carol")


# ---- next ------------------------------------------------------------------------------------------------


def test_next_passes_over_what_is_damaged(root: Root) -> None:
    make(root, "T-2", "--files-hint", "a")
    make(root, "T-3")
    (root.folder() / "claims").mkdir()
    (root.folder() / "claims/T-1.eve.json").write_text("{")
    edit(root, "tasks/T-2.json", files_hint=["../out"])
    assert root.ok("task", "next", "c", "--as", "bob").out == "claimed task T-3 [in_progress]\n"
    refused(root, "LEASE_INVALID_RECORD", "task", "next", "c", "--as", "carol")


# ---- a clock that was set back (L7) ------------------------------------------------------------------------


def test_a_clock_set_back_a_day_locks_nobody_out(now: FrozenClock, root: Root) -> None:
    do(root, "claim", "T-1", "bob", "--ttl", "600")
    now.pass_seconds(-DAY)
    found = refused(root, "LEASE_RECOVERY_REQUIRED", "task", "claim", "c", "T-1", "--as", "carol")
    assert f"written at {stamp(0)}" in found.err and f"the clock says {stamp(-DAY)}" in found.err
    refused(root, "LEASE_RECOVERY_REQUIRED", "task", "renew", "c", "T-1", "--as", "bob")
    do(root, "recover", "T-1", "carol", "--reason", "the clock was wrong")
    assert task(root)["lease_expires_at"] == stamp(300 - DAY)
    do(root, "done", "T-1", "carol")
    assert_audited(root)


def test_a_clock_a_little_behind_takes_nothing_from_its_owner(now: FrozenClock, root: Root) -> None:
    do(root, "claim", "T-1", "bob")
    now.pass_seconds(-299)
    refused(root, "LEASE_CONFLICT", "task", "claim", "c", "T-1", "--as", "carol")
    now.pass_seconds(-2)
    refused(root, "LEASE_RECOVERY_REQUIRED", "task", "claim", "c", "T-1", "--as", "carol")


def test_a_lease_ends_no_later_than_its_length_and_five_minutes(now: FrozenClock, root: Root) -> None:
    do(root, "claim", "T-1", "bob", "--ttl", "600")
    now.pass_seconds(-300)
    refused(root, "LEASE_NOT_EXPIRED", "task", "recover", "c", "T-1", "--as", "carol", "--reason", "r")
    now.pass_seconds(900)
    do(root, "recover", "T-1", "carol", "--reason", "r")


# ---- as a library ------------------------------------------------------------------------------------------


def test_the_store_answers_what_the_command_answers(root: Root) -> None:
    with open_channel(root) as channel:
        store = leases.LeaseStore(channel)
        with pytest.raises(AgentChatError) as refusal:
            store.recover_pending("alice")
        assert refusal.value.code == "LEASE_TRANSACTION_NOT_FOUND" and refusal.value.exit_status == 2
        with pytest.raises(AgentChatError) as refusal:
            store.recover_pending("alice", resolve_publication="perhaps")
        assert refusal.value.code == "TASK_INVALID_ARGUMENT"
        with pytest.raises(AgentChatError) as refusal:
            store.recover_pending("a b")
        assert refusal.value.code == "AGENT_INVALID_NAME"
