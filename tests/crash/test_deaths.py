"""Every command that changes something dies before its 1st, 2nd, 3rd ... change: nothing is lost or half there."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from faults import Call, at_each_call, die, tear
from scene import (
    CHANGING,
    QUICK,
    UNREAD,
    again,
    assert_channel_or_none,
    assert_markers,
    assert_nothing_lost,
    assert_sound,
    assert_state_or_none,
    every,
    label,
    message_bytes,
)
from support import Root

AT_ONCE = 5.0  # seconds: no lock of the dead is waited for


@pytest.mark.parametrize("kind, act", [("fresh", die), ("used", die), ("seen", die), ("used", tear)])
@pytest.mark.parametrize("words", every(CHANGING), ids=label)
def test_a_death_at_any_call_loses_nothing(
    templates: dict[str, Root],
    copies: Callable[[], Root],
    kind: str,
    words: list[str],
    act: Callable[[Call], object],
) -> None:
    before = message_bytes(templates[kind])
    only = ["write"] if act is tear else []  # elsewhere it is the same as `die`
    for n, root, outcome in at_each_call(copies, words, act, only):
        assert outcome.died == bool(outcome.fired), (n, outcome)
        assert_sound(root, before)
        if outcome.out.startswith("posted #") and outcome.out.endswith("\n"):
            assert outcome.out.rpartition("/")[2].strip() in root.names()
        started = time.monotonic()
        repeated = again(root, words, is_done=True)
        assert root.post("alice", "next", "next", **QUICK)
        assert time.monotonic() - started < AT_ONCE, (n, outcome)
        assert_sound(root, before)
        assert_nothing_lost(root, words, UNREAD[kind], outcome, repeated)
        assert_markers(root)
        assert_state_or_none(root)
        assert_channel_or_none(root)
