"""docs/protocol.md: its tables are those of the code, and of what the commands really write."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import schema
import tour
from support import REPOSITORY, Root

from agent_chat import (
    audit,
    channel,
    claims,
    events,
    frontmatter,
    path_locks,
    people,
    points,
    recovery,
    requests,
    tasks,
    turns,
)
from agent_chat.errors import EXIT, FAILED, HELD, OK, REFUSED, TIMED_OUT
from agent_chat.storage import journal

TEXT = (REPOSITORY / "docs/protocol.md").read_text("utf-8")
FAMILIES = [found for found in vars(recovery).values() if isinstance(found, recovery.Family)]
# Words in capitals that are no codes: the environment, git, column heads, flags of open(2).
NO_CODES = re.compile(
    r"(AGENT_CHAT|CLAUDE|CODEX|GEMINI|PLUGIN|O)_\w+|AI_AGENT|CURSOR_AGENT|MERGE_HEAD|DEPENDS_ON|PATH_LOCK"
)


def table(heading: str, first: str) -> dict[str, list[str]]:
    """The table below a heading whose first column is headed `first`: its rows by the words of their first cell."""
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    (body,) = re.findall(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", section, re.M)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
    found = {cells[0].replace("`", ""): cells[1:] for cells in rows}
    assert len(found) == len(rows), "a row stands twice"
    return found


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# ---- codes, as the source has them ------------------------------------------------------------------------------


def trees() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted((REPOSITORY / "agent_chat").rglob("*.py")):
        yield path, ast.parse(path.read_text("utf-8"))


def constants(tree: ast.AST) -> set[str]:
    found = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in found if re.fullmatch(r"[A-Z]+(_[A-Z]+)+", text) and not NO_CODES.fullmatch(text)}


def arguments(tree: ast.AST, called: set[str]) -> set[str]:
    """The texts that are the first argument of calls of these."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    named = ((getattr(call.func, "attr", getattr(call.func, "id", "")), call.args[0]) for call in calls)
    return {one.value for name, one in named if name in called and isinstance(one, ast.Constant)}


def endings() -> set[str]:
    """What follows a family's prefix."""
    return {ending for _, tree in trees() for ending in arguments(tree, {"code", "_stays"})}


def codes() -> set[str]:
    found = {code for path, tree in trees() if path.name != "doctor.py" for code in constants(tree)}
    found |= {code for family in FAMILIES for code in (family.io, family.lock, family.changed, family.unclear)}
    return found - endings()


def test_no_message_may_take_a_status_of_the_program() -> None:
    (named,) = re.findall(r"Statuses that begin with (.*?), and `ring`", TEXT, re.S)
    assert words(named) == list(audit.RESERVED)


def findings() -> set[str]:
    (tree,) = (tree for path, tree in trees() if path.as_posix().endswith("agent_chat/doctor.py"))
    return arguments(tree, {"Finding"})


def test_every_code_has_its_row_and_every_row_its_code() -> None:
    assert len(codes()) > 100
    assert set(table("Codes", "code")) == codes()


def test_the_endings_of_a_familys_codes_are_those_of_the_code() -> None:
    assert set(table("Codes", "ending")) == {f"_{ending}" for ending in endings()}


def test_every_finding_of_doctor_has_its_row() -> None:
    prefixes = tuple(family.prefix for family in FAMILIES)
    told = {
        kind for kind in findings() if not any(kind == f"{prefix}_{end}" for prefix in prefixes for end in endings())
    }
    assert set(table("Codes", "finding")) == told - codes()


def test_the_rows_say_which_codes_end_with_another_status() -> None:
    marked = {code: re.search(r"status (\d)", cells[0]) for code, cells in table("Codes", "code").items()}
    assert {code: int(found[1]) for code, found in marked.items() if found} == EXIT
    assert [int(status) for status in table("Exit statuses", "status")] == [OK, FAILED, REFUSED, HELD, TIMED_OUT]


def test_the_families_are_those_of_the_code() -> None:
    rows = table("Changing records", "family")
    assert set(rows) == {family.name for family in FAMILIES}
    for family in FAMILIES:
        folders, *given = (words(cell) for cell in rows[family.name])
        assert folders == [*family.folders, *family.files]
        assert given == [[family.prefix], [family.io], [family.lock], [family.changed], [family.unclear]]


# ---- keys and words -----------------------------------------------------------------------------------------------


