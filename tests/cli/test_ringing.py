"""ring: one line and a pointer, not too often (extensions, section 6)."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import FrozenClock, Root, make_root, open_channel

from agent_chat import clock, people, presence


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    root.post()
    return root


def ring(text: str = "look", ref: str = "seq:1", to: str = "bob", sender: str = "alice") -> list[str]:
    return ["ring", "c", "--from", sender, "--to", to, "--ref", ref, text, "--json"]


def test_a_ring_is_a_message_with_its_pointer_and_wakes_whom_it_is_for(root: Root) -> None:
    root.ok("ack", "c", "--as", "bob", "--upto", "1")
    waiting = root.spawn("wait", "c", "--as", "bob", "--timeout", "30")
    found = root.ok(*ring("please look now")).json
    assert (found["ok"], found["seq"], set(found["delivery"])) == (True, 2, {"bob"})
    message = root.messages()[-1]
    assert (message.status, message.title, message.to) == ("ring", "please look now", "bob")
    assert message.header["ref"] == "seq:1" and message.body == "see seq:1\n"
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0 and b"please look now" in out


def test_the_answer_says_that_somebody_waits(root: Root) -> None:
    with open_channel(root) as channel:
        announced = presence.announce([channel], "bob")
        assert root.ok(*ring()).json["delivery"] == {"bob": "waiting"}
        announced.end()
    assert root.ok(*ring("more")).json["delivery"] == {"bob": "parked"}


def test_the_same_text_within_five_minutes_is_dropped(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    now = FrozenClock()
    monkeypatch.setattr(clock, "now", now)
    root.ok(*ring())
    now.pass_seconds(299)
    found = root.ok(*ring(ref="path:.")).json
    assert found == {"ok": False, "channel": "c", "seq": 2, "file": root.names()[-1], "reason": "duplicate"}
    assert root.ok(*ring(to="carol")).json["ok"] and root.ok(*ring(sender="carol")).json["ok"], "others may"
    now.pass_seconds(2)
    assert root.ok(*ring()).json["ok"]
    assert "was not rung" in root.ok(*ring()[:-1]).out


def test_a_third_ring_for_one_reference_in_a_day_is_dropped(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    now = FrozenClock()
    monkeypatch.setattr(clock, "now", now)
    for text in ("one", "two"):
        assert root.ok(*ring(text)).json["ok"]
        now.pass_seconds(600)
    for _ in range(2):
        assert root.ok(*ring("three")).json["reason"] == "frequency"
    assert root.ok(*ring("three", ref="seq:2")).json["ok"], "another reference"
    stamp = clock.seconds_stamp(now.instant)
    for number in range(1000, 1300):  # it is found behind whatever came since, in whatever order
        path = root.put(number, sender="carol")
        if number % 3:
            path.write_text(path.read_text().replace("2026-01-01T00:00:00+00:00", stamp))
    assert root.ok(*ring("four")).json["reason"] == "frequency"
    now.pass_seconds(24 * 3600)
    assert root.ok(*ring("three")).json["ok"]
    rung = [message.title for message in root.messages() if message.status == "ring"]
    assert rung == ["one", "two", "three", "three"]


@pytest.mark.parametrize("ref", ["seq:9", "seq:x", "task:T-1", "task:../x", f"lock:{'0' * 32}", "lock:x", "path:no.py"])
def test_a_pointer_into_the_channel_must_point_to_something(root: Root, ref: str) -> None:
    root.refused("RING_REF_NOT_FOUND", *ring(ref=ref)[:-1])
    assert len(root.names()) == 1


@pytest.mark.parametrize("ref", ["", "x", "seq:", "a b", "12", "a/b#x", "path:../../x", "://x", "x" * 501, "a/b#1\n"])
def test_what_is_no_reference_is_refused(root: Root, ref: str) -> None:
    found = root.run(*ring(ref=ref)[:-1])
    assert found.code == "RING_INVALID_REF" if ref != "a/b#1\n" else found.status == 0, found


def test_every_kind_of_reference_rings(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work/src").mkdir(parents=True)
    (tmp_path / "work/.git").mkdir()
    (tmp_path / "work/src/a.py").write_text("")
    monkeypatch.chdir(tmp_path / "work")
    root.ok("task", "create", "c", "T-0001", "--from", "alice", "--title", "t")
    lock = root.ok("lock", "c", "src", "--as", "alice", "--json").json["lock"]["lock_id"]
    refs = ["seq:1", "task:T-0001", f"lock:{lock}", "path:src/a.py", "owner/repo#12", "https://example.org/x?y#z"]
    for ref in refs:
        assert root.ok(*ring(f"about {ref[:9]}", ref)).json["ok"], ref
    assert [message.header["ref"] for message in root.messages() if message.status == "ring"] == refs


@pytest.mark.parametrize("text", ["", "  ", "x" * 201, "two\nlines", "a\x1b[31m"])
def test_a_ring_is_one_line_of_200_characters(root: Root, text: str) -> None:
    root.refused("RING_INVALID_TEXT", *ring(text)[:-1])
    assert root.ok(*ring("x" * 200)).json["ok"]


def test_an_unknown_name_is_asked_about(root: Root) -> None:
    found = root.refused("MESSAGE_UNKNOWN_RECIPIENT", *ring(to="dave")[:-1])
    assert " ring c --from alice --to dave " in found.err and "--force" in found.err
    assert root.ok(*ring(to="dave"), "--force").json["delivery"] == {"dave": "unknown"}


def test_who_has_joined_rings_by_its_token_alone(root: Root) -> None:
    token = root.ok("join", "c", "--as", "alice", "--session", "s", "--json").json["token"]
    root.refused("IDENTITY_REQUIRED", *ring()[:-1])
    root.ok("ring", "c", "--to", "bob", "--ref", "seq:1", "look", AGENT_CHAT_TOKEN=token)
    message = root.messages()[-1]
    assert message.sender == "alice" and message.header["key"] == people.key_of(token)[:12]
    root.refused("IDENTITY_MISMATCH", *ring(sender="carol")[:-1], AGENT_CHAT_TOKEN=token)


def test_of_rings_at_once_only_one_rings(root: Root) -> None:
    processes = [root.spawn(*ring()) for _ in range(4)]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert [message.status for message in root.messages()].count("ring") == 1
