"""The checkout as a plugin of the real Codex, offline, with a model that follows a script.

Runs where $CODEX_BIN names the host's program (of `npm install @openai/codex`, outside of the checkout). Codex runs
hooks only after a person approved them: at a terminal one does, headless sessions are told to do without that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from codex import Codex
from model import Call, Model
from support import REPOSITORY, Root, clean_environment

from agent_chat import hosts

BINARY = os.environ.get("CODEX_BIN", "")
pytestmark = pytest.mark.skipif(not BINARY or sys.platform == "win32", reason="no Codex: set CODEX_BIN")
if sys.platform != "win32":
    from screen import Terminal

READY = "state=idle:app=codex"  # what it tells the terminal
QUICK = {"AGENT_CHAT_FSYNC": "0"}


@pytest.fixture
def codex(tmp_path: Path, model: Model, plugin: Path) -> Codex:
    return Codex(BINARY, tmp_path, model, plugin)


@pytest.fixture
def open_terminal(codex: Codex) -> Iterator[Callable[..., Terminal]]:
    """Starts a session at a terminal, which then wants a prompt."""
    opened: list[Terminal] = []

    def go(command: list[str], **environment: str) -> Terminal:
        opened.append(Terminal(command, codex.project, codex.environment(**environment)))
        if len(opened) == 1:
            opened[0].shows("Trust this folder?")
            opened[0].type("1")  # trust and continue
            opened[0].shows("Hooks need review")
            opened[0].type("2")  # trust all and continue
        opened[-1].shows(READY)
        return opened[-1]

    yield go
    for terminal in opened:
        terminal.close()


def shell(command: str) -> Call:
    return Call("exec_command", cmd=command)


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
    assert "- agent-chat:agent-chat: Talk to other" in prompt, "the skill"
    assert prompt.count(notice) == 2 and "sqlite or files?" not in prompt
    assert "sqlite or files?" in read and root.cursor("bob") == 2
    assert "a.py is locked by alice until 20" in denied and not (codex.project / "a.py").exists()
    assert root.messages()[-1].sender == "bob"
    (session,) = hosts.of_agent(str(codex.root), "bob")
    assert session.harness == "codex" and not session.is_here(), "its end was said"


def test_a_locked_file_is_not_patched_by_the_tool_of_its_own(codex: Codex, model: Model) -> None:
    """Models that Codex knows have apply_patch as a tool, and not in the shell."""
    root = Root(codex.root)
    root.ok("init", "c", "--members", "alice,bob")
    root.ok("lock", "c", "a.py", "--as", "alice", "--workspace", str(codex.project), **QUICK)

    def patch(name: str) -> Call:
        return Call("apply_patch", input=f"*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch")

    model.script("bob", patch("a.py"), patch("b.py"), "patched")
    assert codex.session("-m", "gpt-5.5", "write", AGENT_CHAT_NAME="bob") == "patched"
    assert "a.py is locked by alice until 20" in model.heard("bob")[1]
    assert not (codex.project / "a.py").exists() and (codex.project / "b.py").exists()


def test_two_sessions_at_terminals_talk_and_a_clear_and_a_resume_keep_the_name(
    codex: Codex, model: Model, open_terminal: Callable[..., Terminal]
) -> None:
    """The README's way, with what a person types."""
    program = f"python3 '{codex.chat}'"
    asks = shell(f"{program} post review --to bob --title 'Which database?' --body 'sqlite or files?'")
    reads = shell(f"{program} read review")
    model.script("alice", shell(f"{program} init review --members alice,bob"), asks, "asked", reads, "files, he says")
    alice = open_terminal(codex.interactive("alice"), AGENT_CHAT_NAME="alice")
    alice.type("make a channel review for alice and bob, and ask bob which database he wants")
    model.waits_for("alice", "posted #1")
    model.script("bob", reads, shell(f"{program} post review --reply 1 --title files --body 'no server'"), "answered")
    bob = open_terminal(codex.interactive("bob"), AGENT_CHAT_NAME="bob")
    bob.type("answer alice")
    heard = model.waits_for("bob", "answer alice")
    assert "bob has unread messages: #review 1 from alice; read: " in heard
    model.waits_for("bob", "sqlite or files?")
    model.waits_for("bob", "posted #2")
    alice.type("what does bob say?")
    assert "alice has unread messages: #review 1 from bob" in model.waits_for("alice", "what does bob say?")
    model.waits_for("alice", "no server")

    for words, prompt in (((), "after the clear"), (("resume", "--last"), "after the resume")):
        if words:
            assert bob.end() == 0
            assert not any(session.is_here() for session in hosts.of_agent(str(codex.root), "bob"))
            bob = open_terminal(codex.interactive("bob", *words), AGENT_CHAT_NAME="bob")
        else:
            bob.type("/clear")
            time.sleep(1)  # it paints the same again
        Root(codex.root).ok("post", "review", "--from", "alice", "--title", "t", "--body", "b", **QUICK)
        model.script("bob", reads, "read")
        bob.type(prompt)
        assert "bob has unread messages: #review 1 from alice" in model.waits_for("bob", prompt)
        model.waits_for("bob", "information, not instructions")


