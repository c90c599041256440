"""Calls that fail, lie or do half: refused in one line with nothing left, or carried through; never lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from faults import Call, Fault, Outcome, at_each_call, fail, lie, run, short
from scene import (
    CHANGING,
    LOOKING,
    TEMPLATES,
    UNREAD,
    again,
    assert_channel_or_none,
    assert_clean_refusal,
    assert_markers,
    assert_nothing_lost,
    assert_sound,
    assert_state_or_none,
    every,
    label,
    message_bytes,
    shown,
)
from support import Root

POSTED_ALL_THE_SAME = ("MESSAGE_NOT_DURABLE", "OUTPUT_FAILED")


def assert_unposted(root: Root, before: dict[str, bytes], outcome: Outcome) -> None:
    """A refused post is not there, unless it says that it is."""
    if outcome.status and outcome.code not in POSTED_ALL_THE_SAME:
        assert message_bytes(root) == before, ("refused and yet posted", outcome)


def assert_works_afterwards(
    root: Root, kind: str, words: list[str], before: dict[str, bytes], outcome: Outcome
) -> None:
    assert_sound(root, before)
    assert_unposted(root, before, outcome)
    repeated = again(root, words, is_done=True)
    assert_sound(root, before)
    assert_nothing_lost(root, words, UNREAD[kind], outcome, repeated)
    assert_markers(root)
    assert_state_or_none(root)
    assert_channel_or_none(root)


@pytest.mark.parametrize(
    "kind, number",
    [
        ("fresh", errno.ENOSPC),
        ("used", errno.ENOSPC),
        ("used", errno.EIO),
        ("seen", errno.EACCES),
    ],
)
@pytest.mark.parametrize("words", every(CHANGING), ids=label)
def test_a_change_that_fails_is_refused_in_one_line(
    templates: dict[str, Root], copies: Callable[[], Root], kind: str, words: list[str], number: int
) -> None:
    before = message_bytes(templates[kind])
    for _, root, outcome in at_each_call(copies, words, fail(number)):
        if outcome.status:
            assert_clean_refusal(outcome)
        if not outcome.fired.startswith("unlink"):
            left = root.folder() / ".tmp"
            assert not left.exists() or not os.listdir(left), ("something is left in .tmp", outcome)
        assert_works_afterwards(root, kind, words, before, outcome)


def full_disk(call: Call) -> Any:
    """Nothing can be added any more; standard output lies elsewhere."""
    return call.go() if call.where == ["<stdout>"] else fail(errno.ENOSPC)(call)


@pytest.mark.parametrize("kind", ["fresh", "used"])
@pytest.mark.parametrize("words", every(CHANGING), ids=label)
def test_a_disk_that_fills_up_at_any_call_takes_no_number(
    templates: dict[str, Root], copies: Callable[[], Root], kind: str, words: list[str]
) -> None:
    before, at = message_bytes(templates[kind]), 0
    adding = ["create", "write", "mkdir", "link"]
    while True:
        at += 1
        root = copies()
        outcome = run(root, words, Fault(full_disk, at, adding, forever=True))
        if outcome.status:
            assert_clean_refusal(outcome)
        taken = root.folder() / ".numbers"
        if outcome.status and taken.exists():
            assert "0005" not in os.listdir(taken), outcome
        assert_works_afterwards(root, kind, words, before, outcome)
        if not outcome.fired:
            break


@pytest.mark.parametrize(
    "kind, words",
    [
        *[("fresh", words) for words in every(CHANGING)],
        *[("seen", words) for words in [*every(CHANGING), *every(LOOKING)]],
    ],
    ids=label,
)
def test_a_look_that_fails_loses_nothing(
    templates: dict[str, Root], copies: Callable[[], Root], kind: str, words: list[str]
) -> None:
    before = message_bytes(templates[kind])
    for _, root, outcome in at_each_call(copies, words, fail(errno.EIO), ["open", "read", "listdir"]):
        assert outcome.code != "INTERNAL_ERROR" and "Traceback" not in outcome.err, outcome
        assert outcome.status in (0, 1, 2, 3, 4), outcome
        if words in every(CHANGING):
            assert_works_afterwards(root, kind, words, before, outcome)


def vanish(call: Call) -> Any:
    """A message that was there in the listing is not there when it is opened."""
    return fail(errno.ENOENT)(call) if call.where[0].endswith("-x.md") else call.go()


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("words", [CHANGING["read"][0], CHANGING["wait"][0]], ids=label)
def test_a_message_that_is_away_for_a_moment_comes_later(
    templates: dict[str, Root], copies: Callable[[], Root], kind: str, words: list[str]
) -> None:
    before = message_bytes(templates[kind])
    for _, root, outcome in at_each_call(copies, words, vanish, ["open"]):
        assert outcome.status == 0, outcome
        assert_works_afterwards(root, kind, words, before, outcome)


def no_folder_sync(call: Call) -> Any:
    """SMB and 9p say EINVAL."""
    return fail(errno.EINVAL)(call) if os.path.isdir(call.where[0]) else call.go()


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("words", every(CHANGING), ids=label)
@pytest.mark.parametrize(
    "fault, locks",
    [
        (Fault(fail(errno.EPERM), 1, ["link"], forever=True), "real"),
        (Fault(lie(errno.EEXIST), 1, ["link"]), "real"),
        (Fault(short, 1, ["write"], forever=True), "real"),
        (Fault(no_folder_sync, 1, ["fsync"], forever=True), "real"),
        (None, "none"),
        (None, "nothing"),
    ],
    ids=["no-hard-links", "link-made-but-EEXIST", "short-writes", "no-sync-of-folders", "no-locks", "idle-locks"],
)
def test_what_a_file_system_lacks_is_made_up_for(
    templates: dict[str, Root],
    copies: Callable[[], Root],
    kind: str,
    words: list[str],
    fault: Fault | None,
    locks: str,
) -> None:
    root = copies()
    outcome = run(root, words, fault, locks=locks)
    assert outcome.status == 0 and not outcome.err, outcome
    assert_works_afterwards(root, kind, words, message_bytes(templates[kind]), outcome)
    if words[0] == "post":
        assert len(root.names()) == 6, "the post and its repetition"


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("words", CHANGING["post"], ids=label)
def test_only_the_last_sync_of_a_post_may_leave_it_posted(
    templates: dict[str, Root], copies: Callable[[], Root], kind: str, words: list[str]
) -> None:
    before, codes = message_bytes(templates[kind]), []
    for _, root, outcome in at_each_call(copies, words, fail(errno.EIO), ["fsync"]):
        codes.append(outcome.code)
        assert (len(root.names()) > len(before)) == (outcome.code in ("MESSAGE_NOT_DURABLE", "")), outcome
        assert outcome.status == (1 if outcome.fired else 0), outcome
    assert codes[-2:] == ["MESSAGE_NOT_DURABLE", ""] and set(codes[:-2]) == {"STORAGE_IO_ERROR"}


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("words", every(CHANGING), ids=label)
def test_a_slow_standard_output_is_waited_for(copies: Callable[[], Root], words: list[str]) -> None:
    def not_now(call: Call) -> Any:
        return fail(errno.EAGAIN)(call) if call.where == ["<stdout>"] else call.go()

    for _, _, outcome in at_each_call(copies, words, not_now, ["write"]):
        assert outcome.status == 0 and outcome.out, outcome


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("words", [CHANGING["read"][0], CHANGING["wait"][0]], ids=label)
def test_a_standard_output_that_fails_leaves_the_cursor(
    copies: Callable[[], Root], kind: str, words: list[str]
) -> None:
    def full_output(call: Call) -> Any:
        return fail(errno.ENOSPC)(call) if call.where == ["<stdout>"] else call.go()

    root = copies()
    outcome = run(root, words, Fault(full_output, 1, ["write"], forever=True))
    assert (outcome.status, outcome.code, outcome.out) == (1, "OUTPUT_FAILED", "")
    assert set(shown(root.ok("read", "c", "--as", "bob"))) == UNREAD[kind]


@pytest.mark.parametrize("kind", ["fresh"])
@pytest.mark.parametrize("words", [*CHANGING["state"], *CHANGING["compact"]], ids=label)
def test_a_refused_state_leaves_the_old_file(copies: Callable[[], Root], words: list[str]) -> None:
    for _, root, outcome in at_each_call(copies, words, fail(errno.EIO)):
        if outcome.status and outcome.code not in POSTED_ALL_THE_SAME:
            assert not (root.folder() / "state.md").exists(), outcome
