"""No command is forgotten: whatever changes something is in the matrices of this folder."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from faults import run
from scene import CHANGING, ELSEWHERE, LOOKING, every, label
from support import Root

from agent_chat.cli.table import COMMANDS


def test_every_command_is_known_as_changing_or_looking() -> None:
    assert set(COMMANDS) - {*CHANGING, *LOOKING, *ELSEWHERE} == set()
    assert {*CHANGING, *LOOKING} - set(COMMANDS) == set()


@pytest.mark.parametrize("kind", ["fresh", "seen"])
@pytest.mark.parametrize("words", every(LOOKING), ids=label)
def test_what_only_looks_changes_nothing(copies: Callable[[], Root], words: list[str]) -> None:
    outcome = run(copies(), words)
    assert {event[2] for event in outcome.events} <= {"<stdout>"}, outcome.events


@pytest.mark.parametrize("kind", ["used"])
@pytest.mark.parametrize("words", every(CHANGING), ids=label)
def test_what_changes_something_does(copies: Callable[[], Root], words: list[str]) -> None:
    outcome = run(copies(), words)
    assert outcome.status == 0 and {"link", "replace", "rename"} & set(outcome.changes), outcome
