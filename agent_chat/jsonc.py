"""A settings file of JSON, perhaps with comments, changed in place of one value: everything else keeps its bytes.

For: `setup`. Calling sequence: `read(text)` once, then `put`, `append`, `take` and `drop`, each of which takes a
text and returns one. What `put` or `append` adds to a file, `take` or `drop` takes out again to the same bytes,
but for containers that were there and empty: those go, too. Comments (`//`, `/* */`) and commas after the last
entry are read and kept.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_DEPTH = 200


class NotJson(ValueError):
    """The text is none; the message names the line."""


class Node:
    """A value in the text, from `start` to before `end`. `entries`: what an object or a list holds, in order."""

    __slots__ = ("end", "entries", "start", "value")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.value: Any = None
        self.entries: list[Entry] = []

    def at(self, key: str) -> Node | None:
        return next((entry.node for entry in self.entries if entry.key == key), None)


class Entry:
    """A member of an object with its key, or an item of a list with none; `start` is where its text begins."""

    __slots__ = ("comma", "key", "node", "start")

    def __init__(self, start: int, key: str | None, node: Node, comma: int) -> None:
        self.start = start
        self.key = key
        self.node = node
        self.comma = comma  # where the comma after it is; -1 without


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, what: str) -> NotJson:
        line = self.text.count("\n", 0, self.at) + 1
        return NotJson(f"{what} in line {line}")

    def skip(self) -> None:
        """White space and comments."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in " \t\r\n\ufeff":
                self.at += 1
            elif text.startswith("//", self.at):
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise self.fail("a comment without an end")
                self.at = end + 2
            else:
                return

    def value(self, depth: int = 0) -> Node:
        self.skip()
        node, first = Node(self.at), self.text[self.at : self.at + 1]
        if depth > _DEPTH:
            raise self.fail("too many brackets")
        if first in ("{", "["):
            self.container(node, first, depth)
        else:
            try:
                node.value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
            except ValueError:
                raise self.fail("no value") from None
        node.end = self.at
        return node

    def container(self, node: Node, first: str, depth: int) -> None:
        close = "}" if first == "{" else "]"
        self.at += 1
        self.skip()
        while self.text[self.at : self.at + 1] != close:
            start, key = self.at, None
            if first == "{":
                key = self.key()
            inner = self.value(depth + 1)
            self.skip()
            comma = self.at if self.text[self.at : self.at + 1] == "," else -1
            node.entries.append(Entry(start, key, inner, comma))
            if comma < 0 and self.text[self.at : self.at + 1] != close:
                raise self.fail(f"no comma and no {close}")
            if comma >= 0:
                self.at += 1
                self.skip()
        self.at += 1
        values = [entry.node.value for entry in node.entries]
        node.value = dict(zip((entry.key for entry in node.entries), values)) if first == "{" else values

    def key(self) -> str:
        if self.text[self.at : self.at + 1] != '"':
            raise self.fail("no key")
        found: str
        try:
            found, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        except ValueError:
            raise self.fail("no key") from None
        self.skip()
        if self.text[self.at : self.at + 1] != ":":
            raise self.fail("no colon")
        self.at += 1
        return found


def read(text: str) -> Node:
    """The object that the text is. NotJson."""
    reader = _Reader(text)
    node = reader.value()
    reader.skip()
    if reader.at != len(text):
        raise reader.fail("more than one value")
    if not isinstance(node.value, dict):
        raise NotJson("no object in line 1")
    return node


# ---- changing -----------------------------------------------------------------------------------------------


def put(text: str, path: Sequence[str], value: object) -> str:
    """The value at this path of keys, made or replaced."""
    node = read(text)
    for at, key in enumerate(path):
        inner = node.at(key)
        if inner is None:
            for missing in reversed(path[at + 1 :]):
                value = {missing: value}
            return _added(text, node, key, value)
        if not isinstance(inner.value, dict) and at < len(path) - 1:
            raise NotJson(f"{'.'.join(path[: at + 1])} is no object")
        node = inner
    return text if node.value == value else text[: node.start] + _shown(text, node.start, value) + text[node.end :]


