"""Events: strict when they are posted and when they are read, every EVENT_* code; other messages are ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from board import QUICK
from support import Root, make_root, open_channel

from agent_chat import events, frontmatter
from agent_chat.errors import AgentChatError

TS = "2026-01-01T00:00:00+00:00"
COMMON = {"agent": "alice", "harness": "h", "schema_version": 1, "ts": TS}
CAPABILITY = {**COMMON, "event": "capability", "primitives": ["wait", "tasks"]}
STATUS = {**COMMON, "event": "status", "status": "busy"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def put(root: Root, number: int, body: object, status: str = "event.status", by: str = "alice") -> None:
    """A message with an event's status, as another program would write it."""
    text = body if isinstance(body, str) else json.dumps(body)
    data = frontmatter.compose(number, by, "all", 0, "c", TS, status, "event:x", text + "\n")
    (root.folder() / f"{number:04d}-{by.lower()}-event.md").write_bytes(data)


def post(root: Root, kind: str, *more: object, by: str = "alice") -> None:
    root.ok("event", "post", "c", "--from", by, "--type", kind, "--harness", "h", *more, **QUICK)


def found(root: Root, *words: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in root.ok("event", "read", "c", *words).out.splitlines()]


def code_of(event: dict[str, Any]) -> str:
    """The code with which an event is refused; empty when it is one."""
    try:
        events.check(event)
    except AgentChatError as error:
        return error.code
    return ""


def without(event: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != key}


# ---- what is no event ----------------------------------------------------------------------------------------

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("EVENT_UNSUPPORTED_VERSION", {**STATUS, "schema_version": 2}),
    ("EVENT_UNSUPPORTED_VERSION", {**STATUS, "schema_version": "1"}),
    ("EVENT_UNSUPPORTED_VERSION", {**STATUS, "schema_version": True}),
    ("EVENT_UNSUPPORTED_VERSION", without(STATUS, "schema_version")),
    ("EVENT_INVALID_TYPE", {**STATUS, "event": "Status"}),
    ("EVENT_INVALID_TYPE", {**STATUS, "event": None}),
    ("EVENT_INVALID_TYPE", {**STATUS, "event": ["status"]}),
    ("EVENT_INVALID_TYPE", without(STATUS, "event")),
    ("EVENT_UNKNOWN_FIELD", {**STATUS, "more": 1}),
    ("EVENT_UNKNOWN_FIELD", {**STATUS, "primitives": ["wait"]}),
    ("EVENT_UNKNOWN_FIELD", {**CAPABILITY, "status": "busy"}),
    ("EVENT_UNKNOWN_FIELD", {**CAPABILITY, "detail": "d"}),
    *(("EVENT_REQUIRED_FIELD_MISSING", without(STATUS, key)) for key in ("agent", "harness", "ts", "status")),
    ("EVENT_REQUIRED_FIELD_MISSING", without(CAPABILITY, "primitives")),
    *(("EVENT_INVALID_TEXT", {**STATUS, "harness": odd}) for odd in ("", "a\nb", " a", "h" * 101, 7, None, "\ud800")),
    *(("EVENT_INVALID_TEXT", {**STATUS, "agent": odd}) for odd in ("", "all", "a b", "1", "a" * 65, 7)),
    *(("EVENT_INVALID_TEXT", {**STATUS, "detail": odd}) for odd in ("", "a\tb", "d" * 2001, ["d"])),
    *(("EVENT_INVALID_TIMESTAMP", {**STATUS, "ts": odd}) for odd in ("", "now", "2026-01-01T00:00:00", 7, None)),
    *(("EVENT_INVALID_STATUS", {**STATUS, "status": odd}) for odd in ("", "Busy", "away", None)),
    *(("EVENT_INVALID_PRIMITIVES", {**CAPABILITY, "primitives": odd}) for odd in ([], "wait", {"wait": 1}, None, [1])),
    ("EVENT_UNKNOWN_PRIMITIVE", {**CAPABILITY, "primitives": ["wait", "fly"]}),
    ("EVENT_UNKNOWN_PRIMITIVE", {**CAPABILITY, "primitives": ["Wait"]}),
    ("EVENT_DUPLICATE_PRIMITIVE", {**CAPABILITY, "primitives": ["wait", "tasks", "wait"]}),
]


