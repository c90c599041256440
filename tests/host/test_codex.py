"""The checkout as a plugin of the real Codex, offline, with a model that follows a script.

Runs where $CODEX_BIN names the host's program (of `npm install @openai/codex`, outside of the checkout). Codex runs
hooks only after a person approved them; these sessions are told to do without that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from model import Call, Model
from support import Root, clean_environment

from agent_chat import hosts

BINARY = os.environ.get("CODEX_BIN", "")
pytestmark = pytest.mark.skipif(not BINARY or sys.platform == "win32", reason="no Codex: set CODEX_BIN")
QUICK = {"AGENT_CHAT_FSYNC": "0"}
CONFIGURATION = """model = "scripted"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
supports_websockets = false
"""


class Codex:
    """One home, in which sessions run with `plugin` installed, if one is given."""

    def __init__(self, path: Path, model: Model, plugin: Path | None) -> None:
        self.path, self.home, self.project, self.root = path, path / "home", path / "project", path / "root"
        (self.home / ".codex").mkdir(parents=True)
        (self.project / ".git").mkdir(parents=True)
        (self.home / ".codex/config.toml").write_text(CONFIGURATION.format(url=model.url("bob")))
        if plugin:
            self.run("plugin", "marketplace", "add", str(plugin))
            said = self.run("plugin", "add", "agent-chat@agent-chat-local")
            self.chat = said.partition("Installed plugin root: ")[2].partition("\n")[0] + "/chat.py"

    def run(self, *words: str, **environment: str) -> str:
        known = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}
        known.update({"AGENT_CHAT_ROOT": str(self.root), "AGENT_CHAT_FSYNC": "0", **environment})
        done = subprocess.run(
            [BINARY, *words],
            env=known,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done
        assert "Failed" not in done.stderr, done.stderr
        return done.stdout

    def session(self, *words: str, **environment: str) -> str:
        options = ("--skip-git-repo-check", "--dangerously-bypass-hook-trust", "-s", "danger-full-access")
        return self.run("exec", *options, *words, **environment).strip()


@pytest.fixture
def codex(tmp_path: Path, model: Model, plugin: Path) -> Codex:
    return Codex(tmp_path, model, plugin)


def test_a_session_hears_of_mail_reads_it_answers_and_respects_a_lock(codex: Codex, model: Model) -> None:
    root = Root(codex.root)
    root.ok("init", "c", "--members", "alice,bob")
    root.post("alice", "Which database?", "sqlite or files?", **QUICK)
    root.ok("lock", "c", "a.py", "--as", "alice", "--workspace", str(codex.project), **QUICK)
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\nEOF"
    model.script(
        "bob",
        Call("exec_command", cmd=f"python3 {codex.chat} read c"),
        Call("exec_command", cmd=patch),
        Call("exec_command", cmd=f"python3 {codex.chat} post c --reply 1 --title files --body ok"),
        "answered",
    )
    assert codex.session("hello", AGENT_CHAT_NAME="bob") == "answered"
    prompt, read, denied, _ = model.heard("bob")
    notice = f"[agent-chat] bob has unread messages: #c 1 from alice; read: python3 {codex.chat} --root {codex.root}"
    assert prompt.count(notice) == 2 and "sqlite or files?" not in prompt
    assert "sqlite or files?" in read and root.cursor("bob") == 2
    assert "a.py is locked by alice until 20" in denied and not (codex.project / "a.py").exists()
    assert root.messages()[-1].sender == "bob"
    (session,) = hosts.of_agent(str(codex.root), "bob")
    assert session.harness == "codex" and not session.is_here(), "its end was said"


def test_a_name_that_was_joined_is_known_to_hooks_and_commands(codex: Codex, model: Model) -> None:
    root = Root(codex.root)
    root.ok("init", "c")
    model.script("bob", Call("exec_command", cmd=f"python3 {codex.chat} join c --as bob"), "joined")
    codex.session("you are bob in channel c")
    root.post("alice", "t", "the body", **QUICK)
    model.script("bob", Call("exec_command", cmd=f"python3 {codex.chat} read c"), "read")
    codex.session("resume", "--last", "go on")
    heard, read = model.heard("bob")
    assert "bob has unread messages: #c 1 from alice" in heard and "the body" in read


@pytest.mark.parametrize("where", ["/dev/null/root", "damaged"])
def test_a_broken_root_stops_nobody(codex: Codex, model: Model, where: str) -> None:
    if where == "damaged":
        where = str(codex.root)
        (codex.root / "c").mkdir(parents=True)
        (codex.root / "c/_meta.json").write_text("<<<<<<< ours")
    model.script("bob", Call("exec_command", cmd="echo x > a.py"), "done")
    assert codex.session("write", AGENT_CHAT_NAME="bob", AGENT_CHAT_ROOT=where) == "done"
    assert (codex.project / "a.py").read_text() == "x\n"
    assert not any("[agent-chat] " in heard for heard in model.heard("bob"))


def test_the_lines_of_setup_are_enough(tmp_path: Path, model: Model, plugin: Path) -> None:
    codex = Codex(tmp_path, model, None)
    environment = clean_environment(HOME=str(codex.home))
    command = [sys.executable, str(plugin / "chat.py"), "setup", "--host", "codex"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    root = Root(codex.root)
    root.ok("init", "c", "--members", "alice,bob")
    root.post("alice", "t", "b", **QUICK)
    model.script("bob", "done")
    codex.session("hello", AGENT_CHAT_NAME="bob")
    heard = model.heard("bob")[0]
    assert "bob has unread messages: #c 1 from alice" in heard
    assert "- agent-chat: Talk to other" in heard, "the skill"