def append(text: str, path: Sequence[str], value: object) -> str:
    """`value` as the last item of the list at this path, unless it is in there."""
    node: Node | None = read(text)
    for key in path:
        node = node.at(key) if node else None
    if node is None:
        return put(text, path, [value])
    if not isinstance(node.value, list):
        raise NotJson(f"{'.'.join(path)} is no list")
    return text if value in node.value else _added(text, node, None, value)


def take(text: str, path: Sequence[str]) -> str:
    """Without the value at this path, and without the objects that this leaves empty."""
    nodes = [read(text)]
    for key in path:
        inner = nodes[-1].at(key)
        if inner is None:
            return text
        nodes.append(inner)
    text = _without(text, nodes[-2], next(entry for entry in nodes[-2].entries if entry.key == path[-1]))
    return take(text, path[:-1]) if len(path) > 1 and len(nodes[-2].entries) == 1 else text


def drop(text: str, path: Sequence[str], is_ours: Callable[[Any], bool]) -> str:
    """Without the items of the list at this path that are ours; a list that this leaves empty goes, too."""
    while True:
        node: Node | None = read(text)
        for key in path:
            node = node.at(key) if node else None
        found = [entry for entry in node.entries if is_ours(entry.node.value)] if node and node.entries else []
        if not node or not found:
            return text
        if len(node.entries) == 1:
            return take(text, path)
        text = _without(text, node, found[-1])


def _added(text: str, node: Node, key: str | None, value: object) -> str:
    """With one more entry at the end of an object or a list."""
    close = node.end - 1
    last = node.entries[-1] if node.entries else None
    inside = text[node.start + 1 : close]
    outer = _indent(text, node.start)
    if last and "\n" not in inside:
        return text[: last.node.end] + ", " + _entry(key, json.dumps(value)) + text[last.node.end :]
    step = _indent(text, last.start) if last else outer + _step(text)
    rendered = _entry(key, _lines(value, step, _step(text)))
    end = len(text[:close].rstrip())  # of the last entry or comment
    tail = text[end:close] if last or inside.strip() else "\n" + outer
    comma = last is not None and last.comma >= 0
    head = text[:end] if not last or comma else text[: last.node.end] + "," + text[last.node.end : end]
    return head + "\n" + step + rendered + ("," if comma else "") + tail + text[close:]


def _without(text: str, node: Node, entry: Entry) -> str:
    """Without this entry of an object or a list."""
    start = max(len(text[: entry.start].rstrip()), node.start + 1)
    if len(node.entries) == 1 and not text[node.start + 1 : entry.start].strip():
        rest = text[(entry.comma if entry.comma >= 0 else entry.node.end - 1) + 1 : node.end - 1]
        return text[: node.start + 1] + (rest if rest.strip() else "") + text[node.end - 1 :]
    if entry.comma >= 0:
        return text[:start] + text[entry.comma + 1 :]
    text = text[:start] + text[entry.node.end :]
    before = next((one for one in reversed(node.entries) if one.start < entry.start), None)
    return text if before is None else text[: before.comma] + text[before.comma + 1 :]


def _entry(key: str | None, rendered: str) -> str:
    return rendered if key is None else f"{json.dumps(key)}: {rendered}"


def _shown(text: str, start: int, value: object) -> str:
    return _lines(value, _indent(text, start), _step(text))


def _lines(value: object, indent: str, step: str) -> str:
    return json.dumps(value, indent=step, ensure_ascii=False).replace("\n", "\n" + indent)


def _indent(text: str, at: int) -> str:
    """The white space at the beginning of the line of this place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _step(text: str) -> str:
    """What one level is indented by: as the first indented line is."""
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        if indent and line.strip():
            return "\t" if indent[0] == "\t" else indent
    return "  "
