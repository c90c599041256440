"""storage/records.py: it reads and writes exactly what json does, whether the interpreter has a C scanner or not."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import pytest

pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_chat.storage import records

texts = st.text(max_size=8)
numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=4)
damage = st.tuples(
    st.integers(0, 200), st.sampled_from(['"', "{", "}", "[", ",", ":", "\\ud800", "\x01", "NaN", "1e999", "é"])
)


def without_scanner() -> Any:
    """The module as it is on an interpreter without `_json`."""
    kept = sys.modules.get("_json")
    sys.modules["_json"] = None  # type: ignore[assignment]
    try:
        spec = importlib.util.find_spec("agent_chat.storage.records")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.load(b'{"a": "\\u0041"}')  # what it has to look for, it has looked for now
        return module
    finally:
        if kept is None:
            del sys.modules["_json"]
        else:
            sys.modules["_json"] = kept


OTHER = without_scanner()


def answer(module: Any, data: bytes) -> object:
    try:
        return module.load(data)
    except module.Damaged as error:
        return f"damaged: {error}"


@settings(max_examples=100, deadline=None)
@given(record=objects, sort_keys=st.booleans())
def test_a_record_is_written_as_json_does(record: dict[str, Any], sort_keys: bool) -> None:
    expected = json.dumps(record, indent=2, ensure_ascii=False, sort_keys=sort_keys) + "\n"
    for module in (records, OTHER):
        assert module.dump(record, sort_keys).decode("utf-8") == expected
        line = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        assert module.line(record) == line


@settings(max_examples=100, deadline=None)
@given(record=objects, indent=st.sampled_from([None, 2]), is_ascii=st.booleans(), blanks=st.sampled_from(["", " \r\n"]))
def test_what_json_writes_is_read(record: dict[str, Any], indent: int | None, is_ascii: bool, blanks: str) -> None:
    data = (blanks + json.dumps(record, indent=indent, ensure_ascii=is_ascii) + blanks).encode("utf-8")
    assert answer(records, data) == record == answer(OTHER, data)


@settings(max_examples=200, deadline=None)
@given(record=objects, changes=st.lists(damage, min_size=1, max_size=2))
def test_damage_is_told_in_the_same_words(record: dict[str, Any], changes: list[tuple[int, str]]) -> None:
    text = json.dumps(record, indent=2, ensure_ascii=False)
    for at, piece in changes:
        text = text[:at] + piece + text[at:]
    data = text.encode("utf-8")
    assert answer(records, data) == answer(OTHER, data)
