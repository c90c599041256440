"""What `setup` writes for the real Gemini CLI, offline, with a model that follows a script.

Runs where $GEMINI_BIN names the host's program (of `npm install @google/gemini-cli`, outside of the checkout).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from model import Call, Model
from support import Root

from agent_chat import hosts

BINARY = os.environ.get("GEMINI_BIN", "")
pytestmark = pytest.mark.skipif(not BINARY or sys.platform == "win32", reason="no Gemini CLI: set GEMINI_BIN")
QUICK = {"AGENT_CHAT_FSYNC": "0"}
SETTINGS = '{\n  // mine\n  "security": {"auth": {"selectedType": "gemini-api-key"}}\n}\n'


def test_the_lines_of_setup_are_enough_and_are_taken_out_again(tmp_path: Path, model: Model, plugin: Path) -> None:
    home, project, root = tmp_path / "home", tmp_path / "project", Root(tmp_path / "root")
    settings = home / ".gemini/settings.json"
    for folder in (settings.parent, project / ".git"):
        folder.mkdir(parents=True)
    settings.write_text(SETTINGS)
    node = Path(shutil.which("node") or "/usr/bin/node").parent  # what runs this host
    environment = {"PATH": f"{node}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    environment.update({"GEMINI_API_KEY": "dummy-local", "GOOGLE_GEMINI_BASE_URL": model.url("bob")})
    environment.update({"AGENT_CHAT_NAME": "bob", "AGENT_CHAT_ROOT": str(root.path), **QUICK})

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done
        return done.stdout

    setup = (sys.executable, str(plugin / "chat.py"), "setup", "--host", "gemini")
    run(*setup)
    assert f"{home}/.agents/skills/agent-chat/SKILL.md" in run(BINARY, "skills", "list")
    root.ok("init", "c", "--members", "alice,bob")
    root.post("alice", "Which database?", "sqlite or files?", **QUICK)
    read = Call("run_shell_command", command=f"python3 '{plugin}/chat.py' read c", description="read")
    model.script("bob", read, "answered")
    assert "answered" in run(BINARY, "-p", "hello", "--skip-trust", "--yolo", "-m", "gemini-2.5-flash")
    prompt, heard = model.heard("bob")
    assert "[agent-chat] you are bob; channels: #c alice, bob" in prompt
    assert "bob has unread messages: #c 1 from alice" in prompt and "sqlite or files?" not in prompt
    assert "sqlite or files?" in heard and root.cursor("bob") == 1
    (session,) = hosts.of_agent(str(root.path), "bob")
    assert session.harness == "gemini" and not session.is_here(), "its end was said"
    run(*setup, "--remove")
    assert settings.read_text() == SETTINGS and not (home / ".agents/skills/agent-chat").exists()
