"""Task records `tasks/<id>.json`: the strict record, its dependencies, its status moves.

Everything is decided from records alone, never from message texts. A damaged record stops only what
needs it. All functions take a `View` or a `Change`, which both read consistently.
"""

from __future__ import annotations

from agent_chat import clock, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Union

    from agent_chat.change import Change, View
    from agent_chat.storage.digests import Digests
    from agent_chat.storage.journal import Content

    Source = Union[View, Change]

FIELDS = (
    *("id", "channel", "title", "status", "owner", "created_by", "depends_on", "files_hint", "acceptance"),
    *("lease_expires_at", "branch", "updated_at"),
)
_LISTS = ("depends_on", "files_hint", "acceptance")
_OPTIONAL = ("owner", "lease_expires_at", "branch")
_KEYS, _TEXT, _MAYBE = frozenset(FIELDS), frozenset([str]), (str, type(None))
# The types of a sound record's values, in the order of FIELDS.
_SHAPES = frozenset(
    (str, str, str, str, owner, str, list, list, list, expiry, branch, str)
    for owner in _MAYBE
    for expiry in _MAYBE
    for branch in _MAYBE
)
OPEN, IN_PROGRESS, BLOCKED, DONE, CANCELLED = "open", "in_progress", "blocked", "done", "cancelled"
STATUSES = (OPEN, IN_PROGRESS, BLOCKED, DONE, CANCELLED)
FINAL = (DONE, CANCELLED)
MOVES = {
    OPEN: (IN_PROGRESS, BLOCKED, CANCELLED),
    IN_PROGRESS: (OPEN, BLOCKED, DONE, CANCELLED),
    BLOCKED: (OPEN, IN_PROGRESS, CANCELLED),
    DONE: (),
    CANCELLED: (),
}
NEEDS_READY = (IN_PROGRESS, DONE)
_DAMAGED = "damaged"  # stands in for the status of a record that cannot be read


class Task:
    """A sound task record. `path` is its file in the channel."""

    __slots__ = (*FIELDS, "path")

    def __init__(self, path: str, record: dict[str, Any]) -> None:
        self.path = path
        self.id: str = record["id"]
        self.channel: str = record["channel"]
        self.title: str = record["title"]
        self.status: str = record["status"]
        self.owner: str | None = record["owner"]
        self.created_by: str = record["created_by"]
        self.depends_on: list[str] = record["depends_on"]
        self.files_hint: list[str] = record["files_hint"]
        self.acceptance: list[str] = record["acceptance"]
        self.lease_expires_at: str | None = record["lease_expires_at"]
        self.branch: str | None = record["branch"]
        self.updated_at: str = record["updated_at"]

    def record(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in FIELDS}

    def changed(self, now: int, **values: object) -> Task:
        """The task with these values, updated at `now`."""
        return Task(self.path, {**self.record(), **values, "updated_at": clock.micro_stamp(now)})

    def encode(self) -> bytes:
        return records.dump(self.record())

    def is_owned_by(self, agent: str) -> bool:
        return self.owner is not None and self.owner.lower() == agent.lower()


# ---- reading ------------------------------------------------------------------------------------------


def load(source: Source, task_id: str) -> Task:
    """A task by its id, without regard to case. TASK_INVALID_ID, TASK_NOT_FOUND, and the codes of a damaged record."""
    checked_id(task_id)
    found = find(source, task_id)
    if found is None:
        channel = source.channel.name
        raise AgentChatError("TASK_NOT_FOUND", f"no task {task_id} in channel {channel!r}", ("task", "list", channel))
    return found


def find(source: Source, task_id: str) -> Task | None:
    """As `load`, but None when there is no such task."""
    path = names.task_file(task_id)
    data = _read(source, path)
    if data is None:
        low = task_id.lower() + ".json"
        name = next((name for name in _names(source) if name.lower() == low), None)
        if name is None:
            return None
        path = f"tasks/{name}"
        data = _read(source, path)
    return None if data is None else decode(source.channel.name, path, data)


def is_there(source: Source, task_id: str) -> bool:
    """Whether there is a record of this id, be it damaged."""
    low = task_id.lower() + ".json"
    return any(name.lower() == low for name in _names(source))


def everything(source: Source) -> tuple[list[Task], list[AgentChatError]]:
    """All sound tasks by id, and what is wrong with the others."""
    found, damaged = [], []
    for path, data in read_all(source):
        assert not isinstance(data, str)  # no digests were asked for
        try:
            found.append(decode(source.channel.name, path, data))
        except AgentChatError as error:
            damaged.append(error)
    return sorted(found, key=lambda task: task.id), damaged


def read_all(source: Source, digests: Digests | None = None) -> list[tuple[str, Content]]:
    """Path and bytes of every task record, what `digests` know of it, or why it cannot be read."""
    try:
        return source.read_all("tasks", digests)
    except AgentChatError as error:
        raise storage_invalid("TASK_STORAGE_INVALID", source, error) from None


