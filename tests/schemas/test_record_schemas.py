"""The schemas of what lies on the disk, held against the field tables and the checks in the code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import schema
from board import QUICK, do, make
from locked import lock
from schema import FOLDER
from support import Root, make_root

from agent_chat import channel, claims, events, path_locks, patterns, people, recovery, requests, tasks, turns
from agent_chat.errors import AgentChatError
from agent_chat.storage import journal

TASK, CLAIM, LOCK, TURN, SESSION, REQUEST, JOURNAL, META, POLICY, EVENT = (
    FOLDER / f"{name}.schema.json"
    for name in "task claim path-lock turn session request journal meta policy agent-chat-event".split()
)
DEFS = schema.load(FOLDER / "defs.schema.json")["$defs"]
Decode = Callable[[str, bytes], object]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A channel with a record of each kind, with each field set, and a journal that a crash left."""
    root = make_root(tmp_path_factory.mktemp("records"))
    make(root, "T-0")
    make(root, "T-1", "--depends-on", "T-0", "--branch", "b", "--acceptance", "a", "--files-hint", "src")
    do(root, "update", "T-0", "alice", "--status", "in_progress")
    do(root, "done", "T-0", "alice")
    do(root, "claim", "T-1", "bob")
    lock(root, "src/a.py", "docs/**")
    root.ok("join", "c", "--as", "bob", "--session", "s-1", "--harness", "h", **QUICK)
    root.ok("join", "c", "--as", "bob", "--session", "s-2", "--takeover", "--reason", "r", **QUICK)
    root.ok("turn", "open", "c", "--orchestrator", "alice", "--worker", "bob", **QUICK)
    root.ok("turn", "assign", "c", "--as", "alice", "--version", "1", "--title", "t", "--request-id", "r", **QUICK)
    root.ok("turn", "report", "c", "--as", "bob", "--version", "2", "--outcome", "done", **QUICK)
    return root


def files(root: Root, where: str) -> list[tuple[str, bytes]]:
    return [(f"{where}/{path.name}", path.read_bytes()) for path in sorted((root.folder() / where).glob("*.json"))]


def journals(root: Root) -> list[bytes]:
    """Of a change, and of its recovery."""
    images = [journal.Image("tasks/T-1.json", None, b"{}\n")]
    message, recovered = ("0009-alice-x.md", b"---\n"), ("0010-bob-y.md", b"---\n")
    entry = journal.Journal("c", "0" * 32, "task.created", "alice", {"task_id": "T-1"}, images, message)
    settled = journal.Journal("c", "", "lease.claimed", "", {}, [], None, recovered, recovery.TASK.legacy)
    return [entry.encode(), settled.encode()]


KINDS: dict[str, tuple[Path, Decode]] = {
    "task": (TASK, lambda path, data: tasks.decode("c", path, data)),
    "claim": (CLAIM, lambda path, data: claims.decode("c", path, data)),
    "lock": (LOCK, lambda path, data: path_locks.decode("c", path, data)),
    "turn": (TURN, lambda path, data: turns.decode("c", data)),
    "session": (SESSION, lambda path, data: people.decode("c", path, data)),
    "request": (REQUEST, lambda path, data: requests.decode("c", path, data)),
    "journal": (JOURNAL, lambda path, data: journal.decode(data, "c", lambda path: True)),
}


def sound(root: Root, kind: str) -> list[tuple[str, dict[str, Any]]]:
    if kind == "journal":
        return [("", json.loads(data)) for data in journals(root)]
    if kind == "turn":
        return [("", json.loads((root.folder() / "_turn.json").read_text()))]
    where = {"task": "tasks", "claim": "claims", "lock": "locks", "session": ".sessions", "request": "requests"}[kind]
    return [(path, json.loads(data)) for path, data in files(root, where)]


def is_taken(decode: Decode, path: str, value: object) -> bool:
    try:
        decode(path, json.dumps(value).encode())
    except (AgentChatError, journal.Invalid):
        return False
    return True


# ---- the keys, and the words that a value may be -------------------------------------------------------------


@pytest.mark.parametrize(
    "described, fields, path",
    [
        (DEFS["task"], tasks.FIELDS, TASK),
        (DEFS["claim"], claims.FIELDS, CLAIM),
        (DEFS["lock"], path_locks.FIELDS, LOCK),
        (DEFS["turn"], turns.FIELDS, TURN),
        (DEFS["handover"], turns.HANDOVER_FIELDS, None),
        (DEFS["session"], people.FIELDS, SESSION),
        (DEFS["request"], requests.FIELDS, REQUEST),
        (DEFS["path_entry"], path_locks.PATH_FIELDS, None),
        (schema.load(JOURNAL), journal._KEYS, None),
        (schema.load(META), channel._META_KEYS, None),
    ],
    ids=["task", "claim", "lock", "turn", "handover", "session", "request", "path entry", "journal", "meta"],
)
def test_the_keys_are_those_of_the_field_table(
    described: dict[str, Any], fields: tuple[str, ...], path: Path | None
) -> None:
    assert tuple(described["properties"]) == tuple(described["required"]) == tuple(fields)
    assert path is None or schema.load(path)["unevaluatedProperties"] is False


