"""names.py: the grammar of names, slugs and file names (cases M6, M14, M17 to M19)."""

from __future__ import annotations

import pytest

from agent_chat import names
from agent_chat.errors import AgentChatError

GOOD = ["a", "A", "7", "bob", "Bob", "a.b", "a-b", "a_b", "0-a", "x" * 64, "v0.2", "a..b", "con1", "console", "nulls"]
BAD = [
    "",
    " ",
    "-x",
    "_x",
    ".git",
    "..",
    ".",
    "a/b",
    "a\\b",
    "a.",
    "a b",
    "a ",
    " a",
    "a\n",
    "a\0",
    "a:b",
    "x" * 65,
    "x" * 300,
    "é",
    "аlice",  # the first letter is Cyrillic
    "a\u200b",
    "１",
    "CON",
    "con",
    "nul",
    "Nul.txt",
    "com1",
    "COM0.x",
    "lpt9.tar.gz",
    "aux",
    "prn",
]


@pytest.mark.parametrize("text", GOOD)
def test_a_name(text: str) -> None:
    assert names.is_name(text) and names.channel(text) == text


@pytest.mark.parametrize("text", BAD)
def test_no_name(text: str) -> None:
    assert not names.is_name(text) and not names.is_agent(text)
    for check, code in ((names.channel, "CHANNEL_INVALID_NAME"), (names.agent, "AGENT_INVALID_NAME")):
        with pytest.raises(AgentChatError) as caught:
            check(text)
        assert (caught.value.code, caught.value.exit_status) == (code, 2)
        assert caught.value.message.isprintable()


# fmt: off
@pytest.mark.parametrize(
    "text",
    ["all", "ALL", "system", "System", "yes", "No", "true", "FALSE", "on", "off", "null", "Null", "1", "007", "1.5",
     "1e5", "0x1f", "0o17", "0b1", "1_000", "2026-11-30", "1.", "0x_", "0b_"],
)
def test_a_channel_may_have_it_as_its_name_but_no_agent(text: str) -> None:
    assert not names.is_agent(text)


@pytest.mark.parametrize("text", ["y", "n", "1a", "7bob", "e5", "1.2.3", "nan", "inf", "all2", "a1", "v1.0"])
def test_an_agent(text: str) -> None:
    assert names.is_agent(text) and names.agent(text) == text
# fmt: on


def test_a_family_refuses_a_name_with_its_own_code() -> None:
    with pytest.raises(AgentChatError) as caught:
        names.agent("a b", "LEASE_INVALID_OWNER")
    assert caught.value.code == "LEASE_INVALID_OWNER"


# ---- slugs and message files -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, slug",
    [
        ("Hello, World!", "hello-world"),
        ("Schema v0.2", "schema-v0-2"),
        ("--a--", "a"),
        ("../../etc/passwd", "etc-passwd"),
        ("世界", "msg"),
        ("", "msg"),
        ("...", "msg"),
        ("Ünï", "n"),
        ("K", "k"),  # the Kelvin sign, whose lower case is the letter
        ("long-" * 20, "long-long-long-long-long-long-long-long"),
        ("a" * 39 + " b", "a" * 39),  # cut at 40 and no dash at the end
    ],
)
def test_slug(text: str, slug: str) -> None:
    assert names.slug(text) == slug


def test_a_title_of_400_syllables_fits_a_file_name() -> None:
    """M18: and two of them do not collide, since the number is in the name."""
    first, second = (names.message_file(number, "alice", "한글" * 200) for number in (1, 2))
    assert len(first.encode()) <= 200 and first != second
    assert len(names.message_file(names.LAST_NUMBER, "x" * 64, "t" * 400).encode()) <= 200


@pytest.mark.parametrize(
    "name, number",
    [
        ("0001-alice-x.md", 1),
        ("9999-a-b.md", 9999),
        ("10000-a-b.md", 10000),
        ("999999999-a-b.md", 999_999_999),
        ("0012-a.md", 12),
        ("0000-a-b.md", 0),
        ("1000000000-a-b.md", 0),  # ten digits
        ("001-a-b.md", 0),
        ("0001-.md", 0),
        ("0001.md", 0),
        ("0001-Alice-x.md", 0),
        ("0001-a-x.MD", 0),
        ("0001-a-x.md~", 0),
        ("0001-a-x.md.tmp", 0),
        ("_0001-a-x.md", 0),
        (".0001-a-x.md", 0),
        ("+001-a-x.md", 0),
        ("٠٠٠١-a-x.md", 0),  # digits to str.isdigit
        ("0150-x (conflicted copy).md", 0),
        ("task-0001.md", 0),
        ("", 0),
    ],
)
def test_the_number_of_a_message_file(name: str, number: int) -> None:
    assert names.message_number(name) == number


@pytest.mark.parametrize(
    "name, number",
    [
        ("0150-x (conflicted copy).md", 150),
        ("0150-Alice-x.md", 150),
        ("0150-", 150),
        ("0150", 0),
        ("150-x", 0),
        ("1000000000-x.md", 0),
        ("_0150-x.md", 0),
    ],
)
def test_what_is_no_message_takes_its_number_all_the_same(name: str, number: int) -> None:
    assert names.claimed_number(name) == number


@pytest.mark.parametrize(
    "name, number", [("0001", 1), ("10000", 10000), ("1234567890", 0), ("x", 0), ("", 0), ("²", 0)]
)
def test_the_number_of_a_taken_number(name: str, number: int) -> None:
    assert names.taken_number(name) == number


# ---- cursors and markers -------------------------------------------------------------------------------


def test_cursors_are_per_name_without_case() -> None:
    assert names.cursor_file("Bob") == names.cursor_file("bob") == "bob.txt"
    assert len({names.cursor_file(name) for name in ("a.b", "a-b", "a_b")}) == 3
    assert names.late_folder("Bob") == "bob.late"


@pytest.mark.parametrize(
    "name, marker_id",
    [
        ("task-7.md", "7"),
        ("task-T-1_a.md", "T-1_a"),
        ("task-.md", ""),
        ("task--x.md", ""),
        ("task-a.b.md", ""),
        ("task-7.CLAIMED-bob.md", ""),
        ("task-é.md", ""),
        ("task-7.MD", ""),
        ("Task-7.md", ""),
        ("../task-7.md", ""),
        ("task-7", ""),
    ],
)
def test_the_id_of_a_marker(name: str, marker_id: str) -> None:
    assert names.marker_id(name) == marker_id


def test_a_claimed_marker_names_its_owner() -> None:
    claimed = names.claimed_marker("task-7.md", "Bob")
    assert claimed == "task-7.CLAIMED-bob.md"
    assert names.marker_owner(claimed, "task-7.md") == "bob"
    assert names.marker_owner(claimed, "task-77.md") == names.marker_owner("task-7.md", "task-7.md") == ""
