"""Real processes post at once, beside readers, and are killed: no number twice, none missing, nothing in part."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scene import assert_sound, message_bytes, read_to_end, shown
from support import Result, Root, make_root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def body(word: str) -> str:
    return f"<{word}> ... </{word}>"


def post(root: Root, sender: str, word: str) -> Result:
    return root.real("post", "c", "--from", sender, f"--title={word}", f"--body={body(word)}")


def numbers(root: Root) -> list[int]:
    return [int(name.partition("-")[0]) for name in root.names()]


def test_eight_agents_post_twenty_five_messages_each(root: Root) -> None:
    def agent(number: int) -> list[Result]:
        return [post(root, f"agent{number}", f"a{number}n{count}") for count in range(25)]

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for answers in pool.map(agent, range(8)) for answer in answers]
    assert [answer for answer in answers if answer.status] == []
    assert numbers(root) == list(range(1, 201)), "no number twice, none missing"
    posted = {int(number): name for answer in answers for number, name in re.findall(r"#(\d+) -> c/(\S+)", answer.out)}
    assert posted == dict(zip(numbers(root), root.names())), "every answer named its own file"
    assert shown(read_to_end(root)) == {f"a{number}n{count}": 1 for number in range(8) for count in range(25)}


def test_forty_posts_at_once_take_forty_numbers_without_a_gap(root: Root) -> None:
    """Case M1."""
    started = [root.spawn("post", "c", "--from", "alice", f"--title=t{n}", "--body=b") for n in range(40)]
    for process in started:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert numbers(root) == list(range(1, 41))


def test_a_reader_beside_two_hundred_posts_gets_each_once_and_whole(root: Root) -> None:
    """Case M2."""

    def writer(number: int) -> None:
        for count in range(50):
            post(root, f"agent{number}", f"w{number}n{count}")

    found: Counter[str] = Counter()
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(writer, number) for number in range(4)]
        while not all(one.done() for one in writers):
            found += shown(root.ok("read", "c", "--as", "bob"))
            for message in root.messages():  # each parses whole at any time
                assert message.body.endswith(">\n")
            time.sleep(0.02)
    found += shown(read_to_end(root))
    assert found == {f"w{number}n{count}": 1 for number in range(4) for count in range(50)}


def test_several_readers_of_one_name_share_the_messages(root: Root) -> None:
    found: Counter[str] = Counter()
    for turn in range(6):
        words = [f"t{turn}n{count}" for count in range(5)]
        for word in words[:3]:
            root.post("alice", word, body(word))
        readers = [root.spawn("read", "c", "--as", "bob") for _ in range(3)]
        readers += [root.spawn("wait", "c", "--as", "bob", "--timeout", "0.3") for _ in range(2)]
        for word in words[3:]:
            root.post("alice", word, body(word))
        for reader in readers:
            out, err = reader.communicate(timeout=60)
            assert reader.returncode in (0, 4), err
            found += shown(Result(0, out.decode(), ""))
    found += shown(read_to_end(root))
    assert found == {f"t{turn}n{count}": 1 for turn in range(6) for count in range(5)}


def test_after_a_poster_was_killed_at_any_point_the_next_works_at_once(root: Root) -> None:
    """Case L1."""
    chance, words = random.Random(1), [f"k{n}" for n in range(25)]
    posted = {}
    for word in words:
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
