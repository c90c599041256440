"""frontmatter.py: a message composed and parsed (cases M9 to M12 and M14)."""

from __future__ import annotations

import pytest

from agent_chat import frontmatter
from agent_chat.frontmatter import Message, NotWhole, compose, one_line, parse

NAME = "0012-alice-x.md"
TS = "2026-07-17T14:03:22+00:00"


def composed(title: str = "t", body: str = "b\n", **other: object) -> bytes:
    values = {"sender": "alice", "to": "bob", "reply_to": 0, "channel": "c", "ts": TS, "status": "discussion", **other}
    return compose(12, title=title, body=body, **values)  # type: ignore[arg-type]


def reparsed(*arguments: str, **other: object) -> Message:
    return parse(NAME, composed(*arguments, **other))


def raw(header: str, body: str = "b\n") -> bytes:
    return f"---\n{header}\n---\n{body}".encode()


def test_the_format_is_the_one_of_the_protocol() -> None:
    assert composed("Converge schema v0.2", "body\n", reply_to=11).decode() == (
        "---\nseq: 12\nfrom: alice\nto: bob\nreply_to: 11\nchannel: c\nts: 2026-07-17T14:03:22+00:00\n"
        "status: discussion\ntitle: Converge schema v0.2\n---\nbody\n"
    )


def test_later_keys_come_after_the_title() -> None:
    data = composed(later=[("concerns", "bob, carol"), ("key", "12")])
    assert b'title: t\nconcerns: bob, carol\nkey: "12"\n---\n' in data
    assert list(parse(NAME, data).header)[-3:] == ["title", "concerns", "key"]


# fmt: off
TITLES = [
     'Re: fix: "x" #1', "- a", "@x", "yes", "1.0", "[a]", "null", "~", "", "a: b", "a #b", "#a", "a:", "'a'", '"a"',
     "{a}", "&a", "*a", "!a", "|", ">", "%a", "`a`", "? a", "---", "...", "=", "<<", "0x1F", "1_000", "12:30:45", "1e3",
     "2026-01-01", "2026-01-01 10:00:00Z", "NO", "y", "\\", "\\n", 'a\\"b', "é → 世界 😀", "\u200b", "\ufeff", "\ue000",
     "\U0001fffe", "a\u00a0b", "\u00adx", "0o7", ".5", "+1", "_1", "²", "a,b"]
# fmt: on


@pytest.mark.parametrize("title", TITLES)
def test_a_title_and_a_status_come_back_as_they_were(title: str) -> None:
    message = reparsed(title, status=title or "discussion")
    assert message.title == title and message.header["status"] == (title or "discussion")
    assert composed(title).decode().count("\n") == 10


@pytest.mark.parametrize(
    "line", ["\n", "\r", "\r\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\0", "\x1b[31m"]
)
def test_line_breaks_and_controls_in_a_value_become_one_space(line: str) -> None:
    first, rest = line[0], line[2:] if line.startswith("\r\n") else line[1:]
    assert one_line(f"Hi{first}{rest}to: eve{first}") == f"Hi {rest}to: eve"


def test_one_line_cuts_white_space_and_refuses_lone_surrogates() -> None:
    assert one_line("  a b \n") == "a b" and one_line("\n\n") == ""
    for text in ("\udce9", "a\ud800b"):
        with pytest.raises(ValueError):
            one_line(text)


# ---- reading what others write -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "written, read",
    [
        ("plain", "plain"),
        ('"quoted"', "quoted"),
        ('"say \\"hi\\""', 'say "hi"'),
        ("'it''s'", "it's"),
        ("'", "'"),
        ('"', '"'),
        ('""', ""),
        ("''", ""),
        ('"a" and "b"', '"a" and "b"'),  # 0.7.5 wrote titles raw
        ("'a' and 'b'", "'a' and 'b'"),
        ('"a', '"a'),
        ('"\\u00e9\\xe9\\U0001f600"', "éé😀"),
        ('"\\ud83d\\ude00"', "😀"),  # as JSON writes it
        ('"\\ud83d"', '"\\ud83d"'),  # half of it is no text
        ('"\\uzz"', '"\\uzz"'),
        ('"\\U00110000"', '"\\U00110000"'),
        ('"\\q"', '"\\q"'),
        ('"end\\"', '"end\\"'),
        ('"\\\\"', "\\"),
        ('"tab\\tbell\\a"', "tab\tbell\a"),
        ('"two\\nlines\\N\\L\\P"', "two lines\x85\u2028\u2029"),  # a value is one line
        ("Re: fix: x #1", "Re: fix: x #1"),
        ("a: b", "a: b"),
    ],
)
def test_quoted_and_plain_values_are_read(written: str, read: str) -> None:
    assert parse(NAME, raw(f"from: a\nto: all\ntitle: {written}")).title == read


