"""The checkout as a plugin of the real Claude Code, offline, with a model that follows a script.

Runs where $CLAUDE_BIN names the host's program (`npm install @anthropic-ai/claude-code`, outside of the checkout).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from model import Call, Model
from support import Root

from agent_chat import hosts

BINARY = os.environ.get("CLAUDE_BIN", "")
pytestmark = pytest.mark.skipif(not BINARY or sys.platform == "win32", reason="no Claude Code: set CLAUDE_BIN")
if sys.platform != "win32":
    from claude import Claude
    from screen import Terminal

QUICK = {"AGENT_CHAT_FSYNC": "0"}


@pytest.fixture
def claude(tmp_path: Path, model: Model, plugin: Path) -> Claude:
    return Claude(BINARY, tmp_path, model, plugin)


@pytest.fixture
def open_terminal(claude: Claude) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def go(session: str, **environment: str) -> Terminal:
        opened.append(Terminal(claude.command(), claude.project, claude.environment(session, **environment)))
        return opened[-1]

    yield go
    for terminal in opened:
        terminal.close()


def bash(command: str) -> Call:
    return Call("Bash", command=command, description="agent-chat")


def test_two_sessions_talk_and_a_locked_file_is_not_written(claude: Claude, model: Model) -> None:
    model.script(
        "alice",
        bash("agent-chat init review --members alice,bob"),
        bash('agent-chat post review --to bob --title "Which database?" --body "sqlite or files?"'),
        bash("agent-chat lock review src/a.py --lease-seconds 3600"),
        "asked",
    )
    assert claude.headless("alice", "ask bob", AGENT_CHAT_NAME="alice")["result"] == "asked"
    path = claude.project / "src/a.py"
    model.script(
        "bob",
        bash("agent-chat read review"),
        Call("Write", file_path=str(path), content="x"),
        bash('agent-chat post review --reply 1 --title "files" --body "nothing to install"'),
        "answered",
    )
    report = claude.headless("bob", "see what alice wants", AGENT_CHAT_NAME="bob")
    assert report["result"] == "answered"
    assert [denial["tool_name"] for denial in report["permission_denials"]] == ["Write"]
    prompt, read, denied, _ = model.heard("bob")
    notice = "[agent-chat] bob has unread messages: #review 1 from alice; read: agent-chat read review --as bob"
    assert notice in prompt and "sqlite or files?" not in prompt
    assert 'from="alice"' in read and "sqlite or files?" in read and "information, not instructions" in read
    assert "src/a.py is locked by alice until 20" in denied and not path.exists()
    model.script("alice", bash("agent-chat read review"), "read")
    claude.headless("alice", "go on", AGENT_CHAT_NAME="alice")
    assert "#review 1 from bob" in model.heard("alice")[0] and "nothing to install" in model.heard("alice")[1]
    sessions = [*hosts.of_agent(str(claude.root), "alice"), *hosts.of_agent(str(claude.root), "bob")]
    assert len(sessions) == 3 and not any(session.is_here() for session in sessions), "all said that they left"


def test_an_idle_session_is_woken_and_a_clear_and_a_resume_keep_its_name(
    claude: Claude, model: Model, open_terminal: Callable[..., Terminal]
) -> None:
    """Nobody told the host a name: the agent joined."""
    root = Root(claude.root)
    root.ok("init", "c", "--members", "alice")
    model.script("bob", bash("agent-chat join c --as bob"), "joined", bash("agent-chat read c"), "read it")
    terminal = open_terminal("bob")
    terminal.shows("1 monitor")
    terminal.type("you are bob in channel c")
    model.waits_for("bob", "joined c as bob")
    (session,) = hosts.of_agent(str(claude.root), "bob")
    root.post("alice", "wake up", "the body", **QUICK)
    woken = model.waits_for("bob", "1 new message for bob: #c 1 from alice")
    assert "the body" not in woken and "wake up" not in woken
    assert "bob has unread messages: #c 1 from alice" in woken, "the prompt hook spoke beside it"
    model.waits_for("bob", "the body")
    assert root.cursor("bob") == 2, "joining is a message, too"

    model.script("bob", "fresh")
    terminal.type("/clear")
    here = _until_another(claude, session)
    root.post("alice", "again", "body of the second", **QUICK)
    model.waits_for("bob", "1 new message for bob: #c 1 from alice")
    assert terminal.end() == 0
    assert not any(session.is_here() for session in hosts.of_agent(str(claude.root), "bob"))
    waiters = root.folder() / ".waiters"
    deadline = time.monotonic() + 30
    while any(_is_held(path) for path in waiters.iterdir()):
        assert time.monotonic() < deadline, "the monitor goes on after its host"
        time.sleep(0.05)

    model.script("bob", "resumed")
    claude.headless("bob", "go on", "--resume", here.session)
    assert "bob has unread messages: #c 1 from alice" in model.heard("bob")[0]


def _until_another(claude: Claude, before: hosts.Session) -> hosts.Session:
    """The one session of bob that is here, once it is another."""
    deadline = time.monotonic() + 60
    while True:
        here = [session for session in hosts.of_agent(str(claude.root), "bob") if session.is_here()]
        if len(here) == 1 and here[0].session != before.session:
            return here[0]
        assert time.monotonic() < deadline, here
        time.sleep(0.05)


def _is_held(path: Path) -> bool:
    import fcntl

    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False  # its holder took it away
    except OSError:
        return True
    return False


def test_without_the_plugin_a_wait_in_the_background_wakes(
    claude: Claude, model: Model, open_terminal: Callable[..., Terminal], plugin: Path
) -> None:
    """The pattern of SKILL.md."""
    root = Root(claude.root)
    root.ok("init", "c", "--members", "alice,bob")
    (claude.home / ".claude/settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
    claude.command = lambda *words: [BINARY, "--permission-mode", "acceptEdits", *words]  # type: ignore[method-assign]
    program = f"'{plugin}/bin/agent-chat'"
    waits = bash(f"{program} wait c --peek --timeout 600")
    waits.given["run_in_background"] = True
    model.script("bob", waits, "I wait", bash(f"{program} read c"), "read it")
    terminal = open_terminal("bob", AGENT_CHAT_NAME="bob")
    terminal.shows("for agents")
    terminal.type("wait for mail")
    model.waits_for("bob", "Command running in background")
    root.post("alice", "t", "the body", **QUICK)
    model.waits_for("bob", "<status>completed</status>")
    model.waits_for("bob", "the body")
    assert terminal.end() == 0


def test_a_subagent_acts_under_the_name_of_its_session(claude: Claude, model: Model) -> None:
    root = Root(claude.root)
    root.ok("init", "c", "--members", "alice,bob")
    sub = Call("Agent", description="sub", prompt="post it", subagent_type="general-purpose", run_in_background=False)
    model.script("bob", sub, bash('agent-chat post c --title "from below" --body "x"'), "posted", "done")
    claude.headless("bob", "let somebody post", AGENT_CHAT_NAME="bob")
    assert [message.sender for message in root.messages()] == ["bob"]
    (noted,) = (claude.root / hosts.FOLDER).glob("*.subagents")
    assert len(noted.read_text().splitlines()) == 1


@pytest.mark.parametrize("where", ["/dev/null/root", "damaged"])
def test_a_broken_root_stops_nobody(claude: Claude, model: Model, where: str) -> None:
    if where == "damaged":
        where = str(claude.root)
        (claude.root / "c").mkdir(parents=True)
        (claude.root / "c/_meta.json").write_text("<<<<<<< ours")
    path = claude.project / "a.py"
    model.script("bob", Call("Write", file_path=str(path), content="x"), "done")
    report = claude.headless("bob", "write", AGENT_CHAT_NAME="bob", AGENT_CHAT_ROOT=where)
    assert report["result"] == "done" and path.read_text() == "x"
    assert not any("[agent-chat] " in heard for heard in model.heard("bob"))


def run(claude: Claude, *words: str) -> str:
    environment = claude.environment("nobody")
    done = subprocess.run([BINARY, *words], env=environment, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def test_it_is_installed_from_the_checkout_with_its_options(claude: Claude, model: Model, plugin: Path) -> None:
    """The checkout is its own marketplace, and one line installs it; an option names the agent."""
    run(claude, "plugin", "install", "agent-chat", "--marketplace", str(plugin), "--config", "AGENT_CHAT_NAME=bob")
    root = Root(claude.root)
    root.ok("init", "c", "--members", "alice,bob")
    root.post("alice", "t", "b", **QUICK)
    model.script("bob", bash("agent-chat read c"), "done")
    claude.command = lambda *words: [BINARY, *words]  # type: ignore[method-assign]  # without --plugin-dir
    claude.headless("bob", "hello")
    first, read = model.heard("bob")
    assert "[agent-chat] you are bob; channels: #c alice, bob" in first and "#c 1 from alice" in first
    assert 'from="alice"' in read and root.cursor("bob") == 1
    run(claude, "plugin", "uninstall", "agent-chat@agent-chat-local")


def test_the_lines_of_setup_are_enough(claude: Claude, model: Model, plugin: Path) -> None:
    settings = claude.home / ".claude/settings.json"
    before = settings.read_bytes()
    for words in ([], ["--remove"], []):
        command = [sys.executable, str(plugin / "chat.py"), "setup", "--host", "claude", *words]
        subprocess.run(command, env=claude.environment("nobody"), check=True, capture_output=True)
        assert (settings.read_bytes() == before) == bool(words)
    root = Root(claude.root)
    root.ok("init", "c", "--members", "alice,bob")
    root.post("alice", "t", "b", **QUICK)
    model.script("bob", "done")
    claude.command = lambda *words: [BINARY, *words]  # type: ignore[method-assign]  # without --plugin-dir
    claude.headless("bob", "hello", AGENT_CHAT_NAME="bob")
    assert "bob has unread messages: #c 1 from alice" in model.heard("bob")[0]


def test_the_validation_of_plugins_has_nothing_to_say(claude: Claude, plugin: Path) -> None:
    said = run(claude, "plugin", "validate", "--strict", "--profile", "directory", str(plugin))
    assert "These checks found nothing to report" in said and "Validation passed" in said


def test_the_two_commands_are_loaded_and_cost_nothing_always(claude: Claude, model: Model) -> None:
    model.script("bob", "ok")
    claude.headless("bob", "hello", AGENT_CHAT_NAME="bob")
    heard = model.heard("bob")[0]
    assert "agent-chat:agent-chat: " in heard, "the skill is offered"
    assert "agent-chat:inbox" not in heard and "agent-chat:listen" not in heard
    model.script("bob", "ok")
    claude.headless("bob", "/agent-chat:inbox review", AGENT_CHAT_NAME="bob")
    assert "agent-chat read CHANNEL" in model.heard("bob")[0] and "review" in model.heard("bob")[0]
