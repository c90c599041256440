"""The checkout as a plugin: manifests, commands, icon, monitor, and the program for the host's shell."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import CHAT, REPOSITORY, clean_environment

from agent_chat import __version__

PLUGIN = REPOSITORY / ".claude-plugin"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


def manifest(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_the_manifests_name_this_version_and_this_folder() -> None:
    plugin, market = manifest(PLUGIN / "plugin.json"), manifest(PLUGIN / "marketplace.json")
    assert plugin["version"] == __version__ and plugin["name"] == "agent-chat"
    assert market["plugins"] == [{"name": plugin["name"], "source": "./"}]
    code = "".join(path.read_text("utf-8") for path in (REPOSITORY / "agent_chat").rglob("*.py"))
    assert all(f'"{option}"' in code for option in plugin["userConfig"]), "an option that nobody reads"


def test_nothing_in_the_root_hides_the_skill_or_fails_the_validation() -> None:
    assert not (REPOSITORY / "CLAUDE.md").exists() and not (REPOSITORY / "skills").exists()
    skill = (REPOSITORY / "SKILL.md").read_text("utf-8")
    assert len(skill.splitlines()) < 150 and re.match(r"---\nname: agent-chat\ndescription: .+\n---\n", skill)


def test_codex_which_wants_a_folder_of_skills_is_led_to_the_one_there_is() -> None:
    plugin = manifest(REPOSITORY / ".codex-plugin/plugin.json")
    assert {key: plugin[key] for key in ("name", "version", "description")} == {
        key: manifest(PLUGIN / "plugin.json")[key] for key in ("name", "version", "description")
    }
    path = REPOSITORY / plugin["skills"] / "agent-chat/SKILL.md"
    head, _, body = path.read_text("utf-8").partition("---\n\n")
    skill = REPOSITORY / "SKILL.md"
    assert skill.read_text("utf-8").startswith(head + "---\n"), "the same name and description"
    assert f"`{os.path.relpath(skill, path.parent)}`".replace("\\", "/") in body


def test_the_commands_that_the_skill_names_are_there() -> None:
    from agent_chat.cli.table import COMMANDS, GROUPS

    skill = (REPOSITORY / "SKILL.md").read_text("utf-8")
    named = re.findall(r"(?:^chat|`chat|      chat) ([a-z]+)(?: ([a-z]+))?", skill, re.MULTILINE)
    assert len(named) > 10
    for first, second in named:
        assert f"{first} {second}" in COMMANDS if first in GROUPS else first in COMMANDS, (first, second)


def test_at_most_two_commands_and_none_costs_anything_until_it_is_typed() -> None:
    found = sorted((REPOSITORY / "commands").iterdir())
    assert 0 < len(found) <= 2
    for path in found:
        head = path.read_text("utf-8").split("---\n")[1]
        assert "\ndisable-model-invocation: true\n" in head and head.startswith("description: ")


def test_the_icon_is_a_square_of_512() -> None:
    data = (PLUGIN / "icon.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (512, 512)


# ---- bin/agent-chat -----------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "my plugins" / "agent-chat's"
    for name in ("agent_chat", "bin"):
        shutil.copytree(REPOSITORY / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHAT, path)
    return path


def run(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=cwd,
        env=clean_environment(**environment),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@posix_only
@pytest.mark.parametrize("python", ["python3", "python", "py"])
def test_the_program_runs_by_whatever_name_python_has_and_imports_nothing_of_the_folder(
    plugin: Path, tmp_path: Path, python: str
) -> None:
    names, work = tmp_path / "bin", tmp_path / "work"
    for folder in (names, work / "agent_chat"):
        folder.mkdir(parents=True)
    for tool in ("dirname", "readlink"):
        (names / tool).symlink_to(shutil.which(tool) or "")
    script = f'#!/bin/sh\n[ "$1" != -3 ] || shift\nexec {shlex.quote(sys.executable)} "$@"\n'
    (names / python).write_text(script)
    (names / python).chmod(0o755)
    for name in ("agent_chat/__init__.py", "json.py"):
        (work / name).write_text("raise SystemExit(7)")
    (tmp_path / "link").symlink_to(plugin / "bin/agent-chat")
    program = shlex.quote(str(plugin / "bin/agent-chat"))
    environment = {"PATH": str(names), "PYTHONPATH": str(work), "AGENT_CHAT_ROOT": str(tmp_path / "root")}
    done = run(f"{program} init 'c' --topic 'two words' && {program} channels", work, **environment)
    assert done.returncode == 0 and "\nc " in done.stdout, done
    refused = run("../link post c --from bob --title t --body b --to 'nobody here'; exit $?", work, **environment)
    assert refused.returncode == 2 and "; next: agent-chat " in refused.stderr, refused


# ---- the monitor --------------------------------------------------------------------------------------------


@posix_only
def test_the_monitor_is_the_bell_of_this_plugin(plugin: Path, tmp_path: Path) -> None:
    (monitor,) = manifest(REPOSITORY / "monitors/monitors.json")
    assert "user_config" not in monitor["command"]
    command = monitor["command"].replace("${CLAUDE_PLUGIN_ROOT}", str(plugin))
    environment = {"AGENT_CHAT_ROOT": str(tmp_path / "root"), "AGENT_CHAT_NAME": "bob", "AGENT_CHAT_FSYNC": "0"}
    program = shlex.quote(str(plugin / "bin/agent-chat"))
    run(f"{program} init c && {program} post c --from alice --title t --body b", tmp_path, **environment)
    with subprocess.Popen(
        ["/bin/sh", "-c", command], env=clean_environment(**environment), stdout=subprocess.PIPE, cwd=tmp_path
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"[agent-chat] 1 new message for bob: #c 1 from alice\n"
        if os.path.isdir("/proc"):
            name = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            assert b"watch" in name and b"-I" in name, "the shells stand aside, so that it ends with its host"
        process.terminate()
