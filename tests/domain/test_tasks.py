"""Task records and the commands that change them without a lease; lists; whom an audit message concerns."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board import (
    assert_agree,
    assert_audited,
    claims,
    do,
    edit,
    everything,
    last,
    lease_expired,
    make,
    refused,
    task,
    write,
)
from support import Root, make_root

from agent_chat import clock, tasks

FIELDS = """id channel title status owner created_by depends_on files_hint acceptance
    lease_expires_at branch updated_at""".split()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


# ---- create ---------------------------------------------------------------------------------------------


def test_a_record_is_two_space_json_with_exactly_these_keys_in_this_order(root: Root) -> None:
    make(root, "T-1")
    data = (root.folder() / "tasks/T-1.json").read_bytes()
    record = json.loads(data)
    assert list(record) == FIELDS and data == json.dumps(record, indent=2).encode() + b"\n"
    stamp = record.pop("updated_at")
    assert record == {
        **{"id": "T-1", "channel": "c", "title": "T-1", "status": "open", "owner": None, "created_by": "alice"},
        **{"depends_on": [], "files_hint": [], "acceptance": [], "lease_expires_at": None, "branch": None},
    }
    assert stamp.endswith("+00:00") and "." in stamp and clock.parse_stamp(stamp)


def test_every_option_of_create_lands_in_its_field(root: Root) -> None:
    make(root, "T-1")
    make(root, "T-2")
    words = ["--owner", "bob", "--depends-on", "t-1", "--depends-on=T-2", "--branch", "feature/x"]
    words += ["--files-hint", "src/a.py, docs/", "--files-hint", "b", "--acceptance", "one,two", "--acceptance=three"]
    found = make(root, "T-3", *words)
    assert found.out == "created task T-3 [open]\n"
    record = task(root, "T-3")
    assert (record["owner"], record["branch"]) == ("bob", "feature/x")
    assert record["depends_on"] == ["T-1", "T-2"], "as their records spell them"
    assert record["files_hint"] == ["src/a.py", "docs/", "b"] and record["acceptance"] == ["one", "two", "three"]


@pytest.mark.parametrize("option", ["--from", "--as", "--created-by"])
def test_the_maker_is_named_in_three_spellings_or_by_the_environment(root: Root, option: str) -> None:
    root.ok("task", "create", "c", "T-1", option, "carol", "--title", "t")
    root.ok("task", "create", "c", "T-2", "--title", "t", AGENT_CHAT_NAME="carol")
    assert task(root, "T-1")["created_by"] == task(root, "T-2")["created_by"] == "carol"


def test_a_title_is_one_line_and_hints_are_kept_as_typed(root: Root) -> None:
    make(root, "T-1", "--files-hint", "./src//Ä b.py", "--title", "one\ntwo \u2028 three")
    assert task(root)["title"] == "one two   three" and task(root)["files_hint"] == ["./src//Ä b.py"]


def test_the_same_id_in_another_case_is_the_same_task(root: Root) -> None:
    make(root, "Task.A")
    refused(root, "TASK_ALREADY_EXISTS", "task", "create", "c", "task.a", "--from", "alice", "--title", "t")
    assert "id: Task.A\n" in root.ok("task", "show", "C", "TASK.A").out
    assert do(root, "block", "TASK.a", "bob").out == "blocked task Task.A [blocked]\n"
    assert [path.name for path in (root.folder() / "tasks").iterdir()] == ["Task.A.json"]
    assert last(root).body["task_id"] == "Task.A"


def test_names_of_other_tasks_are_found_without_case(root: Root) -> None:
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "t-1")
    edit(root, "tasks/T-2.json", depends_on=["t-1"])
    refused(root, "TASK_DEPENDENCY_NOT_READY", "task", "claim", "c", "T-2", "--as", "bob")
    do(root, "claim", "T-1", "bob")
    assert "carol" not in last(root).concerns
    do(root, "done", "T-1", "BOB")
    assert last(root).concerns == {"all"}, "T-2 became ready"
    do(root, "claim", "T-2", "bob")


# ---- update, done, block, release without a lease -----------------------------------------------------------

VALUES = {
    "title": ("new", "new"),
    "owner": ("bob", "bob"),
    "depends-on": ("T-0", ["T-0"]),
    "files-hint": ("a,b", ["a", "b"]),
    "acceptance": ("a,b", ["a", "b"]),
    "branch": ("x/y", "x/y"),
    "status": ("blocked", "blocked"),
}


@pytest.mark.parametrize("name", VALUES)
def test_update_changes_one_field_and_says_so(root: Root, name: str) -> None:
    make(root, "T-0")
    make(root, "T-1")
    typed, value = VALUES[name]
    found = do(root, "update", "T-1", "carol", f"--{name}", typed)
    field = name.replace("-", "_")
    assert found.out == f"updated task T-1 [{'blocked' if name == 'status' else 'open'}]\n"
    assert task(root)[field] == value
    body = last(root).body
    assert (body["changed_fields"], body["previous_status"], body["event"]) == ([field], "open", "task.updated")
    assert body["updated_at"] == task(root)["updated_at"] and last(root).sender == "carol"


@pytest.mark.parametrize(
    "clear, field, value",
    [
        (["--clear-owner"], "owner", None),
        (["--owner", ""], "owner", None),
        (["--clear-branch"], "branch", None),
        (["--branch="], "branch", None),
        (["--depends-on", ""], "depends_on", []),
        (["--files-hint="], "files_hint", []),
        (["--acceptance", ""], "acceptance", []),
    ],
    ids=lambda found: found[0] if isinstance(found, list) and found else str(found),
)
def test_an_empty_value_empties(root: Root, clear: list[str], field: str, value: Any) -> None:
    make(root, "T-0")
    more = ["--owner", "bob", "--branch", "b", "--depends-on", "T-0", "--files-hint", "f", "--acceptance", "a"]
    make(root, "T-1", *more)
    do(root, "update", "T-1", "alice", *clear)
    assert task(root)[field] == value and last(root).body["changed_fields"] == [field]


MOVES = {
    "open": {"in_progress", "blocked", "cancelled"},
    "in_progress": {"open", "blocked", "done", "cancelled"},
    "blocked": {"open", "in_progress", "cancelled"},
    "done": set(),
    "cancelled": set(),
}


@pytest.mark.parametrize("before, after", list(itertools.product(MOVES, MOVES)))
def test_a_status_moves_where_the_table_says(root: Root, before: str, after: str) -> None:
    make(root, "T-1")
    edit(root, "tasks/T-1.json", status=before)
    words = ["task", "update", "c", "T-1", "--as", "alice", "--status", after]
    if after == before or after in MOVES[before]:
        assert root.ok(*words).out == f"updated task T-1 [{after}]\n"
        assert task(root)["status"] == after and len(root.names()) == 1 + (after != before)
    else:
        refused(root, "TASK_INVALID_TRANSITION", *words)


VERBS = {
    "done": ("done", {"in_progress", "done"}),
    "block": ("blocked", {"open", "in_progress", "blocked"}),
    "release": ("open", {"blocked", "in_progress", "open"}),
}


@pytest.mark.parametrize("verb, before", list(itertools.product(VERBS, MOVES)))
def test_done_block_and_release_start_where_the_table_says(root: Root, verb: str, before: str) -> None:
    make(root, "T-1")
    edit(root, "tasks/T-1.json", status=before)
    after, allowed = VERBS[verb]
    if before not in allowed:
        refused(root, "TASK_INVALID_TRANSITION", "task", verb, "c", "T-1", "--as", "alice")
        return
    word = {"release": "released", "block": "blocked", "done": "done"}[verb]
    assert do(root, verb, "T-1", "alice").out == f"{word} task T-1 [{after}]\n"
    if before == after:
        assert len(root.names()) == 1, "no change, no audit message"
    else:
        body = last(root).body
        assert (body["event"], body["previous_status"], body["changed_fields"]) == ("task.updated", before, ["status"])
        assert "transaction_id" not in body


def test_no_change_leaves_the_record_and_says_nothing(root: Root) -> None:
    make(root, "T-1", "--owner", "bob", "--files-hint", "a")
    before = everything(root)
    for words in (
        ["--title", "T-1"],
        ["--owner", "bob"],
        ["--files-hint", "a"],
        ["--status", "open"],
        ["--clear-branch"],
    ):
        assert do(root, "update", "T-1", "carol", *words).out == "updated task T-1 [open]\n"
    do(root, "release", "T-1", "carol")
    assert everything(root) == before


def test_progress_needs_finished_dependencies_also_when_these_change(root: Root) -> None:
    make(root, "T-1")
    make(root, "T-2")
    do(root, "update", "T-2", "bob", "--status", "in_progress")
    refused(root, "TASK_DEPENDENCY_NOT_READY", "task", "update", "c", "T-2", "--as", "bob", "--depends-on", "T-1")
    do(root, "update", "T-1", "bob", "--status", "in_progress")
    do(root, "done", "T-1", "bob")
    do(root, "update", "T-2", "bob", "--depends-on", "T-1")
    do(root, "done", "T-2", "bob")


def test_a_cancelled_dependency_is_never_ready(root: Root) -> None:
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-1")
    do(root, "update", "T-1", "alice", "--status", "cancelled")
    assert last(root).concerns == set()
    assert "T-1=cancelled" in refused(root, "TASK_DEPENDENCY_NOT_READY", "task", "claim", "c", "T-2", "--as", "bob").err


def test_a_long_circle_is_refused_and_a_diamond_is_none(root: Root) -> None:
    make(root, "A")
    make(root, "B", "--depends-on", "A")
    make(root, "C", "--depends-on", "A")
    make(root, "D", "--depends-on", "B,C")
    refused(root, "TASK_DEPENDENCY_CYCLE", "task", "update", "c", "A", "--as", "alice", "--depends-on", "D")


def test_readiness_is_computed_from_records_not_from_messages(root: Root) -> None:
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-1")
    body = json.dumps({"event": "lease.completed", "task_id": "T-1", "status": "done"})
    path = root.put(9, body)
    path.write_text(path.read_text().replace("discussion", "lease.completed"))
    refused(root, "TASK_DEPENDENCY_NOT_READY", "task", "claim", "c", "T-2", "--as", "bob")


def test_links_out_of_the_workspace_are_followed_before_they_are_judged(root: Root, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "in").mkdir(parents=True)
    (work / "out").symlink_to(tmp_path)
    (work / "near").symlink_to(work / "in")
    words = ["task", "create", "c", "T-1", "--from", "alice", "--title", "t", "--workspace", str(work)]
    refused(root, "TASK_PATH_OUTSIDE_WORKSPACE", *words, "--files-hint", "out/x")
    root.ok(*words, "--files-hint", "near/x, ./in//y")
    assert task(root)["files_hint"] == ["near/x", "./in//y"]


# ---- list, show, next ---------------------------------------------------------------------------------------


@pytest.fixture
def board(root: Root) -> Root:
    """T-1 leased by bob; T-2 waits for it; T-3 is carol's; T-4 is free and ready; T-5 is blocked."""
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-1", "--title", "second")
    make(root, "T-3", "--owner", "carol")
    make(root, "T-4")
    make(root, "T-5")
    do(root, "claim", "T-1", "bob")
    do(root, "block", "T-5", "alice")
    return root