def test_the_keys_of_records_are_those_of_the_code_in_their_order() -> None:
    found = {name: words(cells[0]) for name, cells in table("Records", "record").items()}
    assert found == {
        "task": list(tasks.FIELDS),
        "claim": list(claims.FIELDS),
        "path lock": list(path_locks.FIELDS),
        "path in a lock": list(path_locks.PATH_FIELDS),
        "_meta.json": list(channel._META_KEYS),
        "session": list(people.FIELDS),
        "request": list(requests.FIELDS),
        "turn": list(turns.FIELDS),
        "assignment, report": list(turns.HANDOVER_FIELDS),
        "journal": list(journal._KEYS),
    }


def test_the_moves_of_a_task_are_those_of_the_code() -> None:
    found = {status: tuple(words(cells[0])) for status, cells in table("Records", "status").items()}
    assert found == tasks.MOVES


def test_the_keys_of_a_header_are_those_that_are_written_or_read() -> None:
    rows = table("Messages", "key")
    composed = frontmatter.compose(1, "a", "b", 2, "c", "t", "s", "t", "b").decode().split("---\n")[1]
    written = [line.partition(":")[0] for line in composed.splitlines()]
    assert list(rows)[: len(written)] == written
    read = {key for _, tree in trees() for key in header_keys(tree)}
    assert read - set(written) <= set(rows), "a key that the code reads has no row"


def header_keys(tree: ast.AST) -> Iterator[str]:
    """The texts in `....header.get("x")` and `....header["x"]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get" and node.args:
            owner, key = getattr(node.func, "value", None), node.args[0]
        elif isinstance(node, ast.Subscript):
            owner, key = node.value, node.slice
        else:
            continue
        name = getattr(owner, "attr", getattr(owner, "id", ""))
        if name == "header" and isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def test_what_counts_in_the_summary_is_as_in_the_code() -> None:
    rows = table("The summary", "kind")
    for name, kind in (("decision", points.DECISION), ("blocker", points.BLOCKER), ("evidence", points.EVIDENCE)):
        statuses, titles, headings = rows[name]
        assert set(words(statuses)) == kind.statuses
        assert {title.lower() for title in words(titles)} == set(kind.titles)
        assert [word.strip().lower() for word in headings.split(",")] == list(kind.headings)
    assert len(rows) == 3


def test_the_events_are_those_of_the_code() -> None:
    rows = table("Events", "event")
    allowed = {events.CAPABILITY: events.PRIMITIVES, events.STATUS: events.STATUSES}
    assert set(rows) == set(allowed)
    for kind, (keys, listed) in rows.items():
        assert words(keys) == [*events.FIELDS[kind], *(f"[{key}]" for key in events.OPTIONAL[kind])]
        assert words(listed) == list(allowed[kind])


# ---- what commands really write ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A root after every command."""
    path = tmp_path_factory.mktemp("tour")
    tour.run(path)
    return Root(path / "root")


def test_audit_messages_have_the_keys_of_their_row(toured: Root) -> None:
    rows = {event: words(cells[0]) for event, cells in table("Audit messages", "event").items()}
    assert set(rows) == audit.EVENTS
    seen: dict[str, set[str]] = {}
    for message in toured.messages():
        if message.status in rows:
            body = json.loads(message.body)
            common = {"channel", "event"} | ({"updated_at"} if message.status != "state.compacted" else set())
            assert common <= set(body), message.name
            allowed = {key.strip("[]") for key in rows[message.status]}
            needed = {key for key in rows[message.status] if key[0] != "["}
            assert needed <= set(body) - common <= allowed, (message.name, sorted(body))
            seen.setdefault(message.status, set()).update(set(body) - common)
    assert set(seen) == audit.EVENTS, "the tour makes every event"
    shown = {key for keys in seen.values() for key in keys}
    assert {key.strip("[]") for keys in rows.values() for key in keys} <= shown


def test_every_key_that_is_written_has_its_row(toured: Root) -> None:
    assert {key for message in toured.messages() for key in message.header} <= set(table("Messages", "key"))


def test_everything_in_a_channel_has_its_row(toured: Root) -> None:
    rows = [name for cell in table("Root and channel", "in a channel") for name in re.split(r" (?=\.)", cell)]
    tops = {name.partition("/")[0] for name in rows}
    others = [name for path in toured.folder().iterdir() if (name := path.name) not in tops]
    assert all(re.fullmatch(r"\d{4}-[a-z0-9-]+\.md|task-\d\.md", name) for name in others), others
    missing = tops - {path.name for path in toured.folder().iterdir()}
    assert {name for name in missing if "<" not in name} <= {"_policy.json", ".waiters"}


def test_files_that_are_named_exist() -> None:
    for name in re.findall(r"`((?:tests|schemas|hooks)/[\w./-]*)`", TEXT):
        assert (REPOSITORY / name).exists(), name
    assert schema.FOLDER.is_dir()