def test_the_words_are_those_of_the_code() -> None:
    assert DEFS["task"]["properties"]["status"]["enum"] == list(tasks.STATUSES)
    assert DEFS["request"]["properties"]["kind"]["enum"] == list(requests.KINDS)
    assert DEFS["request"]["properties"]["state"]["enum"] == list(requests.STATES)
    kinds = [patterns.FILE, patterns.DIRECTORY, patterns.PATTERN]
    assert DEFS["path_entry"]["properties"]["kind"]["enum"] == kinds
    assert schema.load(JOURNAL)["properties"]["version"] == {"const": journal.VERSION}


def test_the_event_schema_has_the_tables_of_the_code() -> None:
    for kind, found in zip(events.TYPES, schema.load(EVENT)["oneOf"]):
        known = found["properties"]
        assert found["additionalProperties"] is False and known["event"] == {"const": kind}
        assert sorted(found["required"]) == sorted(events.FIELDS[kind])
        assert set(known) == {*events.FIELDS[kind], *events.OPTIONAL[kind]}
        assert known["schema_version"] == {"const": events.SCHEMA_VERSION}
        for key, limit in events.TEXT_LIMIT.items():
            assert key not in known or known[key]["maxLength"] == limit
    capability, status = schema.load(EVENT)["oneOf"]
    assert capability["properties"]["primitives"]["items"]["enum"] == list(events.PRIMITIVES)
    assert status["properties"]["status"]["enum"] == list(events.STATUSES)


# ---- the same is taken, and the same refused ------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_real_records_are_as_their_schema_says(root: Root, kind: str) -> None:
    path, decode = KINDS[kind]
    for where, value in sound(root, kind):
        assert not schema.problems(path, value) and is_taken(decode, where, value)


def damaged(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The record with each key left out, each value of another type, and one key too many."""
    found = [{**value, "more": 1}]
    for key in value:
        found.append({other: value[other] for other in value if other != key})
        found += [{**value, key: odd} for odd in (7, 1.5, True, None, "", " \t", "/", [], [7], [[]], {}, {"x": 7})]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_takes_what_the_code_takes(root: Root, kind: str) -> None:
    """The code looks further (the file's name, the channel, links between records), never less far."""
    path, decode = KINDS[kind]
    for where, value in sound(root, kind):
        for odd in damaged(value):
            if is_taken(decode, where, odd):
                assert not schema.problems(path, odd), odd
            elif not is_beyond_a_schema(kind, value, odd):
                assert schema.problems(path, odd), odd


def is_beyond_a_schema(kind: str, value: dict[str, Any], odd: dict[str, Any]) -> bool:
    """Refused for what stands elsewhere, or for git's rules of a branch's name."""
    changed = {key for key in value if odd.get(key) != value[key]}
    if kind == "task":
        return changed == {"branch"} and odd.get("branch") in (" \t", "/")
    if kind == "turn":  # the holder is one of the two, and they are two
        return bool(changed & {"holder", "orchestrator", "worker"})
    if kind == "session":
        return changed == {"harness"} and odd.get("harness") == " \t"
    return kind == "lock" and changed <= {"paths"} and isinstance(odd.get("paths"), list)


@pytest.mark.parametrize(
    "words",
    [
        ["--type", "capability"],
        ["--type", "capability", "--primitives", "wait,tasks"],
        ["--type", "status", "--status", "busy", "--detail", "d"],
    ],
)
def test_the_event_schema_takes_what_the_code_takes(tmp_path: Path, words: list[str]) -> None:
    root = make_root(tmp_path)
    root.ok("event", "post", "c", "--from", "alice", "--harness", "h", *words, **QUICK)
    value = json.loads(root.messages()[-1].body)
    assert not schema.problems(EVENT, value)

    def is_event(odd: dict[str, Any]) -> bool:
        try:
            events.check(odd)
        except AgentChatError:
            return False
        return True

    for odd in damaged(value):
        if is_event(odd):
            assert not schema.problems(EVENT, odd), odd
        elif not any(odd.get(key) in (" \t", "/") for key in ("harness", "detail", "agent")):  # lines, names
            assert schema.problems(EVENT, odd), odd


# ---- the files of a channel itself ------------------------------------------------------------------------------


def test_meta_and_policy_are_as_their_schemas_say(tmp_path: Path) -> None:
    root = make_root(tmp_path, "--members", "alice,bob", "--topic", "t", "--recovery", "auto")
    for path, name in ((META, "_meta.json"), (POLICY, "_policy.json")):
        assert not schema.problems(path, json.loads((root.folder() / name).read_text()))


def test_the_policy_has_the_keys_of_the_protocol_and_no_others() -> None:
    limits = dict.fromkeys(("guard_size", "guard_rate", "guard_duplicate", "guard_hops", "guard_pingpong"), "9")
    limits.update(guard_rate="9/9", guard_pingpong="9/9")
    keys = ["access", "identity", "recovery", "turn_guard", "guards", *limits, "ledger", "reach", "retention"]
    assert list(schema.load(POLICY)["properties"]) == keys
    first = {**dict.fromkeys(keys, "off"), "access": "on", "identity": "open", "recovery": "explicit"}
    assert not schema.problems(POLICY, {**first, "turn_guard": "on", "reach": "open"})
    assert not schema.problems(POLICY, {"retention": "14d", **limits})
    odd = [{"retention": "0d"}, {"access": "maybe"}, {"guards": True}, {"guard_hops": "0"}, {"guard_rate": "9"}]
    for one in [*odd, {"more": "on"}]:
        assert schema.problems(POLICY, one)
