"""Strict JSON records: what is read is exactly an object of the expected fields, or one error.

For: `_meta.json`, tasks, claims, locks, journals. Written as 2-space JSON and a newline, so that a
person can read and edit them and git can merge them.
Importing json costs two thirds of the interpreter's start, nearly all of it for `re`. So a sound record is read by
the C scanner that json itself uses, and written here. Whatever the scanner refuses goes through json, which says
why; so does everything where an interpreter has no `_json`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Scanner = Callable[[str, int], tuple[Any, int]]

_BLANK = " \t\n\r"
_scan: Scanner | None = None
_quote: Callable[[str], str] | None = None


class Damaged(ValueError):
    """No JSON object; the text names the line."""


# ---- reading --------------------------------------------------------------------------------------------


def load(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Damaged for anything else, duplicate keys, NaN and lone surrogates too."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        found = value(text)
        if "\\u" in text:  # nothing else can bring a lone surrogate
            dump(found)
    except UnicodeDecodeError as error:
        raise Damaged(f"not UTF-8 (line {data.count(10, 0, error.start) + 1})") from None
    except UnicodeEncodeError:
        raise Damaged("a lone surrogate in a text") from None
    except RecursionError:
        raise Damaged("nested too deeply") from None
    if not isinstance(found, dict):
        raise Damaged("no JSON object (line 1)")
    return found


def value(text: str) -> Any:
    """What JSON is in `text`. Damaged; RecursionError."""
    global _scan
    whole = text.strip(_BLANK)
    try:
        if _scan is None:
            from _json import make_scanner

            rules: Any = _Strict  # it takes whatever has these attributes
            _scan = make_scanner(rules)
        found, end = _scan(whole, 0)
        if end == len(whole):
            return found
    except Exception:  # as what it refuses comes depends on the version of Python, and on what is imported
        pass
    return _told_by_json(text)


def _told_by_json(text: str) -> Any:
    """The value, or Damaged with the line."""
    import json

    decoder = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise Damaged(f"no JSON: {error.msg} (line {error.lineno})") from None
    except ValueError as error:
        raise Damaged(str(error)) from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Damaged("a key stands twice")
    return found


def _finite(word: str) -> float:
    value = float(word)
    if value in (float("inf"), float("-inf")):  # 1e999
        raise Damaged(f"{word} is no finite number")
    return value


def _no_constant(word: str) -> None:
    raise Damaged(f"{word} is no JSON")


class _Strict:
    """How the scanner reads: what it looks up in a json.JSONDecoder."""

    strict = True  # no control character in a text
    object_hook = None
    object_pairs_hook = _no_duplicates
    parse_float = _finite
    parse_int = int
    parse_constant = _no_constant


# ---- writing --------------------------------------------------------------------------------------------


def dump(record: dict[str, Any], sort_keys: bool = False) -> bytes:
    """The bytes of a record, keys in the order given: what json.dumps(indent=2, ensure_ascii=False) makes of it."""
    return (_written(record, "\n", sort_keys) + "\n").encode("utf-8")


def line(record: dict[str, Any]) -> str:
    """The record on one line, without blanks, its keys sorted."""
    return _written(record, "", True)


def _written(item: object, margin: str, sort_keys: bool) -> str:
    """`margin`: what stands before the closing bracket, a line feed and blanks; empty for one line."""
    if isinstance(item, str):
        return quoted(item)
    if item is None or item is True or item is False:
        return {None: "null", True: "true", False: "false"}[item]
    deeper, colon = (margin + "  ", ": ") if margin else ("", ":")
    if isinstance(item, dict):
        items = sorted(item.items()) if sort_keys else item.items()
        parts = [f"{quoted(key)}{colon}{_written(one, deeper, sort_keys)}" for key, one in items]
        return f"{{{deeper}{f',{deeper}'.join(parts)}{margin}}}" if parts else "{}"
    if isinstance(item, (list, tuple)):
        parts = [_written(one, deeper, sort_keys) for one in item]
        return f"[{deeper}{f',{deeper}'.join(parts)}{margin}]" if parts else "[]"
    if type(item) is int:
        return str(item)
    import json

    return json.dumps(item)  # a float: no record of ours has one


def quoted(text: str) -> str:
    """A text in JSON."""
    global _quote
    if _quote is None:
        try:
            from _json import encode_basestring as found
        except ImportError:
            from json.encoder import py_encode_basestring as found
        _quote = found
    return _quote(text)
