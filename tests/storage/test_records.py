"""storage/records.py: strict JSON objects."""

from __future__ import annotations

import pytest

from agent_chat.storage import records


@pytest.mark.parametrize(
    "data, found",
    [
        (b"{}", {}),
        (b'{"a": [1, 2.5, null, true, "x"]}\n', {"a": [1, 2.5, None, True, "x"]}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'{\r\n"a": "\xc3\xa9 \\ud83d\\ude00"\r\n}', {"a": "é 😀"}),
        (b'{"a": {"a": 1}, "b": {"a": 1}}', {"a": {"a": 1}, "b": {"a": 1}}),
    ],
)
def test_an_object_is_read(data: bytes, found: dict[str, object]) -> None:
    assert records.load(data) == found


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "line 1"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'"text"', "no JSON object"),
        (b"{} {}", "line 1"),
        (b'{"a": 1,}', "line 1"),
        (b'{"a": 1}\n}', "line 2"),
        (b'{\n"a": 1,\n<<<<<<< HEAD\n"b": 2\n}', "line 3"),
        (b'{\n"a": "\xff"\n}', "not UTF-8 (line 2)"),
        (b'\xff\xfe{\x00"\x00', "not UTF-8 (line 1)"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"x": {"a": 1, "a": 2}}', "twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": [Infinity]}', "Infinity"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', ""),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'{"a": "\x01"}', "line 1"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deeply"),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, bytes) else "",
)
def test_anything_else_is_damaged_and_says_why(data: bytes, why: str) -> None:
    with pytest.raises(records.Damaged) as caught:
        records.load(data)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_written_is_for_people_and_git() -> None:
    record: dict[str, object] = {"b": "é", "a": ["x"], "n": None}
    assert records.dump(record) == '{\n  "b": "é",\n  "a": [\n    "x"\n  ],\n  "n": null\n}\n'.encode()
    assert records.dump(record, sort_keys=True).startswith(b'{\n  "a"')


def test_what_is_written_is_read_again() -> None:
    record = {"text": 'quotes " and \\ and \n and \x7f and \u2028', "list": [], "empty": {}, "number": -1}
    assert records.load(records.dump(record)) == record
