"""One command stops before its n-th change, another runs to its end, the first goes on: for every pair.

With locks the second may be refused, since the first holds what it needs; with locks made to do nothing
it runs straight through. Either way no number is given twice, nothing is seen in part, nothing is lost.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import Child, Fault, Outcome, copier, pause, run
from scene import (
    CHANGING,
    LOOKING,
    UNREAD,
    assert_channel_or_none,
    assert_markers,
    assert_sound,
    assert_state_or_none,
    every,
    label,
    message_bytes,
    read_to_end,
    shown,
    used,
)
from support import Root

BUSY = {"CHANNEL_BUSY", "CURSOR_BUSY"}
# A refusal that tells the truth when the other command was quicker.
LOST = {"init": "CHANNEL_EXISTS", "claim": "CLAIM_LOST", "unclaim": "CLAIM_NOT_FOUND", "ack": "CURSOR_BACKWARDS"}
PATIENCE = 0.03  # seconds behind the lock of a command that does not go on
SAMPLE = 2  # calls of each pair, others for each pair; one where the second only looks
NOTHING_NEW = 4  # how `wait` ends when the other command was quicker

FIRST = every(CHANGING)
# The same commands by somebody else or with other words, so that both could win; and two on one marker.
SECOND = [[{"new": "other", "alice,bob": "carol"}.get(word, word) for word in words] for words in FIRST]
SECOND = [[word.replace("new", "other") for word in words] for words in SECOND]
SECOND += [["claim", "c", "task-1.md", "--as", "alice"], ["claim", "c", "task-2.md", "--as", "carol"]]


@functools.cache
def calls_of(template: Root, first: tuple[str, ...]) -> int:
    """How many changes the command makes when nobody disturbs it."""
    with tempfile.TemporaryDirectory() as name:
        return len(run(copier(template, Path(name))(), first).changes)


def pauses(calls: int, first: list[str], second: list[str], whole: bool) -> list[int]:
    """Before which calls the first command stops; whole: also before none, when it runs to its end."""
    if whole:
        return list(range(1, calls + 2))
    begin = FIRST.index(first) + len("".join(second))
    count = 1 if second in every(LOOKING) else SAMPLE
    return sorted({1 + (begin + step * calls // count) % calls for step in range(count)})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return used(tmp_path_factory.mktemp("used"))


@pytest.mark.slow
@pytest.mark.parametrize("locks", ["real", "nothing"])
@pytest.mark.parametrize("second", [*SECOND, *every(LOOKING)], ids=label)
@pytest.mark.parametrize("first", FIRST, ids=label)
def test_nothing_is_lost_doubled_or_seen_in_part(
    template: Root, tmp_path: Path, first: list[str], second: list[str], locks: str, whole: bool
) -> None:
    copies, before = copier(template, tmp_path), message_bytes(template)
    for n in pauses(calls_of(template, tuple(first)), first, second, whole):
        root = copies()
        with Child(root, first, Fault(pause, n), locks=locks) as child:
            child.is_paused()
            amid = run(root, second, locks=locks, patience=PATIENCE)
            around = child.end()
        assert_sound(root, before)
        assert_markers(root)
        assert_state_or_none(root)
        assert_fair(root, first, around, second, amid, locks)
        assert_delivered(root, [(first, around), (second, amid)], locks)


def assert_fair(root: Root, first: list[str], around: Outcome, second: list[str], amid: Outcome, locks: str) -> None:
    """Both answer well, and of two who want the same thing one gets it."""
    for words, outcome in ((first, around), (second, amid)):
        allowed = {LOST.get(words[0], "")} | (BUSY if outcome is amid and locks == "real" else set())
        if outcome.status and not (words[0] == "wait" and outcome.status == NOTHING_NEW):
            assert outcome.code in allowed, (outcome, around)
        if outcome.out.startswith("posted #"):
            assert outcome.out.rpartition("/")[2].strip() in root.names()
    if second in every(LOOKING):
        assert amid.status in ((0, NOTHING_NEW) if second[0] == "wait" else (0,)), "who only looks is never held up"
    wanted = {"init": 2, "claim": 3, "unclaim": 3}.get(first[0])
    if first[0] == second[0] and first[:wanted] == second[:wanted] and wanted:
        assert sorted([around.status == 0, amid.status == 0]) == [False, True], (around, amid)
    made = [words for words, outcome in ((first, around), (second, amid)) if (words[0], outcome.status) == ("init", 0)]
    if made:
        assert_channel_or_none(root, [words[3].replace(",", ", ") for words in made])


def assert_delivered(root: Root, outcomes: list[tuple[list[str], Outcome]], locks: str) -> None:
    """bob got every message, once where locks work; what he acknowledged he need not get."""
    is_acked = any(words[0] == "ack" and outcome.status == 0 for words, outcome in outcomes)
    readings = [outcome for words, outcome in outcomes if words in (*CHANGING["read"], *CHANGING["wait"])]
    for _, outcome in outcomes:
        shown(outcome)  # whole messages, whoever shows them
    total = shown(*readings, read_to_end(root))
    texts = "".join(data.decode() for data in message_bytes(root).values())
    for word in (*UNREAD["used"], "new", "other"):
        there = texts.count(f"<{word}>")
        assert total[word] >= there or (is_acked and word in UNREAD["used"]), f"{word} is lost"
        if locks == "real":
            assert total[word] <= there, f"{word} came twice"


@pytest.mark.parametrize("reader", ["read", "wait"])
def test_a_post_that_is_held_up_is_shown_whole_and_only_afterwards(template: Root, tmp_path: Path, reader: str) -> None:
    """Case M3. The waiting one blocks until the post goes on."""
    copies: Callable[[], Root] = copier(template, tmp_path)
    for n in range(1, 50):
        root = copies()
        read_to_end(root)
        with Child(root, CHANGING["post"][0], Fault(pause, n)) as post:
            is_paused = post.is_paused()
            is_there = len(root.names()) == 5
            words = [*CHANGING[reader][0][:4], *(["--timeout", "20"] if reader == "wait" else [])]
            with Child(root, words, patience=PATIENCE) as bob:
                first = bob.end() if reader == "read" or is_there else None
                assert post.end().status == 0
                waited = first or bob.end()
        assert shown(waited) + shown(read_to_end(root)) == {"new": 1}
        assert reader == "read" or shown(waited) == {"new": 1}, "it wakes"
        assert is_there or reader == "wait" or not shown(waited), "it is not shown before it is there"
        if not is_paused:
            return


@pytest.mark.parametrize("has_links", [True, False])
def test_two_inits_leave_the_channel_and_the_policy_of_one(template: Root, tmp_path: Path, has_links: bool) -> None:
    copies = copier(template, tmp_path)
    commands = [
        ["init", "d", "--members", members, "--topic", "t", "--recovery", recovery]
        for members, recovery in (("alice", "explicit"), ("bob", "auto"))
    ]

    def no_link(*args: object, **options: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def without_links() -> None:
        if not has_links:
            os.link = no_link  # type: ignore[assignment]

    for n in range(1, 60):
        root = copies()
        with Child(root, commands[0], Fault(pause, n), first=without_links) as child:
            is_paused = child.is_paused()
            amid = run(root, commands[1], first=without_links, patience=PATIENCE)
            around = child.end()
        assert amid.status == 0 or amid.code in ("CHANNEL_BUSY", "CHANNEL_EXISTS"), amid
        assert [around.status, amid.status].count(0) == 1, (around, amid)
        members, policy = ("alice", "explicit") if around.status == 0 else ("bob", "auto")
        assert root.ok("roster", "d", "--json").json["members"] == [members]
        assert json.loads((root.folder("d") / "_policy.json").read_text())["recovery"] == policy
        if not is_paused:
            return