def listed(root: Root, *words: str) -> list[str]:
    found = root.ok("task", "list", "c", *words)
    plain = [] if found.out.startswith("(no tasks") else [line.split()[0] for line in found.out.splitlines()[1:]]
    assert [one["id"] for one in root.ok("task", "list", "c", *words, "--json").json["tasks"]] == plain
    return plain


def test_a_list_has_these_columns(board: Root) -> None:
    lines = board.ok("task", "list", "c").out.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "OWNER", "DEPENDS_ON", "TITLE"]
    assert lines[1].split() == ["T-1", "in_progress", "bob", "-", "T-1"]
    assert lines[2].split() == ["T-2", "open", "-", "T-1", "second"]


@pytest.mark.parametrize(
    "words, found",
    [
        ([], ["T-1", "T-2", "T-3", "T-4", "T-5"]),
        (["--status", "open"], ["T-2", "T-3", "T-4"]),
        (["--status", "done"], []),
        (["--owner", "CAROL"], ["T-3"]),
        (["--ready"], ["T-3", "T-4"]),
        (["--ready", "--owner", "carol"], ["T-3"]),
        (["--status", "blocked", "--ready"], []),
    ],
    ids=" ".join,
)
def test_a_list_is_filtered(board: Root, words: list[str], found: list[str]) -> None:
    assert listed(board, *words) == found