@pytest.mark.parametrize("code, event", WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_no_event_is_refused_with_its_code(code: str, event: dict[str, Any]) -> None:
    assert code_of(event) == code


@pytest.mark.parametrize(
    "event",
    [
        CAPABILITY,
        {**CAPABILITY, "primitives": list(events.PRIMITIVES)},
        *({**STATUS, "status": word} for word in events.STATUSES),
        {**STATUS, "detail": "d" * 2000},
        {**STATUS, "harness": "h" * 100, "ts": "2026-01-01T07:00:00.5+07:00"},
        {**STATUS, "detail": "zoë 日本語 🙂"},
    ],
)
def test_what_is_one_is_taken(event: dict[str, Any]) -> None:
    assert code_of(event) == ""


@pytest.mark.parametrize("code, event", WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_message_with_it_is_named_and_stops_no_other(root: Root, code: str, event: dict[str, Any]) -> None:
    put(root, 1, STATUS)
    put(root, 2, event, by="alice", status="event.capability" if "primitives" in event else "event.status")
    put(root, 3, CAPABILITY, status="event.capability")
    result = root.run("event", "read", "c")
    if event.get("harness") == "\ud800":
        code = "EVENT_MALFORMED_BODY"  # an escape that is no text is no JSON of ours
    assert (result.status, result.code) == (2, code)
    assert [json.loads(line) for line in result.out.splitlines()] == [STATUS, CAPABILITY]
    assert "c/0002-alice-event.md" in result.err and "show c 2" in result.err


@pytest.mark.parametrize(
    "code, body, status, by",
    [
        ("EVENT_MALFORMED_BODY", "no JSON", "event.status", "alice"),
        ("EVENT_MALFORMED_BODY", '{"a": 1, "a": 1}', "event.status", "alice"),
        ("EVENT_MALFORMED_BODY", '{"a": NaN}', "event.status", "alice"),
        ("EVENT_MALFORMED_BODY", "[" * 100_000, "event.status", "alice"),
        ("EVENT_INVALID_RECORD", "[1]", "event.status", "alice"),
        ("EVENT_INVALID_RECORD", '"text"', "event.status", "alice"),
        ("EVENT_INVALID_TYPE", STATUS, "event.capability", "alice"),
        ("EVENT_IDENTITY_MISMATCH", STATUS, "event.status", "bob"),
    ],
)
def test_a_message_that_does_not_fit_its_event(root: Root, code: str, body: object, status: str, by: str) -> None:
    put(root, 1, body, status, by)
    result = root.run("event", "read", "c")
    assert (result.status, result.code, result.out) == (2, code, "") and len(result.err.splitlines()) == 1


def test_with_json_the_bad_ones_stand_beside_the_good(root: Root) -> None:
    put(root, 1, STATUS)
    put(root, 2, "no JSON")
    result = root.run("event", "read", "c", "--json")
    assert result.status == 2 and result.json["events"] == [STATUS]
    assert [one["code"] for one in result.json["damaged"]] == ["EVENT_MALFORMED_BODY"]


def test_many_bad_ones_are_named_three_times(root: Root) -> None:
    for number in range(1, 9):
        put(root, number, "no JSON")
    lines = root.run("event", "read", "c").err.splitlines()
    assert len(lines) == 4 and "5 more" in lines[3]


# ---- posting -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, code",
    [
        (["--type", "mood", "--harness", "h"], "EVENT_INVALID_TYPE"),
        (["--type", "status", "--harness", "h"], "EVENT_REQUIRED_FIELD_MISSING"),
        (["--type", "status", "--harness", "h", "--status", "away"], "EVENT_INVALID_STATUS"),
        (["--type", "status", "--harness", "h", "--status", "busy", "--primitives", "wait"], "EVENT_UNKNOWN_FIELD"),
        (["--type", "capability", "--harness", "h", "--status", "busy"], "EVENT_UNKNOWN_FIELD"),
        (["--type", "capability", "--harness", "h", "--detail", "d"], "EVENT_UNKNOWN_FIELD"),
        (["--type", "capability", "--harness", ""], "EVENT_INVALID_TEXT"),
        (["--type", "capability", "--harness", "a\nb"], "EVENT_INVALID_TEXT"),
        (["--type", "capability", "--harness", "h", "--primitives", "fly"], "EVENT_UNKNOWN_PRIMITIVE"),
        (["--type", "capability", "--harness", "h", "--primitives", "wait,wait"], "EVENT_DUPLICATE_PRIMITIVE"),
        (["--type", "capability", "--harness", "h", "--primitives", ","], "EVENT_INVALID_PRIMITIVES"),
        (["--type", "capability"], "USAGE_ERROR"),
        (["--harness", "h"], "USAGE_ERROR"),
    ],
)
def test_what_is_no_event_is_not_posted(root: Root, words: list[str], code: str) -> None:
    root.refused(code, "event", "post", "c", "--from", "alice", *words)
    assert root.names() == []


@pytest.mark.parametrize("name", ["a b", "all", "7"])
def test_a_bad_name_is_a_bad_text(root: Root, name: str) -> None:
    words = ["--type", "capability", "--harness", "h"]
    root.refused("EVENT_INVALID_TEXT", "event", "post", "c", "--from", name, *words)


def test_an_event_is_an_ordinary_message_to_all_with_one_sorted_line(root: Root) -> None:
    post(root, "status", "--status", "idle", "--detail", "zoë")
    (message,) = root.messages()
    assert (message.status, message.title, message.to) == ("event.status", "event:status", "all")
    (line,) = message.body.splitlines()
    body = json.loads(line)
    assert line == json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert code_of(body) == "" and body["detail"] == "zoë"
    assert "zoë" in root.ok("read", "c", "--as", "bob").out


def test_all_primitives_are_said_unless_some_are_chosen(root: Root) -> None:
    post(root, "capability")
    post(root, "capability", "--primitives", "wait, tasks", "--primitives", "leases")
    assert [event["primitives"] for event in found(root)] == [list(events.PRIMITIVES), ["wait", "tasks", "leases"]]


def test_nobody_posts_an_event_as_an_ordinary_message(root: Root) -> None:
    words = ["post", "c", "--from", "alice", "--title", "t", "--body", "b", "--status", "Event.Status"]
    root.refused("MESSAGE_RESERVED_STATUS", *words)


# ---- reading -------------------------------------------------------------------------------------------------


def test_ordinary_messages_are_ignored_and_nothing_moves(root: Root) -> None:
    root.post(body=json.dumps(STATUS), **QUICK)
    root.ok("task", "create", "c", "T-1", "--from", "alice", "--title", "t", **QUICK)
    assert found(root) == []
    post(root, "capability")
    assert len(found(root)) == 1 and not (root.folder() / ".cursors").exists()


def test_events_are_chosen_by_type_and_sender_in_any_case(root: Root) -> None:
    for by in ("alice", "bob"):
        post(root, "capability", by=by)
        post(root, "status", "--status", "idle", by=by)
    assert [event["agent"] for event in found(root, "--type", "status")] == ["alice", "bob"]
    assert [event["event"] for event in found(root, "--from", "BOB")] == ["capability", "status"]
    assert len(found(root, "--from", "bob", "--type", "capability")) == 1 and found(root, "--from", "carol") == []
    root.refused("EVENT_INVALID_TYPE", "event", "read", "c", "--type", "mood")


def test_latest_is_each_agents_last_of_each_type_in_order(root: Root) -> None:
    for status in ("idle", "busy"):
        post(root, "status", "--status", status)
        post(root, "status", "--status", status, by="bob")
    post(root, "capability")
    latest = [(event["agent"], event["event"], event.get("status")) for event in found(root, "--latest")]
    assert latest == [("alice", "status", "busy"), ("bob", "status", "busy"), ("alice", "capability", None)]
    assert found(root, "--latest") == [event for event in found(root) if event.get("status") != "idle"]


def test_an_agent_is_the_sender_in_any_case(root: Root) -> None:
    put(root, 1, STATUS, by="Alice")
    assert found(root) == [STATUS]


def test_decoding_is_for_events_alone(root: Root) -> None:
    put(root, 1, STATUS, status="Event.Status")
    with open_channel(root) as channel:
        (message,) = root.messages()
        assert events.is_event(message) and events.decode(channel.name, message) == STATUS
    assert not events.is_event(frontmatter.parse("0001-a-b.md", b"---\nfrom: a\nto: b\ntitle: t\n---\n\n"))