def _read(source: Source, path: str) -> bytes | None:
    try:
        return source.read(path)
    except AgentChatError as error:
        raise storage_invalid("TASK_STORAGE_INVALID", source, error, path) from None


def _names(source: Source) -> list[str]:
    try:
        return source.names("tasks")
    except AgentChatError as error:
        raise storage_invalid("TASK_STORAGE_INVALID", source, error) from None


def storage_invalid(code: str, source: Source | str, error: AgentChatError, path: str = "") -> AgentChatError:
    """A storage layer's refusal (a link, a folder in a record's place) in a family's code."""
    details: dict[str, object] = {"file": path, "problems": [code]} if path else {}
    channel = source if isinstance(source, str) else source.channel.name
    return AgentChatError(code, error.message, ("doctor", channel), details)


def decode(channel: str, path: str, data: bytes | AgentChatError | OSError) -> Task:
    """The task in a record's bytes; one AgentChatError names all of its problems, with the first one's code.

    `data`: also why it cannot be read.
    """
    if isinstance(data, AgentChatError):
        raise storage_invalid("TASK_STORAGE_INVALID", channel, data, path)
    if isinstance(data, OSError):
        raise storage_invalid("TASK_IO_ERROR", channel, AgentChatError("", f"{path}: {data.strerror}"), path)
    stem = path.rpartition("/")[2][:-5]
    try:
        record = records.load(data)
    except records.Damaged as error:
        problems = [("TASK_INVALID_RECORD", str(error))]
    else:
        problems = list(_problems(channel, stem, record))
        if not problems:
            return Task(path, record)
    text = f"{path} is damaged: {'; '.join(text for _, text in problems)}"
    raise AgentChatError(
        problems[0][0], text, ("doctor", channel), {"file": path, "problems": [p[0] for p in problems]}
    )


