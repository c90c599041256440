"""Spelling is idempotent and overlap is right, as properties: against a model that knows nothing of automata.

The model lists all paths up to a depth over a small alphabet and asks of each, with `fnmatch` part by
part, whether an entry covers it. Over these alphabets every two entries that can meet at all meet in
a listed path, so `overlaps` must agree with the model exactly. (Where it is only conservative, names
that no path may have, the model has no say: it lists none.)
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import os
import tempfile
import unicodedata
from collections.abc import Iterator

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_chat.errors import AgentChatError
from agent_chat.patterns import PATTERN_LIMIT, first_part, meeting_first_parts, overlaps
from agent_chat.workspace import Workspace

Entry = tuple  # (kind, normalized path)
QUIET = {"deadline": None, "database": None}  # no judgement by time, nothing left in the checkout

# ---- the model -------------------------------------------------------------------------------------


def part_covers(pattern: str, part: str) -> bool:
    """Whether `part` matches, or is what the pattern would be if brackets were ordinary characters."""
    return fnmatch.fnmatchcase(part, pattern) or fnmatch.fnmatchcase(part, pattern.replace("[", "[[]"))


def covers(parts: tuple[str, ...], path: tuple[str, ...], literal: bool) -> bool:
    """Whether the entry with these parts names `path` or something above it."""
    if not parts:
        return True
    if not literal and parts[0] == "**":
        return any(covers(parts[1:], path[skipped:], literal) for skipped in range(len(path) + 1))
    if not path:
        return False
    fits = parts[0] == path[0] if literal else part_covers(parts[0], path[0])
    return fits and covers(parts[1:], path[1:], literal)


def paths(names: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    for length in range(1, depth + 1):
        yield from itertools.product(names, repeat=length)


@functools.cache
def covered(kind: str, text: str, names: tuple[str, ...], depth: int) -> frozenset[tuple[str, ...]]:
    parts = () if text == "." else tuple(text.split("/"))
    return frozenset(path for path in paths(names, depth) if covers(parts, path, kind != "pattern"))


def agrees(a: Entry, b: Entry, names: tuple[str, ...], depth: int) -> None:
    expected = bool(covered(*a, names, depth) & covered(*b, names, depth))
    assert overlaps(a, b) is expected, (a, b)
    assert overlaps(b, a) is expected, (b, a)
    assert not expected or (may_meet(a, b) and may_meet(b, a)), (a, b)


def may_meet(a: Entry, b: Entry) -> bool:
    """By the first part of one of them alone."""
    name, names = first_part(*a), meeting_first_parts([b])
    return not name or names is None or name in names


# ---- overlap ---------------------------------------------------------------------------------------

NAMES = ("a", "b", "ab")
WILD = ("a", "b", "ab", "*", "?", "a*", "*b", "??", "[ab]", "[!a]", "**")


def entries(names: tuple[str, ...], wild: tuple[str, ...], parts: int) -> st.SearchStrategy[Entry]:
    def joined(choices: tuple[str, ...]) -> st.SearchStrategy[str]:
        return st.lists(st.sampled_from(choices), min_size=1, max_size=parts).map("/".join)

    literal = st.tuples(st.sampled_from(["file", "directory"]), joined(names) | st.just("."))
    return literal | st.tuples(st.just("pattern"), joined(wild))


def test_overlap_agrees_with_the_model_on_all_pairs_of_one_or_two_parts() -> None:
    """Two times two parts, so a common path has at most three: one `**` moves the other's two along."""
    texts = ["/".join(parts) for length in (1, 2) for parts in itertools.product(WILD, repeat=length)]
    both = [("pattern", text) for text in texts] + [("file", "/".join(path)) for path in paths(NAMES, 2)]
    for a, b in itertools.combinations_with_replacement(both, 2):
        agrees(a, b, NAMES, 3)


@settings(max_examples=400, **QUIET)
@given(entries(NAMES, WILD, 3), entries(NAMES, WILD, 3))
def test_overlap_agrees_with_the_model_on_three_parts(a: Entry, b: Entry) -> None:
    agrees(a, b, NAMES, 5)


@settings(max_examples=400, **QUIET)
@given(
    entries(("a", "i", "[i]"), ("a", "i", "[i]", "[!i]", "*", "[[]i]", "**"), 2),
    entries(("[i]", "i"), ("[i]", "?", "**"), 2),
)
def test_overlap_agrees_with_the_model_on_names_with_brackets(a: Entry, b: Entry) -> None:
    agrees(a, b, ("a", "b", "i", "[i]", "[!i]", "[[]i]"), 3)


PIECES = ("a", "b", "*", "?", "[ab]", "[!a]", "[a-c]", "[!b-d]")


def test_overlap_within_a_part_agrees_with_the_model_on_all_pairs_of_one_or_two_pieces() -> None:
    """A common name has at most all their pieces in a row: letters that tell the classes apart, or brackets as such."""
    units = ("a", "b", "c", "e", *PIECES[4:])
    names = tuple("".join(name) for size in range(1, 5) for name in itertools.product(units, repeat=size))
    texts = {"".join(pieces) for size in (1, 2) for pieces in itertools.product(PIECES, repeat=size)} - {"**"}
    for a, b in itertools.combinations_with_replacement(sorted(texts), 2):
        agrees(("pattern", a), ("pattern", b), names, 1)


