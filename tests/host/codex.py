"""Real sessions of Codex, offline: a home of their own, a model that follows a script on the loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from model import Model

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
    """One home, in which sessions run with `plugin` installed, if one is given. Headless ones are the model's bob."""

    def __init__(self, binary: str, path: Path, model: Model, plugin: Path | None) -> None:
        self.binary, self.model = binary, model
        self.home, self.project, self.root = path / "home", path / "project", path / "root"
        for folder in (self.home / ".codex", self.project, self.root):
            folder.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)  # else Codex does not ask for trust
        (self.home / ".codex/config.toml").write_text(CONFIGURATION.format(url=model.url("bob")))
        if plugin:
            self.run("plugin", "marketplace", "add", str(plugin))
            said = self.run("plugin", "add", "agent-chat@agent-chat-local")
            self.chat = said.partition("Installed plugin root: ")[2].partition("\n")[0] + "/chat.py"

    def environment(self, **extra: str) -> dict[str, str]:
        known = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}
        known.update({"TERM": "xterm-256color", "AGENT_CHAT_ROOT": str(self.root), "AGENT_CHAT_FSYNC": "0"})
        return {**known, **extra}

    def run(self, *words: str, **environment: str) -> str:
        done = subprocess.run(
            [self.binary, *words],
            env=self.environment(**environment),
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
        """A headless one that answers one prompt, without asking about hooks."""
        options = ("--skip-git-repo-check", "--dangerously-bypass-hook-trust", "-s", "danger-full-access")
        return self.run("exec", *options, *words, **environment).strip()

    def shared(self, *words: str) -> list[str]:
        """The command of a session at a terminal, in the background server of this home, until `stop_server`."""
        return [self.binary, *words, "-s", "workspace-write", "--add-dir", str(self.root)]

    def interactive(self, session: str, *words: str) -> list[str]:
        """The same as the README has it: a process of its own, which here talks to the model as `session`."""
        url = f'model_providers.local.base_url="{self.model.url(session)}/v1"'
        return [*self.shared(*words), "--no-daemon", "-c", url]

    def stop_server(self) -> None:
        self.run("app-server", "daemon", "stop")
        updater = json.loads((self.home / ".codex/app-server-daemon/daemon-updater.pid").read_text())
        os.kill(updater["pid"], signal.SIGTERM)  # it stays when the server is stopped