def test_an_empty_list_says_so(root: Root) -> None:
    assert root.ok("task", "list", "c").out == "(no tasks in 'c')\n"


def test_the_list_as_an_object(board: Root) -> None:
    found = board.ok("task", "list", "c", "--json").json
    assert set(found) == {"channel", "tasks", "damaged"} and found["damaged"] == []
    second = found["tasks"][1]
    assert list(second) == [*FIELDS, "ready", "waits_for"] and second["waits_for"] == {"T-1": "in_progress"}
    assert not second["ready"] and found["tasks"][3]["ready"]
    assert {key: second[key] for key in FIELDS} == task(board, "T-2")


def test_show_names_every_field_and_what_it_waits_for(board: Root) -> None:
    lines = dict(line.split(": ", 1) for line in board.ok("task", "show", "c", "t-2").out.splitlines())
    assert list(lines) == [*FIELDS[:7], "dependencies", *FIELDS[7:]]
    assert lines["dependencies"] == "blocked (T-1=in_progress)" and lines["owner"] == "-" and lines["id"] == "T-2"
    assert "dependencies: ready\n" in board.ok("task", "show", "c", "T-4").out
    found = board.ok("task", "show", "c", "T-2", "--json").json
    assert found["task"]["waits_for"] == {"T-1": "in_progress"} and list(found["task"]) == [
        *FIELDS,
        "ready",
        "waits_for",
    ]


