"""demo: real processes, every way to start it, nothing of the caller's matters, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_chat.cli import demo, main
from tests.support import CHAT, REPOSITORY, Root, clean_environment

WAYS = {"chat.py": [CHAT], "module": ["-m", "agent_chat"]}
HOSTILE = {
    "AGENT_CHAT_ROOT": "/nowhere/at/all",
    "AGENT_CHAT_NAME": "..",
    "AGENT_CHAT_FORMAT": "envelope",
    "AGENT_CHAT_AUDIT": "all",
    "PYTHONUNBUFFERED": "1",
    "PYTHONIOENCODING": "ascii",
    "PYTHONWARNINGS": "error",
    "PYTHONSTARTUP": "/nowhere.py",
}


def start(way: str, cwd: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """`demo` as a process whose temporary folders lie in `cwd`/tmp."""
    (cwd / "tmp").mkdir(exist_ok=True)
    extra = {"TMPDIR": str(cwd / "tmp"), "TEMP": str(cwd / "tmp"), "TMP": str(cwd / "tmp"), **environment}
    if way == "module":
        extra["PYTHONPATH"] = str(REPOSITORY)
    return subprocess.Popen(
        [sys.executable, *WAYS[way], "demo", *words],
        cwd=cwd,
        env=clean_environment(**extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "tmp").iterdir())


@pytest.mark.parametrize("way", WAYS)
def test_two_agents_talk_and_one_wins(way: str, tmp_path: Path) -> None:
    for name in ("json.py", "agent_chat.py"):  # in the working folder: found first by `-m`, not by the children
        if way != "module":
            (tmp_path / name).write_text("raise SystemExit('a module of the working folder')\n")
    status, out, err = finish(start(way, tmp_path, **HOSTILE))
    assert (status, err) == (0, ""), out + err
    for name in ("alice", "bob"):
        for word in ("post", "wait", "claim"):
            assert f"\n{name + '>':7}{word} review " in out, out
    winner = next(name for name in ("alice", "bob") if f"task-1.md went to {name} alone" in out)
    for path in ("_meta.json", "0001-alice-who-takes-task-1.md", f"task-1.CLAIMED-{winner}.md", ".cursors/bob.txt"):
        assert f"\n  review/{path} " in out, out
    assert out.endswith("the root is removed; --keep leaves it\n")
    assert left(tmp_path) == []


def test_keep_leaves_a_root_that_can_be_read(tmp_path: Path) -> None:
    status, out, err = finish(start("chat.py", tmp_path, "--keep"))
    assert (status, err) == (0, "")
    root = Root(tmp_path / "tmp" / left(tmp_path)[0])
    assert str(root.path) in out.splitlines()[-1] and "kept" in out.splitlines()[-1]
    assert len(root.names("review")) == 3
    assert root.ok("channels", "--json").json["channels"][0]["count"] == 3
    assert root.ok("read", "review", "--as", "carol", "--json").json["latest_seq"] == 3


def test_json_is_one_object(tmp_path: Path) -> None:
    status, out, err = finish(start("chat.py", tmp_path, "--json"))
    assert (status, err, out.count("\n")) == (0, "", 1)
    found = json.loads(out)
    claims = [event["status"] for event in found["conversation"] if event["command"].startswith("claim")]
    assert sorted(claims) == [0, 3]
    assert f"review/task-1.CLAIMED-{found['claimed_by']}.md" in found["files"]
    assert (found["kept"], left(tmp_path)) == (False, [])


@pytest.mark.parametrize("name", ["a b", "a:b", "é"])
def test_it_works_wherever_it_lies(name: str, tmp_path: Path) -> None:
    home = tmp_path / name
    home.mkdir()
    shutil.copy(CHAT, home)
    shutil.copytree(REPOSITORY / "agent_chat", home / "agent_chat", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, str(home / "chat.py"), "demo"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, check=False)
    assert done.returncode == 0, done


def test_it_says_so_when_an_agent_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "START", "import sys; print('no agent today'); sys.exit(3); {}{}")
    result = Root(tmp_path / "unused").run("demo", TMPDIR=str(tmp_path))
    assert (result.status, result.code) == (1, "DEMO_FAILED"), result
    assert "said: no agent today; next: " in result.err and len(result.err.splitlines()) == 1


def test_it_says_so_when_agents_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "START", "import time; time.sleep(60); {}{}")
    monkeypatch.setattr(demo, "LIMIT", 0.2)
    result = Root(tmp_path / "unused").run("demo", "--json")
    assert (result.status, result.out) == (1, "")
    assert "alice, bob did not end" in json.loads(result.err)["error"]["message"]


def test_two_winners_are_a_failure() -> None:
    files = ["review/task-1.CLAIMED-alice.md"]
    talk = [{"agent": name, "command": word, "status": 0} for name in demo.AGENTS for word in ("post", "wait")]
    claims = [{"agent": name, "command": "claim review task-1.md", "status": 0} for name in demo.AGENTS]
    assert demo._check([*talk, claims[0]], files) == "alice"
    for events in ([*talk, *claims], talk, claims[:1]):
        with pytest.raises(demo.AgentChatError):
            demo._check(events, files)


def test_an_agent_that_lost_answers_the_winner(tmp_path: Path) -> None:
    """Which of the two wins is the system's choice; here bob has the marker before alice looks."""
    root = Root(tmp_path / "root")
    root.ok("init", "review", "--members", "alice,bob")
    (root.folder("review") / "task-1.CLAIMED-bob.md").write_text("work\n")
    environment = {**demo._environment(str(root.path)), "PYTHONPATH": str(REPOSITORY)}
    code = "import sys; from agent_chat.cli.demo import act; sys.exit(act(['alice']))"
    alice = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL)
    root.ok("wait", "review", "--as", "bob", "--timeout", 20)
    root.ok("post", "review", "--from", "bob", "--to", "alice", "--title", "I have task-1", "--body", "b")
    assert alice.wait(timeout=30) == 0
    assert [message.sender for message in root.messages("review")] == ["alice", "bob", "alice"]


