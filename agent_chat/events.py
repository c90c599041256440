"""Capability and status events: what an agent's harness can do, and whether the agent is free.

An event is an ordinary message with status `event.capability` or `event.status` and one line of JSON,
strict in both directions: schemas/agent-chat-event.schema.json says the same as the tables here.
"""

from __future__ import annotations

from agent_chat import clock, frontmatter, messages, names, tasks
from agent_chat.errors import AgentChatError
from agent_chat.storage import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_chat.arrivals import Entry
    from agent_chat.channel import Channel

CAPABILITY, STATUS = "capability", "status"
TYPES = (CAPABILITY, STATUS)
PRIMITIVES = ("messages", "cursors", "wait", "tasks", "dependencies", "leases", "path_locks", "state_summary")
STATUSES = ("ready", "busy", "idle", "blocked", "stopped")
SCHEMA_VERSION = 1
_COMMON = ("agent", "event", "harness", "schema_version", "ts")
FIELDS = {CAPABILITY: (*_COMMON, "primitives"), STATUS: (*_COMMON, "status")}
OPTIONAL = {CAPABILITY: (), STATUS: ("detail",)}
TEXT_LIMIT = {"harness": 100, "detail": 2000, "agent": 64}  # characters


def post(channel: Channel, event: dict[str, object]) -> tuple[int, str]:
    """Publish an event; its number and file name. The EVENT_* code of the first thing wrong with it."""
    kind, agent = str(event.get("event")), event.get("agent")
    event = {**event, "schema_version": SCHEMA_VERSION, "ts": clock.seconds_stamp(clock.now())}
    check(event)
    body = records.line(event)
    draft = messages.Draft(str(agent), f"event:{kind}", body, status=f"event.{kind}")
    number, name, _ = messages.post(channel, draft, by_program=True)
    return number, name


def check(event: dict[str, object]) -> None:
    """EVENT_* when it is no event."""
    if event.get("schema_version") != SCHEMA_VERSION or isinstance(event.get("schema_version"), bool):
        raise _refusal("EVENT_UNSUPPORTED_VERSION", f"schema_version {event.get('schema_version')!r}")
    kind = event.get("event")
    if kind not in TYPES:
        raise _refusal("EVENT_INVALID_TYPE", f"event {kind!r} is none of {', '.join(TYPES)}")
    needed, allowed = FIELDS[str(kind)], (*FIELDS[str(kind)], *OPTIONAL[str(kind)])
    for key in sorted(set(event) - set(allowed)):
        raise _refusal("EVENT_UNKNOWN_FIELD", f"a {kind} event has no {key!r}")
    for key in needed:
        if key not in event:
            raise _refusal("EVENT_REQUIRED_FIELD_MISSING", f"a {kind} event needs {key!r}")
    for key, limit in TEXT_LIMIT.items():
        if key in event:
            _check_text(key, event[key], limit)
    if not isinstance(event["ts"], str) or not tasks.is_stamp(event["ts"]):
        raise _refusal("EVENT_INVALID_TIMESTAMP", f"ts {event['ts']!r}")
    if kind == STATUS and event["status"] not in STATUSES:
        raise _refusal("EVENT_INVALID_STATUS", f"status {event['status']!r} is none of {', '.join(STATUSES)}")
    if kind == CAPABILITY:
        _check_primitives(event["primitives"])


def _check_text(key: str, value: object, limit: int) -> None:
    try:
        is_right = isinstance(value, str) and 0 < len(value) <= limit and frontmatter.one_line(value) == value
    except ValueError:
        is_right = False
    if not is_right or (key == "agent" and not names.is_agent(str(value))):
        raise _refusal("EVENT_INVALID_TEXT", f"{key} {value!a} is no line of 1 to {limit} characters")


def _check_primitives(found: object) -> None:
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise _refusal("EVENT_INVALID_PRIMITIVES", "primitives is no list of words with at least one")
    for one in found:
        if one not in PRIMITIVES:
            raise _refusal("EVENT_UNKNOWN_PRIMITIVE", f"{one!r} is none of {', '.join(PRIMITIVES)}")
        if found.count(one) > 1:
            raise _refusal("EVENT_DUPLICATE_PRIMITIVE", f"{one!r} stands twice")


def _refusal(code: str, text: str) -> AgentChatError:
    return AgentChatError(code, text, ("event", "post", "--help"))


def is_event(message: frontmatter.Message | Entry) -> bool:
    return message.status.lower() in ("event.capability", "event.status")


def decode(channel: str, message: frontmatter.Message) -> dict[str, object]:
    """The event in a message for which `is_event` holds. EVENT_* names the message."""
    try:
        try:
            event = records.load(message.body.encode("utf-8"))
        except records.Damaged as error:
            is_json = str(error).startswith("no JSON object")
            raise _refusal("EVENT_INVALID_RECORD" if is_json else "EVENT_MALFORMED_BODY", str(error)) from None
        check(event)
        if f"event.{event['event']}" != message.status.lower():
            raise _refusal("EVENT_INVALID_TYPE", f"status {message.status!r} with a {event['event']} event")
        if str(event["agent"]).lower() != message.sender.lower():
            raise _refusal("EVENT_IDENTITY_MISMATCH", f"{message.sender} speaks as {event['agent']}")
    except AgentChatError as error:
        text = f"{channel}/{message.name}: {error.message}"
        raise AgentChatError(error.code, text, ("show", channel, str(message.number))) from None
    return event


def read(
    channel: Channel, kind: str = "", sender: str = "", latest: bool = False
) -> tuple[list[dict[str, object]], list[AgentChatError]]:
    """The events in order, and what is wrong with the others. `latest`: each agent's last of each type only."""
    if kind and kind not in TYPES:
        raise _refusal("EVENT_INVALID_TYPE", f"--type {kind!r} is none of {', '.join(TYPES)}")
    found: list[dict[str, object]] = []
    bad = []
    for message in messages.everything(channel, is_event):
        if sender and message.sender.lower() != sender.lower():
            continue
        if kind and message.status.lower() != f"event.{kind}":
            continue
        try:
            found.append(decode(channel.name, message))
        except AgentChatError as error:
            bad.append(error)
    return (_latest(found) if latest else found), bad


def _latest(found: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    last = {(str(event["agent"]).lower(), event["event"]): at for at, event in enumerate(found)}
    return [event for at, event in enumerate(found) if last[(str(event["agent"]).lower(), event["event"])] == at]