def test_a_hostile_title_stays_in_its_cell(root: Root) -> None:
    make(root, "T-1")
    edit(root, "tasks/T-1.json", title="a\nT-9 done \x1b[2J\u202e x", branch=None, acceptance=["one\nstatus: done"])
    assert len(root.ok("task", "list", "c").out.splitlines()) == 2
    shown = root.ok("task", "show", "c", "T-1").out
    assert "\x1b" not in shown and "\u202e" not in shown and shown.count("\nstatus: ") == 1


@pytest.mark.parametrize(
    "verb",
    "create update claim next renew recover release done block".split(),
)
def test_each_change_answers_with_the_record(root: Root, verb: str) -> None:
    more: dict[str, list[str]] = {"update": ["--title", "x"], "create": ["--title", "x"], "recover": ["--reason", "r"]}
    if verb != "create":
        make(root, "T-1")
    if verb in ("renew", "release", "done"):
        do(root, "claim", "T-1", "bob")
    if verb == "recover":
        lease_expired(root)
    words = ["task", verb, "c", *([] if verb == "next" else ["T-1"]), "--as", "bob", *more.get(verb, [])]
    status = {"release": "open", "done": "done", "block": "blocked", "create": "open", "update": "open"}.get(verb)
    found = root.ok(*words, "--json")
    assert found.json == {"task": task(root)} and not found.err
    assert task(root)["status"] == (status or "in_progress")