def test_a_leaf_meets_exactly_the_patterns_that_cover_it() -> None:
    texts = ["/".join(parts) for length in (1, 2) for parts in itertools.product(WILD, repeat=length)]
    for text, path in itertools.product(texts, paths(NAMES, 3)):
        expected = covers(tuple(text.split("/")), path, literal=False)
        leaf = ("leaf", "/".join(path))
        assert overlaps(leaf, ("pattern", text)) is overlaps(("pattern", text), leaf) is expected, (text, path)


@settings(max_examples=300, **QUIET)
@given(*[st.tuples(st.sampled_from(["file", "pattern", "leaf"]), st.text("ab*?[]!-/^.", max_size=24))] * 2)
def test_overlap_is_symmetric_and_never_fails_whatever_a_record_holds(a: Entry, b: Entry) -> None:
    assert overlaps(a, b) is overlaps(b, a)
    assert (may_meet(a, b) and may_meet(b, a)) or not overlaps(a, b)
    assert overlaps(a, a) and overlaps(b, b)


# ---- spelling --------------------------------------------------------------------------------------

ALPHABET = "aAbB./\\*?[]!-~: \u00e9\u00c9\u0301\u0345\u00df\u0130\u03a3\u1fb3\u212a\ufb03\U0001f600"
TYPED = st.text(ALPHABET, max_size=16) | st.text(max_size=12)


def spelled_twice(work: Workspace, typed: str) -> None:
    try:
        entry = work.entry(typed)
    except AgentChatError as error:
        assert error.code in ("PATH_LOCK_INVALID_PATH", "PATH_LOCK_PATH_OUTSIDE_WORKSPACE")
        return
    assert unicodedata.is_normalized("NFC", entry.normalized_path)
    assert len(entry.normalized_path) <= PATTERN_LIMIT
    for again in (entry.normalized_path, entry.display_path):
        once_more = work.entry(again)
        assert once_more.normalized_path == entry.normalized_path
        assert (once_more.kind == "pattern") is (entry.kind == "pattern")
    held = (entry.kind, entry.normalized_path)
    assert overlaps(held, held) and overlaps(held, ("directory", "."))
    assert work.fold(entry.kind, entry.normalized_path) == entry.normalized_path


@pytest.mark.parametrize("platform, folds", [("linux", False), ("darwin", True), ("win32", True), ("linux", True)])
def test_spelling_is_idempotent(platform: str, folds: bool) -> None:
    root = "C:\\no\\such" if platform == "win32" else "/no/such"
    work = Workspace(root, root, platform, folds)

    @settings(max_examples=400, **QUIET)
    @given(TYPED)
    def check(typed: str) -> None:
        spelled_twice(work, typed)

    check()


@pytest.mark.skipif(os.name == "nt", reason="needs links without privileges")
def test_spelling_is_idempotent_among_links() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(os.path.realpath(folder), "root")
        os.makedirs(os.path.join(root, "a", "[b]"))
        os.makedirs(os.path.join(root, "b"))
        for target, link in (("../b", "a/b"), ("a", "l"), ("l/[b]", "a*"), ("..", "o"), ("q", "p"), ("p", "q")):
            os.symlink(target, os.path.join(root, link))
        work = Workspace(root, root, "linux", folds_case=False)

        @settings(max_examples=600, **QUIET)
        @given(st.lists(st.sampled_from(["a", "b", "[b]", "l", "a*", "o", "p", "q", ".", "", "x", "**"]), max_size=5))
        def check(parts: list[str]) -> None:
            spelled_twice(work, "/".join(parts))

        check()


def test_every_character_folds_to_one_form() -> None:
    """Alone, and after a letter that a combining character joins."""
    work = Workspace("/no/such", "/no/such", "darwin", folds_case=True)
    for char in map(chr, range(0x80, 0x110000)):
        if unicodedata.combining(char) or unicodedata.decomposition(char) or char.casefold() != char:
            for text in (char, "\u03b1" + char + "\u0301"):
                once = work.fold("file", text)
                assert work.fold("file", once) == once, ascii(char)
                assert not set(once) & set("/\\:*?[]"), ascii(char)


@settings(max_examples=300, **QUIET)
@given(st.text("aAzZ_^`09-![]*?", max_size=10), st.text("aAzZ_^`09-![]", min_size=1, max_size=4))
def test_folding_a_pattern_loses_no_name(pattern: str, name: str) -> None:
    """What matches with its case as it is also matches when both are folded."""
    work = Workspace("/no/such", "/no/such", "darwin", folds_case=True)
    if pattern and overlaps(("pattern", pattern), ("file", name)):
        assert overlaps(("pattern", work.fold("pattern", pattern)), ("file", work.fold("file", name)))