def test_an_agent_that_comes_late_hears_several_messages_at_once(tmp_path: Path) -> None:
    """On a busy machine alice may have posted twice before bob first looks."""
    root = Root(tmp_path / "root")
    root.ok("init", "review", "--members", "alice,bob")
    (root.folder("review") / "task-1.CLAIMED-alice.md").write_text("work\n")
    for title in ("Who takes task-1?", "I have task-1"):
        root.ok("post", "review", "--from", "alice", "--to", "bob", "--title", title, "--body", "b")
    environment = {**demo._environment(str(root.path)), "PYTHONPATH": str(REPOSITORY)}
    code = "import sys; from agent_chat.cli.demo import act; sys.exit(act(['bob']))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout.count(b'"wait review')) == (0, 2)  # one wait: before it and after it
    assert [message.reply_to for message in root.messages("review")] == [0, 0, 2]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_terminated_it_removes_its_root(tmp_path: Path) -> None:
    process = start("chat.py", tmp_path)
    deadline = time.monotonic() + 30
    # tempfile tries the folder with a file of its own first
    while not any(name.startswith("agent-chat") for name in left(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    status, _, err = finish(process)
    assert (status in (0, 143), err) == (True, ""), status
    assert left(tmp_path) == []


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    process = start("chat.py", tmp_path)
    assert process.stdout and process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr and process.stderr.read() == ""
    process.stderr.close()
    assert left(tmp_path) == []


def test_the_callers_handler_of_sigterm_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(demo, "_prepare", lambda root, show: 1 / 0)
    assert Root(tmp_path).run("demo").status == 1
    assert signal.getsignal(signal.SIGTERM) is before and callable(main)
