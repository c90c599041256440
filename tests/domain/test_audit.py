"""audit.py: whom the record of a change concerns, written or derived (protocol, section 7)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Root, make_root

from agent_chat import arrivals, audit, frontmatter


def message(
    status: str, body: object, to: str = "all", concerns: str | None = None, sender: str = "alice"
) -> frontmatter.Message:
    text = body if isinstance(body, str) else json.dumps(body)
    later = [] if concerns is None else [("concerns", concerns)]
    return frontmatter.parse(
        "0001-a-x.md", frontmatter.compose(1, sender, to, 0, "c", "", status, "t", text + "\n", later)
    )


def is_news(message: frontmatter.Message, agent: str, every_audit: bool = False) -> bool:
    return arrivals.of_message(message).is_news(agent, every_audit)


def concerned(event: str, body: dict[str, object], concerns: str | None = None) -> set[str] | None:
    found = audit.concerned(message(event, {"event": event, **body}, concerns=concerns))
    return None if found is None else set(found)


@pytest.mark.parametrize(
    "written, names",
    [
        ("", set()),
        ("bob", {"bob"}),
        ("Bob, carol", {"bob", "carol"}),
        ("all", {"all"}),
        ("[bob, carol]", {"bob", "carol"}),
        (",,", set()),
    ],
)
def test_what_the_header_says_counts(written: str, names: set[str]) -> None:
    assert concerned("task.created", {"status": "open", "owner": "dave"}, written) == names


@pytest.mark.parametrize(
    "event, body, names",
    [
        ("task.created", {"status": "open", "owner": None}, {"all"}),
        ("task.created", {"status": "open", "owner": "bob"}, {"bob"}),
        ("task.created", {"status": "open", "owner": "alice"}, set()),
        ("task.updated", {"status": "blocked", "owner": "Bob"}, {"bob"}),
        ("task.updated", {"status": "open", "owner": None}, {"all"}),
        ("lease.claimed", {"status": "in_progress", "owner": "alice", "lease_owner": "alice"}, set()),
        ("lease.released", {"status": "open", "owner": None, "lease_owner": "alice"}, {"all"}),
        ("lease.completed", {"status": "done", "owner": None, "lease_owner": "alice"}, set()),
        ("lease.recovered", {"lease_owner": "alice", "previous_owner": "dave"}, {"dave"}),
        ("path.locked", {"owner": "alice"}, set()),
        ("path.lock.recovered", {"owner": "alice", "previous_owner": "dave"}, {"dave"}),
        ("state.compacted", {"last_seq": 3}, set()),
        ("path.locked", {"owner": 5, "previous_owner": ["x"]}, set()),
    ],
)
def test_without_it_event_and_body_say_whom(event: str, body: dict[str, object], names: set[str]) -> None:
    assert concerned(event, body) == names


def test_case_makes_no_difference() -> None:
    assert audit.concerned(message("Task.Created", {"event": "task.CREATED", "owner": "bob"})) == {"bob"}


@pytest.mark.parametrize(
    "status, body",
    [
        ("task.created", "I created a task.\n"),
        ("task.created", "[]"),
        ("task.created", {"event": "task.updated"}),
        ("task.created", {"event": None}),
        ("task.created", {}),
        ("task.created", '{"event": "task.created"'),
        ("task.unheard_of", {"event": "task.unheard_of"}),
        ("discussion", {"event": "discussion"}),
        ("event.status", {"event": "event.status"}),
    ],
)
def test_prose_with_such_a_status_is_an_ordinary_message(status: str, body: object) -> None:
    found = message(status, body)
    assert audit.concerned(found) is None and is_news(found, "bob")


def test_one_that_is_addressed_is_an_ordinary_message() -> None:
    found = message("task.created", {"event": "task.created", "owner": "carol"}, to="bob")
    assert audit.concerned(found) is None and is_news(found, "bob") and not is_news(found, "carol")


def test_it_is_news_only_for_whom_it_concerns_and_never_for_who_acted() -> None:
    about_bob = message("task.updated", {"event": "task.updated", "owner": "Bob", "status": "blocked"}, sender="Alice")
    assert [is_news(about_bob, name) for name in ("bob", "BOB", "carol", "alice")] == [True, True, False, False]
    assert [is_news(about_bob, name, True) for name in ("carol", "alice")] == [True, False]
    for_all = message("task.created", {"event": "task.created", "status": "open", "owner": None})
    assert is_news(for_all, "zed") and not is_news(for_all, "alice")


# ---- what that means to a reader -----------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    body = json.dumps({"event": "path.locked", "owner": "alice"})
    path = root.put(1, body)
    path.write_text(path.read_text().replace("status: discussion", "status: path.locked"))
    return root


def test_what_concerns_others_is_passed_over(root: Root) -> None:
    assert root.run("wait", "c", "--as", "bob", "--timeout", "0.05").status == 4
    assert "no new messages" in root.ok("read", "c", "--as", "bob").out and root.cursor("bob") == 1


@pytest.mark.parametrize("how", ["option", "environment"])
def test_every_one_is_shown_on_demand(root: Root, how: str) -> None:
    option, environment = (["--audit"], {}) if how == "option" else ([], {"AGENT_CHAT_AUDIT": "all"})
    assert "path.locked" in root.ok("wait", "c", "--as", "carol", "--timeout", "1", *option, **environment).out
    assert "path.locked" in root.ok("read", "c", "--as", "bob", *option, **environment).out


def test_the_history_shows_every_one(root: Root) -> None:
    for words in (["read", "c", "--as", "bob", "--all"], ["peek", "c"], ["show", "c", "1"]):
        assert "path.locked" in root.ok(*words).out
