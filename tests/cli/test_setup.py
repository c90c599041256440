"""setup: a host's own files get our lines and nothing else, and lose them again."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import CHAT, REPOSITORY, Result, Root, clean_environment

from agent_chat.cli.setup import NOTES

CLAUDE = """{
  // what I chose
  "model": "opus", // for now
  "enabledPlugins": {
    "other@market": true
  },
  "permissions": {"allow": ["Bash(make:*)"]}
}
"""
HOOKS = """{
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done", "timeout": 5}]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": []}]
    }
}
"""
SETTINGS = {"claude": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json"}
SKILL = ".agents/skills/agent-chat/SKILL.md"


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *words: str, **environment: str) -> Result:
        root = Root(self.path / "root")
        home = {"HOME": str(self.path), "USERPROFILE": str(self.path)}
        return root.run("setup", *words, **{**home, **environment})

    def ok(self, *words: str, **environment: str) -> Result:
        result = self.run(*words, **environment)
        assert result.status == 0, result
        return result

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.path.rglob("*") if path.is_file())
        return {path.relative_to(self.path).as_posix(): path.read_bytes() for path in found}

    def json(self, host: str) -> Any:
        return json.loads((self.path / SETTINGS[host]).read_text("utf-8"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("host", NOTES)
@pytest.mark.parametrize("is_there", [False, True])
def test_twice_is_once_and_remove_gives_back_every_byte(home: Home, host: str, is_there: bool) -> None:
    if is_there and host in SETTINGS:
        home.write(SETTINGS[host], CLAUDE if host == "claude" else HOOKS)
    before = home.files()
    shown = home.ok("--host", host, "--dry-run").out
    assert home.files() == before and "would change" in shown
    told = home.ok("--host", host).out
    after = home.files()
    assert set(after) == {*before, *([SETTINGS[host]] if host in SETTINGS else []), *([SKILL] * (host != "claude"))}
    assert all(note in told for note in NOTES[host])
    again = home.ok("--host", host).out
    assert home.files() == after and ": unchanged: " in again and ": changed: " not in again
    home.ok("--host", host, "--remove", "--dry-run")
    assert home.files() == after
    home.ok("--host", host, "--remove")
    assert home.files() == before
    home.ok("--host", host, "--remove")
    assert home.files() == before


def test_comments_order_and_everything_of_others_stay(home: Home) -> None:
    home.write(SETTINGS["claude"], CLAUDE)
    home.ok("--host", "claude")
    lines = (home.path / SETTINGS["claude"]).read_text().split("\n")
    kept = [line for line in lines if line in CLAUDE.split("\n")]
    lost = [line for line in CLAUDE.split("\n") if line not in lines]
    assert kept and lost == ['    "other@market": true', '  "permissions": {"allow": ["Bash(make:*)"]}'], "commas only"
    home.write(SETTINGS["codex"], HOOKS)
    home.ok("--host", "codex")
    stop = home.json("codex")["hooks"]["Stop"]
    assert stop[0]["hooks"][0]["command"] == "say done" and len(stop) == 2


def test_the_hooks_that_are_written_run_as_they_stand(home: Home) -> None:
    home.ok("--host", "codex")
    home.ok("--host", "gemini")
    root = Root(home.path / "chats")
    root.ok("init", "c")
    root.ok("post", "c", "--from", "alice", "--title", "t", "--body", "b", AGENT_CHAT_FSYNC="0")
    if sys.platform == "win32":
        return
    names = home.path / "bin"
    names.mkdir()
    (names / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (names / "python3").chmod(0o755)
    for host, event in (("codex", "UserPromptSubmit"), ("gemini", "BeforeAgent")):
        (group,) = home.json(host)["hooks"][event]
        (handler,) = group["hooks"]
        assert handler["timeout"] == (10 if host == "codex" else 10_000)
        environment = clean_environment(AGENT_CHAT_ROOT=str(root.path), AGENT_CHAT_NAME="bob", PATH=str(names))
        sent = json.dumps({"session_id": "s", "hook_event_name": event}) + "\n"
        command = ["/bin/sh", "-c", handler["command"]]
        done = subprocess.run(command, input=sent, env=environment, capture_output=True, encoding="utf-8", check=True)
        said = json.loads(done.stdout)["hookSpecificOutput"]
        assert said["hookEventName"] == event and "#c 1 from alice" in said["additionalContext"]


def test_a_moved_checkout_replaces_its_old_lines(home: Home) -> None:
    for host in ("codex", "claude"):
        home.ok("--host", host)
        path = home.path / SETTINGS[host]
        now = path.read_text()
        path.write_text(now.replace(str(REPOSITORY), "/an/older/place"))
        home.ok("--host", host)
        assert path.read_text() == now


def test_the_skill_names_the_program_and_belongs_to_several_hosts(home: Home) -> None:
    home.ok("--host", "omp")
    alone = (home.path / SKILL).read_text("utf-8")
    assert f'`python3 "{CHAT}"`' in alone and "<folder of this file>" not in alone
    home.ok("--host", "codex")
    home.ok("--host", "omp", "--remove")
    assert (home.path / SKILL).exists()
    home.ok("--host", "codex", "--remove")
    assert not (home.path / SKILL).parent.exists()


def test_a_skill_of_somebody_else_is_not_touched(home: Home) -> None:
    home.write(SKILL, "mine\n")
    for words in ([], ["--remove"], ["--dry-run"]):
        result = home.run("--host", "codex", *words)
        assert result.code == "SETUP_FILE_INVALID" and home.files() == {SKILL: b"mine\n"}


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', "\x00"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_changes(home: Home, text: str) -> None:
    home.write(SETTINGS["codex"], text)
    before = home.files()
    result = home.run("--host", "codex")
    assert result.code == "SETUP_FILE_INVALID" and "hooks.json was not touched" in result.err
    assert home.files() == before


def test_without_a_host_those_that_are_there(home: Home) -> None:
    assert home.run().code == "SETUP_NO_HOST"
    assert home.run("--host", "emacs").code == "USAGE_ERROR"
    (home.path / ".codex").mkdir()
    (home.path / ".config/opencode").mkdir(parents=True)
    found = home.ok("--dry-run", "--json").json
    assert list(found["notes"]) == ["codex", "opencode"] and found["dry_run"] is True
    assert {file["path"] for file in found["files"]} == {str(home.path / name) for name in (SKILL, SETTINGS["codex"])}


def test_an_installed_package_has_no_hooks_and_says_so(home: Home) -> None:
    shutil.copytree(REPOSITORY / "agent_chat", home.path / "agent_chat", ignore=shutil.ignore_patterns("__pycache__"))
    before = home.files()
    command = [sys.executable, "-m", "agent_chat", "setup", "--host", "claude"]
    environment = clean_environment(HOME=str(home.path))
    done = subprocess.run(command, cwd=home.path, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2 and done.stderr.startswith("agent-chat: SETUP_NO_PLUGIN: ")
    assert home.files() == before


def test_the_folders_that_hosts_are_told_by_variables(home: Home) -> None:
    home.ok("--host", "claude", CLAUDE_CONFIG_DIR=str(home.path / "elsewhere"))
    home.ok("--host", "codex", CODEX_HOME=str(home.path / "cx"))
    assert {"elsewhere/settings.json", "cx/hooks.json"} <= set(home.files())


@pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")
def test_a_private_file_stays_private_and_a_link_stays_a_link(home: Home) -> None:
    real = home.write("dotfiles/settings.json", CLAUDE)
    real.chmod(0o600)
    link = home.path / SETTINGS["claude"]
    link.parent.mkdir()
    link.symlink_to(real)
    home.ok("--host", "claude")
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o600 and "agent-chat" in real.read_text()
    assert os.listdir(real.parent) == ["settings.json"]
