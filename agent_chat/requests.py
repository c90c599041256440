"""What agents ask of the operator: `requests/R-<n>.json`, from `filed` to a person's decision.

A request changes nothing by itself. `decisions.py` carries out what a person approved.
"""

from __future__ import annotations

from agent_chat import change as changes
from agent_chat import clock, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Union

    from agent_chat.change import Change, View
    from agent_chat.channel import Channel

    Source = Union[View, Change]

FIELDS = ("schema_version", "id", "kind", "agent", "wants", "reason", "state", "filed_at", "decided_at", "decision")
SCHEMA_VERSION = 1
TAKEOVER, CLOSE, REOPEN, ROLES = "takeover", "turn.close", "turn.reopen", "turn.roles"
KINDS = (TAKEOVER, CLOSE, REOPEN, ROLES)
OPEN, APPROVED, DENIED = "open", "approved", "denied"
STATES = (OPEN, APPROVED, DENIED)
REASON_LIMIT = 2000  # characters


class Request:
    """A sound request. `agent`: who asks, or whose name is asked for; `wants`: the details, all texts."""

    __slots__ = FIELDS[1:]

    def __init__(self, record: dict[str, Any]) -> None:
        self.id: str = record["id"]
        self.kind: str = record["kind"]
        self.agent: str = record["agent"]
        self.wants: dict[str, str] = record["wants"]
        self.reason: str = record["reason"]
        self.state: str = record["state"]
        self.filed_at: str = record["filed_at"]
        self.decided_at: str | None = record["decided_at"]
        self.decision: str | None = record["decision"]  # why it was denied

    def record(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **{name: getattr(self, name) for name in FIELDS[1:]}}

    def encode(self) -> bytes:
        return records.dump(self.record())

    def decided(self, now: int, state: str, decision: str | None) -> Request:
        stamp = clock.micro_stamp(now)
        return Request({**self.record(), "state": state, "decided_at": stamp, "decision": decision})

    def line(self) -> str:
        """What is asked for, for people."""
        wants = " ".join(f"{key}={value}" for key, value in self.wants.items() if value)
        return f"{self.kind} {self.agent} {wants}".rstrip()


def file(
    channel: Channel, kind: str, agent: str, wants: dict[str, str], reason: str, actor: str, about: Iterable[str]
) -> Request:
    """Ask for a person's decision; the same asked again is the request that is open already."""
    with channel.change("request.filed", actor) as change:
        found, _ = everything(change)
        for one in found:
            same = (one.kind, one.agent.lower(), one.wants) == (kind, agent.lower(), wants)
            if one.state == OPEN and same:
                return one
        last = max((names.request_number(name[:-5]) for name in change.names(names.REQUESTS)), default=0)
        record = dict.fromkeys(FIELDS)
        record.update({"id": f"R-{last + 1}", "kind": kind, "agent": agent, "wants": wants, "reason": reason.strip()})
        record.update({"state": OPEN, "filed_at": clock.micro_stamp(change.now)})
        request = Request(record)
        change.put(names.request_file(request.id), request.encode())
        body: dict[str, object] = {"kind": kind, "agent": agent, "wants": wants, "reason": request.reason}
        change.audit("request.filed", {"request_id": request.id}, body, about)
    return request


def check_reason(reason: str, *words: str) -> str:
    """REQUEST_INVALID_REASON for a blank or an endless one."""
    if not reason.strip() or len(reason) > REASON_LIMIT or not is_text(reason):
        text = f"a person decides by the reason: give one, of at most {REASON_LIMIT} characters"
        raise AgentChatError("REQUEST_INVALID_REASON", text, (*words, "--reason", "WHY"))
    return reason.strip()


def is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# ---- records ------------------------------------------------------------------------------------------------


def load(source: Source, request_id: str) -> Request:
    """A request by its id. REQUEST_NOT_FOUND, REQUEST_INVALID_RECORD."""
    request_id = request_id.upper()
    path, channel = names.request_file(request_id), source.channel.name
    data = None
    if names.request_number(request_id):
        try:
            data = source.read(path)
        except AgentChatError as error:
            raise _damaged(channel, path, error.message) from None
    if data is None:
        text = f"no request {request_id!a} in channel {channel!r}"
        raise AgentChatError("REQUEST_NOT_FOUND", text, ("requests", channel))
    return decode(channel, path, data)


def everything(source: Source) -> tuple[list[Request], list[AgentChatError]]:
    """All sound requests by number, and what is wrong with the others."""
    try:
        found, damaged = changes.sound(source, names.REQUESTS, decode)
    except AgentChatError as error:
        return [], [_damaged(source.channel.name, names.REQUESTS, error.message)]
    return sorted(found, key=lambda one: names.request_number(one.id)), damaged


def decode(channel: str, path: str, data: bytes | AgentChatError | OSError) -> Request:
    """The request in a record's bytes; REQUEST_INVALID_RECORD names all that is wrong with it."""
    if not isinstance(data, bytes):
        raise _damaged(channel, path, str(data))
    try:
        record = records.load(data)
        wrong = list(_problems(path, record))
    except records.Damaged as error:
        wrong = [str(error)]
    if wrong:
        raise _damaged(channel, path, "; ".join(wrong))
    return Request(record)


def _problems(path: str, record: dict[str, Any]) -> Iterator[str]:
    if set(record) != set(FIELDS):
        yield f"its fields are not {', '.join(FIELDS)}"
        return
    if record["schema_version"] != SCHEMA_VERSION or isinstance(record["schema_version"], bool):
        yield f"schema_version {record['schema_version']!a}"
    if not isinstance(record["id"], str) or names.request_file(record["id"]) != path:
        yield f"id {record['id']!a}"
    if record["kind"] not in KINDS:
        yield f"kind {record['kind']!a}"
    if not isinstance(record["agent"], str) or not names.is_agent(record["agent"]):
        yield f"agent {record['agent']!a}"
    wants = record["wants"]
    if not isinstance(wants, dict) or not all(isinstance(value, str) and len(value) <= 200 for value in wants.values()):
        yield "wants is no object of texts"
    if not isinstance(record["reason"], str) or record["state"] not in STATES:
        yield "reason or state is none"
    if not all(record[name] is None or isinstance(record[name], str) for name in ("decided_at", "decision")):
        yield "decided_at or decision is no text"
    for name in ("filed_at", "decided_at"):
        try:
            if record[name] is not None or name == "filed_at":
                clock.parse_stamp(str(record[name]))
        except ValueError:
            yield f"{name} {record[name]!a}"


def _damaged(channel: str, path: str, why: str) -> AgentChatError:
    details: dict[str, object] = {"file": path, "problems": ["REQUEST_INVALID_RECORD"]}
    return AgentChatError("REQUEST_INVALID_RECORD", f"{path} is damaged: {why}", ("doctor", channel), details)
