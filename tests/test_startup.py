"""What a hot command loads. Start-up is a feature: a module imported is time at every prompt.

Each command runs in a fresh interpreter, which then writes down `sys.modules`; what a bare
interpreter has is taken off, and the rest must be in the list below. How long it takes is a
benchmark (bench/), never a test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Never on the way to a hot command, whatever the lists below say.
SLOW = set(
    "argparse collections dataclasses datetime enum functools inspect json logging pathlib re shlex subprocess "
    "tempfile typing uuid".split()
)

# What every hot command may load beside agent_chat and C accelerators (names with one leading underscore).
SMALL = {"errno", "fcntl", "gc", "msvcrt", "select", "time"}

# Command -> arguments, exit status, what it may load beside SMALL. One message, from alice to all, is there.
COMMANDS: dict[str, tuple[list[str], int, set[str]]] = {
    "post": (["post", "c", "--from", "alice", "--title", "t", "--body", "b"], 0, set()),
    "read": (["read", "c", "--as", "bob"], 0, set()),
    "read, nothing new": (["read", "c", "--as", "alice"], 0, set()),
    "wait": (["wait", "c", "--as", "bob", "--timeout", "0"], 0, {"signal"}),
    "wait, timed out": (["wait", "c", "--as", "alice", "--timeout", "0.05"], 4, {"signal"}),
    "peek": (["peek", "c"], 0, set()),
    "peek, a channel of anybody": (["peek", "d"], 0, set()),
    "ack": (["ack", "c", "--as", "bob", "--upto", "1"], 0, set()),
    "show": (["show", "c", "1"], 0, set()),
}

# The list is taken before the file is opened, so that writing it down loads nothing that counts;
# it goes to a file because the command owns standard output.
CHILD = """
import sys
target, root, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
status = 0
if arguments:
    sys.path.insert(0, root)
    from agent_chat.cli import main
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code
loaded = sorted(sys.modules)
with open(target, "w", encoding="utf-8") as file:
    file.write("\\n".join(loaded))
sys.exit(status)
"""


def run(target: str, *arguments: str) -> tuple[int, str, set[str]]:
    """Exit status, standard error and the loaded modules of a fresh interpreter that runs this command, or none.

    `-I` keeps PYTHON* variables and the current folder out, and with them what they would load.
    """
    child = subprocess.run(
        [sys.executable, "-I", "-c", CHILD, target, ROOT, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    try:
        with open(target, encoding="utf-8") as file:
            return child.returncode, child.stderr, set(file.read().split("\n"))
    except FileNotFoundError:
        pytest.fail(f"{arguments} ended with {child.returncode} before its end:\n{child.stderr}")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of an interpreter that ran nothing."""
    return run(str(tmp_path_factory.mktemp("bare") / "modules"))[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hot_command_loads_only_its_list(command: str, bare: set[str], tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    target = str(tmp_path / "modules")
    for before in (
        ["init", "c", "--members", "alice,bob"],
        ["init", "d"],
        ["post", "c", "--from", "alice", "--title", "t", "--body", "b"],
    ):
        status, errors, _ = run(target, "--root", root, *before)
        assert status == 0, errors
    arguments, expected, extra = COMMANDS[command]
    status, errors, loaded = run(target, "--root", root, *arguments)
    assert status == expected, errors
    assert "agent_chat.cli" in loaded
    new = {name for name in loaded - bare if name.split(".")[0] != "agent_chat"}
    assert sorted(new & SLOW) == [], f"slow modules on the way to {command}"
    more = {name for name in new - SMALL - extra if not name.startswith("_")}
    assert sorted(more) == [], f"not in the list of {command}: leave them out, or add them here with the reason"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hot_command_loads_no_other_command(command: str, tmp_path: Path) -> None:
    """The command word is found first and only its module imported."""
    target = str(tmp_path / "modules")
    root = str(tmp_path / "root")
    loaded = run(target, "--root", root, *COMMANDS[command][0])[2]  # also a refusal imports just that module
    shared = {"output", "table", "options"}
    modules = {name.split(".")[2] for name in loaded if name.startswith("agent_chat.cli.")}
    assert len(modules - shared) <= 1, sorted(modules)


def test_the_bare_interpreter_hides_nothing(bare: set[str]) -> None:
    """A slow module that the interpreter loads by itself (a .pth file) could not be told from a new one."""
    if bare & SLOW:
        pytest.skip(f"{sys.executable} loads {', '.join(sorted(bare & SLOW))} by itself: run python3 tests/run.py")


@pytest.mark.parametrize("command", ["post", "read", "wait"])
def test_a_policy_as_we_write_it_costs_no_slow_module(command: str, bare: set[str], tmp_path: Path) -> None:
    root, target = str(tmp_path / "root"), str(tmp_path / "modules")
    assert run(target, "--root", root, "init", "c", "--members", "alice,bob", "--recovery", "auto")[0] == 0
    assert run(target, "--root", root, *COMMANDS["post"][0])[0] == 0
    status, errors, loaded = run(target, "--root", root, *COMMANDS[command][0])
    assert status == 0, errors
    assert "agent_chat.policy" in loaded and "agent_chat.people" not in loaded
    assert "agent_chat.guards" not in loaded
    assert sorted((loaded - bare) & SLOW) == []


@pytest.mark.parametrize("command", ["post", "read", "wait"])
def test_guards_cost_no_slow_module(command: str, bare: set[str], tmp_path: Path) -> None:
    root, target = str(tmp_path / "root"), str(tmp_path / "modules")
    assert run(target, "--root", root, "init", "c", "--members", "alice,bob", "--guards")[0] == 0
    assert run(target, "--root", root, *COMMANDS["post"][0], "--to", "bob")[0] == 0
    status, errors, loaded = run(target, "--root", root, *COMMANDS[command][0])
    assert status == 0, errors
    assert ("agent_chat.guards" in loaded) == (command == "post")
    assert sorted((loaded - bare) & SLOW) == []


@pytest.mark.parametrize(
    "words",
    [
        ["task", "claim", "c", "T-1", "--as", "bob"],
        ["task", "done", "c", "T-1", "--as", "alice"],
        ["lock", "c", "src/b", "--as", "bob"],
        ["unlock", "c", "src/a", "--as", "alice"],
        ["check", "c", "src/b", "--as", "bob"],
        ["event", "post", "c", "--from", "bob", "--type", "status", "--status", "busy", "--harness", "shell"],
        ["state", "c"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_sound_records_cost_no_slow_module(words: list[str], bare: set[str], tmp_path: Path) -> None:
    """All of them are read here: they are too young to be known by their digests."""
    pytest.importorskip("_json")  # without its scanner in C json is all there is
    root, target = str(tmp_path / "root"), str(tmp_path / "modules")
    for before in (
        ["init", "c", "--members", "alice,bob"],
        ["task", "create", "c", "T-1", "--from", "alice", "--title", "t"],
        ["lock", "c", "src/a", "--as", "alice"],
    ):
        assert run(target, "--root", root, *before)[0] == 0
    if "done" in words:
        assert run(target, "--root", root, "task", "claim", "c", "T-1", "--as", "alice")[0] == 0
    status, errors, loaded = run(target, "--root", root, *words)
    assert status == 0, errors
    assert sorted((loaded - bare) & SLOW) == []
