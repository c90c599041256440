"""join, leave, tokens, takeovers: who may act under a name (extensions, sections 4 and 7)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from board import following
from scene import CHANGING, ELSEWHERE, LOOKING
from support import Result, Root, make_root, open_channel
from terminal import at_terminal, decide

from agent_chat import audit, decisions, hosts, messages, people, turns
from agent_chat.cli import admission
from agent_chat.cli.options import Call
from agent_chat.cli.table import COMMANDS
from agent_chat.errors import AgentChatError

POST = ["--title", "t", "--body", "b"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def join(root: Root, agent: str, session: str = "", **environment: str) -> dict[str, Any]:
    words = ["join", "c", "--as", agent, *(["--session", session] if session else [])]
    found: dict[str, Any] = root.ok(*words, "--json", **environment).json
    return found


def record(root: Root, agent: str = "bob") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root.folder() / f".sessions/{agent}.json").read_text())
    return found


def require(root: Root, **policy: str) -> None:
    (root.folder() / "_policy.json").write_text(json.dumps(policy))


def post(root: Root, token: str = "", *more: str, **environment: str) -> Result:
    return root.run("post", "c", *POST, *more, **({"AGENT_CHAT_TOKEN": token} if token else {}), **environment)


def all_bytes(root: Root) -> bytes:
    return b"\0".join(path.read_bytes() for path in root.path.rglob("*") if path.is_file())


# ---- joining --------------------------------------------------------------------------------------------------


def test_join_registers_a_name_and_shows_its_token_once(root: Root) -> None:
    result = root.ok("join", "c", "--as", "Dave", "--session", "s-1", "--harness", "my host")
    first, _, export = result.out.splitlines()
    assert first.startswith("joined c as Dave (session s-1, key ")
    token = export.removeprefix("export AGENT_CHAT_TOKEN=")
    found = record(root, "dave")
    assert list(found) == list(people.FIELDS)
    assert (found["agent"], found["session"], found["harness"]) == ("Dave", "s-1", "my host")
    assert found["key"] == people.key_of(token) and found["key"][:12] in first
    assert "Dave" in json.loads((root.folder() / "_meta.json").read_text())["members"]
    assert token.encode() not in all_bytes(root) and token.partition(":")[2].encode() not in all_bytes(root)
    message = root.messages()[-1]
    assert (message.sender, message.status) == ("Dave", "agent.joined")
    assert json.loads(message.body)["key"] == found["key"][:12] and audit.concerned(message) == frozenset()


def test_a_member_stays_as_it_is_spelled(root: Root) -> None:
    meta = (root.folder() / "_meta.json").read_bytes()
    join(root, "BOB")
    assert (root.folder() / "_meta.json").read_bytes() == meta


def test_other_keys_of_the_channel_stay_as_they_are(root: Root) -> None:
    path = root.folder() / "_meta.json"
    path.write_text('{"channel": "c", "color": "red", "topic": "t", "created": "2026-01-01T00:00:00+00:00"}')
    join(root, "dave")
    assert json.loads(path.read_text()) == {
        **{"channel": "c", "color": "red", "topic": "t", "created": "2026-01-01T00:00:00+00:00"},
        "members": ["dave"],
    }


def test_the_session_is_the_hosts_own_where_none_is_said(root: Root) -> None:
    assert join(root, "bob", CLAUDE_CODE_SESSION_ID="host-1", CLAUDECODE="1")["session"] == "host-1"
    assert record(root)["harness"] == "claude"
    assert join(root, "carol", AGENT_CHAT_SESSION="mine", CODEX_THREAD_ID="host-2")["session"] == "mine"
    assert join(root, "alice")["session"].startswith("s-")


def test_hooks_of_the_host_know_the_name_afterwards(root: Root) -> None:
    join(root, "dave", CLAUDE_CODE_SESSION_ID="host-1", CLAUDECODE="1")
    found = hosts.find(str(root.path), "host-1")
    assert found and found.agent == "dave" and found.is_here()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs to know when a process began")
def test_a_cleared_session_of_a_host_is_the_same_one(root: Root) -> None:
    """A clear gives the session a new id in the same process, and the agent has forgotten its token."""
    pid = str(os.getpid())
    join(root, "bob", CLAUDE_CODE_SESSION_ID="before", CLAUDE_PID=pid)
    join(root, "bob", CLAUDE_CODE_SESSION_ID="after", CLAUDE_PID=pid)
    assert record(root)["session"] == "after"
    words = ["join", "c", "--as", "bob"]
    root.refused("SESSION_TAKEN", *words, CLAUDE_CODE_SESSION_ID="other", CLAUDE_PID=str(os.getppid()))
    root.refused("SESSION_TAKEN", *words, CLAUDE_CODE_SESSION_ID="other")


@pytest.mark.parametrize("session", ["a b", "x" * 129, "", "ü", "a\nb", "../x"])
def test_an_odd_session_is_refused(root: Root, session: str) -> None:
    if session:
        root.refused("SESSION_INVALID_ID", "join", "c", "--as", "bob", f"--session={session}")
        if "\n" not in session:
            root.refused("SESSION_INVALID_ID", "post", "c", "--from", "bob", *POST, AGENT_CHAT_SESSION=session)
    assert root.names() == []


def test_the_same_session_joins_again_and_needs_nobody(root: Root) -> None:
    first = join(root, "bob", "s-1")
    second = join(root, "bob", "s-1")
    assert first["token"] != second["token"] and first["joined_at"] == second["joined_at"]
    assert post(root, second["token"]).status == 0
    assert post(root, first["token"]).code == "IDENTITY_MISMATCH", "the older token is void"


def test_whoever_shows_the_token_may_join_from_another_session(root: Root) -> None:
    first = join(root, "bob", "s-1")
    second = join(root, "bob", "s-2", AGENT_CHAT_TOKEN=first["token"])
    assert record(root)["session"] == "s-2" and post(root, second["token"]).status == 0


def test_another_session_does_not_get_the_name(root: Root) -> None:
    first, before = join(root, "bob", "s-1"), record(root)
    for words in (["--session", "s-2"], []):
        found = root.refused("SESSION_TAKEN", "join", "c", "--as", "Bob", *words)
        assert following(found) == ["join", "c", "--as", "bob", "--takeover", "--reason", "WHY"]
    root.refused("SESSION_TAKEN", "leave", "c", "--as", "bob", "--session", "s-2")
    assert record(root) == before and post(root, first["token"]).status == 0


def test_leaving_voids_the_token_and_frees_the_name(root: Root) -> None:
    token = join(root, "bob", "s-1")["token"]
    root.ok("leave", "c", "--as", "bob", "--session", "s-1")
    assert not (root.folder() / ".sessions/bob.json").exists()
    assert post(root, token).code == "IDENTITY_MISMATCH"
    root.refused("SESSION_NOT_FOUND", "leave", "c", "--as", "bob", "--session", "s-1")
    assert "bob" in root.ok("roster", "c").out, "it can still be written to"
    root.ok("leave", "c", AGENT_CHAT_TOKEN=join(root, "bob", "s-2")["token"])


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"agent": "bob"}'])
def test_a_damaged_registration_is_nobodys_until_it_is_put_aside(root: Root, text: str) -> None:
    (root.folder() / ".sessions").mkdir()
    (root.folder() / ".sessions/bob.json").write_text(text)
    root.refused("SESSION_INVALID_RECORD", "join", "c", "--as", "bob")
    findings = root.run("doctor", "c", "--json").json["findings"]
    found = [one for one in findings if one["kind"] == "SESSION_INVALID_RECORD"]
    assert len(found) == 1 and found[0]["next"].startswith("mv -- ")
    os.system(found[0]["next"])
    join(root, "bob")


def test_a_link_in_place_of_a_registration_is_not_followed(root: Root, tmp_path: Path) -> None:
    (root.folder() / ".sessions").mkdir()
    (tmp_path / "outside").write_text("mine")
    (root.folder() / ".sessions/bob.json").symlink_to(tmp_path / "outside")
    root.refused("SESSION_INVALID_RECORD", "join", "c", "--as", "bob")
    assert (tmp_path / "outside").read_text() == "mine"


# ---- tokens ---------------------------------------------------------------------------------------------------


def test_a_message_carries_the_key_only_with_the_token_and_the_session_as_said(root: Root) -> None:
    found = join(root, "bob", "s-1")
    assert post(root, "", "--from", "bob").status == 0
    assert not {"key", "session"} & set(root.messages()[-1].header)
    assert post(root, "", "--from", "bob", "--session", "claimed").status == 0
    assert root.messages()[-1].header["session"] == "claimed" and "key" not in root.messages()[-1].header
    assert post(root, found["token"], AGENT_CHAT_SESSION="s-1").status == 0
    header = root.messages()[-1].header
    assert (header["from"], header["session"], header["key"]) == ("bob", "s-1", found["key"])
    root.ok("task", "create", "c", "T-1", "--title", "t", AGENT_CHAT_TOKEN=found["token"])
    assert root.messages()[-1].header["key"] == found["key"], "the record of a change, too"


def test_with_a_token_the_name_may_be_left_out_and_another_is_a_mismatch(root: Root) -> None:
    token = join(root, "bob")["token"]
    assert post(root, token).status == 0 and root.messages()[-1].sender == "bob"
    assert post(root, token, "--from", "Bob").status == 0
    before = root.names()
    assert post(root, token, "--from", "alice").code == "IDENTITY_MISMATCH"
    assert post(root, token, AGENT_CHAT_NAME="alice").code == "IDENTITY_MISMATCH"
    root.refused("IDENTITY_MISMATCH", "read", "c", "--as", "alice", AGENT_CHAT_TOKEN=token)
    assert root.names() == before


@pytest.mark.parametrize("odd", ["nonsense", "c/bob:" + "0" * 32, "c/nobody:" + "0" * 32, "c/:x", "/:", "c/b b:1"])
def test_a_wrong_token_is_refused_under_every_policy(root: Root, odd: str) -> None:
    join(root, "bob")
    for words in (["post", "c", "--from", "bob", *POST], ["read", "c", "--as", "bob"], ["peek", "c"]):
        result = root.run(*words, AGENT_CHAT_TOKEN=odd)
        assert result.code == "IDENTITY_MISMATCH", (words, result)


def test_a_token_of_another_channel_proves_nothing_here_and_hinders_nothing(root: Root) -> None:
    root.ok("init", "d", "--members", "bob")
    here, there = join(root, "bob")["token"], root.ok("join", "d", "--as", "bob", "--json").json["token"]
    assert post(root, there, "--from", "bob").status == 0 and "key" not in root.messages()[-1].header
    assert post(root, f"{there},{here}").status == 0 and "key" in root.messages()[-1].header
    assert root.run("wait", "c", "d", "--timeout", "0", AGENT_CHAT_TOKEN=f"{here},{there}").status == 4


MUTATIONS: list[list[str]] = [
    ["post", "c", *POST],
    ["read", "c"],
    ["wait", "c", "--timeout", "0"],
    ["ack", "c", "--upto", "1"],
    ["claim", "c", "task-1.md"],
    ["task", "create", "c", "T-1", "--title", "t"],
    ["lock", "c", "x"],
    ["event", "post", "c", "--type", "capability", "--harness", "h"],
]


@pytest.mark.parametrize("words", MUTATIONS, ids=lambda words: "-".join(words[:2]))
def test_identity_required_refuses_every_mutation_in_anothers_name(root: Root, words: list[str]) -> None:
    root.post("alice")
    (root.folder() / "task-1.md").write_text("work")
    bob, alice = join(root, "bob")["token"], join(root, "alice")["token"]
    require(root, identity="required")
    before = root.names()
    found = root.refused("IDENTITY_REQUIRED", *words, "--as", "bob")
    assert following(found) == ["join", "c", "--as", "bob"]
    root.refused("IDENTITY_MISMATCH", *words, "--as", "bob", AGENT_CHAT_TOKEN=alice)
    root.refused("IDENTITY_MISMATCH", *words, "--as", "bob", AGENT_CHAT_TOKEN=bob + "0")
    assert root.names() == before
    assert root.run(*words, AGENT_CHAT_TOKEN=bob).status in (0, 4)


def test_looking_needs_no_identity_and_settling_neither(root: Root) -> None:
    require(root, identity="required")
    root.ok("recover-pending", "c", "--as", "bob")
    for words in (["peek", "c"], ["read", "c", "--as", "bob", "--peek"], ["task", "list", "c"], ["state", "c"]):
        root.ok(*words)


# ---- a takeover -------------------------------------------------------------------------------------------------

TAKE = ["join", "c", "--as", "bob", "--session", "s-2", "--takeover"]


def test_a_takeover_is_asked_for_and_granted_by_a_person_alone(root: Root) -> None:
    old = join(root, "bob", "s-1")
    post(root, old["token"], "--to", "alice")
    history = root.names()
    found = root.ok(*TAKE, "--reason", "it hangs", "--json").json
    assert found["request"]["id"] == "R-1" and found["next"].endswith("join c --as bob --session s-2")
    assert post(root, old["token"]).status == 0, "nothing has changed yet"
    root.refused("SESSION_TAKEN", "join", "c", "--as", "bob", "--session", "s-2")
    message = root.messages()[-2]
    assert (message.sender, message.status) == ("system", "request.filed"), "nobody is bob before it is granted"
    assert audit.concerned(message) == {"bob"}
    assert "R-1" in root.ok("requests", "c").out

    root.refused("OPERATOR_REQUIRED", "approve", "c", "R-1", stdin="c\n")
    shown = decide(root, "approve", "c", "R-1")
    assert "approving R-1 (takeover bob session=s-2; reason given: it hangs)" in shown.err
    assert root.messages()[-1].header["operator"] == "yes"
    assert post(root, old["token"]).code == "IDENTITY_MISMATCH"
    root.refused("IDENTITY_MISMATCH", "read", "c", AGENT_CHAT_TOKEN=old["token"])
    root.refused("SESSION_TAKEN", "join", "c", "--as", "bob", "--session", "s-1")
    new = join(root, "bob", "s-2")
    assert post(root, new["token"]).status == 0
    assert root.names()[: len(history)] == history and "no request waits" in root.ok("requests", "c").out


@pytest.mark.parametrize("word", ["post", "turn open"])
def test_a_token_that_is_void_by_the_time_of_the_lock_writes_nothing(
    root: Root, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The takeover is granted between the check at the start and the channel's lock."""
    token = join(root, "bob", "s-1")["token"]
    root.ok(*TAKE, "--reason", "it hangs")
    monkeypatch.setenv("AGENT_CHAT_TOKEN", token)
    with open_channel(root) as channel, open_channel(root) as other:
        admission.admit(Call(word, {"channel": "c"}, str(root.path)), channel)
        decisions.approve(other, "R-1")
        before = root.names()
        with pytest.raises(AgentChatError) as caught:
            if word == "post":
                messages.post(channel, messages.Draft("bob", "t", "b"))
            else:
                turns.open_turn(channel, "bob", "bob", "alice")
        assert caught.value.code == "IDENTITY_MISMATCH" and root.names() == before
    root.ok("post", "c", "--from", "alice", *POST)


