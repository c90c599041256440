"""A message file: a header between two lines of `---`, then the body.

The format is agent-chat-plugin 0.7.5's: one `key: value` a line, plain or a double-quoted YAML
scalar. We write a value plain only where a YAML parser reads exactly that string from it; reading
takes both, with CRLF and a byte order mark too. What is not whole (no closing line, last byte no
LF) is no message: it may still be on its way.
"""

from __future__ import annotations

from agent_chat import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_RULE = "---"
_YAML_WORDS = frozenset(["y", "n", "yes", "no", "true", "false", "on", "off", "null"])
# What begins with a digit and is made of nothing else may be a number, a time or a date to YAML.
_NUMERIC = frozenset("0123456789abcdefABCDEFxXoO_+-.,:tTzZ ")
_PLAIN_FIRST = frozenset("_/($;\\")
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_SHORT.update({"a": "\a", "e": "\x1b", "v": "\v", " ": " ", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"})
_HEX = {"x": 2, "u": 4, "U": 8}


class NotWhole(ValueError):
    """The bytes are no message, or not yet; the text says what is missing."""


class Message:
    """A message as read. `header` holds every key in the file's order, `text` the file in LF."""

    __slots__ = ("body", "header", "name", "number", "recipients", "reply_to", "sender", "text", "title", "to", "ts")

    def __init__(self, name: str, header: dict[str, str], body: str, text: str) -> None:
        self.name = name
        self.number = names.message_number(name)  # the file name rules, not the header
        self.header = header
        self.body = body
        self.text = text
        self.sender = header["from"]
        self.to = header["to"]
        self.title = header["title"]
        self.ts = header.get("ts", "")
        self.recipients = recipients(self.to)
        reply = header.get("reply_to", "")
        self.reply_to = int(reply) if reply.isascii() and reply.isdigit() and len(reply) <= 9 else 0

    @property
    def status(self) -> str:
        return self.header.get("status") or "discussion"

    @property
    def topic(self) -> str:
        return self.header.get("topic") or names.GENERAL


def recipients(to: str) -> frozenset[str]:
    """The recipients of a `to:` value in lower case; empty means everyone."""
    if to == names.EVERYONE:
        return frozenset()
    found = frozenset(part.strip().lower() for part in to.split(",")) - {""}
    return frozenset() if found & {names.EVERYONE, "*"} else found


def one_line(text: str) -> str:
    """A header value: each run of line breaks and control characters is one space. ValueError: lone surrogates."""
    text.encode("utf-8")
    if text.isprintable():
        return text.strip()
    breaks = dict.fromkeys((*range(32), *range(127, 160), 8232, 8233), "\n")
    return " ".join(part for part in text.translate(breaks).split("\n") if part).strip()


def compose(
    number: int,
    sender: str,
    to: str,
    reply_to: int,
    channel: str,
    ts: str,
    status: str,
    title: str,
    body: str,
    later: Sequence[tuple[str, str | int]] = (),
) -> bytes:
    """A whole message file. `later` holds keys that come after `title`; `body` ends in one newline."""
    lines = [_RULE, f"seq: {number}", f"from: {sender}", f"to: {to}"]
    if reply_to:
        lines.append(f"reply_to: {reply_to}")
    lines += [f"channel: {channel}", f"ts: {ts}", f"status: {scalar(status)}"]
    lines.append(f"title: {scalar(title)}")
    lines += [f"{key}: {value if isinstance(value, int) else scalar(value)}" for key, value in later]
    return ("\n".join([*lines, _RULE, body])).encode("utf-8")


def scalar(value: str) -> str:
    """`value` plain where YAML reads exactly this string from it, else double-quoted."""
    if _is_plain(value):
        return value
    quoted = []
    for ch in value:
        if ch in '"\\':
            quoted.append("\\" + ch)
        elif ch.isprintable() or ord(ch) > 0xFFFF:
            quoted.append(ch)
        else:
            quoted.append(f"\\u{ord(ch):04x}")
    return '"' + "".join(quoted) + '"'


def _is_plain(value: str) -> bool:
    return (
        value != ""
        and (value[0].isalnum() or value[0] in _PLAIN_FIRST)
        and value[-1] not in " :"
        and ": " not in value
        and " #" not in value
        and value.isprintable()
        and value.lower() not in _YAML_WORDS
        and not (value[0].isdigit() and _NUMERIC.issuperset(value))
    )


def parse(name: str, data: bytes) -> Message:
    """A message from a file's bytes. NotWhole when it is none."""
    if not data.endswith(b"\n"):
        raise NotWhole("empty" if not data else "its last line is not ended")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise NotWhole("not UTF-8") from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.startswith(_RULE + "\n"):
        raise NotWhole("no header")
    end = text.find("\n---\n", 3)
    if end < 0:
        raise NotWhole("its header is not closed")
    header: dict[str, str] = {}
    for line in text[4:end].split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            header.setdefault(key.strip(), _read_scalar(value.strip()))
    for key in ("from", "to", "title"):
        if key not in header:
            raise NotWhole(f"no {key!r} in its header")
    return Message(name, header, text[end + 5 :], text)


def _read_scalar(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _unescape(text)
    if len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1].replace("''", ""):
        return text[1:-1].replace("''", "'")
    return text


def _unescape(quoted: str) -> str:
    """The string in a double-quoted scalar; the text itself where it is none (0.7.5 wrote titles raw)."""
    inner = quoted[1:-1]
    if "\\" not in inner:
        return quoted if '"' in inner else inner
    out, at = [], 0
    while at < len(inner):
        ch = inner[at]
        at += 1
        if ch == '"':
            return quoted
        if ch == "\\":
            ch, at = _escape(inner, at)
            if not ch:
                return quoted
        out.append(ch)
    joined = "".join(out)
    try:  # JSON writes what lies beyond 16 bits as two surrogates
        return joined.encode("utf-16", "surrogatepass").decode("utf-16").replace("\n", " ")  # one line per value
    except UnicodeDecodeError:
        return quoted


def _escape(inner: str, at: int) -> tuple[str, int]:
    """The character of the escape whose letter stands at `at`, and where the text goes on; empty if it is none."""
    letter = inner[at : at + 1]
    if letter in _HEX:
        digits = inner[at + 1 : at + 1 + _HEX[letter]]
        if len(digits) == _HEX[letter] and all(ch in "0123456789abcdefABCDEF" for ch in digits):
            code = int(digits, 16)
            return (chr(code) if code <= 0x10FFFF else "", at + 1 + len(digits))
    return _SHORT.get(letter, ""), at + 1
