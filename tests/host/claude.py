"""Real sessions of Claude Code, offline: a clean environment, a home of their own, a scripted model on the loopback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from model import Model

KEY = "dummy-local-key-0123456789"


class Claude:
    """One home, in which sessions run with `plugin`."""

    def __init__(self, binary: str, path: Path, model: Model, plugin: Path) -> None:
        self.binary, self.path, self.model, self.plugin = binary, path, model, plugin
        self.home, self.project = path / "home", path / "project"
        self.root = path / "root"
        for folder in (self.home / ".claude", self.project / ".git", path / "tmp"):
            folder.mkdir(parents=True)
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        answered: dict[str, Any] = {"hasCompletedOnboarding": True, "lastOnboardingVersion": "99.0.0", "theme": "dark"}
        answered["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
        answered["projects"] = {str(self.project): trusted}
        (self.home / ".claude.json").write_text(json.dumps(answered))
        allowed = {"permissions": {"allow": ["Bash(agent-chat:*)", "Bash(echo:*)"]}}
        (self.home / ".claude/settings.json").write_text(json.dumps(allowed))

    def environment(self, session: str, **extra: str) -> dict[str, str]:
        known = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.path / "tmp"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": self.model.url(session),
            "ANTHROPIC_API_KEY": KEY,
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "NO_PROXY": "127.0.0.1",
            "AGENT_CHAT_ROOT": str(self.root),
            "AGENT_CHAT_FSYNC": "0",
        }
        return {**known, **extra}

    def command(self, *words: str) -> list[str]:
        return [self.binary, "--plugin-dir", str(self.plugin), "--permission-mode", "acceptEdits", *words]

    def headless(self, session: str, prompt: str, *words: str, **environment: str) -> dict[str, Any]:
        """A session that answers one prompt; what it reports at its end."""
        done = subprocess.run(
            self.command("-p", prompt, "--output-format", "json", *words),
            env=self.environment(session, **environment),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == 0 and not done.stderr, done
        report: dict[str, Any] = json.loads(done.stdout)
        assert not report["is_error"], report
        return report