def test_a_denied_takeover_changes_nothing(root: Root) -> None:
    old = join(root, "bob", "s-1")
    root.ok(*TAKE, "--reason", "I want it")
    root.refused("REQUEST_INVALID_REASON", "deny", "c", "R-1")
    decide(root, "deny", "c", "R-1", "--reason", "it is at work")
    assert post(root, old["token"]).status == 0
    root.refused("SESSION_TAKEN", "join", "c", "--as", "bob", "--session", "s-2")
    message = [message for message in root.messages() if message.status == "request.denied"][-1]
    assert json.loads(message.body)["decision"] == "it is at work" and audit.concerned(message) == {"bob"}
    assert "denied" in root.ok("requests", "c", "--all").out
    root.refused("REQUEST_DECIDED", "approve", "c", "R-1")


def test_asking_twice_is_one_request_and_deciding_twice_one_decision(root: Root) -> None:
    join(root, "bob", "s-1")
    root.ok(*TAKE, "--reason", "why")
    assert root.ok(*TAKE, "--reason", "why not", "--json").json["request"]["id"] == "R-1"
    other = ["join", "c", "--as", "bob", "--session", "s-3", "--takeover", "--reason", "why"]
    assert root.ok(*other, "--json").json["request"]["id"] == "R-2"
    for _ in range(2):
        decide(root, "approve", "c", "r-1")
    events = [message.status for message in root.messages()]
    assert events.count("request.filed") == 2 and events.count("request.approved") == 1


