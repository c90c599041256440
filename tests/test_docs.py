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

from agent_chat.cli.table import COMMANDS

README = (REPOSITORY / "README.md").read_text("utf-8")
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")


def modules() -> set[str]:
    return {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "agent_chat").rglob("*.py")}


def test_every_module_has_its_line_in_the_map_and_every_line_its_module() -> None:
    mapped = re.findall(r"^\| \d \| `(agent_chat/[\w/]+\.py)` \| \S", CONTRIBUTING, re.M)
    assert len(mapped) == len(set(mapped))
    assert set(mapped) == modules() - {"agent_chat/__init__.py"}


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    rows = re.findall(r"^\| `((?:task |event |guard )?[a-z-]+)[ `]", README, re.M)
    assert len(rows) == len(set(rows))
    assert set(rows) == set(COMMANDS)


def options_of(row: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_options_in_a_row_exist(command: str) -> None:
    (row,) = re.findall(rf"^\| `{re.escape(command)}(?: (.*?))?` \|", README, re.M)
    assert options_of(row) <= {*COMMANDS[command][3], "--json", "--root"}, row


def sessions() -> list[str]:
    return [line for block in re.findall(r"```sh session\n(.*?)```", README, re.S) for line in block.splitlines()]


def test_the_session_by_hand_works_as_it_stands(tmp_path: Path) -> None:
    environment = clean_environment(HOME=str(tmp_path))
    answers = []
    for line in sessions():
        words = shlex.split(line)
        assert words[:2] == ["python3", "chat.py"], line
        done = subprocess.run(
            [sys.executable, CHAT, *words[2:]], env=environment, cwd=tmp_path, capture_output=True, timeout=60
        )
        assert done.returncode == 0, (line, done)
        answers.append(done.stdout.decode())
    assert "sqlite or files?" in answers[2] and "Nothing to install" in answers[4]
    assert "Decision: files" in answers[-1]
    assert os.listdir(tmp_path) == ["agent-chat"]


def test_the_first_command_of_the_readme_is_the_demo() -> None:
    indented = [line.strip() for line in README.splitlines() if line.startswith("    ")]
    assert indented[0] == "python3 chat.py demo"


def test_every_variable_is_one_that_the_code_reads() -> None:
    named = set(re.findall(r"AGENT_CHAT_[A-Z]+", README))
    sources = [*(REPOSITORY / "agent_chat").rglob("*.py"), *(REPOSITORY / "hooks").rglob("*.py")]
    read = {word for path in sources for word in re.findall(r"AGENT_CHAT_[A-Z]+", path.read_text("utf-8"))}
    assert named <= read and read - named <= {"AGENT_CHAT_HOOKS"}


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_files_that_are_named_exist(text: str) -> None:
    for name in re.findall(r"`((?:agent_chat|tests|bench|hooks|schemas|\.ci)/[\w./]*)`", text):
        assert (REPOSITORY / name).exists(), name
