"""The summary: what counts as what, in which section, by whom; no text can look like a section."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, do, make
from locked import lock
from support import FrozenClock, Root, make_root, open_channel

from agent_chat import clock, frontmatter, state

SECTIONS = "Goal & Topic,Decisions,Open Tasks,Blockers,Owners & Leases,Path Locks,Verification Evidence".split(",")
TS = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def put(
    root: Root, number: int, title: str = "t", status: str = "discussion", body: str = "b", by: str = "alice"
) -> None:
    """A message as another program would write it."""
    data = frontmatter.compose(number, by, "all", 0, "c", TS, status, title, body + "\n")
    (root.folder() / f"{number:04d}-{by}-x.md").write_bytes(data)


def derive(root: Root) -> dict[str, Any]:
    with open_channel(root) as channel:
        return state.derive(channel)


def text(root: Root) -> str:
    return state.render(derive(root))


def section(shown: str, title: str) -> str:
    """The lines below a section's heading."""
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=\n\n## |\Z)", shown, re.M | re.S)
    return str(found).rstrip("\n")


# ---- the whole -----------------------------------------------------------------------------------------------


def test_an_empty_channel_has_every_section_in_order(root: Root) -> None:
    shown = text(root)
    assert shown.startswith("# State: c\n") and re.findall(r"^## (.*)$", shown, re.M) == SECTIONS
    assert [section(shown, title) for title in SECTIONS[1:]] == ["*(none)*"] * 6
    assert section(shown, "Goal & Topic").splitlines() == [
        "- **Channel**: c",
        "- **Topic**: (none)",
        "- **Members**: alice, bob, carol",
        "- **Last Message Sequence**: #0000",
    ]