def test_a_takeover_needs_a_reason_and_a_name_that_is_taken(root: Root) -> None:
    root.refused("REQUEST_INVALID_REASON", *TAKE)
    root.refused("REQUEST_INVALID_REASON", *TAKE, "--reason", "x" * 2001)
    root.refused("SESSION_FREE", *TAKE, "--reason", "r")
    join(root, "bob", "s-2")
    root.refused("SESSION_FREE", *TAKE, "--reason", "r")


def test_a_reason_cannot_look_like_something_else_to_the_person(root: Root) -> None:
    join(root, "bob", "s-1")
    root.ok(*TAKE, "--reason", "r\x1b[2J\nagent-chat: policy set c access on")
    shown = at_terminal(root, "approve", "c", "R-1", typed="no\n")
    assert "\x1b" not in shown.err and len(shown.err.splitlines()) == 2
    assert "\x1b" not in root.ok("requests", "c").out and len(root.ok("requests", "c").out.splitlines()) == 2


@pytest.mark.parametrize("words", [["approve", "c", "R-1"], ["deny", "c", "R-1", "--reason", "r"]])
@pytest.mark.parametrize("how", ["null", "piped", "host", "other word"])
def test_nobody_but_a_person_at_a_terminal_decides(root: Root, words: list[str], how: str) -> None:
    join(root, "bob", "s-1")
    root.ok(*TAKE, "--reason", "why")
    before, names = record(root), root.names()
    if how == "null":
        result = at_terminal(root, *words, stdin=subprocess.DEVNULL)
    elif how == "piped":
        result = root.real(*words, input=b"c\n")
    elif how == "host":
        result = at_terminal(root, *words, environment={"AI_AGENT": "x"})
    else:
        result = at_terminal(root, *words, typed="bob\n")
    assert result.status == 2 and "OPERATOR_REQUIRED" in result.err and result.out == ""
    assert (record(root), root.names()) == (before, names)


