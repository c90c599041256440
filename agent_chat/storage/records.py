"""Strict JSON records: what is read is exactly an object of the expected fields, or one error.

For: `_meta.json`, tasks, claims, locks, journals. Written as 2-space JSON and a newline, so that a
person can read and edit them and git can merge them. json is imported when it is needed: that costs half of
the interpreter's start, and a command that knows its records by their digests does without.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_decode: Callable[[str], Any] | None = None


class Damaged(ValueError):
    """No JSON object; the text names the line."""


def load(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Damaged for anything else, duplicate keys, NaN and lone surrogates too."""
    import json

    global _decode
    if _decode is None:
        decoder = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)
        _decode = decoder.decode
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        found = _decode(text)
        if "\\" in text:  # only an escape can bring a lone surrogate
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged(f"not UTF-8 (line {data.count(10, 0, error.start) + 1})") from None
    except UnicodeEncodeError:
        raise Damaged("a lone surrogate in a text") from None
    except json.JSONDecodeError as error:
        raise Damaged(f"no JSON: {error.msg} (line {error.lineno})") from None
    except RecursionError:
        raise Damaged("nested too deeply") from None
    except ValueError as error:
        raise Damaged(str(error)) from None
    if not isinstance(found, dict):
        raise Damaged("no JSON object (line 1)")
    return found


def dump(record: dict[str, Any], sort_keys: bool = False) -> bytes:
    """The bytes of a record, keys in the order given."""
    import json

    return (json.dumps(record, indent=2, ensure_ascii=False, sort_keys=sort_keys) + "\n").encode("utf-8")


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
