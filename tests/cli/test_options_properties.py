"""cli/options.py against argparse: the quick reader answers the same, or leaves it to argparse."""

from __future__ import annotations

import pytest

pytest.importorskip("hypothesis")

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_chat.cli import options, parser
from agent_chat.cli.table import COMMANDS, EVERYWHERE
from agent_chat.errors import AgentChatError

SPELLINGS = sorted({option for spec in COMMANDS.values() for option in spec[3]} | set(EVERYWHERE))
ODD = [
    "",
    "-",
    "--",
    "-x",
    "-1",
    "-1.5",
    "- a",
    "a b",
    "=",
    "a=b",
    "--=",
    "--tit",
    "--jso",
    "-n3",
    "-n=3",
    "é",
    "@file",
]
PLAIN = st.sampled_from(["c", "5", "alice", "T-1", "src/a.py", "a b", "all"])
VALUES = st.one_of(PLAIN, PLAIN, st.sampled_from(ODD), st.text(max_size=5))


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A command with about the right number of words and options, its own most of the time."""
    command = draw(st.sampled_from(sorted(COMMANDS)))
    _, _, positionals, spec = COMMANDS[command]
    own = st.sampled_from(sorted({**spec, **EVERYWHERE}))
    groups = [[draw(VALUES)] for _ in range(max(0, len(positionals) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))))]
    for _ in range(draw(st.integers(0, 4))):
        option = draw(st.one_of(own, own, own, own, st.sampled_from(SPELLINGS)))
        is_flag = {**spec, **EVERYWHERE}.get(option, "").endswith("?")
        shape = draw(st.sampled_from(["bare" if is_flag else "two", "bare" if is_flag else "two", "bare", "joined"]))
        if shape == "joined":
            groups.append([f"{option}={draw(VALUES)}"])
        else:
            groups.append([option] if shape == "bare" else [option, draw(VALUES)])
    groups.extend([draw(VALUES)] for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 1]))))
    ordered = groups if draw(st.booleans()) else draw(st.permutations(groups))
    return command, [word for group in ordered for word in group]


@settings(max_examples=600)
@given(command_lines())
@example(("wait", ["c", "d", "--as", "bob", "e"]))
@example(("show", ["c", "--json", "5"]))
@example(("post", ["c", "--title", "", "--body="]))
@example(("peek", ["c", "-n", "3"]))
@example(("version", ["--root", "-"]))
@example(("ack", ["c", "--as=--"]))
@example(("task create", ["c", "T", "--depends-on=--", "--depends-on=a"]))
@example(("task create", ["--depends-on", "a", "c", "T", "--depends-on=b"]))
def test_the_quick_reader_agrees_with_argparse_or_leaves_it_to_argparse(line: tuple[str, list[str]]) -> None:
    command, words = line
    if "--help" in words or "-h" in words:
        return  # main() answers these itself
    try:
        expected = parser.parse(list(words), command)
    except AgentChatError as error:
        assert error.code in ("USAGE_ERROR", "TASK_INVALID_ARGUMENT") and error.exit_status == 2
        assert options.read(list(words), COMMANDS[command]) is None, (command, words)
        return
    found = options.read(list(words), COMMANDS[command])
    assert found is None or found == expected, (command, words)


@given(st.sampled_from(sorted(COMMANDS)), st.data())
def test_the_quick_reader_serves_every_plain_command_line(command: str, data: st.DataObject) -> None:
    """Or the start-up would be argparse's after all."""
    _, _, positionals, spec = COMMANDS[command]
    words = [data.draw(PLAIN) for _ in positionals]
    for option, target in data.draw(st.lists(st.sampled_from(sorted({**spec, **EVERYWHERE}.items())), max_size=4)):
        words += [option] if target.endswith("?") else [option, data.draw(PLAIN)]
    assert options.read(words, COMMANDS[command]) is not None
