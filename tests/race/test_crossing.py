"""Real processes post with conditions, repeat one request, and archive beside readers and writers."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from scene import message_bytes, read_to_end, shown
from support import Root, make_root

QUICK = {"AGENT_CHAT_FSYNC": "0"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


@pytest.mark.slow
def test_of_two_who_post_if_read_at_once_exactly_one_is_told_to_read_first(root: Root, whole: bool) -> None:
    """Case M29's sister: two agents cannot talk past each other unknowingly."""
    for turn in range(200 if whole else 20):
        words = [
            ["post", "c", "--from", name, f"--title=t{turn}", "--body=b", "--if-read"] for name in ("bob", "carol")
        ]
        both = [root.spawn(*one, environment=QUICK) for one in words]
        answers = [process.communicate(timeout=60)[1].decode() for process in both]
        statuses = sorted(process.returncode for process in both)
        assert statuses == [0, 2], (turn, answers)
        (refusal,) = filter(None, answers)
        assert (
            f"MESSAGE_STALE: not posted: {'bob' if both[0].returncode else 'carol'} has not seen #{turn + 1}" in refusal
        )
        for name in ("bob", "carol"):
            root.ok("read", "c", "--as", name, **QUICK)
    assert len(root.names()) == turn + 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
def test_repeats_of_one_request_by_many_processes_with_kills_are_one_message(root: Root, whole: bool) -> None:
    chance = random.Random(7)
    for turn in range(25 if whole else 3):
        words = ["post", "c", "--from", "alice", f"--title=t{turn}", f"--body=b{turn}", "--request-id", f"r-{turn}"]
        started = [root.spawn(*words) for _ in range(20)]
        for process in chance.sample(started, 8):
            time.sleep(chance.random() * 0.05)
            process.send_signal(signal.SIGKILL)
        answers = [process.communicate(timeout=120) for process in started]
        ended = [(process.returncode, out.decode()) for process, (out, _) in zip(started, answers)]
        told = {int(found[1]) for status, out in ended if (found := re.match(r"posted #(\d+) ", out)) and not status}
        assert {status for status, _ in ended} <= {0, -signal.SIGKILL}, answers
        last = root.ok(*words, "--json").json
        assert last["repeated"] is True
        assert told == {last["seq"]}, "one number for all"
        same = [one for one in root.messages() if one.header.get("request_id") == f"r-{turn}"]
        assert [one.number for one in same] == [last["seq"]], "one message"


def test_archiving_beside_readers_and_writers_loses_and_repeats_nothing(root: Root, whole: bool) -> None:
    root.ok("read", "c", "--as", "bob")
    count = 150 if whole else 25
    writers = []
    for sender in ("w0", "w1"):
        posts = " ".join(f"{sender}n{n}" for n in range(count))
        chat = f'"$0" "$1" --root "$2" post c --from {sender} --title=$w --body="<$w> ... </$w>"'
        line = f"for w in {posts}; do {chat} || exit; done"
        command = ["sh", "-c", line, sys.executable, str(Path(__file__).parents[2] / "chat.py"), str(root.path)]
        writers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    found: Counter[str] = Counter()
    seen: dict[str, bytes] = {}
    while any(writer.poll() is None for writer in writers):
        numbers = [int(name.partition("-")[0]) for name in root.names()]
        archiver = root.spawn("archive", "c", "--before", max(numbers, default=1) + 1)
        found += shown(root.ok("read", "c", "--as", "bob", "--limit", 3))
        everything = root.ok("read", "c", "--as", "carol", "--all", "--json").json["messages"]
        listed = [message["seq"] for message in everything]
        assert listed == sorted(set(listed)) and set(listed) >= {*numbers}, "all of it, each once"
        _, err = archiver.communicate(timeout=60)
        assert archiver.returncode == 0, err
        now = message_bytes(root)
        assert {name: now.get(name) for name in seen} == seen, "byte for byte"
        seen = now
    assert [writer.wait() for writer in writers] == [0, 0], [
        writer.stderr and writer.stderr.read() for writer in writers
    ]
    found += shown(read_to_end(root))
    assert found == {f"w{sender}n{n}": 1 for sender in (0, 1) for n in range(count)}
    assert sorted(int(name.partition("-")[0]) for name in message_bytes(root)) == list(range(1, 2 * count + 1))


@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
def test_an_archive_that_is_killed_again_and_again_loses_nothing(root: Root, whole: bool) -> None:
    chance = random.Random(3)
    root.ok("read", "c", "--as", "bob")
    for number in range(1, 61):
        root.put(number, f"<m{number}> ... </m{number}>")
    before = message_bytes(root)
    found: Counter[str] = Counter()
    for step in range(60 if whole else 12):
        process = root.spawn("archive", "c", "--before", 5 * step + 6)
        time.sleep(chance.random() * 0.12)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found += shown(root.ok("read", "c", "--as", "bob", "--limit", 2))
        assert message_bytes(root) == before
    root.ok("archive", "c", "--before", 99)
    assert [name[:4] for name in root.names()] == ["0060"] and message_bytes(root) == before
    found += shown(read_to_end(root))
    assert found == {f"m{number}": 1 for number in range(1, 61)}