def test_a_line_in_another_terminal_wakes_an_idle_session(
    codex: Codex, model: Model, open_terminal: Callable[..., Terminal], plugin: Path
) -> None:
    """The README's line; Codex looks for queued prompts every ten seconds."""
    root = Root(codex.root)
    root.ok("init", "c", "--members", "alice,bob")
    model.script("bob", "hello", shell(f"python3 '{codex.chat}' read c"), "read it")
    open_terminal(codex.interactive("bob"), AGENT_CHAT_NAME="bob").type("hello")
    model.waits_for("bob", "hello")
    (session,) = hosts.of_agent(str(codex.root), "bob")
    lines = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    (line,) = [line.strip(" `").replace("SESSION", session.session) for line in lines if "codex queue --" in line]
    paths = f"{Path(codex.binary).parent}:{plugin / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    waker = subprocess.Popen(
        ["sh", "-c", line],
        env=codex.environment(PATH=paths),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        watched = root.folder() / ".waiters"
        deadline = time.monotonic() + 30
        while not (watched.exists() and list(watched.iterdir())):
            assert time.monotonic() < deadline, "nobody watches"
            time.sleep(0.05)
        root.post("alice", "wake up", "the body", **QUICK)
        woken = model.waits_for("bob", "1 new message for bob: #c 1 from alice")
        assert "bob has unread messages: #c 1 from alice" in woken and "wake up" not in woken
        model.waits_for("bob", "the body")
    finally:
        os.killpg(waker.pid, signal.SIGTERM)
        waker.wait(timeout=30)


def test_in_the_server_that_sessions_share_the_first_ones_name_is_nobodys(
    codex: Codex, model: Model, open_terminal: Callable[..., Terminal]
) -> None:
    """What happens to who forgets --no-daemon: nobody acts as somebody else."""
    root = Root(codex.root)
    root.ok("init", "c", "--members", "alice,bob")
    root.post("alice", "for bob", "the body", **QUICK)
    program = f"python3 '{codex.chat}'"
    tries = shell(f"{program} read c")
    model.script("bob", tries, shell(f"{program} join c --as bob"), tries, "read it")
    try:
        open_terminal(codex.shared(), AGENT_CHAT_NAME="bob").type("answer alice")
        heard = model.waits_for("bob", "answer alice")
        assert "you have no name here" in heard and "AGENT_CHAT_NAME=NAME codex --no-daemon" in heard
        assert "bob has unread" not in heard
        model.waits_for("bob", "not here: it is that of Codex's background server")
        model.waits_for("bob", "joined c as bob")
        model.waits_for("bob", "the body")
        open_terminal(codex.shared(), AGENT_CHAT_NAME="alice").type("who am I?")
        assert "you have no name here" in model.waits_for("bob", "who am I?")
    finally:
        codex.stop_server()


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


def test_a_name_that_was_joined_outlives_a_clear(
    codex: Codex, model: Model, open_terminal: Callable[..., Terminal]
) -> None:
    root = Root(codex.root)
    root.ok("init", "c")
    model.script("bob", shell(f"python3 '{codex.chat}' join c --as bob"), "joined")
    terminal = open_terminal(codex.interactive("bob"))
    terminal.type("you are bob in channel c")
    model.waits_for("bob", "joined c as bob")
    terminal.shows("Worked for")
    terminal.type("/clear")
    time.sleep(1)  # it paints the same again
    root.post("alice", "t", "the body", **QUICK)
    terminal.type("who am I?")
    heard = model.waits_for("bob", "who am I?")
    assert "you are bob" in heard and "bob has unread messages: #c 1 from alice" in heard


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
    codex = Codex(BINARY, tmp_path, model, None)
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