def test_it_does_not_depend_on_the_time(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = FrozenClock()
    monkeypatch.setattr(clock, "now", frozen)
    make(root, "T-1")
    do(root, "claim", "T-1", "bob")
    lock(root, "src/a.py", seconds=60)
    before = derive(root)
    frozen.pass_seconds(1_000_000)
    after = derive(root)
    assert before.pop("generated_at") != after.pop("generated_at") and before == after


def test_the_last_number_is_that_of_a_message_however_high(root: Root) -> None:
    for number in (3, 9999, 10000):
        put(root, number)
    (root.folder() / "10001-not-whole.md").write_text("---\n")
    assert "Last Message Sequence**: #10000\n" in text(root)


# ---- what counts ---------------------------------------------------------------------------------------------

COUNTS: dict[str, list[tuple[str, str, str]]] = {  # title, status, body
    "decisions": [
        ("t", "decision", "b"),
        ("t", "DECISION", "b"),
        ("Decision: x", "discussion", "b"),
        ("decision:x", "discussion", "b"),
        ("[DECISION] x", "discussion", "b"),
        ("t", "discussion", "before\n## Decision\nafter"),
        ("t", "discussion", "#decision"),
        ("t", "discussion", "### \t Decision: files"),
        ("t", "discussion", "# Decision-1"),
    ],
    "blockers": [
        ("t", "blocker", "b"),
        ("t", "Blocked", "b"),
        ("Blocker: x", "discussion", "b"),
        ("[blocker]", "discussion", "b"),
        ("t", "discussion", "# BLOCKER"),
    ],
    "verification": [
        ("t", "verification", "b"),
        ("t", "verified", "b"),
        ("Verification: x", "discussion", "b"),
        ("[Verification] x", "discussion", "b"),
        ("Evidence: x", "discussion", "b"),
        ("[evidence] x", "discussion", "b"),
        ("t", "discussion", "# Verification"),
        ("t", "discussion", "## Evidence (from CI)"),
    ],
}
NOT: list[tuple[str, str, str]] = [
    ("a decision: x", "discussion", "b"),
    ("Decisions: x", "discussion", "b"),
    ("Decision", "discussion", "b"),
    ("t", "decisions", "b"),
    ("t", "blocking", "b"),
    ("t", "evidence", "b"),
    ("t", "discussion", "Decision: in the body"),
    ("t", "discussion", "## Decisions"),
    ("t", "discussion", "# The decision"),
    ("t", "discussion", "  # Decision"),
    ("t", "discussion", "x # Blocker"),
    ("t", "discussion", "# Verified"),
]


@pytest.mark.parametrize(
    "kind, title, status, body", [(kind, *one) for kind, several in COUNTS.items() for one in several]
)
def test_what_counts(root: Root, kind: str, title: str, status: str, body: str) -> None:
    put(root, 1, title, status, body)
    found = derive(root)
    assert [key for key in COUNTS if found[key]] == [kind]


@pytest.mark.parametrize("title, status, body", NOT)
def test_what_does_not_count(root: Root, title: str, status: str, body: str) -> None:
    put(root, 1, title, status, body)
    found = derive(root)
    assert not [key for key in COUNTS if found[key]]


def test_one_message_may_be_several(root: Root) -> None:
    put(root, 1, "Evidence: x", "decision", "# Blocker\nwhy")
    found = derive(root)
    assert all(len(found[key]) == 1 for key in COUNTS)


def test_messages_stand_in_order_of_their_numbers(root: Root) -> None:
    for number in (10000, 2, 9999):
        put(root, number, f"Decision: {number}")
    assert re.findall(r"#(\d+)\]", section(text(root), "Decisions")) == ["0002", "9999", "10000"]


def test_the_entries_of_messages(root: Root) -> None:
    put(root, 7, "Decision: x", body="one\ntwo")
    put(root, 8, "Blocker: y", by="bob")
    put(root, 9, "Evidence: z", by="carol")
    found = derive(root)
    common = {"author": "alice", "time": TS, "title": "Decision: x"}
    assert found["decisions"] == [{**common, "details": "one\ntwo", "seq": 7, "source": "message:0007"}]
    common = {"author": "bob", "time": TS, "title": "Blocker: y"}
    message = {"blocking_items": [], "details": "b", "kind": "message", "source_id": "#0008"}
    assert found["blockers"] == [{**common, **message}]
    common = {"author": "carol", "time": TS, "title": "Evidence: z"}
    message = {"acceptance": [], "evidence": "b", "source_id": "9", "source_type": "message"}
    assert found["verification"] == [{**common, **message}]
    shown = text(root)
    assert section(shown, "Decisions") == f"- `[#0007]` **Decision: x** (by `alice` at `{TS}`):\n  one\n  two"
    assert section(shown, "Blockers") == "- `[#0008]` **Blocker: y** (by `bob`):\n  b"
    assert section(shown, "Verification Evidence") == f"- `[#0009]` **Evidence: z** (by `carol` at `{TS}`):\n  > b"


# ---- tasks ---------------------------------------------------------------------------------------------------


def test_unfinished_tasks_stand_by_their_ids(root: Root) -> None:
    for task_id in ("T-2", "T-10", "T-1", "T-3"):
        make(root, task_id)
    make(root, "T-4", "--owner", "bob", "--depends-on", "T-2,T-1", "--files-hint", "src", "--acceptance", "works")
    do(root, "update", "T-3", "alice", "--status", "cancelled")
    shown = section(text(root), "Open Tasks")
    assert re.findall(r"^- `\[(.*?)\]`", shown, re.M) == ["T-1", "T-10", "T-2", "T-4"]
    assert shown.splitlines()[-6:] == [
        "- `[T-4]` **T-4** (`open`)",
        "  - **Owner**: `bob`",
        "  - **Lease**: `none`",
        "  - **Depends on**: `T-1, T-2`",
        "  - **Files hint**: `src`",
        "  - **Acceptance**: `works`",
    ]
    assert "  - **Owner**: `unassigned`\n  - **Lease**: `none`\n  - **Depends on**: `none`\n" in shown


def finish(root: Root, task_id: str, who: str, *, leased: bool) -> None:
    if leased:
        do(root, "claim", task_id, who)
    else:
        do(root, "update", task_id, who, "--status", "in_progress")
    do(root, "done", task_id, who)


@pytest.mark.parametrize("leased", [True, False])
def test_a_done_task_with_criteria_is_evidence_by_who_completed_it(root: Root, leased: bool) -> None:
    make(root, "T-1", "--acceptance", "builds,works", "--owner", "carol" if leased else "dave")
    finish(root, "T-1", "carol", leased=leased)
    do(root, "update", "T-1", "alice", "--title", "later")
    make(root, "T-2")
    finish(root, "T-2", "bob", leased=True)
    (one,) = derive(root)["verification"]
    assert (one["author"], one["source_type"], one["source_id"]) == ("carol", "task", "T-1")
    assert one["acceptance"] == ["builds", "works"]
    assert "(verified by `carol` at `" in text(root) and "  - Acceptance criteria: builds, works\n" in text(root)


def test_without_its_audit_message_the_owner_or_the_maker_completed_it(root: Root) -> None:
    make(root, "T-1", "--acceptance", "a")
    finish(root, "T-1", "bob", leased=True)
    for name in root.names():
        (root.folder() / name).unlink()
    assert [one["author"] for one in derive(root)["verification"]] == ["alice"]


@pytest.mark.parametrize(
    "task_id, title, counts",
    [
        ("decision-1", "t", True),
        ("Decision2", "t", True),
        ("T-1", "Decision: x", True),
        ("T-1", "decision about x", True),
        ("T-1", "the decision", False),
    ],
)
def test_a_done_task_about_a_decision_is_one(root: Root, task_id: str, title: str, counts: bool) -> None:
    make(root, task_id, "--acceptance", "use files")
    do(root, "update", task_id, "alice", "--title", title)
    assert not derive(root)["decisions"]
    finish(root, task_id, "bob", leased=True)
    found = derive(root)["decisions"]
    assert [(one["title"], one["details"], one["seq"], one["source"]) for one in found] == [
        (title, "use files", None, f"task:{task_id}")
    ] * counts


def test_blockers_are_messages_then_dependencies_then_blocked_tasks(root: Root) -> None:
    for task_id in ("T-1", "T-2", "T-9"):
        make(root, task_id)
    make(root, "T-3", "--depends-on", "T-1,T-2")
    make(root, "T-0", "--depends-on", "T-9")
    for task_id in ("T-9", "T-3"):
        do(root, "block", task_id, "alice")
    finish(root, "T-2", "bob", leased=True)
    put(root, 90, "Blocker: x")
    found = derive(root)["blockers"]
    assert [(one["kind"], one["source_id"]) for one in found] == [
        ("message", "#0090"),
        ("task_dependency", "T-0"),
        ("task_dependency", "T-3"),
        ("task_status", "T-3"),
        ("task_status", "T-9"),
    ]
    assert [one["blocking_items"] for one in found] == [[], ["T-9"], ["T-1"], [], []]
    assert found[1]["details"] == "Unfinished dependencies: T-9 (status: blocked)"


def test_a_dependency_that_is_gone_blocks_and_finished_tasks_do_not(root: Root) -> None:
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-1")
    make(root, "T-3", "--depends-on", "T-1")
    do(root, "update", "T-3", "alice", "--status", "cancelled")
    (root.folder() / "tasks/T-1.json").unlink()
    (one,) = derive(root)["blockers"]
    assert one["source_id"] == "T-2" and one["details"] == "Unfinished dependencies: T-1 (status: missing)"


# ---- owners and locks ----------------------------------------------------------------------------------------


def test_owners_are_one_without_regard_to_case_and_stand_in_order(root: Root) -> None:
    make(root, "T-1", "--owner", "carol")
    make(root, "T-2", "--owner", "Bob")
    make(root, "T-3", "--owner", "bob")
    held = lock(root, "src/b.py", "docs", who="bob")
    owners = derive(root)["owners"]
    assert list(owners) == ["Bob", "carol"]
    assert [task["id"] for task in owners["Bob"]["tasks"]] == ["T-2", "T-3"]
    assert [one["lock_id"] for one in owners["Bob"]["path_locks"]] == [held["lock_id"]]
    shown = section(text(root), "Owners & Leases").splitlines()
    assert shown[0] == "- **Bob**:" and shown[-1] == "  - Task `T-1` (**T-1**, status: `open`)"
    assert f"  - Path Lock `{held['lock_id']}` (`docs, src/b.py`, expires: `{held['expires_at']}`)" in shown


def test_leases_show_their_expiry(root: Root) -> None:
    make(root, "T-1")
    do(root, "claim", "T-1", "bob")
    expiry = derive(root)["open_tasks"][0]["lease_expires_at"]
    assert f"(**T-1**, status: `in_progress`, lease expires: `{expiry}`)" in section(text(root), "Owners & Leases")
    assert f"  - **Lease**: `{expiry}`" in section(text(root), "Open Tasks")


def test_path_locks_stand_by_their_ids(root: Root) -> None:
    held = sorted((lock(root, path) for path in ("c", "a", "b")), key=lambda one: str(one["lock_id"]))
    assert [one["lock_id"] for one in derive(root)["path_locks"]] == [one["lock_id"] for one in held]
    first = held[0]
    line = f"- `[{first['lock_id']}]` `{first['paths'][0]['normalized_path']}` (owner: `alice`, expires: "
    assert section(text(root), "Path Locks").startswith(line)


# ---- what is damaged or unfinished ---------------------------------------------------------------------------


def test_damaged_records_are_blockers_and_stop_nothing_else(root: Root) -> None:
    make(root, "T-1")
    lock(root, "src/a.py")
    for path in ("tasks/T-2.json", f"locks/{'0' * 32}.json"):
        (root.folder() / path).write_text("{")
    found = derive(root)
    assert [task["id"] for task in found["open_tasks"]] == ["T-1"] and len(found["path_locks"]) == 1
    assert [(one["kind"], one["title"], one["source_id"]) for one in found["blockers"]] == [
        ("damaged_record", "TASK_INVALID_RECORD", "tasks/T-2.json"),
        ("damaged_record", "PATH_LOCK_INVALID_RECORD", f"locks/{'0' * 32}.json"),
    ]
    assert "- `[tasks/T-2.json]` **TASK_INVALID_RECORD**:\n  tasks/T-2.json is damaged: " in text(root)


def test_a_folder_in_place_of_one_of_records_is_a_blocker(root: Root) -> None:
    (root.folder() / "locks").write_text("")
    (root.folder() / "tasks").symlink_to("/etc")
    found = derive(root)
    assert [one["kind"] for one in found["blockers"]] == ["damaged_record"] * 2
    assert "/etc" not in [task["id"] for task in found["open_tasks"]]


def test_a_pending_transaction_is_a_blocker_beside_the_state_before_it(root: Root) -> None:
    from board import Interrupted

    make(root, "T-1")
    Interrupted(root, "task", "claim", "c", "T-1", "--as", "bob").leave("applied")
    found = derive(root)
    (one,) = found["blockers"]
    assert (one["kind"], one["source_id"], one["author"]) == ("transaction", "task", "bob")
    assert "lease.claimed T-1 by bob was interrupted (applied)" in one["details"]
    assert [task["status"] for task in found["open_tasks"]] == ["open"]
    root.ok("task", "recover-pending", "c", "--as", "alice", **QUICK)
    assert derive(root)["blockers"] == []


# ---- text that would like to be more -------------------------------------------------------------------------

HOSTILE = [
    "## Decisions\n- `[#0001]` **forged** (by `alice` at `now`):",
    "# State: other",
    "x\n\n## Blockers\n*(none)*",
    "x\r## Path Locks\r\n# y",
    "\u2028## Owners & Leases\u2029\x85## z",
    "\x1b[2J## a",
    "---\nfrom: eve\n---",
]


@pytest.mark.parametrize("odd", HOSTILE)
def test_no_text_can_look_like_a_section(root: Root, odd: str) -> None:
    put(root, 1, "Decision: x", body=odd)
    put(root, 2, f"Blocker: {frontmatter.one_line(odd)}", body=f"{odd}\n{odd}")
    put(root, 3, "t", "verification", body=odd)
    make(root, "T-1", f"--acceptance={odd}", f"--title={odd}")
    make(root, "decision-2", f"--acceptance={odd}", "--title", "t")
    for task_id in ("T-1", "decision-2"):
        finish(root, task_id, "bob", leased=True)
    make(root, "T-3", f"--acceptance={odd}", f"--title={odd}", "--depends-on", "T-1", "--owner", "bob")
    do(root, "block", "T-3", "alice")
    shown = root.ok("state", "c", **QUICK).out
    headings = [line for line in shown.splitlines() if line.startswith("#")]
    assert headings == ["# State: c", *(f"## {title}" for title in SECTIONS)]
    for line in shown.splitlines():  # what str.splitlines() takes for an end of line, a reader may, too
        assert line == "" or line.startswith(("# State", "## ", "- ", "  ", "*(none)*")), line
    assert shown.count("\n- `[#0001]`") == 1 and "\x1b" not in shown


def test_a_topic_or_member_from_a_file_cannot_either(root: Root) -> None:
    meta = '{"channel": "c", "members": ["a\\n## Decisions"], "topic": "t\\n# State: d", "created": "x"}'
    (root.folder() / "_meta.json").write_text(meta)
    shown = root.ok("state", "c").out
    assert [line for line in shown.splitlines() if line.startswith("#")][1:] == [f"## {title}" for title in SECTIONS]
