"""Make a channel, run a command in this process or as a real one, freeze the clock."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent_chat import channel as channels
from agent_chat import clock, frontmatter
from agent_chat.cli import main
from agent_chat.storage import disk

REPOSITORY = Path(__file__).resolve().parent.parent
CHAT = str(REPOSITORY / "chat.py")


class Result:
    """What a command answered."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    def __repr__(self) -> str:
        return f"<status {self.status}, out {self.out!r}, err {self.err!r}>"

    @property
    def code(self) -> str:
        """The code of the last refusal on standard error."""
        found = [line.split(": ")[1] for line in self.err.splitlines() if line.startswith("agent-chat: ")]
        return found[-1] if found and found[-1].isupper() else ""

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def clean_environment(**extra: str) -> dict[str, str]:
    """This environment without what steers agent-chat or Python, and with `extra`."""
    steering = ("AGENT_CHAT_", "PYTHON", "GIT_", "CLAUDE", "CODEX_", "AI_AGENT", "GEMINI_", "OPENCODE", "CURSOR_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(steering)}
    return {**kept, "AGENT_CHAT_FORMAT": "markdown", "PYTHONDONTWRITEBYTECODE": "1", **extra}


class Root:
    """A chat root in a temporary folder, and commands on it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *words: object, stdin: str | bytes | None = None, **environment: str) -> Result:
        """Run a command in this process, with its own standard streams and environment."""
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        saved = sys.stdin, sys.stdout, sys.stderr, dict(os.environ)
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(data)
            given.seek(0)
            try:
                os.environ.clear()
                os.environ.update(clean_environment(**environment))
                sys.stdin = io.TextIOWrapper(given, encoding="utf-8")
                sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
                sys.stderr = io.TextIOWrapper(err, encoding="utf-8")
                status = main(["--root", str(self.path), *map(str, words)])
            finally:
                for stream in (sys.stdin, sys.stdout, sys.stderr):
                    stream.detach()
                sys.stdin, sys.stdout, sys.stderr = saved[:3]
                disk.durable = True  # AGENT_CHAT_FSYNC=0 is for this call
                os.environ.clear()
                os.environ.update(saved[3])
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode("utf-8"))
        return Result(status, *texts)

    def ok(self, *words: object, **kwargs: Any) -> Result:
        result = self.run(*words, **kwargs)
        assert result.status == 0, (words, result)
        return result

    def refused(self, code: str, *words: object, status: int = 2, **kwargs: Any) -> Result:
        """The command must refuse with `code`: one line, nothing on standard output."""
        result = self.run(*words, **kwargs)
        assert (result.code, result.status, result.out) == (code, status, ""), (words, result)
        assert len(result.err.splitlines()) == 1 and "; next: " in result.err, result
        return result

    def spawn(self, *words: object, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a command as a real process."""
        environment = clean_environment(**kwargs.pop("environment", {}))
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
        command = [sys.executable, CHAT, "--root", str(self.path), *map(str, words)]
        return subprocess.Popen(command, env=environment, **options)

    def real(self, *words: object, **kwargs: Any) -> Result:
        """Run a command as a real process to its end."""
        data = kwargs.pop("input", None)
        if data is not None:
            kwargs["stdin"] = subprocess.PIPE
        process = self.spawn(*words, **kwargs)
        out, err = process.communicate(data, timeout=120)
        return Result(
            process.returncode, (out or b"").decode("utf-8", "replace"), (err or b"").decode("utf-8", "replace")
        )

    # ---- looking at the folder --------------------------------------------------------------------

    def folder(self, channel: str = "c") -> Path:
        return self.path / channel

    def post(self, sender: str = "alice", title: str = "t", body: str = "b", *more: object, **kwargs: Any) -> Result:
        return self.ok("post", "c", "--from", sender, f"--title={title}", f"--body={body}", *more, **kwargs)

    def names(self, channel: str = "c") -> list[str]:
        """The message files, by number."""
        found = (
            path.name for path in self.folder(channel).iterdir() if path.name[:4].isdigit() and path.suffix == ".md"
        )
        return sorted(found, key=lambda name: (int(name.split("-")[0]), name))

    def messages(self, channel: str = "c") -> list[frontmatter.Message]:
        return [frontmatter.parse(name, (self.folder(channel) / name).read_bytes()) for name in self.names(channel)]

    def cursor(self, agent: str, channel: str = "c") -> int:
        return int((self.folder(channel) / ".cursors" / f"{agent}.txt").read_text())

    def put(self, number: int, body: str = "b", sender: str = "alice", to: str = "all", name: str = "") -> Path:
        """Put a message file there as another program would."""
        path = self.folder() / (name or f"{number:04d}-{sender}-x.md")
        head = f"seq: {number}\nfrom: {sender}\nto: {to}\nchannel: c\nts: 2026-01-01T00:00:00+00:00"
        text = f"---\n{head}\nstatus: discussion\ntitle: t\n---\n{body}\n"
        path.write_text(text, "utf-8")
        return path


def make_root(path: Path, *channel_options: str) -> Root:
    """A root with the channel `c` of alice, bob and carol, or as the options say."""
    root = Root(path / "root")
    root.path.mkdir(parents=True, exist_ok=True)
    members = channel_options or ("--members", "alice,bob,carol")
    root.ok("init", "c", *members)
    return root


def open_channel(root: Root, name: str = "c") -> channels.Channel:
    return channels.find(str(root.path), name)


class FrozenClock:
    """Put in place of `clock.now`: `monkeypatch.setattr(clock, "now", FrozenClock())`."""

    def __init__(self, instant: int = 1_800_000_000 * clock.SECOND) -> None:
        self.instant = instant

    def __call__(self) -> int:
        return self.instant

    def pass_seconds(self, seconds: float) -> None:
        self.instant += round(seconds * clock.SECOND)