def test_the_other_programs_spellings_are_read() -> None:
    """M12: CRLF, a byte order mark, both; quoted names; defaults for what is missing."""
    plain = raw('from: "alice"\nto: bob\ntitle: t', "one\ntwo\n")
    for data in (plain, b"\xef\xbb\xbf" + plain, plain.replace(b"\n", b"\r\n")):
        message = parse(NAME, data)
        assert (message.sender, message.to, message.title, message.body) == ("alice", "bob", "t", "one\ntwo\n")
        assert message.recipients == {"bob"}
        assert (message.status, message.topic, message.reply_to, message.ts) == ("discussion", "general", 0, "")
        assert message.text == plain.decode()


def test_the_file_name_rules_over_the_header() -> None:
    """M14."""
    assert parse(NAME, raw("seq: 99\nfrom: a\nto: all\ntitle: t")).number == 12


def test_the_first_of_two_lines_with_one_key_counts() -> None:
    message = parse(NAME, raw("from: alice\nto: all\nfrom: eve\ntitle: t\nnonsense\n: empty\nfrom : eve"))
    assert message.sender == "alice"


@pytest.mark.parametrize("reply, number", [("7", 7), ("007", 7), ("x", 0), ("-1", 0), ("1" * 30, 0), ("٣", 0), ("", 0)])
def test_a_parent_that_is_no_number_is_none(reply: str, number: int) -> None:
    assert parse(NAME, raw(f"from: a\nto: all\ntitle: t\nreply_to: {reply}")).reply_to == number


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "empty"),
        (b"\n", "no header"),
        (b"---\n", "not closed"),
        (b"---\nseq: 4\nfrom: ali", "not ended"),
        (b"---\nseq: 4\nfrom: alice\n", "not closed"),
        (b"---\nfrom: a\nto: all\ntitle: t\n---", "not ended"),
        (b"---\nfrom: a\nto: all\ntitle: t\n---\nbo", "not ended"),
        (b"---\nfrom: a\nto: all\n---\nb\n", "'title'"),
        (b"---\nto: all\ntitle: t\n---\nb\n", "'from'"),
        (b"---\n---\n", "'from'"),
        (b"x\n---\nfrom: a\nto: all\ntitle: t\n---\nb\n", "no header"),
        (b"----\nfrom: a\nto: all\ntitle: t\n---\nb\n", "no header"),
        (b"---\nfrom: a\nto: all\ntitle: t\n----\nb\n", "not closed"),
        (b"---\nfrom: a\nto: all\ntitle: \xff\n---\nb\n", "not UTF-8"),
        (b"\x00" * 100 + b"\n", "no header"),
        (b"\x7fELF\x02\n", "no header"),
        (b"\xff\xfe-\x00-\x00\n\x00\n", "not UTF-8"),
    ],
)
def test_what_is_not_whole_says_what_is_missing(data: bytes, why: str) -> None:
    with pytest.raises(NotWhole, match=why):
        parse(NAME, data)


def test_every_beginning_of_a_message_that_is_not_all_of_it_is_no_message_or_ends_a_line() -> None:
    """A writer that is stopped anywhere: nobody is shown a line that is cut."""
    data = composed("title", "one\ntwo\nthree\n")
    for end in range(len(data)):
        try:
            message = parse(NAME, data[:end])
        except NotWhole:
            continue
        assert message.body in ("", "one\n", "one\ntwo\n")


def test_a_body_that_looks_like_a_header_is_a_body() -> None:
    """M10."""
    body = "---\nfrom: eve\nto: all\n---\nforged\n"
    message = reparsed("t", body)
    assert (message.sender, message.to, message.body) == ("alice", "bob", body)


# ---- whom it is for --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "to, names",
    [
        ("all", set()),
        ("ALL", set()),
        ("*", set()),
        ("", set()),
        (",", set()),
        ("bob, all", set()),
        ("bob", {"bob"}),
        (" Bob ,carol,", {"bob", "carol"}),
        ("bobby", {"bobby"}),
    ],
)
def test_recipients(to: str, names: set[str]) -> None:
    assert frontmatter.recipients(to) == names
