"""Which host session is which agent: registrations, whatever else lies there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import FrozenClock

from agent_chat import clock, hosts

OWN = str(os.getpid())


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def test_a_session_is_found_by_its_id(root: str) -> None:
    assert hosts.find(root, "s-1") is None and hosts.of_agent(root, "bob") == []
    hosts.leave(root, "s-1")
    assert not os.path.exists(root), "looking makes nothing"
    hosts.register(root, hosts.Session("s-1", "bob", "claude", channels="c,d"))
    found = hosts.find(root, "s-1")
    assert found and (found.agent, found.harness, found.channels, found.is_here()) == ("bob", "claude", "c,d", True)
    hosts.register(root, hosts.Session("s-1", "carol"))
    assert [session.agent for session in hosts.of_agent(root, "CAROL")] == ["carol"]
    assert hosts.of_agent(root, "bob") == []


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs /proc")
def test_another_id_of_the_same_process_is_the_same_session(root: str) -> None:
    hosts.register(root, hosts.Session("s-1", "bob", pid=OWN))
    hosts.register(root, hosts.Session("s-0", "carol", pid="1"))
    found = hosts.find(root, "s-2", OWN)
    assert found and found.agent == "bob"
    assert hosts.find(root, "s-2") is None and hosts.find(root, "s-2", "x") is None
    hosts.register(root, hosts.Session("s-2", "bob", pid=OWN))
    assert [session.is_here() for session in hosts.of_agent(root, "bob")] == [True, False]
    found = hosts.find(root, "s-3", OWN)
    assert found and found.session == "s-2", "the newest"


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs /proc")
def test_a_session_whose_process_is_gone_is_not_here(root: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        hosts.register(root, hosts.Session("s-1", "bob", pid=str(child.pid)))
        assert hosts.of_agent(root, "bob")[0].is_here()
    assert not hosts.of_agent(root, "bob")[0].is_here()


def test_who_left_is_away_and_the_old_are_forgotten_but_those_that_live(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = FrozenClock()
    monkeypatch.setattr(clock, "now", frozen)
    hosts.register(root, hosts.Session("s-1", "bob"))
    hosts.note_subagent(root, "s-1", "a1")
    hosts.leave(root, "s-1")
    hosts.register(root, hosts.Session("s-2", "carol"))
    hosts.register(root, hosts.Session("s-3", "erin", pid=OWN))
    found = hosts.find(root, "s-1")
    assert found and not found.is_here()
    frozen.pass_seconds(29 * 24 * 3600)
    hosts.register(root, hosts.Session("s-4", "dave"))
    assert hosts.find(root, "s-1") and hosts.find(root, "s-2")
    frozen.pass_seconds(2 * 24 * 3600)
    hosts.register(root, hosts.Session("s-5", "dave"))
    assert not hosts.find(root, "s-1") and not hosts.find(root, "s-2")
    assert hosts.find(root, "s-4") and (hosts.find(root, "s-3") or not os.path.isdir("/proc"))
    assert not [name for name in os.listdir(os.path.join(root, hosts.FOLDER)) if name.startswith("s-1")]


def test_what_is_no_registration_is_passed_over(root: str, tmp_path: Path) -> None:
    hosts.register(root, hosts.Session("s-1", "bob"))
    folder = Path(root, hosts.FOLDER)
    (folder / "s-2.txt").write_text("agent: mallory\nsession: s-1\nstate: here\n")
    (folder / "s-3.txt").write_bytes(b"\xff\n\nagent\nsession: s-3")
    (folder / "s-4.txt").mkdir()
    (folder / "s-5.txt").write_text("agent: a b\nsession: s-5\nstate: here\npid: ../x\n")
    (folder / "s-6.txt").symlink_to(folder / "s-1.txt")
    (folder / "s-7.txt").write_bytes(b"x" * 100_000)
    for session in ("s-2", "s-3", "s-4", "s-6", "s-7", "../s-1", "", "s-1\n"):
        assert hosts.find(root, session, OWN) is None, session
    found = hosts.find(root, "s-5")
    assert found and found.agent == "" and hosts.of_agent(root, "mallory") == []


def test_registrations_are_private_and_kept_out_of_git(tmp_path: Path) -> None:
    root = tmp_path / "home/agent-chat"
    hosts.register(str(root), hosts.Session("s-1", "bob"), str(tmp_path / "home"))
    assert (root / hosts.FOLDER / ".gitignore").read_text() == "*\n"
    if sys.platform != "win32":
        assert root.stat().st_mode & 0o077 == 0


def test_an_agent_is_here_while_one_of_its_sessions_is(root: str) -> None:
    assert hosts.presence(root) == {}
    for session in ("s-1", "s-2"):
        hosts.register(root, hosts.Session(session, "Bob"))
    hosts.register(root, hosts.Session("s-3"))
    hosts.leave(root, "s-1")
    assert hosts.presence(root) == {"bob": "here"}
    hosts.leave(root, "s-2")
    assert hosts.presence(root) == {"bob": "away"}


def test_a_value_cannot_make_another_line(root: str) -> None:
    hosts.register(root, hosts.Session("s-1", "bob", "x\nagent: mallory"))
    found = hosts.find(root, "s-1")
    assert found and (found.agent, found.harness) == ("bob", "")


@pytest.mark.parametrize(
    "event, expected",
    [
        (b'{"session_id":"s-1","prompt":"x"}', "s-1"),
        (b'{ "session_id" : "s-1" }', "s-1"),
        (b'{"prompt":"\\"session_id\\":\\"s-2\\"","session_id":"s-1"}', "s-1"),
        (b'{"session_id":7}', ""),
        (b'{"session_id":', ""),
        (b"", ""),
    ],
)
def test_a_field_of_an_event(event: bytes, expected: str) -> None:
    assert hosts.field(event, "session_id") == expected