def test_next_takes_ones_own_first_then_what_is_free(board: Root) -> None:
    assert board.ok("task", "next", "c", "--as", "Carol").out == "claimed task T-3 [in_progress]\n"
    assert board.ok("task", "next", "c", "--as", "Carol", "--ttl", "60").out == "claimed task T-4 [in_progress]\n"
    found = refused(board, "TASK_NOT_FOUND", "task", "next", "c", "--as", "carol")
    assert "wait c --as carol" in found.err
    assert claims(board) == ["T-1.bob", "T-3.Carol", "T-4.Carol"]


# ---- damage -------------------------------------------------------------------------------------------------


def test_one_damaged_record_blocks_only_itself(board: Root) -> None:
    make(board, "T-6", "--depends-on", "T-5,T-4")
    write(board.folder() / "tasks/T-5.json", '{"id": "T-5"')
    found = board.run("task", "list", "c")
    assert (
        found.status == 2 and [line.split()[0] for line in found.out.splitlines()[1:]] == "T-1 T-2 T-3 T-4 T-6".split()
    )
    assert "TASK_INVALID_RECORD" in found.err and "T-5" in found.err and "line 1" in found.err
    assert "blocked (T-4=open, T-5=damaged)" in board.ok("task", "show", "c", "T-6").out.replace(
        "T-5=damaged, T-4=open", "T-4=open, T-5=damaged"
    )
    refused(board, "TASK_INVALID_RECORD", "task", "claim", "c", "T-6", "--as", "dave")
    refused(board, "TASK_INVALID_RECORD", "task", "update", "c", "T-5", "--as", "alice", "--title", "x")
    do(board, "claim", "T-4", "carol")
    do(board, "renew", "T-4", "carol")
    do(board, "done", "T-4", "carol")
    assert last(board).concerns == {"alice"}, "T-6 waits for a damaged one: nobody may take it"
    do(board, "release", "T-1", "bob")
    assert board.ok("task", "next", "c", "--as", "dave").out == "claimed task T-1 [in_progress]\n"
    do(board, "update", "T-6", "alice", "--title", "still")
    assert "open" in board.ok("state", "c").out


@pytest.mark.parametrize("kind", ["folder", "link", "not JSON"])
def test_a_dependency_that_cannot_be_read_is_no_finished_one(root: Root, kind: str) -> None:
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-1")
    path = root.folder() / "tasks/T-1.json"
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("T-2.json")
    else:
        path.write_text("?")
    found = root.run("task", "list", "c", "--json")
    assert found.status == 2 and found.json["tasks"][0]["waits_for"] == {"T-1": "damaged"}
    assert found.json["damaged"][0]["file"] == "tasks/T-1.json" and not found.json["tasks"][0]["ready"]
    assert root.run("task", "list", "c", "--ready").out == "(no tasks in 'c')\n"
    refused(root, "TASK_NOT_FOUND", "task", "next", "c", "--as", "bob")


def test_a_leased_task_with_a_damaged_dependency_is_renewed_and_given_back(root: Root) -> None:
    make(root, "T-1")
    do(root, "update", "T-1", "alice", "--status", "in_progress")
    do(root, "done", "T-1", "alice")
    make(root, "T-2", "--depends-on", "T-1")
    do(root, "claim", "T-2", "bob")
    write(root.folder() / "tasks/T-1.json", "{")
    do(root, "renew", "T-2", "bob")
    do(root, "update", "T-2", "bob", "--title", "x")
    do(root, "release", "T-2", "bob")
    assert last(root).concerns == {"alice"}, "whether it is ready cannot be told"


def test_three_damaged_records_are_named_then_how_many_more(root: Root) -> None:
    for number in range(5):
        write(root.folder() / f"tasks/T-{number}.json", "{")
    found = root.run("task", "list", "c")
    assert found.status == 2 and found.out == "(no tasks in 'c')\n"
    lines = found.err.splitlines()
    assert len(lines) == 4 and "2 more" in lines[3] and "doctor c" in lines[3]