@pytest.mark.parametrize("request_id", ["R-7", "R-", "../x", "R-01", "", "1"])
def test_an_unknown_request_is_refused(root: Root, request_id: str) -> None:
    for words in (["approve", "c", request_id], ["deny", "c", request_id, "--reason", "r"]):
        assert at_terminal(root, *words).err.count("REQUEST_NOT_FOUND") == 1


def test_a_damaged_request_stops_only_itself(root: Root) -> None:
    join(root, "bob", "s-1")
    root.ok(*TAKE, "--reason", "why")
    (root.folder() / "requests/R-5.json").write_text("{}")
    result = root.run("requests", "c")
    assert result.status == 2 and "R-1" in result.out and result.code == "REQUEST_INVALID_RECORD"
    assert at_terminal(root, "approve", "c", "R-5").err.count("REQUEST_INVALID_RECORD") == 1
    kinds = [one["kind"] for one in root.run("doctor", "c", "--json").json["findings"]]
    assert sorted(kinds) == ["REQUEST_INVALID_RECORD", "REQUEST_OPEN"]
    decide(root, "approve", "c", "R-1")


# ---- reach: joined ----------------------------------------------------------------------------------------------


def test_where_only_the_joined_are_reached_others_neither_post_nor_are_addressed(root: Root) -> None:
    require(root, reach="joined")
    found = root.refused("REACH_REFUSED", "post", "c", "--from", "alice", *POST)
    assert "ask your user" in found.err and following(found) == ["join", "c", "--as", "alice"]
    join(root, "alice", "s-1")
    found = root.refused("REACH_REFUSED", "post", "c", "--from", "alice", "--to", "bob", *POST)
    assert "do not guess" in found.err
    root.ok("post", "c", "--from", "alice", *POST)
    join(root, "bob")
    root.ok("post", "c", "--from", "alice", "--to", "Bob, all", *POST)
    root.ok("read", "c", "--as", "carol")
    root.refused("REACH_REFUSED", "event", "post", "c", "--from", "carol", "--type", "capability", "--harness", "h")
    root.refused("REACH_REFUSED", "task", "create", "c", "T-1", "--from", "alice", "--title", "t", "--owner", "carol")
    root.refused("REACH_REFUSED", "turn", "open", "c", "--orchestrator", "alice", "--worker", "carol", "--as", "alice")
    root.ok("leave", "c", "--as", "alice", "--session", "s-1")
    root.refused("REACH_REFUSED", "post", "c", "--from", "alice", *POST)


