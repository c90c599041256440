"""Settings files keep every byte that is not ours, and get back those that were there."""

from __future__ import annotations

import json

import pytest

from agent_chat import jsonc

COMMENTED = """// mine
{
    // why
    "model": "x", // of the month
    "hooks": {
        "Stop": [
            {"command": "a"}  /* keep */
        ]
    },
    "last": [1, 2,], /* trailing */
}
"""
FILES = [
    "{}",
    "{}\n",
    '{"a": 1}',
    '{\n  "a": 1\n}\n',
    '{\n\t"a": {\n\t\t"b": [1]\n\t}\n}',
    '{\r\n  "a": 1\r\n}\r\n',
    '\ufeff{\n  "a": 1 // one\n}\n',
    "{ // only a comment\n}\n",
    COMMENTED,
]
VALUE = {"source": {"path": "/a b/ü"}, "n": [1, "x"]}


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize("path", [("new",), ("new", "deep", "er"), ("hooks", "New")])
def test_what_was_put_can_be_taken_out_to_the_same_bytes(text: str, path: tuple[str, ...]) -> None:
    added = jsonc.put(text, path, VALUE)
    found = jsonc.read(added).value
    for key in path:
        found = found[key]
    assert found == VALUE and jsonc.put(added, path, VALUE) == added
    assert jsonc.take(added, path) == text
    assert jsonc.take(text, path) == text


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize("path", [("new",), ("hooks", "Stop"), ("last",)])
def test_what_was_appended_can_be_dropped_to_the_same_bytes(text: str, path: tuple[str, ...]) -> None:
    added = jsonc.append(text, path, VALUE)
    assert jsonc.append(added, path, VALUE) == added
    more = jsonc.append(added, path, {"other": 1})
    assert jsonc.drop(added, path, lambda item: item == VALUE) == text
    without = jsonc.drop(more, path, lambda item: item == VALUE)
    assert jsonc.drop(without, path, lambda item: item == {"other": 1}) == text


def test_comments_order_and_values_of_others_stay() -> None:
    added = jsonc.append(jsonc.put(COMMENTED, ("hooks", "Start"), [1]), ("hooks", "Stop"), {"command": "b"})
    lines = added.split("\n")
    assert [line for line in COMMENTED.split("\n") if line not in lines] == ['            {"command": "a"}  /* keep */']
    assert '{"command": "a"},  /* keep */\n            {' in added


def test_a_value_is_replaced_where_it_stands() -> None:
    text = '{\n  "a": {"b": 1}, // note\n  "c": 2\n}\n'
    assert jsonc.put(text, ("a", "b"), 7) == text.replace('{"b": 1}', '{"b": 7}')
    assert jsonc.read(jsonc.put(text, ("a",), {"x": [1]})).value == {"a": {"x": [1]}, "c": 2}


def test_entries_in_the_middle_are_taken_out() -> None:
    text = jsonc.put(jsonc.put('{\n  "a": 1\n}\n', ("b",), 2), ("c",), 3)
    assert jsonc.take(text, ("b",)) == jsonc.put('{\n  "a": 1\n}\n', ("c",), 3)
    assert jsonc.read(jsonc.take(text, ("a",))).value == {"b": 2, "c": 3}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", "{", '{"a"}', '{"a": }', '{"a": 1 "b": 2}', "{a: 1}", "{} {}", "/* {}", "[" * 5000, '{"a": 1,,}'],
)
def test_what_is_no_object_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(jsonc.NotJson, match="line 1"):
        jsonc.put(text, ("x",), 1)


def test_a_path_through_something_else_is_refused() -> None:
    for change in (lambda: jsonc.put('{"a": 1}', ("a", "b"), 1), lambda: jsonc.append('{"a": 1}', ("a",), 1)):
        with pytest.raises(jsonc.NotJson, match="a is no"):
            change()


def test_the_result_is_json_where_the_text_was() -> None:
    text = json.dumps({"x": {"y": [1, {"z": None}]}}, indent=4)
    for path in (("x", "new"), ("q",)):
        assert json.loads(jsonc.put(text, path, VALUE))
    assert json.loads(jsonc.append(text, ("x", "y"), VALUE))["x"]["y"][-1] == VALUE
