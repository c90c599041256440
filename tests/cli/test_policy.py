"""policy show, policy set, and what a policy does: what only a person decides (extensions, section 7)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from board import QUICK, following, journals
from support import REPOSITORY, Root, clean_environment, make_root, open_channel
from terminal import at_terminal, decide

from agent_chat import audit, policy
from agent_chat.cli import operator

SET_OFF = ["policy", "set", "c", "access", "off"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def put_policy(root: Root, text: str | dict[str, object]) -> Path:
    path = root.folder() / "_policy.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
    return path


def said(root: Root) -> dict[str, str]:
    found: dict[str, str] = json.loads((root.folder() / "_policy.json").read_text("utf-8"))
    return found


# ---- showing and setting ------------------------------------------------------------------------------------


def test_without_a_file_the_first_word_of_each_key_counts(root: Root) -> None:
    found = root.ok("policy", "show", "c", "--json").json
    assert found["policy"] == {
        **{"access": "on", "identity": "open", "recovery": "explicit", "turn_guard": "on", "guards": "off"},
        **dict.fromkeys(("guard_size", "guard_rate", "guard_duplicate", "guard_hops", "guard_pingpong"), "off"),
        **{"ledger": "off", "reach": "open", "retention": "off"},
    }
    assert found["said"] == {} and not (root.folder() / "_policy.json").exists()


def test_a_person_sets_one_key_and_everybody_can_read_who_did(root: Root) -> None:
    shown = decide(root, "policy", "set", "c", "retention", "30d")
    assert shown.out == "policy of c: retention is 30d\n"
    assert "setting the policy retention to 30d in channel 'c'; type the channel's name" in shown.err
    decide(root, "policy", "set", "c", "identity", "required")
    assert said(root) == {"identity": "required", "retention": "30d"}
    message = root.messages()[-1]
    assert (message.sender, message.status, message.title) == ("system", "policy.set", "policy.set identity")
    assert message.header["operator"] == "yes"
    body = json.loads(message.body)
    assert (body["key"], body["value"], body["previous_value"]) == ("identity", "required", "open")
    assert audit.concerned(message) == frozenset(), "it wakes nobody"


def test_setting_what_is_set_publishes_nothing(root: Root) -> None:
    decide(root, *SET_OFF)
    decide(root, *SET_OFF)
    assert len(root.names()) == 1


def test_the_ledger_goes_with_the_guards_unless_it_is_said(root: Root) -> None:
    put_policy(root, {"guards": "on"})
    assert root.ok("policy", "show", "c", "--json").json["policy"]["ledger"] == "on"
    put_policy(root, {"guards": "on", "ledger": "off"})
    assert root.ok("policy", "show", "c", "--json").json["policy"]["ledger"] == "off"


@pytest.mark.parametrize("key, value", [("acess", "off"), ("", "x"), ("ACCESS", "off")])
def test_a_key_that_is_none_is_refused_before_anybody_is_asked(root: Root, key: str, value: str) -> None:
    found = root.refused("POLICY_UNKNOWN_KEY", "policy", "set", "c", key, value)
    assert following(found) == ["policy", "show", "c"]


@pytest.mark.parametrize(
    "key, value",
    [
        *(("access", "OFF"), ("access", "14d"), ("guards", ""), ("recovery", "yes")),
        *(("retention", value) for value in ("0d", "d", "14", "99999d", "\N{SUPERSCRIPT TWO}d", "-1d")),
    ],
)
def test_a_word_that_is_none_is_refused_before_anybody_is_asked(root: Root, key: str, value: str) -> None:
    root.refused("POLICY_INVALID_VALUE", "policy", "set", "c", key, "--", value)


@pytest.mark.parametrize(
    "text, says",
    [
        ("{", "line 1"),
        ("[]", "no JSON object"),
        ('{"access": "on", "access": "off"}', "twice"),
        ('{"acess": "off"}', "'acess'"),
        ('{"access": "Off"}', "can be on, off"),
        ('{"access": true}', "True"),
        ('{"retention": "soon"}', "a number of days"),
        ('{"access": "on",\n<<<<<<< HEAD\n}', "line 2"),
        ("x" * (policy.LIMIT + 1), "bytes"),
    ],
)
def test_a_policy_that_cannot_be_understood_closes_the_channel(root: Root, text: str, says: str) -> None:
    root.post()
    put_policy(root, text)
    for words in (["read", "c", "--as", "bob"], ["task", "list", "c"], ["policy", "show", "c"]):
        found = root.refused("POLICY_INVALID", *words)
        assert says in found.err
    root.refused("POLICY_INVALID", "post", "c", "--from", "alice", "--title", "t", "--body", "b")
    root.ok("state", "c")
    root.ok("channels")
    assert any(one["kind"] == "POLICY_INVALID" for one in root.run("doctor", "c", "--json").json["findings"])


def test_a_person_begins_a_damaged_policy_anew_and_a_copy_of_it_is_kept(root: Root) -> None:
    put_policy(root, '{"access": "off"')
    result = decide(root, "policy", "set", "c", "access", "on")
    (kept,) = [path for path in (root.folder() / ".journal/.damaged").iterdir() if path.suffix != ".why"]
    assert kept.read_text() == '{"access": "off"' and kept.name in result.err
    assert said(root) == {"access": "on"}
    root.post()


def test_a_link_in_place_of_the_policy_is_not_followed(root: Root, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text('{"access": "on"}')
    (root.folder() / "_policy.json").symlink_to(tmp_path / "outside")
    root.refused("POLICY_INVALID", "peek", "c")
    assert at_terminal(root, *SET_OFF).status != 0
    assert (tmp_path / "outside").read_text() == '{"access": "on"}'


# ---- the operator -------------------------------------------------------------------------------------------


def test_no_terminal_no_decision(root: Root) -> None:
    """Closed, piped, a file; input without output and the reverse; and nothing is written."""
    read, write = os.pipe()
    os.write(write, b"c\n")
    os.close(write)
    ways = [
        {"stdin": subprocess.DEVNULL},
        {"stdin": read},
        {"stderr": subprocess.DEVNULL},
        {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE},
        {"stderr": subprocess.PIPE},
        {"preexec_fn": lambda: os.close(0)},
        {"preexec_fn": lambda: os.close(2)},
    ]
    for way in ways:
        result = at_terminal(root, *SET_OFF, **way)
        assert (result.status, result.out) == (2, ""), (way, result)
        if "stderr" not in way and "preexec_fn" not in way:
            assert "OPERATOR_REQUIRED" in result.err and "is no terminal" in result.err
    os.close(read)
    found = root.refused("OPERATOR_REQUIRED", *SET_OFF, stdin="c\n")
    assert following(found) == SET_OFF and "tell your user" in found.err
    assert not (root.folder() / "_policy.json").exists() and root.names() == []


@pytest.mark.parametrize(
    "name", ["CLAUDECODE", "AI_AGENT", "CODEX_THREAD_ID", "CODEX_SANDBOX", "GEMINI_CLI", "AGENT_CHAT_TOKEN"]
)
def test_an_agent_decides_nothing_even_at_a_terminal(root: Root, name: str) -> None:
    result = at_terminal(root, *SET_OFF, environment={name: "1"})
    assert result.status == 2 and "OPERATOR_REQUIRED" in result.err and f"${name}" in result.err
    assert not (root.folder() / "_policy.json").exists()


def test_settings_that_people_export_for_themselves_make_no_agent() -> None:
    people = {"CLAUDE_CODE_USE_BEDROCK": "1", "OPENCODE_CONFIG": "x", "CLAUDECODE": "", "AGENT_CHAT_NAME": "bob"}
    assert operator.host_of(people) == ""


@pytest.mark.parametrize("typed", ["\n", "d\n", "C\n", "yes\n", "c c\n", "\x04"])
def test_another_word_than_the_channels_name_decides_nothing(root: Root, typed: str) -> None:
    result = at_terminal(root, *SET_OFF, typed=typed)
    assert result.status == 2 and "OPERATOR_REQUIRED" in result.err and "was not typed" in result.err
    assert not (root.folder() / "_policy.json").exists() and root.names() == []


# ---- access: off --------------------------------------------------------------------------------------------

CLOSED: list[list[str]] = [
    ["post", "c", "--from", "alice", "--title", "t", "--body", "b"],
    ["read", "c", "--as", "bob"],
    ["read", "c", "--as", "bob", "--peek"],
    ["wait", "c", "--as", "bob", "--timeout", "5"],
    ["wait", "d", "c", "--as", "bob", "--timeout", "5"],
    ["ack", "c", "--as", "bob", "--upto", "1"],
    ["peek", "c"],
    ["show", "c", "1"],
    ["task", "create", "c", "T-1", "--from", "alice", "--title", "t"],
    ["task", "list", "c"],
    ["lock", "c", "x", "--as", "alice"],
    ["claim", "c", "task-1.md", "--as", "bob"],
    ["event", "read", "c"],
    ["event", "post", "c", "--from", "alice", "--type", "capability", "--harness", "h"],
    ["compact", "c", "--as", "alice"],
    ["state", "c", "--write"],
]


@pytest.mark.parametrize("words", CLOSED, ids=" ".join)
def test_off_refuses_whatever_sends_shows_or_waits_and_names_who_can_turn_it_on(root: Root, words: list[str]) -> None:
    root.ok("init", "d", "--members", "alice,bob", **QUICK)
    root.post()
    put_policy(root, {"access": "off"})
    before = root.names()
    found = root.refused("CHANNEL_OFF", *words)
    assert "turned off by a person, who alone turns it on again" in found.err
    assert following(found) == ["policy", "set", "c", "access", "on"]
    assert root.names() == before and not (root.folder() / ".cursors").exists()


def test_what_goes_on_while_it_is_off(root: Root) -> None:
    root.post()
    put_policy(root, {"access": "off"})
    for words in (["channels"], ["roster", "c"], ["state", "c"], ["policy", "show", "c"]):
        root.ok(*words)
    assert root.run("doctor", "c").status == 0
    assert root.ok("recover-pending", "c", "--as", "alice").status == 0


def test_every_message_is_there_when_it_is_on_again(root: Root) -> None:
    root.post(body="before")
    decide(root, *SET_OFF)
    root.refused("CHANNEL_OFF", "read", "c", "--as", "bob")
    decide(root, "policy", "set", "c", "access", "on")
    assert "before" in root.ok("read", "c", "--as", "bob").out


def test_a_waiting_wait_ends_with_it(root: Root) -> None:
    process = root.spawn("wait", "c", "--as", "bob", "--timeout", "60")
    with open_channel(root):
        deadline = time.monotonic() + 30
        while not (root.folder() / ".waiters").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    decide(root, *SET_OFF)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 2 and out == b"" and b"CHANNEL_OFF" in err and err.count(b"\n") == 1
    assert not (root.folder() / ".cursors").exists()


def test_hooks_are_silent_about_a_channel_that_is_off(root: Root) -> None:
    with open_channel(root) as channel:
        assert channel.is_open()
        for text, is_open in [('{"access": "off"}', False), ("{", False), ('{"access": "on"}', True), ("{}", True)]:
            put_policy(root, text)
            assert channel.is_open() == is_open


def test_a_channel_without_a_policy_costs_one_look(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: object) -> None:
        raise AssertionError("the policy was read")

    monkeypatch.setattr(policy, "load", load)
    root.post()
    root.ok("read", "c", "--as", "bob")


# ---- what a crash leaves ------------------------------------------------------------------------------------


def test_a_pending_decision_is_named_and_settled(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_chat import decisions
    from agent_chat.storage import journal

    with open_channel(root) as channel, monkeypatch.context() as patched:
        patched.setattr(journal, "remove", lambda folder, family: None)  # as if it died before its last step
        decisions.set_policy(channel, "retention", "7d")
    assert journals(root) == ["turn.json"]
    result = at_terminal(root, *SET_OFF)
    assert result.status == 2 and "TURN_TRANSACTION_PENDING" in result.err and "recover-pending c" in result.err
    assert "policy.set retention" in root.ok("state", "c").out, "a blocker"
    assert any(one["kind"] == "TURN_TRANSACTION_PENDING" for one in root.run("doctor", "c", "--json").json["findings"])
    root.refused("STATE_INVALID_RECORD", "state", "c", "--strict")
    assert root.ok("recover-pending", "c", "--as", "alice", "--json").json["event"] == "turn.transaction.cleaned"
    assert journals(root) == [] and said(root) == {"retention": "7d"}
    assert root.ok("recover-pending", "c", "--as", "alice", "--json").json["event"] is None
    decide(root, *SET_OFF)


@pytest.mark.parametrize("hook", ["prompt_inbox.py", "stop_inbox.py", "session_inbox.py"])
def test_a_hook_says_nothing_of_mail_in_a_channel_that_is_off(root: Root, hook: str) -> None:
    root.post("alice", "t", "b", "--to", "bob")
    environment = clean_environment(AGENT_CHAT_NAME="bob", AGENT_CHAT_ROOT=str(root.path))

    def said_by_it() -> str:
        command = [sys.executable, "-I", "-S", str(REPOSITORY / "hooks" / hook)]
        done = subprocess.run(command, env=environment, input=b"{}\n", capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 and not done.stderr
        return done.stdout.decode()

    assert "unread" in said_by_it()
    put_policy(root, {"access": "off"})
    assert "unread" not in said_by_it()