def test_one_error_names_all_problems_of_a_record(root: Root) -> None:
    make(root, "T-1")
    edit(root, "tasks/T-1.json", status="x", branch="a b", updated_at="now", depends_on=["T-1", "/"])
    found = root.run("task", "show", "c", "T-1", "--json")
    error = json.loads(found.err)["error"]
    codes = "INVALID_STATUS INVALID_BRANCH DEPENDENCY_CYCLE INVALID_DEPENDENCY_ID INVALID_TIMESTAMP"
    assert error["details"]["problems"] == [f"TASK_{code}" for code in codes.split()]
    assert error["code"] == "TASK_INVALID_STATUS"
    assert error["details"]["file"] == "tasks/T-1.json"


def test_what_is_no_record_is_none(root: Root) -> None:
    make(root, "T-1")
    for name in ("notes.txt", ".T-2.json", "T-3.json~"):
        write(root.folder() / "tasks" / name, "x")
    assert listed(root) == ["T-1"]


BAD_BRANCHES = [*"-x /x x/ x. a..b a~ a^ a: a? a* a[ a\\ @ a@{b a//b .a a/.b a.lock".split(), "", "a b", "a\n"]


def test_a_branch_is_what_git_takes() -> None:
    assert [text for text in BAD_BRANCHES if tasks.is_branch(text)] == []
    assert all(map(tasks.is_branch, ("main", "a/b.c", "ä-ö", "a@b")))


# ---- whom it concerns -----------------------------------------------------------------------------------------


def concerns(root: Root, verb: str, task_id: str, who: str, *more: str) -> set[str]:
    before = len(root.names())
    make(root, task_id, *more, by=who) if verb == "create" else do(root, verb, task_id, who, *more)
    assert len(root.names()) == before + 1
    return last(root).concerns


def test_created_ready_without_an_owner_it_concerns_all(root: Root) -> None:
    assert concerns(root, "create", "T-1", "alice") == {"all"}


def test_created_with_an_owner_it_concerns_the_owner(root: Root) -> None:
    assert concerns(root, "create", "T-1", "alice", "--owner", "Bob") == {"Bob"}
    assert concerns(root, "create", "T-2", "alice", "--owner", "bob", "--depends-on", "T-1") == {"bob"}
    assert concerns(root, "create", "T-3", "alice", "--owner", "alice") == set()
    assert "concerns" not in root.messages()[-1].header


def test_created_with_open_dependencies_and_no_owner_it_concerns_nobody(root: Root) -> None:
    make(root, "T-1")
    assert concerns(root, "create", "T-2", "alice", "--depends-on", "T-1") == set()


def test_owner_and_maker_are_concerned_less_the_one_who_acted(root: Root) -> None:
    make(root, "T-1", "--owner", "bob")
    assert concerns(root, "update", "T-1", "carol", "--title", "x") == {"alice", "bob"}
    assert concerns(root, "update", "T-1", "Alice", "--title", "y") == {"bob"}
    assert concerns(root, "claim", "T-1", "BOB") == {"alice"}
    assert concerns(root, "renew", "T-1", "bob", "--ttl", "900") == {"alice"}
    assert concerns(root, "done", "T-1", "bob") == {"alice"}


def test_the_previous_owner_is_concerned_by_a_recovery(root: Root) -> None:
    make(root, "T-1")
    lease_expired(root)
    assert concerns(root, "recover", "T-1", "carol", "--reason", "r") == {"alice", "bob"}


def test_who_owns_a_task_that_waits_for_it_is_concerned(root: Root) -> None:
    make(root, "T-1")
    make(root, "T-2", "--owner", "carol", "--depends-on", "T-1")
    make(root, "T-3", "--owner", "dave", "--depends-on", "T-2")
    assert concerns(root, "claim", "T-1", "bob") == {"alice", "carol"}
    assert concerns(root, "done", "T-1", "bob") == {"alice", "carol"}, "made ready with an owner"
    do(root, "update", "T-2", "carol", "--status", "cancelled")
    assert last(root).concerns == {"alice", "dave"}
    assert concerns(root, "update", "T-1", "alice", "--title", "x") == set(), "what is over waits no more"


