"""--help of every command, and refused command lines: one line, a stable code, a command that helps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import CHAT, Root, clean_environment, make_root

from agent_chat import __version__
from agent_chat.cli.parser import HELP
from agent_chat.cli.table import COMMANDS, EVERYWHERE, GROUPS


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_spelling_and_its_meaning(root: Root, command: str) -> None:
    out = root.ok(*command.split(), "--help").out
    assert out.startswith(f"usage: agent-chat {command} ")
    _, about, positionals, options = COMMANDS[command]
    flowing = "".join(out.split())  # lines are broken anywhere
    assert "".join(about.split()) in flowing
    for option, target in {**options, **EVERYWHERE}.items():
        assert option in flowing and "".join(HELP[target.rstrip("?*")][1].split()) in flowing
    for name in positionals:
        assert HELP[name.rstrip("+?*")][0] in flowing
    assert root.ok(*command.split(), "-h").out == out
    assert root.ok(*command.split(), "x", "--json", "--help").out == out, "help goes before what is wrong"


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_the_overview_lists_every_command(root: Root, words: list[str]) -> None:
    lines = [line.strip() for line in root.ok(*words).out.splitlines()]
    for command, spec in COMMANDS.items():
        if command != "version":
            assert any(line.startswith(command + " ") and line.endswith(spec[1]) for line in lines), command


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_lists_its_commands(root: Root, group: str) -> None:
    out = root.ok(group, "--help").out
    listed = {line.strip().split("  ")[0] for line in out.splitlines() if line.startswith("  ")}
    assert listed == {command for command in COMMANDS if command.startswith(group + " ")}


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_the_version(root: Root, words: list[str]) -> None:
    assert root.ok(*words).out == f"agent-chat {__version__}\n"
    assert root.ok("version", "--json").json == {"version": __version__}


def test_every_help_text_is_used() -> None:
    used = {target.rstrip("?*") for spec in COMMANDS.values() for target in spec[3].values()}
    used |= {name.rstrip("+?*") for spec in COMMANDS.values() for name in spec[2]}
    assert set(HELP) == used | {target.rstrip("?") for target in EVERYWHERE.values()}


# ---- refused command lines ------------------------------------------------------------------------

USAGE = [
    [],
    [""],
    ["bogus"],
    ["--bogus"],
    ["--rootx", "channels"],
    ["Post"],
    ["post"],
    ["post", "c"],
    ["post", "c", "--from", "alice"],
    ["post", "c", "--title", "t", "--body", "b"],
    ["post", "c", "--from", "alice", "--title"],
    ["post", "c", "--from", "alice", "--title", "t", "--body", "b", "--body-file", "f"],
    ["post", "c", "--from", "alice", "--title", "t", "--titel", "t"],
    ["post", "c", "--from", "alice", "--titl", "t", "--body", "b"],
    ["read", "c"],
    ["read", "c", "d", "--as", "bob"],
    ["read", "c", "--as", "bob", "--peek=yes"],
    ["read", "c", "--as", "bob", "--limit", "0"],
    ["read", "c", "--as", "bob", "--limit", "-1"],
    ["read", "c", "--as", "bob", "--max-bytes", "x"],
    ["read", "c", "--as", "bob", "--format", "html"],
    ["peek", "c", "-n"],
    ["peek", "c", "-n", "x"],
    ["show", "c"],
    ["show", "c", "1", "2"],
    ["wait", "--as", "bob"],
    ["ack", "c", "--as", "bob"],
    ["claim", "c"],
    ["channels", "extra"],
    ["bogus\n\x1b[31m\u2028\udce9"],
    ["peek", "c", "--x\n\x1b[31m"],
    ["read", "c", "--as", "bob", "--format", "\x1b\n"],
    ["event"],
    ["event", "bogus"],
]


@pytest.mark.parametrize("words", USAGE, ids=lambda words: ascii(" ".join(words)))
def test_a_usage_error_is_one_line_and_names_the_help(root: Root, words: list[str]) -> None:
    result = root.refused("USAGE_ERROR", *words)
    assert result.err.startswith("agent-chat: USAGE_ERROR: ") and result.err.rstrip().endswith("--help")
    assert result.err.rstrip("\n").isprintable()


@pytest.mark.parametrize("words", [["task"], ["task", "bogus"]])
def test_inside_task_the_familys_code_comes_first(root: Root, words: list[str]) -> None:
    root.refused("TASK_INVALID_COMMAND", *words)


def test_a_wrong_word_inside_task_is_the_familys_too(root: Root) -> None:
    root.refused("TASK_INVALID_ARGUMENT", "task", "create", "c")


@pytest.mark.parametrize("at", ["before", "after", "both"])
def test_the_root_is_taken_before_the_command_and_after_it(root: Root, tmp_path: Path, at: str) -> None:
    other = make_root(tmp_path / "other")
    other.ok("init", "elsewhere")
    elsewhere = ["--root", str(other.path)]
    words = [*(elsewhere if at != "after" else []), "channels", *(elsewhere if at != "before" else [])]
    assert "elsewhere" in root.ok(*words).out, "the last one counts"
    joined = f"--root={other.path}"
    assert (
        "elsewhere"
        in root.ok(*([joined] if at != "after" else []), "channels", *([joined] if at != "before" else [])).out
    )


def test_the_environment_stands_in(root: Root, tmp_path: Path) -> None:
    """In real processes, since the test's own root is always typed."""

    def chat(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, CHAT, *words],
            env=clean_environment(**environment),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    made = chat("post", "c", "--title", "t", "--body", "b", AGENT_CHAT_ROOT=str(root.path), AGENT_CHAT_NAME="alice")
    assert (made.returncode, made.stdout) == (0, "posted #1 -> c/0001-alice-t.md\n")
    home = tmp_path / "home"
    home.mkdir()
    assert chat("init", "d", HOME=str(home), USERPROFILE=str(home)).returncode == 0
    assert (home / "agent-chat" / "d" / "_meta.json").exists()
    read = chat("read", "c", AGENT_CHAT_ROOT=str(root.path), AGENT_CHAT_NAME="")
    assert read.returncode == 2 and "USAGE_ERROR" in read.stderr, "an empty name is none"


