"""Claim records `claims/<id>.<owner>.json`: the active leases, and whether task and claim agree.

A name is never parsed: `a.b` claimed by `c` and `a` claimed by `b.c` share one. The record inside rules.
Expired means now >= expiry, or a claim made over 5 minutes in the future: a clock that was set back
must not lock anybody out for ever.
"""

from __future__ import annotations

from agent_chat import clock, names, tasks
from agent_chat.errors import AgentChatError
from agent_chat.storage import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from agent_chat.tasks import Source, Task

FIELDS = (
    *("task_id", "channel", "owner", "lease_expires_at", "claimed_at", "updated_at"),
    *("previous_owner", "previous_lease_expires_at", "recovery_reason"),
)
_PREVIOUS = FIELDS[6:]
CLOCK_SKEW = 5 * 60 * clock.SECOND


class Claim:
    """A sound claim record. `path` is its file in the channel."""

    __slots__ = (*FIELDS, "path")

    task_id: str
    channel: str
    owner: str
    lease_expires_at: str
    claimed_at: str
    updated_at: str
    previous_owner: str | None
    previous_lease_expires_at: str | None
    recovery_reason: str | None
    path: str

    def __init__(self, path: str, record: dict[str, Any]) -> None:
        self.path = path
        for key in FIELDS:
            setattr(self, key, record.get(key))

    def encode(self) -> bytes:
        return records.dump({key: getattr(self, key) for key in FIELDS})

    def is_held_by(self, agent: str) -> bool:
        return self.owner.lower() == agent.lower()

    def is_expired(self, now: int) -> bool:
        return self.ended(now) != ""

    def ended(self, now: int) -> str:
        """Why it is over; empty while it is not."""
        if now >= clock.parse_stamp(self.lease_expires_at):
            return f"expired at {self.lease_expires_at}"
        if clock.parse_stamp(self.updated_at) > now + CLOCK_SKEW:
            return (
                f"counts as expired: it was written at {self.updated_at}, and the clock says {clock.micro_stamp(now)}"
            )
        return ""


def of_task(source: Source, task: Task) -> Claim | None:
    """The lease of a task; None without one. LEASE_INCONSISTENT when the records disagree; codes of damaged claims."""
    found = [claim for claim in _candidates(source, task) if claim.task_id.lower() == task.id.lower()]
    why = ""
    if len(found) > 1:
        why = f"{task.id} has {len(found)} claims ({', '.join(claim.path for claim in found)})"
    elif found:
        why = _disagreement(task, found[0])
    elif task.lease_expires_at is not None:
        why = f"{task.path} has a lease and no claim"
    if why:
        raise AgentChatError("LEASE_INCONSISTENT", why, ("doctor", task.channel))
    return found[0] if found else None


def _disagreement(task: Task, claim: Claim) -> str:
    if claim.channel.lower() != task.channel.lower():
        return f"{claim.path} belongs to channel {claim.channel!r}"
    if task.lease_expires_at is None:
        return f"{claim.path} is there, but {task.path} has no lease"
    if not task.is_owned_by(claim.owner) or task.status != tasks.IN_PROGRESS:
        return f"{claim.path} says {claim.owner}, {task.path} says {task.owner} and {task.status}"
    if clock.parse_stamp(task.lease_expires_at) != clock.parse_stamp(claim.lease_expires_at):
        return f"{claim.path} and {task.path} end at different times"
    return ""


def _candidates(source: Source, task: Task) -> Iterator[Claim]:
    """The claims whose name may be one of this task."""
    head = task.id.lower() + "."
    try:
        listed = source.names("claims")
    except AgentChatError as error:
        raise tasks.storage_invalid("LEASE_STORAGE_INVALID", source, error) from None
    for name in listed:
        if name.lower().startswith(head):
            try:
                claim = read(source, f"claims/{name}")
            except AgentChatError:
                if not _is_of_another(source, task, name[:-5]):
                    raise
                continue
            if claim:
                yield claim


def _is_of_another(source: Source, task: Task, stem: str) -> bool:
    """Whether the lease in the record of another task, such as T-1.2 beside T-1, accounts for a damaged claim."""
    for at in range(len(task.id) + 1, len(stem)):
        if stem[at] == ".":
            try:
                other = tasks.find(source, stem[:at])
            except AgentChatError:
                continue
            if other and other.lease_expires_at is not None and other.is_owned_by(stem[at + 1 :]):
                return True
    return False


def read(source: Source, path: str) -> Claim | None:
    """The claim in a file; None when it is gone. The codes of a damaged record."""
    try:
        data = source.read(path)
    except AgentChatError as error:
        raise tasks.storage_invalid("LEASE_STORAGE_INVALID", source, error, path) from None
    return None if data is None else decode(source.channel.name, path, data)


def decode(channel: str, path: str, data: bytes) -> Claim:
    """The claim in a record's bytes; one AgentChatError names all of its problems, with the first one's code."""
    try:
        record = records.load(data)
    except records.Damaged as error:
        problems = [("LEASE_INVALID_RECORD", str(error))]
    else:
        problems = list(_problems(path, record))
        if not problems:
            return Claim(path, record)
    text = f"{path} is damaged: {'; '.join(text for _, text in problems)}"
    raise AgentChatError(
        problems[0][0], text, ("doctor", channel), {"file": path, "problems": [p[0] for p in problems]}
    )


def _problems(path: str, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    shape = list(_shape(record))
    yield from shape
    if shape:
        return
    if not names.is_name(record["task_id"]):
        yield "LEASE_INVALID_TASK_ID", f"task_id {record['task_id']!r}"
    if not names.is_name(record["channel"]):
        yield "LEASE_INVALID_CHANNEL", f"channel {record['channel']!r}"
    for key in ("owner", "previous_owner"):
        if record[key] is not None and not names.is_agent(record[key]):
            yield "LEASE_INVALID_OWNER", f"{key} {record[key]!r}"
    for key in ("lease_expires_at", "claimed_at", "updated_at", "previous_lease_expires_at"):
        if record[key] is not None and not tasks.is_stamp(record[key]):
            yield "LEASE_INVALID_TIMESTAMP", f"{key} {record[key]!r}"
    if record["recovery_reason"] is not None and not record["recovery_reason"].strip():
        yield "LEASE_INVALID_REASON", "recovery_reason is blank"
    if names.claim_file(record["task_id"], record["owner"]).lower() != path.lower():
        yield "LEASE_RECORD_ID_MISMATCH", f"it is {record['owner']}'s claim of {record['task_id']}"


def _shape(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in FIELDS:
        if key not in record:
            yield "LEASE_REQUIRED_FIELD_MISSING", f"no {key}"
        elif not isinstance(record[key], str) and not (record[key] is None and key in _PREVIOUS):
            yield "LEASE_INVALID_RECORD", f"{key} has the wrong type"
    for key in sorted(set(record) - set(FIELDS)):
        yield "LEASE_UNKNOWN_FIELD", f"unknown field {key!r}"
