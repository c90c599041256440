"""demo: two agents, as real processes, talk in a fresh root and race for a marker.

The parent makes the root, starts `act(NAME)` of this module in a process for each agent, and prints
what they report as it comes. An agent runs every command as a process of its own, as a user would.
It reports in lines of JSON: {"command"} before, {"command", "status", "answer"} after.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from agent_chat import channel as channels
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import HELD, OK, AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

    Event = dict[str, Any]

AGENTS = ("alice", "bob")
CHANNEL, MARKER = "review", "task-1.md"
WAIT = "20"  # seconds an agent waits for the other, on a machine that has no time for them
LIMIT = 40.0  # seconds until hanging agents are ended; they need a fraction of one
TERMINATED = 143
PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # where agent_chat lies
KEPT_SETTINGS = ("PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
# What the listing says of a file in the channel: how its path begins or ends -> what it is.
ABOUT = {
    ".cursors/*.txt": "how far this agent has read",
    ".cursors/*.lock": "held while this agent reads",
    ".gitignore": "keeps what is the program's own out of git",
    ".index/": "the order of arrival; derived",
    ".lock": "held while somebody posts",
    ".numbers/": "numbers taken",
    "_meta.json": "members, topic",
    "task-": "the marker, renamed by who won it",
    "0": "a message",
}
# The folder is put first by hand, since PYTHONPATH could not hold one with a `:` in its name.
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {} import {} as start; sys.exit(start(sys.argv[1:]))"


def run(call: Call) -> int:
    started, is_quiet, keep = time.monotonic(), call.wants_json, call.flag("keep")
    root, before = "", signal.signal(signal.SIGTERM, _terminated)  # so that the folder is removed then, too
    try:
        # Named before it is made: a signal between the two must find it.
        root = os.path.join(tempfile.gettempdir(), f"agent-chat-demo-{os.urandom(4).hex()}")
        os.mkdir(root, 0o700)
        show = _Show(is_quiet)
        show.line(f"two agents, each a process of its own, in {root}\n")
        _prepare(root, show)
        _converse(root, show)
        files = _files(root)
        winner = _check(show.events, files)
        if is_quiet:
            kept = {"root": root, "kept": keep, "claimed_by": winner, "conversation": show.events, "files": files}
            return output.answer(call, kept, "")
        show.line(f"\n{MARKER} went to {winner} alone. What lies in the root now:\n")
        show.line("\n".join(_listing(files)))
        look = output.command_line(("channels",), root)
        end = f"kept; look around: {look}" if keep else "the root is removed; --keep leaves it"
        show.line(f"\n{time.monotonic() - started:.1f} s; {end}")
        return OK
    finally:
        signal.signal(signal.SIGTERM, before)
        if root and not keep:
            _remove(root)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)


def _remove(root: str) -> None:
    """Again for a while: a command of an ended agent may just be writing, or hold a file open (Windows)."""
    for _ in range(20):
        shutil.rmtree(root, ignore_errors=True)
        if not os.path.lexists(root):
            return
        time.sleep(0.1)


def _failed(why: str) -> AgentChatError:
    return AgentChatError("DEMO_FAILED", why, ("demo", "--keep"))


class _Show:
    """Prints events as they come, unless quiet, and keeps those of ended commands."""

    __slots__ = ("_is_quiet", "_width", "events")

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._width = max(map(len, (*AGENTS, "you"))) + 2
        self.events: list[Event] = []

    def line(self, text: str) -> None:
        if not self._is_quiet:
            output.emit(output.visible(text) + "\n")

    def event(self, event: Event) -> None:
        """A command begins (it has no status yet) or has ended."""
        name = event["agent"]
        if "status" not in event:
            self.line(f"{name + '>':{self._width}}{event['command']}")
            return
        self.events.append(event)
        for line in event["answer"].splitlines():
            self.line(f"{name:{self._width}}{line}")


# ---- the parent -------------------------------------------------------------------------------------


def _prepare(root: str, show: _Show) -> None:
    """The channel and the marker, as the person would make them who starts the agents."""
    topic = "a demo"
    command: Event = {"agent": "you", "command": f"init {CHANNEL} --members {','.join(AGENTS)} --topic '{topic}'"}
    show.event(command)
    channels.create(root, CHANNEL, AGENTS, topic)
    with channels.find(root, CHANNEL) as channel:
        channel.folder.publish(MARKER, b"A piece of work for whoever renames this file first.\n")
    show.event({**command, "status": OK, "answer": f"made channel {CHANNEL}, and the marker {CHANNEL}/{MARKER}"})


def _environment(root: str) -> dict[str, str]:
    """The caller's, less what steers agent-chat or Python; messages come as JSON."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key in KEPT_SETTINGS or not key.upper().startswith(("AGENT_CHAT_", "PYTHON"))
    }
    return {**kept, "AGENT_CHAT_ROOT": root, "AGENT_CHAT_FORMAT": "json", "PYTHONIOENCODING": "utf-8"}


def _python(module: str, function: str, *words: str) -> list[str]:
    """The command line of a process that ends with what `function` of `module` returns for the words."""
    return [sys.executable, "-c", START.format(module, function), PACKAGES, *words]


