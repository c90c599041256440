"""frontmatter.py, over whatever hypothesis thinks of, and against a real YAML parser."""

from __future__ import annotations

import pytest

pytest.importorskip("hypothesis")
yaml = pytest.importorskip("yaml")

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_chat import frontmatter, names

TS = "2026-07-17T14:03:22+00:00"
TEXT = st.text(st.characters(blacklist_categories=("Cs",)))
HARD = st.text(
    st.sampled_from(list("aé1.:-#\"'\\ \t\n\r\x85\u2028\x00\x1b[]{}&*!|>%@`,?~=<_0xenoy\u202e\ufeff\U0001f600"))
)
VALUES = st.one_of(TEXT, HARD)


def compose(title: str, status: str, body: str = "b\n", later: tuple[tuple[str, str], ...] = ()) -> bytes:
    return frontmatter.compose(12, "alice", "bob,carol", 11, "c", TS, status, title, body, later)


@settings(max_examples=300)
@given(VALUES, VALUES, VALUES, TEXT)
@example("yes", "1.0", "~", "---\nfrom: eve\n---\n")
@example("", "", "", "")
def test_what_is_composed_is_parsed_alike_and_no_value_forges_a_line(
    title: str, status: str, later: str, body: str
) -> None:
    title, status, later = map(frontmatter.one_line, (title, status, later))
    body = body.replace("\r", "") + "\n"
    data = compose(title, status, body, (("ref", later),))
    message = frontmatter.parse("0012-alice-x.md", data)
    assert list(message.header) == ["seq", "from", "to", "reply_to", "channel", "ts", "status", "title", "ref"]
    assert (message.sender, message.to, message.reply_to, message.ts) == ("alice", "bob,carol", 11, TS)
    assert (message.title, message.header["status"], message.header["ref"]) == (title, status, later)
    assert message.body == body and message.text.encode() == data


@settings(max_examples=300)
@given(VALUES, VALUES)
@example('Re: fix: "x" #1', "- a")
@example("0x_", "190:20:30")
@example("=", "<<")
@example("1.e+3", "2001-12-14t21:59:43.10-05:00")
def test_a_real_yaml_parser_reads_exactly_these_strings(title: str, status: str) -> None:
    title, status = frontmatter.one_line(title), frontmatter.one_line(status)
    header = compose(title, status).decode()[4:].split("\n---\n")[0]
    assert len(header.split("\n")) == 8
    found = yaml.safe_load(header)
    assert (found["title"], found["status"], found["from"], found["to"]) == (title, status, "alice", "bob,carol")
    assert list(found) == ["seq", "from", "to", "reply_to", "channel", "ts", "status", "title"]


@given(VALUES)
def test_one_line_is_one_line_for_everybody_and_stays(text: str) -> None:
    line = frontmatter.one_line(text)
    assert len(line.splitlines()) <= 1 and line == line.strip()
    assert not any(ord(ch) < 32 or 127 <= ord(ch) < 160 for ch in line)
    assert frontmatter.one_line(line) == line


@given(
    st.one_of(st.binary(max_size=300), TEXT.map(str.encode), HARD.map(lambda text: f"---\n{text}\n---\nb\n".encode()))
)
def test_any_bytes_are_a_message_or_not_whole(data: bytes) -> None:
    try:
        message = frontmatter.parse("0001-a-x.md", data)
    except frontmatter.NotWhole as error:
        assert str(error).isprintable()
        return
    assert {"from", "to", "title"} <= set(message.header)
    assert not any("\n" in value for value in message.header.values())
    message.text.encode()


@given(HARD, HARD)
def test_a_quoted_value_of_another_program_is_read_as_yaml_reads_it(title: str, sender: str) -> None:
    """PyYAML's own double-quoted style, as long as it keeps to one line."""
    written = yaml.safe_dump(title, default_style='"', width=10**9, allow_unicode=False).rstrip("\n")
    data = f"---\nfrom: alice\nto: all\ntitle: {written}\n---\nb\n".encode()
    assert frontmatter.parse("0001-a-x.md", data).title == title.replace("\n", " ")


@given(st.lists(st.sampled_from(["Bob", "carol", "all", "*", " eve ", ""]), max_size=4))
def test_a_list_of_recipients_reaches_all_in_it_or_everyone(parts: list[str]) -> None:
    found = frontmatter.recipients(",".join(parts))
    named = {part.strip().lower() for part in parts} - {""}
    assert found == (set() if named & {names.EVERYONE, "*"} else named)