FREEING: list[tuple[str, list[str], list[str]]] = [
    ("depends_on changed", ["--depends-on", "T-1"], ["update", "--depends-on", ""]),
    ("unblocked", [], ["update", "--status", "open"]),
    ("released", [], ["release"]),
    ("owner cleared", ["--owner", "bob"], ["update", "--clear-owner"]),
]


@pytest.mark.parametrize("what, made, words", FREEING, ids=[one[0] for one in FREEING])
def test_what_becomes_free_and_ready_concerns_all(root: Root, what: str, made: list[str], words: list[str]) -> None:
    make(root, "T-1")
    make(root, "T-2", *made)
    if what in ("unblocked", "released"):
        do(root, "block", "T-2", "alice")
    verb, *more = words
    assert concerns(root, verb, "T-2", "carol", *more) == {"all"}
    assert concerns(root, "update", "T-2", "carol", "--title", "x") == {"alice"}, "it was free before"


@pytest.mark.parametrize("what, made, words", FREEING, ids=[one[0] for one in FREEING])
def test_what_becomes_free_and_is_not_ready_does_not(root: Root, what: str, made: list[str], words: list[str]) -> None:
    make(root, "T-0")
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-0", *made)
    if what in ("unblocked", "released"):
        do(root, "block", "T-2", "alice")
    verb, *more = words if what != "depends_on changed" else ["update", "--depends-on", "T-1"]
    owner = {"bob"} if made[:1] == ["--owner"] else set()
    assert concerns(root, verb, "T-2", "carol", *more) == {"alice"} | owner


def test_a_dependency_done_frees_what_waited_only_for_it(root: Root) -> None:
    for name in ("T-1", "T-2"):
        make(root, name)
    make(root, "T-3", "--depends-on", "T-1,T-2")
    for name in ("T-1", "T-2"):
        do(root, "claim", name, "bob")
    assert concerns(root, "done", "T-1", "bob") == {"alice"}
    assert concerns(root, "done", "T-2", "bob") == {"all"}


def test_a_blocked_or_owned_waiter_is_no_free_work(root: Root) -> None:
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-1")
    do(root, "block", "T-2", "alice")
    make(root, "T-3", "--depends-on", "T-1", "--owner", "carol")
    do(root, "update", "T-1", "bob", "--status", "in_progress")
    assert concerns(root, "done", "T-1", "bob") == {"alice", "carol"}


def test_a_lease_given_back_concerns_all_if_it_is_ready(root: Root) -> None:
    make(root, "T-1")
    do(root, "claim", "T-1", "bob")
    assert concerns(root, "release", "T-1", "bob") == {"all"}


OLDER: list[tuple[str, dict[str, Any], set[str]]] = [
    ("task.created", {"status": "open", "owner": None}, {"bob", "carol", "dave"}),
    ("task.created", {"status": "open", "owner": "bob"}, {"bob"}),
    ("task.updated", {"status": "open", "owner": None, "changed_fields": ["status"]}, {"bob", "carol", "dave"}),
    ("task.updated", {"status": "open", "owner": None, "changed_fields": ["title", "updated_at"]}, set()),
    ("task.updated", {"status": "open", "owner": "bob", "changed_fields": ["title"]}, {"bob"}),
    ("lease.claimed", {"status": "in_progress", "owner": "alice", "lease_owner": "alice"}, set()),
    ("lease.renewed", {"status": "in_progress", "owner": "alice", "lease_owner": "alice"}, set()),
    ("lease.released", {"status": "open", "owner": None, "lease_owner": "alice"}, {"bob", "carol", "dave"}),
    ("lease.recovered", {"owner": "alice", "lease_owner": "alice", "previous_owner": "dave"}, {"dave"}),
    ("lease.completed", {"status": "done", "owner": None, "lease_owner": "alice"}, set()),
]


