"""The ledger `.ledger/YYYY-MM.jsonl`: one JSON line for each attempt to tell somebody something.

For: channels whose policy says `ledger: on`; nothing depends on it, and it may be deleted. It says what the messages
themselves do not: what was refused and why, with its text; what was said twice; what expired unseen; and who was told
what. Lines are appended under a lock of its own, so that each is whole; what a writer left that died in the middle of
one is cut off by the next. The first line of a month removes files whose month ended over 90 days ago.
"""

from __future__ import annotations

import time

from agent_chat import clock
from agent_chat.channel import Channel, note
from agent_chat.errors import AgentChatError
from agent_chat.policy import ON
from agent_chat.storage import oslock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER, LOCK = ".ledger", ".lock"
FIELDS = ("ts", "from", "to", "seq", "bytes", "via", "request_id", "outcome", "code", "text")
POSTED, REFUSED, DUPLICATE, EXPIRED = "posted", "refused", "duplicate", "expired"
KEPT = 90 * 24 * 3600 * clock.SECOND
TEXT_LIMIT = 1024 * 1024  # characters of a refused post
_LIMIT = 512 * 1024 * 1024  # bytes of a file
_PATIENCE = 2.0  # seconds; a post does not wait for the ledger any longer


class Attempt:
    """One attempt: `with Attempt(...) as attempt:` do it, then `attempt.came_to(...)`; a refusal is noted by itself.

    Does nothing where the policy does not want a ledger. What keeps it from being written is a notice of the channel.
    """

    __slots__ = ("_channel", "_is_on", "_line", "_text")

    def __init__(
        self, channel: Channel, via: str, sender: str, to: str, title: str, body: str, request_id: str = ""
    ) -> None:
        self._channel = channel
        self._is_on = channel.policy is not None and channel.policy.value("ledger") == ON
        self._text = f"{title}\n\n{body}"[:TEXT_LIMIT]
        size = len(body.encode("utf-8", "surrogatepass"))
        self._line: dict[str, str | int] = {"from": sender, "to": to or "all", "seq": 0, "bytes": size, "via": via}
        self._line.update({"request_id": request_id, "outcome": POSTED, "code": "", "text": ""})

    def __enter__(self) -> Attempt:
        return self

    def came_to(self, number: int, outcome: str = POSTED, code: str = "", to: str = "") -> None:
        self._line.update({"seq": number, "outcome": outcome, "code": code, "to": to or self._line["to"]})
        if outcome == REFUSED:
            self._line["text"] = self._text

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, AgentChatError):
            number = error.details.get("seq", 0)
            self.came_to(number if isinstance(number, int) else 0, REFUSED, error.code)
        elif isinstance(error, OSError):
            self.came_to(0, REFUSED, "STORAGE_IO_ERROR")
        elif error is not None:
            return  # a defect or an interruption: nobody knows what it came to
        if self._is_on:
            write(self._channel, self._line)


def expired(channel: Channel, sender: str, number: int, missed: list[str]) -> None:
    """Note that a message expired before these saw it, as its sender is told."""
    if channel.policy is not None and channel.policy.value("ledger") == ON:
        line: dict[str, str | int] = {"from": sender, "to": ",".join(missed), "seq": number, "bytes": 0, "via": "post"}
        write(channel, {**line, "request_id": "", "outcome": EXPIRED, "code": "", "text": ""})


def write(channel: Channel, line: dict[str, str | int]) -> None:
    """Append a line. What fails is told, and stops nothing."""
    now = clock.now()
    data = encode({"ts": clock.micro_stamp(now), **line})
    try:
        with channel.folder.sub(FOLDER, create=True) as folder:
            try:
                with oslock.hold(folder, LOCK, note(str(line["from"])), _PATIENCE):
                    _append(folder, now, data)
            except oslock.NoLocks:
                _append(folder, now, data)
    except oslock.Busy as busy:
        channel.notices.append(f"not noted in the ledger: {busy.holder} has its lock")
    except (OSError, AgentChatError) as error:
        channel.notices.append(f"not noted in the ledger: {getattr(error, 'strerror', None) or error}")


def _append(folder: Any, now: int, data: bytes) -> None:
    name = month_file(now)
    try:
        size = folder.lstat(name).st_size
    except FileNotFoundError:
        size = 0
        _forget_old(folder, now)
    if size and folder.read(name, _LIMIT, size - 1) != b"\n":  # its writer died in the middle of a line
        whole = folder.read(name, _LIMIT)
        folder.replace(name, whole[: whole.rfind(b"\n") + 1], derived=True)
    folder.append(name, data)


def month_file(now: int) -> str:
    return time.strftime("%Y-%m.jsonl", time.gmtime(now // clock.SECOND))


def end_of(name: str) -> int:
    """When the month of a file ended; 0 for any other name."""
    year, dash, month = name[:-6].partition("-")
    is_month = dash and name.endswith(".jsonl") and len(year) == 4 and len(month) == 2 and (year + month).isdigit()
    if not is_month or not name.isascii() or not 1 <= int(month) <= 12 or not 1970 <= int(year) <= 9998:
        return 0
    following = (int(year) + int(month) // 12, int(month) % 12 + 1)
    return clock.parse_stamp(f"{following[0]:04d}-{following[1]:02d}-01T00:00:00+00:00")


def _forget_old(folder: Any, now: int) -> None:
    for name in folder.names():
        if 0 < end_of(name) < now - KEPT:
            folder.remove(name)


def encode(line: dict[str, str | int]) -> bytes:
    """A JSON line, its keys in the order of FIELDS; without importing json, which half of a post would cost."""
    values = ((key, line[key]) for key in FIELDS)
    text = ", ".join(f'"{key}": {_quoted(value) if isinstance(value, str) else value}' for key, value in values)
    return f"{{{text}}}\n".encode("utf-8", "replace")


def _quoted(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'  # as nearly all are: not even the C encoder needs to be loaded
    from agent_chat.storage import records

    return records.quoted(text)


def read(channel: Channel, count: int) -> list[dict[str, Any]]:
    """The last lines that say what the messages do not, the newest last; what is no line of ours is left out."""
    from agent_chat.storage import records

    found: list[dict[str, Any]] = []
    try:
        with channel.folder.sub(FOLDER) as folder:
            for name in sorted(filter(end_of, folder.names()), reverse=True):
                for data in reversed(folder.read(name, _LIMIT).split(b"\n")):
                    if len(found) >= count:
                        return found[::-1]
                    try:
                        line = records.load(data) if data else {}
                    except records.Damaged:
                        continue
                    if _is_sound(line) and line["outcome"] != POSTED:
                        found.append(line)
    except FileNotFoundError:
        pass
    return found[::-1]


def _is_sound(line: dict[str, Any]) -> bool:
    numbers = ("seq", "bytes")
    return tuple(line) == FIELDS and all(
        isinstance(value, int if key in numbers else str) and not isinstance(value, bool) for key, value in line.items()
    )