def _converse(root: str, show: _Show) -> None:
    """Start the agents and show what they report, until both have ended. DEMO_FAILED."""
    lines: queue.Queue[tuple[str, str]] = queue.Queue()  # an empty line is the end of that agent
    agents: dict[str, subprocess.Popen[str]] = {}
    try:
        for name in AGENTS:
            agents[name] = _start(name, root)
            threading.Thread(target=_forward, args=(name, agents[name], lines), daemon=True).start()
        running, deadline = set(AGENTS), time.monotonic() + LIMIT
        while running:
            try:
                name, line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise _failed(f"{', '.join(sorted(running))} did not end within {LIMIT:g} s") from None
            if line:
                show.event({"agent": name, **_event(name, line)})
                continue
            running.discard(name)
            if agents[name].wait():
                raise _failed(f"{name} ended with status {agents[name].returncode}")
    finally:
        for process in agents.values():
            process.kill()
            process.wait()


def _start(name: str, root: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        _python(__name__, "act", name),
        cwd=root,  # Python looks for modules there, and it holds none
        env=_environment(root),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def _forward(name: str, process: subprocess.Popen[str], lines: queue.Queue[tuple[str, str]]) -> None:
    if process.stdout:
        with process.stdout:
            for line in process.stdout:
                if line.strip():
                    lines.put((name, line))
    lines.put((name, ""))


def _event(name: str, line: str) -> Event:
    try:
        found = json.loads(line)
        return {"command": str(found["command"]), **found}
    except (ValueError, TypeError, KeyError):
        raise _failed(f"{name} said: {line.strip()}") from None


def _check(events: list[Event], files: list[str]) -> str:
    """Who won the marker. DEMO_FAILED unless exactly one did and both have posted and waited."""
    done = [(event["agent"], event["command"].split()[0]) for event in events if event["status"] == OK]
    winners: list[str] = [name for name, word in done if word == "claim"]
    silent = [name for name in AGENTS if not {(name, "post"), (name, "wait")} <= set(done)]
    if len(winners) != 1 or f"{CHANNEL}/task-1.CLAIMED-{winners[0]}.md" not in files:
        raise _failed(f"{MARKER} was claimed by {', '.join(winners) or 'nobody'}")
    if silent:
        raise _failed(f"{' and '.join(silent)} did not post and wait")
    return winners[0]


def _files(root: str) -> list[str]:
    """Every file below the root, by its path with slashes."""
    found = []
    for folder, _, entries in os.walk(root):
        found += [os.path.relpath(os.path.join(folder, entry), root).replace(os.sep, "/") for entry in entries]
    return sorted(found)


def _listing(files: list[str]) -> list[str]:
    """The files with what they are, those of the program last."""
    width = max(map(len, files)) + 2
    return [f"  {path:{width}}{_about(path)}".rstrip() for path in sorted(files, key=lambda path: "/." in path)]


def _about(path: str) -> str:
    inner = path.partition("/")[2]
    for ends, text in ABOUT.items():
        first, _, last = ends.partition("*")
        if inner.startswith(first) and inner.endswith(last):
            return text
    return ""


# ---- an agent -----------------------------------------------------------------------------------------


class _Agent:
    """Runs commands as processes and reports them. A command that fails ends the agent with its status."""

    __slots__ = ("_heard", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._heard: list[Event] = []  # messages that came with an earlier one

    def do(self, *words: str, may_lose: bool = False) -> tuple[int, str]:
        command = " ".join(map(shlex.quote, words))
        self._report({"command": command})
        done = subprocess.run(
            _python("agent_chat.cli", "main", *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        shown = _told(done.stdout) if words[0] == "wait" and not done.returncode else done.stdout + done.stderr
        self._report({"command": command, "status": done.returncode, "answer": shown.rstrip("\n")})
        if done.returncode and not (may_lose and done.returncode == HELD):
            raise SystemExit(done.returncode)
        return done.returncode, done.stdout

    def _report(self, event: Event) -> None:
        print(json.dumps(event), flush=True)

    def post(self, title: str, body: str, to: str, reply: int = 0) -> None:
        answered = ("--reply", str(reply)) if reply else ()
        self.do("post", CHANNEL, "--from", self.name, "--to", to, *answered, "--title", title, "--body", body)

    def hear(self) -> Event:
        """The next message; one wait may bring several."""
        if not self._heard:
            self._heard = json.loads(self.do("wait", CHANNEL, "--as", self.name, "--timeout", WAIT)[1])["messages"]
        return self._heard.pop(0)

    def claim(self) -> bool:
        return self.do("claim", CHANNEL, MARKER, "--as", self.name, may_lose=True)[0] == OK


def _told(answer: str) -> str:
    """The messages of an answer in JSON, one line each."""
    heard = json.loads(answer)["messages"]
    return "\n".join(f"#{one['seq']} from {one['from']}: {one['title']} | {one['body'].strip()}" for one in heard)


def act(words: list[str]) -> int:
    """What the agent named by the only word does: talk, try to claim the marker, agree on who does the work."""
    name, heard = words[0], 0
    agent = _Agent(name)
    other = AGENTS[name == AGENTS[0]]
    if name == AGENTS[0]:
        agent.post("Who takes task-1?", "Whoever claims it first.", other)
    else:
        heard = agent.hear()["seq"]
    if agent.claim():
        agent.post("I have task-1", "Will you review it?", other, heard)
        agent.hear()
    else:
        agent.post("Yes", "Tell me when it is done.", other, agent.hear()["seq"])
    return OK
