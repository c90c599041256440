"""Real processes post at once, beside readers, and are killed: no number twice, none missing, nothing in part."""

from __future__ import annotations

import random
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from scene import assert_sound, message_bytes, read_to_end, shown
from support import CHAT, Result, Root, clean_environment, make_root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def body(word: str) -> str:
    return f"<{word}> ... </{word}>"


def write(root: Root, sender: str, count: int) -> subprocess.Popen[bytes]:
    """A shell that posts `count` messages one after the other, as real processes; what they answer is its output."""
    chat = shlex.join([sys.executable, CHAT, "--root", str(root.path), "post", "c", "--from", sender])
    word = f"{sender}n$n"
    text = f'n=0; while [ $n -lt {count} ]; do {chat} --title="{word}" --body="<{word}> ... </{word}>" || exit; '
    return subprocess.Popen(
        ["sh", "-c", f"{text} n=$((n + 1)); done"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=clean_environment(),
    )


def words(senders: int, count: int) -> dict[str, int]:
    return {f"w{sender}n{n}": 1 for sender in range(senders) for n in range(count)}


def numbers(root: Root) -> list[int]:
    return [int(name.partition("-")[0]) for name in root.names()]


def test_eight_agents_post_twenty_five_messages_each(root: Root) -> None:
    writers = [write(root, f"w{sender}", 25) for sender in range(8)]
    answers = "".join(writer.communicate(timeout=300)[0].decode() for writer in writers)
    assert [writer.returncode for writer in writers] == [0] * 8, answers
    assert numbers(root) == list(range(1, 201)), "no number twice, none missing"
    posted = {int(number): name for number, name in re.findall(r"posted #(\d+) -> c/(\S+)\n", answers)}
    assert posted == dict(zip(numbers(root), root.names())), "every answer named its own file"
    assert shown(read_to_end(root)) == words(8, 25)


def test_forty_posts_at_once_take_forty_numbers_without_a_gap(root: Root) -> None:
    """Case M1."""
    started = [root.spawn("post", "c", "--from", "alice", f"--title=t{n}", "--body=b") for n in range(40)]
    for process in started:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert numbers(root) == list(range(1, 41))


def test_a_reader_beside_two_hundred_posts_gets_each_once_and_whole(root: Root) -> None:
    """Case M2."""
    found: Counter[str] = Counter()
    writers = [write(root, f"w{sender}", 50) for sender in range(4)]
    while any(writer.poll() is None for writer in writers):
        found += shown(root.ok("read", "c", "--as", "bob"))
        for message in root.messages():  # each parses whole at any time
            assert message.body.endswith(">\n")
        time.sleep(0.02)
    answers = [writer.communicate()[0].decode() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4, answers
    found += shown(read_to_end(root))
    assert found == words(4, 50)


def test_several_readers_of_one_name_share_the_messages(root: Root) -> None:
    found: Counter[str] = Counter()
    for turn in range(6):
        titles = [f"t{turn}n{count}" for count in range(5)]
        for word in titles[:3]:
            root.post("alice", word, body(word))
        readers = [root.spawn("read", "c", "--as", "bob") for _ in range(3)]
        readers += [root.spawn("wait", "c", "--as", "bob", "--timeout", "0.3") for _ in range(2)]
        for word in titles[3:]:
            root.post("alice", word, body(word))
        for reader in readers:
            out, err = reader.communicate(timeout=60)
            assert reader.returncode in (0, 4), err
            found += shown(Result(0, out.decode(), ""))
    found += shown(read_to_end(root))
    assert found == {f"t{turn}n{count}": 1 for turn in range(6) for count in range(5)}


def test_after_a_poster_was_killed_at_any_point_the_next_works_at_once(root: Root) -> None:
    """Case L1."""
    chance, posted = random.Random(1), {}
    for word in [f"k{n}" for n in range(25)]:
        text = f"<{word}> ... {'x' * 200_000}... </{word}>"
        process = root.spawn("post", "c", "--from", "alice", f"--title={word}", "--body-file=-", stdin=-1)
        assert process.stdin
        process.stdin.write(text.encode())
        process.stdin.close()
        process.stdin = None
        time.sleep(chance.uniform(0.03, 0.15))
        process.kill()
        out, _ = process.communicate(timeout=60)
        if out.endswith(b"\n"):
            posted[word] = out.decode().rpartition("/")[2].strip()
        started = time.monotonic()
        root.post("carol", "next", "next")
        assert time.monotonic() - started < 5, "no lock of the dead is waited for"
        assert_sound(root, {})
    now = message_bytes(root)
    for word, name in posted.items():
        assert f"... </{word}>\n".encode() in now[name], "acknowledged and not there"
