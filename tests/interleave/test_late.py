"""A message that appears below a number that readers have passed: each of several readers gets it all the same.

Its poster stops between taking its number and the link, and holds no lock (another machine, another
program, git). Two more messages are posted. Then one reader stops before its n-th change while the late
message appears and another reader, who sees it, reads to the end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults import Call, Child, Fault, copier, pause, run
from scene import QUICK, assert_sound, message_bytes, read_to_end, shown
from support import Root, make_root

LATE = ["post", "c", "--from", "alice", "--title", "late", "--body", "<late> ... </late>"]
NEXT = ["post", "c", "--from", "alice", "--title", "next", "--body", "<next> ... </next>"]
READERS = ("bob", "carol")


def untouched(path: Path) -> Root:
    return make_root(path)


def with_an_index(path: Path) -> Root:
    root = make_root(path)
    root.post("alice", "first")
    for agent in READERS:
        root.ok("read", "c", "--as", agent, **QUICK)
    return root


@pytest.mark.parametrize("make", [untouched, with_an_index])
@pytest.mark.parametrize("command", ["read", "ack"])
@pytest.mark.parametrize("locks", ["real", "nothing"])
@pytest.mark.parametrize("is_seen", [True, False], ids=["next-seen-before", "next-unseen"])
def test_every_reader_gets_a_message_that_appears_amid_a_reading(
    tmp_path: Path, make: Callable[[Path], Root], command: str, locks: str, is_seen: bool
) -> None:
    copies = copier(make(tmp_path), tmp_path)
    words = [command, "c", "--as", "bob", *(["--upto", "99"] if command == "ack" else [])]
    for n in range(1, 60):
        root = copies()
        with Child(root, LATE, Fault(pause, 1, ["link"]), locks="nothing") as late:
            assert late.is_paused()
            root.ok(*NEXT, **QUICK)
            earlier = [root.ok("read", "c", "--as", "carol", **QUICK)] if is_seen else []
            with Child(root, words, Fault(pause, n), locks=locks) as bob:
                is_paused = bob.is_paused()
                assert late.end().status == 0
                amid = run(root, ["read", "c", "--as", "carol"], locks=locks, patience=0.03)
                around = bob.end()
        assert amid.status == around.status == 0, (amid, around)
        assert_sound(root, {})
        assert len(message_bytes(root)) == (3 if make is with_an_index else 2)
        got = {"bob": shown(around, read_to_end(root)), "carol": shown(*earlier, amid, read_to_end(root, "carol"))}
        for agent, counts in got.items():
            for word in ("late", "next"):
                if agent == "bob" and command == "ack" and (is_paused or word == "next"):
                    continue  # acknowledged, or perhaps
                assert counts[word], (n, around.fired, agent, word, "is lost")
                assert counts[word] == 1 or locks == "nothing", (n, around.fired, agent, word, "came twice")
        if not is_paused:
            return


def before_its_entry() -> Fault:
    """Stop when the look is done and what it saw is not yet in the arrival index."""
    stopped: list[Call] = []

    def act(call: Call) -> Any:
        if stopped or not call.where[-1].endswith("/arrivals"):
            return call.go()
        stopped.append(call)
        return pause(call)

    return Fault(act, 1, ["create", "replace"], forever=True)


@pytest.mark.parametrize("make", [untouched, with_an_index])
@pytest.mark.parametrize("is_bob_first", [True, False])
def test_two_readers_who_enter_what_they_saw_at_once_lose_nothing(
    tmp_path: Path, make: Callable[[Path], Root], is_bob_first: bool
) -> None:
    """bob looked before the late message was there, carol after it; neither has a lock that works."""
    root = make(tmp_path)
    read, last = {agent: ["read", "c", "--as", agent] for agent in READERS}, len(root.names())
    root.put(last + 2, "<next> ... </next>")  # by another program: neither is in the index
    with Child(root, read["bob"], before_its_entry(), locks="nothing") as bob:
        assert bob.is_paused()
        root.put(last + 1, "<late> ... </late>")
        with Child(root, read["carol"], before_its_entry(), locks="nothing") as carol:
            assert carol.is_paused()
            ended = [reader.end() for reader in ((bob, carol) if is_bob_first else (carol, bob))]
    by_name = dict(zip(("bob", "carol") if is_bob_first else ("carol", "bob"), ended))
    for agent, outcome in by_name.items():
        assert set(shown(outcome, read_to_end(root, agent))) >= {"late", "next"}, agent
