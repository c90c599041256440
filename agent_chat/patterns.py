"""Which paths the entries of two locks share (protocol, section 10).

For: whether two locks, or a lock and a file, can meet. `overlaps(a, b)` compares two (kind, normalized_path).

An entry covers what it names and all that lies below: what is no folder today may become one. Only a LEAF has
nothing below; it is in no record.
  `*`, `?`   any run of characters, one character, within a part
  `[a-z]`    one of these; `[!a-z]` one other. Also the brackets themselves: `app/[id]/page.tsx`,
             locked before it was made, is still that file afterwards
  `**`       as a whole part any number of parts, also none; inside a part like `*`

`overlaps` is exact but for names that no path may have (`x.`, a device): there it may see a
meeting that cannot be. It misses none but by what is not promised here: links below the first
wildcard, hard links, bind mounts, and a folder whose case rule differs from the top's.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence
    from typing import Any, Optional, Union

    Ranges = tuple[tuple[int, int], ...]  # inclusive, of code points
    Char = Union[str, Ranges]  # what stands for one character: itself, or a class of them
    Reading = tuple[Optional[Char], ...]  # one way to read a part; None stands for any run of characters
    Part = Union[str, tuple[Reading, ...]]  # a name, or the ways to read a pattern

FILE, DIRECTORY, PATTERN = "file", "directory", "pattern"
LEAF = "leaf"  # a regular file as it is now
TOP = "."  # the whole workspace

PATH_LIMIT = 4096  # characters; Linux takes no longer path
PATTERN_LIMIT = 1024  # characters; keeps the comparison of two hostile patterns below a second
STAR_LIMIT = 64

_LAST = 0x10FFFF
_taken_apart: dict[str, list[Part | None]] = {}  # the last patterns: one is compared with many paths
_MOST = 1000


def overlaps(a: tuple[str, str], b: tuple[str, str]) -> bool:
    """Whether a path can be in both; `a` and `b` are (kind, normalized_path)."""
    if PATTERN not in (a[0], b[0]):
        return _is_at_or_below(a[1], b[1]) or _is_at_or_below(b[1], a[1])
    if is_too_large(*a) or is_too_large(*b):
        return True  # from a record that `entry` did not make: what is not compared might meet
    one, two = _parts(*a), _parts(*b)
    return _begin_alike(one, two) and _meet(one, two, _parts_meet)


def _begin_alike(a: Sequence[Part | None], b: Sequence[Part | None]) -> bool:
    """Whether the parts before the first `**` of either can be the same: thousands are told apart by one of these."""
    for one, two in zip(a, b):
        if one is None or two is None:
            break
        if not _parts_meet(one, two):
            return False
    return True


def _is_at_or_below(path: str, top: str) -> bool:
    return top in (TOP, path) or path.startswith(top + "/")


def first_part(kind: str, path: str) -> str:
    """The name that every path in an entry begins with; empty where there is none."""
    first = path.partition("/")[0]
    is_any = first == TOP or is_too_large(kind, path) or (kind == PATTERN and is_glob(first))
    return "" if is_any else first


class FirstParts:
    """The first parts that meet one of these."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def __contains__(self, name: object) -> bool:
        return any(_parts_meet(str(name), part) for part in self._parts)


def meeting_first_parts(entries: Iterable[tuple[str, str]]) -> Container[str] | None:
    """In which the first part of an entry must be, if it has one, to meet one of these; None where any will do."""
    parts: list[Part] = []
    for kind, path in entries:
        first = None if is_too_large(kind, path) else next(iter(_parts(kind, path)), None)
        if first is None:
            return None
        parts.append(first)
    plain = {part for part in parts if isinstance(part, str)}
    return plain if len(plain) == len(parts) else FirstParts(parts)


def foldable(pattern: str) -> str:
    """`pattern` with `*` for each class that changing its letters would change: `[A-z]` is more than `[a-z]`."""
    if "[" not in pattern:
        return pattern
    kept = []
    for piece in _pieces(pattern):
        if len(piece) > 1:
            a, z = ord("A"), ord("Z")
            alike = all(high < a or low > z or (low >= a and high <= z) for low, high in _members(piece))
            piece = piece if alike and piece.isascii() else "*"
        kept.append(piece)
    return "".join(kept)


def is_too_large(kind: str, path: str) -> bool:
    if kind == PATTERN:
        return len(path) > PATTERN_LIMIT or path.count("*") > STAR_LIMIT
    return len(path) > PATH_LIMIT