@pytest.mark.parametrize("event, body, readers", OLDER, ids=[f"{one[0]}-{at}" for at, one in enumerate(OLDER)])
def test_what_0_7_5_wrote_is_news_for_those_it_concerns(
    root: Root, event: str, body: dict[str, Any], readers: set[str]
) -> None:
    text = json.dumps({"channel": "c", "event": event, "task_id": "T-1", "lease_expires_at": None, **body})
    path = root.put(1, text)
    path.write_text(path.read_text().replace("discussion", event))
    found = {
        who for who in ("bob", "carol", "dave") if "(no new" not in root.ok("read", "c", "--as", who, "--peek").out
    }
    assert found == readers


def test_what_is_written_about_nobody_is_read_as_about_nobody(root: Root) -> None:
    """Without the key the rule is derived: from what we write it must come out the same."""
    make(root, "T-1")
    make(root, "T-2", "--depends-on", "T-1")
    for agent in ("bob", "carol"):
        root.ok("ack", "c", "--as", agent, "--upto", "99")
    do(root, "update", "T-1", "alice", "--title", "x", "--acceptance", "a")
    do(root, "update", "T-2", "alice", "--title", "x")
    do(root, "update", "T-1", "alice", "--owner", "alice")
    do(root, "claim", "T-1", "alice")
    do(root, "renew", "T-1", "alice", "--ttl", "900")
    do(root, "block", "T-2", "alice")
    for message in root.messages()[2:]:
        assert "concerns" not in message.header, message.title
    for agent in ("bob", "carol"):
        assert "(no new messages" in root.ok("read", "c", "--as", agent).out


# ---- waiting for work -------------------------------------------------------------------------------------------


def wait_meanwhile(root: Root, *acts: Callable[[], object]) -> int:
    """The exit status of bob's `wait`, during which this happens."""
    root.ok("ack", "c", "--as", "bob", "--upto", "9999")
    waiter = root.spawn("wait", "c", "--as", "bob", "--timeout", "1.5" if len(acts) > 1 else "20", "--interval", "0.02")
    try:
        time.sleep(0.3)  # most of the time it waits by then; if not, it must answer all the same
        for act in acts:
            act()
        return waiter.wait(timeout=60)
    finally:
        waiter.kill()
        waiter.communicate()


@pytest.mark.parametrize("what", ["created", "released", "made ready"])
def test_an_idle_member_is_woken_by_work_that_anybody_may_take(root: Root, what: str) -> None:
    make(root, "T-1", "--owner", "carol")
    make(root, "T-2", "--depends-on", "T-1")
    do(root, "claim", "T-1", "carol")
    act = {
        "created": lambda: make(root, "T-3"),
        "released": lambda: do(root, "release", "T-1", "carol"),
        "made ready": lambda: do(root, "done", "T-1", "carol"),
    }[what]
    assert wait_meanwhile(root, act) == 0
    assert root.cursor("bob") == len(root.names())


def test_an_idle_member_sleeps_through_anothers_lease(root: Root) -> None:
    make(root, "T-1")
    do(root, "claim", "T-1", "carol")
    acts = (
        lambda: do(root, "renew", "T-1", "carol", "--ttl", "900"),
        lambda: do(root, "update", "T-1", "carol", "--title", "x"),
        lambda: make(root, "T-2", "--depends-on", "T-1"),
    )
    assert wait_meanwhile(root, *acts) == 4
    assert "(no new messages" in root.ok("read", "c", "--as", "bob").out and root.cursor("bob") == 5


def test_an_auditor_who_knows_only_the_messages_arrives_at_the_records(board: Root) -> None:
    lease_expired(board, "T-4", "carol")
    do(board, "recover", "T-4", "dave", "--reason", "r")
    do(board, "renew", "T-1", "bob", "--ttl", "900")
    do(board, "done", "T-1", "bob")
    do(board, "claim", "T-2", "bob")
    do(board, "release", "T-2", "bob")
    do(board, "update", "T-5", "alice", "--status", "cancelled")
    assert_agree(board)
    assert_audited(board)