def _problems(channel: str, stem: str, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    shape = () if _is_as_we_write(record) else tuple(_shape(record))
    if shape:
        yield from shape
        return
    if not names.is_name(record["id"]):
        yield "TASK_INVALID_ID", f"id {record['id']!r}"
    elif record["id"] != stem and record["id"].lower() != stem.lower():
        yield "TASK_RECORD_ID_MISMATCH", f"it says it is {record['id']!r}"
    if record["channel"] != channel and record["channel"].lower() != channel.lower():
        yield "TASK_CHANNEL_MISMATCH", f"it belongs to channel {record['channel']!r}"
    if record["status"] not in STATUSES:
        yield "TASK_INVALID_STATUS", f"status {record['status']!r}"
    if not _is_agent(record["created_by"]):
        yield "TASK_INVALID_CREATED_BY", f"created_by {record['created_by']!r}"
    if record["owner"] is not None and not _is_agent(record["owner"]):
        yield "LEASE_INVALID_OWNER", f"owner {record['owner']!r}"
    if record["branch"] is not None and not is_branch(record["branch"]):
        yield "TASK_INVALID_BRANCH", f"branch {record['branch']!r}"
    if record["depends_on"]:
        yield from _dependency_problems(record["id"], record["depends_on"])
    for key in ("lease_expires_at", "updated_at"):
        if record[key] is not None and not is_stamp(record[key]):
            yield "TASK_INVALID_TIMESTAMP", f"{key} {record[key]!r}"


_agents: set[str] = set()  # names that were found right: thousands of records name the same few


def _is_agent(name: str) -> bool:
    if name not in _agents and names.is_agent(name):
        _agents.add(name)
    return name in _agents


def _is_as_we_write(record: dict[str, Any]) -> bool:
    """Whether keys, their order and types are ours, told at once: a list reads thousands of records."""
    return (
        tuple(record) == FIELDS
        and tuple(map(type, record.values())) in _SHAPES
        and _TEXT.issuperset(map(type, record["depends_on"] + record["files_hint"] + record["acceptance"]))
    )


def _shape(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Problems of keys and types, each by name."""
    for key in FIELDS:
        if key not in record:
            yield "TASK_REQUIRED_FIELD_MISSING", f"no {key}"
    for key in sorted(record.keys() - _KEYS):
        yield "TASK_UNKNOWN_FIELD", f"unknown field {key!r}"
    for key in filter(record.__contains__, FIELDS):
        value = record[key]
        if key in _LISTS:
            is_right = isinstance(value, list) and _TEXT.issuperset(map(type, value))
        else:
            is_right = isinstance(value, str) or (value is None and key in _OPTIONAL)
        if not is_right:
            yield "TASK_INVALID_RECORD", f"{key} has the wrong type"


def _dependency_problems(task_id: str, depends_on: Sequence[str]) -> Iterator[tuple[str, str]]:
    seen = set()
    for other in depends_on:
        if not names.is_name(other):
            yield "TASK_INVALID_DEPENDENCY_ID", f"{other!r} in depends_on"
        elif other.lower() in seen:
            yield "TASK_DUPLICATE_DEPENDENCY", f"{other!r} twice in depends_on"
        elif other.lower() == task_id.lower():
            yield "TASK_DEPENDENCY_CYCLE", "it depends on itself"
        seen.add(other.lower())


def is_stamp(text: str) -> bool:
    # Our own form, 2026-07-17T14:03:22.000123+00:00, is told without parsing it: a list has thousands.
    if text[4:20:3] == "--T::." and text[26:] == "+00:00":
        year, month, day, hour, minute, second = text[:4], text[5:7], text[8:10], text[11:13], text[14:16], text[17:19]
        digits = year + month + day + hour + minute + second + text[20:26]
        if digits.isascii() and digits.isdigit() and year > "0000" and "01" <= month <= "12" and "01" <= day <= "28":
            return hour <= "23" and minute <= "59" and second <= "59"
    try:
        clock.parse_stamp(text)
    except ValueError:
        return False
    return True


def is_reason(text: str) -> bool:
    """Whether it says something, in valid Unicode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return text.strip() != ""


def checked_id(task_id: str) -> str:
    if not names.is_name(task_id):
        text = f"{task_id!r} is no task id (letters, digits, . _ -, at most 64, first a letter or digit)"
        raise AgentChatError("TASK_INVALID_ID", text, ("task", "--help"))
    return task_id


def is_branch(text: str) -> bool:
    """Whether git would take it as a branch's name (git-check-ref-format(1))."""
    return (
        text != ""
        and text.isprintable()
        and not set(text) & set(" ~^:?*[\\")
        and not any(bad in text for bad in ("..", "@{", "//"))
        and text[0] not in "-/"
        and text[-1] not in "./"
        and text != "@"
        and not any(part.startswith(".") or part.endswith(".lock") for part in text.split("/"))
    )


# ---- dependencies -----------------------------------------------------------------------------------------


def unfinished(source: Source, task: Task, known: dict[str, Task] | None = None) -> list[tuple[str, str]]:
    """(id, status) of the dependencies that are not done; `missing` where there is no record, or `damaged`.

    `known`: tasks by lower-case id whose records need not be read.
    """
    found = []
    for other_id in task.depends_on:
        try:
            other = (known or {}).get(other_id.lower()) or find(source, other_id)
            status = other.status if other else "missing"
        except AgentChatError:
            status = _DAMAGED
        if status != DONE:
            found.append((other_id, status))
    return found


def described(waits: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{other}={status}" for other, status in waits)


def need_ready(source: Source, task: Task) -> None:
    """TASK_DEPENDENCY_NOT_READY unless everything it depends on is done; a damaged one's own code."""
    waits = unfinished(source, task)
    for other_id, status in waits:
        if status == _DAMAGED:
            find(source, other_id)
    if waits:
        text = f"{task.id} waits for {described(waits)}"
        raise AgentChatError("TASK_DEPENDENCY_NOT_READY", text, ("task", "show", task.channel, waits[0][0]))


def checked_dependencies(source: Source, task_id: str, typed: Sequence[str]) -> list[str]:
    """The dependencies as their records spell them.

    TASK_INVALID_DEPENDENCY_ID, TASK_DUPLICATE_DEPENDENCY, TASK_UNKNOWN_DEPENDENCY, TASK_DEPENDENCY_CYCLE.
    """
    channel = source.channel.name
    for code, text in _dependency_problems(task_id, typed):
        raise AgentChatError(code, f"{task_id}: {text}", ("task", "list", channel))
    found = []
    for other_id in typed:
        other = find(source, other_id)
        if other is None:
            raise AgentChatError("TASK_UNKNOWN_DEPENDENCY", f"no task {other_id}", ("task", "list", channel))
        found.append(other)
    seen: set[str] = set()
    waiting = list(found)
    while waiting:
        for next_id in waiting.pop().depends_on:
            if next_id.lower() not in seen:
                seen.add(next_id.lower())
                further = find(source, next_id)
                waiting += [further] if further else []
    if task_id.lower() in seen:
        text = f"{task_id} would depend on itself through {', '.join(typed)}"
        raise AgentChatError("TASK_DEPENDENCY_CYCLE", text, ("task", "show", channel, typed[0]))
    return [task.id for task in found]


def check_move(source: Source, task: Task, status: str) -> None:
    """TASK_INVALID_STATUS, TASK_INVALID_TRANSITION, TASK_DEPENDENCY_NOT_READY; same to same is allowed."""
    if status not in STATUSES:
        text = f"{status!r} is no status ({', '.join(STATUSES)})"
        raise AgentChatError("TASK_INVALID_STATUS", text, ("task", "update", "--help"))
    if status == task.status:
        return
    if status not in MOVES[task.status]:
        text = f"{task.id} is {task.status}, which cannot become {status}"
        raise AgentChatError("TASK_INVALID_TRANSITION", text, ("task", "show", task.channel, task.id))
    if status in NEEDS_READY:
        need_ready(source, task)