def _pieces(text: str) -> list[str]:
    """`text` cut into classes and single characters; `[` without its `]` in the same part is one of these."""
    pieces, at = [], 0
    while at < len(text):
        end = at + 1
        if text[at] == "[":
            first = at + 2 if text[at + 1 : at + 2] == "!" else at + 1  # where `]` is still a member
            close = text.find("]", first + 1)
            if close > 0 and "/" not in text[at:close]:
                end = close + 1
        pieces.append(text[at:end])
        at = end
    return pieces


def is_glob(part: str) -> bool:
    return any(len(piece) > 1 or piece in "*?" for piece in _pieces(part))


def _members(piece: str) -> list[tuple[int, int]]:
    """The ranges written in a class, whether it is negated or not."""
    body = piece[2:-1] if piece[1] == "!" else piece[1:-1]
    ranges, at = [], 0
    while at < len(body):
        end = at + 2 if body[at + 1 : at + 2] == "-" and at + 2 < len(body) else at
        if body[at] <= body[end]:
            ranges.append((ord(body[at]), ord(body[end])))
        at = end + 1
    return ranges


def _char(piece: str) -> Char | None:
    if piece == "*":
        return None
    if piece == "?":
        return ((0, _LAST),)
    if len(piece) == 1:
        return piece
    ranges = _members(piece)
    if piece[1] != "!":
        return tuple(ranges)
    others, low = [], 0
    for first, last in [*sorted(ranges), (_LAST + 1, _LAST + 1)]:
        if low < first:
            others.append((low, first - 1))
        low = max(low, last + 1)
    return tuple(others)


def _parts(kind: str, path: str) -> list[Part | None]:
    """The parts of an entry, None for `**`, and a last None for what lies below, if anything may."""
    if kind != PATTERN:
        names: list[Part | None] = [] if path == TOP else [*path.split("/")]
        return names if kind == LEAF else [*names, None]
    if path not in _taken_apart:
        if len(_taken_apart) >= _MOST:
            _taken_apart.clear()
        _taken_apart[path] = _pattern_parts(path)
    return _taken_apart[path]


def _pattern_parts(path: str) -> list[Part | None]:
    parts: list[Part | None] = []
    for part in [] if path == TOP else path.split("/"):
        if not is_glob(part):
            parts.append(part)
        elif part == "**":
            parts.append(None)
        else:
            readings = [_pieces(part)]
            if len(readings[0]) < len(part):
                readings.append(list(part))  # the brackets as characters
            parts.append(tuple(tuple(_without_doubles(map(_char, pieces))) for pieces in readings))
    return _without_doubles([*parts, None])


def _without_doubles(tokens: Iterable[Any]) -> list[Any]:
    """`tokens` with one None for several in a row."""
    kept: list[Any] = []
    for token in tokens:
        if token is not None or not kept or kept[-1] is not None:
            kept.append(token)
    return kept


def _parts_meet(a: Part, b: Part) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    for left in (a,) if isinstance(a, str) else a:
        for right in (b,) if isinstance(b, str) else b:
            if _lengths_meet(left, right) and _meet(left, right, _chars_meet):
                return True
    return False


def _lengths_meet(a: str | Reading, b: str | Reading) -> bool:
    """Whether a name can be as long as both: told at once, where to compare them is dear."""
    a_runs = 0 if isinstance(a, str) else a.count(None)
    b_runs = 0 if isinstance(b, str) else b.count(None)
    a_least, b_least = len(a) - a_runs, len(b) - b_runs
    return (a_runs > 0 or a_least >= b_least) and (b_runs > 0 or b_least >= a_least)


def _chars_meet(a: Char, b: Char) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    one = ((ord(a), ord(a)),) if isinstance(a, str) else a
    two = ((ord(b), ord(b)),) if isinstance(b, str) else b
    return any(low <= last and first <= high for low, high in one for first, last in two)


def _meet(a: Sequence[Any], b: Sequence[Any], both: Callable[[Any, Any], bool]) -> bool:
    """Whether one sequence fits `a` and `b`, in which None stands for any run; never two None in a row.

    Both are automata and walked together, one token of `a` at a time; bit j of `reached` says that
    `b` may stand before its token j by then. So the work is len(a) * len(b), whatever they hold.
    """
    runs = sum(1 << j for j, token in enumerate(b) if token is None)
    fits: dict[Any, int] = {}  # token of a -> which tokens of b it meets
    reached = 1
    for token in a:
        if token is None:  # b goes on from its first place on as far as it likes
            reached = (2 << len(b)) - (reached & -reached)
            continue
        reached |= (reached & runs) << 1  # a run of b may be empty, or take what a wants and stay
        if token not in fits:
            fits[token] = sum(1 << j for j, other in enumerate(b) if other is not None and both(token, other))
        reached = (reached & runs) | (reached & fits[token]) << 1
        if not reached:
            return False
    reached |= (reached & runs) << 1
    return bool(reached >> len(b) & 1)