def test_what_is_typed_goes_before_the_environment(root: Root) -> None:
    root.ok("post", "c", "--from", "alice", "--title", "t", "--body", "b", AGENT_CHAT_NAME="bob")
    assert root.messages()[0].sender == "alice"


# ---- --json ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, status, words",
    [
        ("USAGE_ERROR", 2, ["bogus"]),
        ("USAGE_ERROR", 2, ["post", "c"]),
        ("CHANNEL_NOT_FOUND", 2, ["read", "nope", "--as", "bob"]),
        ("CHANNEL_INVALID_NAME", 2, ["peek", "a\n\x1b/é"]),
        ("MESSAGE_NOT_FOUND", 2, ["show", "c", "9"]),
        (
            "MESSAGE_UNKNOWN_RECIPIENT",
            2,
            ["post", "c", "--from", "alice", "--title", "é→", "--body", "b", "--to", "zz"],
        ),
        ("CLAIM_LOST", 3, ["claim", "c", "task-1.md", "--as", "bob"]),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_refusal_with_json_is_one_object_on_standard_error(
    root: Root, code: str, status: int, words: list[str], encoding: str
) -> None:
    result = root.real(*words, "--json", environment={"PYTHONIOENCODING": encoding})
    assert (result.status, result.out, len(result.err.splitlines())) == (status, "", 1)
    error = json.loads(result.err)["error"]
    assert list(error) == ["code", "message", "next", "details"] and error["code"] == code
    assert isinstance(error["details"], dict) and error["next"].startswith("python")


@pytest.mark.parametrize(
    "words",
    [
        ["channels"],
        ["roster", "c"],
        ["peek", "c"],
        ["show", "c", "1"],
        ["read", "c", "--as", "bob"],
        ["read", "c", "--as", "bob", "--all"],
        ["wait", "c", "--as", "bob"],
        ["wait", "c", "--as", "bob", "--peek"],
        ["ack", "c", "--as", "bob", "--upto", "1"],
        ["init", "d"],
        ["post", "c", "--from", "bob", "--title", "t", "--body", "b"],
        ["claim", "c", "task-7.md", "--as", "bob"],
        ["version"],
    ],
)
def test_a_result_with_json_is_one_object_on_standard_output(root: Root, words: list[str]) -> None:
    root.post(title="é→\u202e", body="→ \x1b")
    (root.folder() / "task-7.md").write_text("")
    result = root.ok(*words, "--json")
    assert isinstance(result.json, dict) and result.err == "" and len(result.out.splitlines()) == 1


def test_messages_in_json_are_exact(root: Root) -> None:
    root.post("alice", "é→\u202e", "→ \x1b[31m\ttab", "--to", "bob")
    (shown,) = root.ok("read", "c", "--as", "bob", "--json").json["messages"]
    assert shown["title"] == "é→\u202e" and shown["body"] == "→ \x1b[31m\ttab\n"
    assert (shown["seq"], shown["from"], shown["to"], shown["channel"]) == (1, "alice", "bob", "c")
    assert shown["file"] == "0001-alice-msg.md"


def test_json_says_how_far_and_whether_there_is_more(root: Root) -> None:
    for _ in range(3):
        root.post()
    first = root.ok("read", "c", "--as", "bob", "--json", "--limit", "2").json
    assert (first["channel"], first["agent"], first["cursor"], first["latest_seq"]) == ("c", "bob", 2, 3)
    assert first["has_more"] is True and [message["seq"] for message in first["messages"]] == [1, 2]
    second = root.ok("read", "c", "--as", "bob", "--json").json
    assert (second["cursor"], second["has_more"], len(second["messages"])) == (3, False, 1)
    assert root.ok("read", "c", "--as", "bob", "--format", "json").json["messages"] == []