# ---- every command is one of a kind -------------------------------------------------------------------------------


def test_no_command_is_forgotten_by_the_policies() -> None:
    """What only looks asks for no proof; what changes something does, or a person decides it."""
    looks = {command for command in COMMANDS if admission.is_look(Call(command, {}, ""))}
    assert set(LOOKING) - {"read", "wait", "channels", "version"} <= looks
    changes = {*CHANGING, "join", "leave", "turn open", "turn assign", "turn report", "lock", "task create"}
    assert looks & changes == {"state", "archive"}, "without --write; moving files away is in nobody's name"
    in_no_channel = {"init", "demo", "doctor", "guard install", "guard pre-commit", "setup"}
    for command in {*CHANGING, *ELSEWHERE} - looks - in_no_channel:
        options = set(COMMANDS[command][3])
        assert "--as" in options, f"{command} changes something in nobody's name: see cli/admission.py"


# ---- no secret in any file ----------------------------------------------------------------------------------------


def test_no_file_of_the_root_holds_a_token(root: Root) -> None:
    tokens = [join(root, "bob", "s-1")["token"], join(root, "bob", "s-1")["token"], join(root, "carol")["token"]]
    for token in tokens:
        post(root, token)
        root.run("read", "c", AGENT_CHAT_TOKEN=token)
        root.run("task", "create", "c", f"T-{tokens.index(token)}", "--title", "t", AGENT_CHAT_TOKEN=token)
    root.ok(*TAKE, "--reason", "why")
    decide(root, "approve", "c", "R-1")
    tokens.append(join(root, "bob", "s-2")["token"])
    root.run("wait", "c", "--timeout", "0.05", AGENT_CHAT_TOKEN=tokens[-1])
    root.ok("compact", "c", AGENT_CHAT_TOKEN=tokens[-1])
    found = all_bytes(root)
    for token in tokens:
        assert token.encode() not in found and token.rpartition(":")[2].encode() not in found
        assert people.key_of(token)[:12].encode() in found, "and the search sees what is there"


def test_a_meta_that_names_no_members_gets_them(root: Root) -> None:
    path = root.folder() / "_meta.json"
    meta = json.loads(path.read_text())
    del meta["members"]
    path.write_text(json.dumps(meta))
    root.ok("join", "c", "--as", "dave", "--session", "s")
    assert json.loads(path.read_text())["members"] == ["dave"]
