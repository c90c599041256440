"""A small validator of the JSON Schemas in schemas/: just the keywords that they use, an unknown one is an error.

It is stricter than the schemas, which allow answers to grow: here every key of a real answer must be described.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from support import REPOSITORY

FOLDER = REPOSITORY / "schemas"
ANSWERS = FOLDER / "answers"
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_ABOUT = {"$schema", "$defs", "title", "description", "format", "contentEncoding", "x-commands"}

Place = tuple[Path, str]  # a schema: its file, and the pointer in it


@cache
def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def files() -> list[Path]:
    return sorted(FOLDER.rglob("*.schema.json"))


def commands_of(path: Path) -> list[str]:
    """The commands whose answer with --json a schema describes."""
    return list(load(path).get("x-commands", []))


def problems(path: Path, value: object) -> list[str]:
    """What is wrong with a value by a schema file; empty when nothing is."""
    return Check().problems(path, value)


class Check:
    """Checks values; `seen` are the properties that they had, as (file, pointer of the schema, key)."""

    def __init__(self) -> None:
        self.seen: set[tuple[Path, str, str]] = set()

    def problems(self, path: Path, value: object) -> list[str]:
        return self._at((path, ""), load(path), value, "$")

    def _at(self, place: Place, schema: dict[str, Any], value: object, where: str) -> list[str]:
        """As `_here`, and no key of an object is left undescribed."""
        wrong, known, is_open = self._here(place, schema, value, where)
        if isinstance(value, dict) and not wrong and not is_open:
            wrong += [f"{where}: {key!r} is not described" for key in sorted(value.keys() - known)]
        return wrong

    def _here(
        self, place: Place, schema: dict[str, Any], value: object, where: str
    ) -> tuple[list[str], set[str], bool]:
        """(what is wrong, the keys described, whether others are allowed) by one schema."""
        wrong, known, is_open = list(_plain(schema, value, where)), set[str](), False
        for near, inner in self._same_place(place, schema, value, where, wrong):
            more, keys, opens = self._here(near, inner, value, where)
            wrong += more
            known |= keys
            is_open |= opens
        file, pointer = place
        if isinstance(value, dict):
            for key, inner in schema.get("properties", {}).items():
                known.add(key)
                if key in value:
                    self.seen.add((file, pointer, key))
                    wrong += self._at((file, f"{pointer}/properties/{key}"), inner, value[key], f"{where}.{key}")
            if "additionalProperties" in schema:
                inner, is_open = schema["additionalProperties"], schema["additionalProperties"] is not False
                for key in sorted(value.keys() - known) if isinstance(inner, dict) else ():
                    wrong += self._at((file, f"{pointer}/additionalProperties"), inner, value[key], f"{where}.{key}")
            if False in (schema.get("additionalProperties"), schema.get("unevaluatedProperties")) and not is_open:
                wrong += [f"{where}: {key!r} is not allowed" for key in sorted(value.keys() - known)]
        if isinstance(value, list) and "items" in schema:
            for at, one in enumerate(value):
                wrong += self._at((file, f"{pointer}/items"), schema["items"], one, f"{where}[{at}]")
        return wrong, known, is_open

    def _same_place(
        self, place: Place, schema: dict[str, Any], value: object, where: str, wrong: list[str]
    ) -> Iterator[tuple[Place, dict[str, Any]]]:
        """The schemas that a schema brings to the same value: references, all of allOf, what fits of the others."""
        file, pointer = place
        if "$ref" in schema:
            yield resolve(file, schema["$ref"])
        for at, inner in enumerate(schema.get("allOf", [])):
            yield (file, f"{pointer}/allOf/{at}"), inner
        if "not" in schema and not Check()._here(place, schema["not"], value, where)[0]:
            wrong.append(f"{where}: is what it must not be")
        for word in ("anyOf", "oneOf"):
            fitting, why = [], []
            for at, inner in enumerate(schema.get(word, [])):
                trial = Check()
                near = (file, f"{pointer}/{word}/{at}")
                failed = trial._here(near, inner, value, where)[0]
                why += failed
                fitting += [] if failed else [(near, inner)]
            if word in schema and (not fitting or (word == "oneOf" and len(fitting) > 1)):
                wrong.append(f"{where}: fits {len(fitting)} of {word}: {'; '.join(why)}")
            yield from fitting


def resolve(file: Path, reference: str) -> tuple[Place, dict[str, Any]]:
    """The schema that a reference in a file means."""
    name, _, pointer = reference.partition("#")
    file = (file.parent / name).resolve() if name else file
    found = load(file)
    for part in pointer.split("/")[1:]:
        found = found[part]
    return (file, pointer), found


def _plain(schema: dict[str, Any], value: object, where: str) -> Iterator[str]:
    """What is wrong by the keywords that look at one value alone."""
    for word, limit in schema.items():
        if word in _RULES:
            if not _RULES[word](limit, value):
                yield f"{where}: {value!r:.80} against {word} {limit!r:.80}"
        elif word not in _ABOUT | _NESTED:
            yield f"{where}: this validator knows no {word!r}"


def _is_type(names: object, value: object) -> bool:
    listed = names if isinstance(names, list) else [names]
    if isinstance(value, bool):
        return "boolean" in listed
    return any(isinstance(value, _TYPES[name]) for name in listed)


def _is_distinct(wanted: bool, value: object) -> bool:
    return not (wanted and isinstance(value, list)) or len({json.dumps(one) for one in value}) == len(value)


_NESTED = {"$ref", "allOf", "anyOf", "oneOf", "not", "properties", "additionalProperties", "unevaluatedProperties"}
_NESTED |= {"items"}
_RULES: dict[str, Any] = {
    "type": _is_type,
    "const": lambda wanted, value: value == wanted and isinstance(value, bool) == isinstance(wanted, bool),
    "enum": lambda wanted, value: value in wanted,
    "required": lambda keys, value: not isinstance(value, dict) or set(keys) <= value.keys(),
    "minimum": lambda least, value: not isinstance(value, int) or value >= least,
    "maximum": lambda most, value: not isinstance(value, int) or value <= most,
    "minLength": lambda least, value: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda most, value: not isinstance(value, str) or len(value) <= most,
    # In Python `$` fits before a line's end at the end, too.
    "pattern": lambda form, value: not isinstance(value, str) or bool(re.search(form.replace("$", r"\Z"), value)),
    "minItems": lambda least, value: not isinstance(value, list) or len(value) >= least,
    "uniqueItems": _is_distinct,
}


def described(path: Path) -> set[tuple[Path, str, str]]:
    """Every property that a schema file describes itself, as (file, pointer of the schema, key)."""

    def walk(schema: object, pointer: str) -> Iterator[tuple[Path, str, str]]:
        if isinstance(schema, list):
            for at, inner in enumerate(schema):
                yield from walk(inner, f"{pointer}/{at}")
        if isinstance(schema, dict):
            for key in schema.get("properties", {}):
                yield path, pointer, key
            for word, inner in schema.items():
                if word == "properties":
                    for key, one in inner.items():
                        yield from walk(one, f"{pointer}/properties/{key}")
                elif word == "$defs":
                    for key, one in inner.items():
                        yield from walk(one, f"{pointer}/$defs/{key}")
                elif word in _NESTED:
                    yield from walk(inner, f"{pointer}/{word}")

    return set(walk(load(path), ""))
