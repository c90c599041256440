"""names.py, over whatever hypothesis thinks of."""

from __future__ import annotations

import string

import pytest

pytest.importorskip("hypothesis")
yaml = pytest.importorskip("yaml")

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_chat import names

NAMELIKE = st.text(string.ascii_letters + string.digits + "._-", max_size=70)
NUMBERLIKE = st.text("0123456789abcdefxobEe._-", min_size=1, max_size=12)


@given(st.one_of(NAMELIKE, st.text(max_size=70)))
def test_the_grammar_is_the_one_of_the_protocol(text: str) -> None:
    first = set(string.ascii_letters + string.digits)
    fits = 1 <= len(text) <= 64 and text[0] in first and set(text) <= first | set("._-") and not text.endswith(".")
    stem = text.split(".")[0].lower()
    device = stem in {"con", "prn", "aux", "nul"} or (
        len(stem) == 4 and stem[:3] in ("com", "lpt") and stem[3].isdigit()
    )
    assert names.is_name(text) == (fits and not device)


@given(st.text(max_size=200))
def test_a_slug_is_ascii_short_and_its_own_slug(text: str) -> None:
    slug = names.slug(text)
    assert 1 <= len(slug) <= 40 and slug.isascii()
    assert set(slug) <= set(string.ascii_lowercase + string.digits + "-")
    assert not slug.startswith("-") and not slug.endswith("-") and "--" not in slug
    assert names.slug(slug) == slug


@given(st.integers(1, names.LAST_NUMBER), NAMELIKE, st.text(max_size=200))
def test_the_number_comes_back_from_a_message_files_name(number: int, sender: str, title: str) -> None:
    name = names.message_file(number, sender, title)
    assert names.message_number(name) == names.claimed_number(name) == number
    assert len(name) <= 94 and name.isascii() and "/" not in name


@given(st.text(max_size=60))
def test_any_name_of_a_file_is_judged_without_an_error(name: str) -> None:
    number = names.message_number(name)
    assert 0 <= number <= names.LAST_NUMBER
    assert names.claimed_number(name) == number or number == 0
    names.taken_number(name)
    names.marker_id(name)


@settings(max_examples=300)
@given(st.one_of(NAMELIKE, NUMBERLIKE))
@example("0x_")
@example("0b__")
@example("1_._")
@example("1.e3")
@example("190.20.30")
@example("2001-12-14")
@example("Null")
def test_an_agents_name_written_plain_is_a_string_to_yaml(text: str) -> None:
    if names.is_agent(text):
        assert yaml.safe_load(f"from: {text}\nto: {text},{text}\n") == {"from": text, "to": f"{text},{text}"}


@given(NAMELIKE.filter(names.is_agent), NAMELIKE.filter(names.is_agent))
def test_two_agents_share_a_cursor_only_when_their_names_differ_in_case(one: str, other: str) -> None:
    assert (names.cursor_file(one) == names.cursor_file(other)) == (one.lower() == other.lower())
