"""What README.md and CONTRIBUTING.md say is so."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import CHAT, REPOSITORY, clean_environment
from test_layers import module_of, rank

from agent_chat.cli.table import COMMANDS

README = (REPOSITORY / "README.md").read_text("utf-8")
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")


def modules() -> set[str]:
    return {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "agent_chat").rglob("*.py")}


def test_every_module_has_its_line_in_the_map_and_every_line_its_module() -> None:
    mapped = re.findall(r"^\| \d \| `(agent_chat/[\w/]+\.py)` \| \S", CONTRIBUTING, re.M)
    assert len(mapped) == len(set(mapped))
    assert set(mapped) == modules() - {"agent_chat/__init__.py"}


def test_the_map_gives_the_ranks_that_hold() -> None:
    rows = re.findall(r"^\| (\d) \| `(agent_chat/[\w/]+\.py)`", CONTRIBUTING, re.M)
    assert {path: int(number) for number, path in rows} == {path: rank(module_of(path)) for _, path in rows}


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    rows = re.findall(r"^\| `((?:task |event |guard |guards |policy |turn )?[a-z-]+)[ `]", README, re.M)
    assert len(rows) == len(set(rows))
    assert set(rows) == set(COMMANDS)


def options_of(row: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_options_in_a_row_exist(command: str) -> None:
    (row,) = re.findall(rf"^\| `{re.escape(command)}(?: (.*?))?` \|", README, re.M)
    assert options_of(row) <= {*COMMANDS[command][3], "--json", "--root"}, row


def sessions() -> list[list[str]]:
    return [block.splitlines() for block in re.findall(r"```sh session\n(.*?)```", README, re.S)]


def test_the_session_by_hand_works_as_it_stands(tmp_path: Path) -> None:
    """A `wait` runs beside the lines after it, as in a terminal of its own, and ends in the next block."""
    environment = clean_environment(HOME=str(tmp_path), USERPROFILE=str(tmp_path))
    answers: dict[str, str] = {}

    def start(line: str) -> subprocess.Popen[str]:
        words = shlex.split(line)
        assert words[:2] == ["python3", "chat.py"], line
        return subprocess.Popen(
            [sys.executable, CHAT, *words[2:]],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def end(line: str, process: subprocess.Popen[str]) -> None:
        answers[line] = process.communicate(timeout=60)[0]
        assert process.returncode == 0, (line, answers[line])

    waiting: list[tuple[str, subprocess.Popen[str]]] = []
    for block in sessions():
        before, waiting = waiting, []
        for line in block:
            process = start(line)
            if " wait " in line:
                waiting.append((line, process))
            else:
                end(line, process)
        for waiter in before:
            end(*waiter)
    assert not waiting
    assert "sqlite or files?" in answers["python3 chat.py read review --as bob"]
    assert "Nothing to install" in answers["python3 chat.py wait review --as alice"]
    assert "Decision: files" in answers["python3 chat.py state review"]
    assert os.listdir(tmp_path) == ["agent-chat"]


def test_the_first_command_of_the_readme_is_the_demo() -> None:
    indented = [line.strip() for line in README.splitlines() if line.startswith("    ")]
    assert indented[0] == "python3 chat.py demo"


def test_every_variable_is_one_that_the_code_reads() -> None:
    named = set(re.findall(r"AGENT_CHAT_[A-Z_]+", README))
    sources = [*(REPOSITORY / "agent_chat").rglob("*.py"), *(REPOSITORY / "hooks").rglob("*.py")]
    read = {word for path in sources for word in re.findall(r"AGENT_CHAT_[A-Z_]+", path.read_text("utf-8"))}
    assert named <= read and read - named <= {"AGENT_CHAT_HOOKS"}


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_files_that_are_named_exist(text: str) -> None:
    for name in re.findall(r"`((?:agent_chat|tests|bench|hooks|schemas|\.ci)/[\w./]*)`", text):
        assert (REPOSITORY / name).exists(), name
