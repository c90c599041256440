"""Turns: of two agents, one directs and the other does, and exactly one of them is responsible at a time.

The record `_turn.json` says who holds the turn. Every change raises its `version` by one and publishes a message;
whoever hands over names the version that it knows, so that nobody acts on a state that is past. A request id makes
a repeat answer what the first one did. Waiting reads only, and a timeout gives nobody the turn.
"""

from __future__ import annotations

from agent_chat import clock, frontmatter, messages, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Union

    from agent_chat.arrivals import Entry
    from agent_chat.change import Change, View
    from agent_chat.channel import Channel

    Source = Union[View, Change]

FIELDS = (
    *("schema_version", "version", "state", "holder", "orchestrator", "worker"),
    *("last_assignment", "last_report", "updated_at"),
)
HANDOVER_FIELDS = ("version", "title", "body", "outcome", "request_id", "at")
SCHEMA_VERSION = 1
OPEN, CLOSED = "open", "closed"
DONE, BLOCKED = "done", "blocked"
OUTCOMES = (DONE, BLOCKED)
EVENTS = frozenset(f"turn.{word}" for word in "opened assigned reported returned closed reopened roles".split())
ASSIGNED, REPORTED, RETURNED = "turn.assigned", "turn.reported", "turn.returned"
BODY_LIMIT = 256 * 1024  # bytes
TITLE_LIMIT = 500  # characters
STILL_RUNNING = (
    "commands that the old session began may still run: look at the working folder before assigning again;"
    " nothing is said about the work"
)


class Turn:
    """A sound record. `last_assignment` and `last_report` are objects of HANDOVER_FIELDS, or None."""

    __slots__ = FIELDS[1:]

    def __init__(self, record: dict[str, Any]) -> None:
        self.version: int = record["version"]
        self.state: str = record["state"]
        self.holder: str = record["holder"]
        self.orchestrator: str = record["orchestrator"]
        self.worker: str = record["worker"]
        self.last_assignment: dict[str, Any] | None = record["last_assignment"]
        self.last_report: dict[str, Any] | None = record["last_report"]
        self.updated_at: str = record["updated_at"]

    def record(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **{name: getattr(self, name) for name in FIELDS[1:]}}

    def encode(self) -> bytes:
        return records.dump(self.record())

    def is_held_by(self, agent: str) -> bool:
        """Whether this agent holds the open turn."""
        return self.state == OPEN and self.holder.lower() == agent.lower()

    def is_worker(self, agent: str) -> bool:
        return self.worker.lower() == agent.lower()

    def is_party(self, agent: str) -> bool:
        return agent.lower() in (self.orchestrator.lower(), self.worker.lower())

    def next(self, now: int, **values: object) -> Turn:
        """The turn after one change."""
        stamp = clock.micro_stamp(now)
        return Turn({**self.record(), **values, "version": self.version + 1, "updated_at": stamp})

    def line(self) -> str:
        if self.state == CLOSED:
            return f"turn v{self.version}: closed ({self.orchestrator} directs, {self.worker} works)"
        return f"turn v{self.version}: {self.holder} has it ({self.orchestrator} directs, {self.worker} works)"


# ---- the record ---------------------------------------------------------------------------------------------


def find(source: Source) -> Turn | None:
    """The turn of a channel; None where none was opened. TURN_INVALID_RECORD."""
    channel = source.channel.name
    try:
        data = source.read(names.TURN_FILE)
    except AgentChatError as error:
        raise _damaged(channel, error.message) from None
    return None if data is None else decode(channel, data)


def load(source: Source) -> Turn:
    """As `find`, but TURN_NOT_FOUND where none was opened."""
    found = find(source)
    if found is None:
        raise not_found(source.channel.name)
    return found


def not_found(channel: str) -> AgentChatError:
    words = ("turn", "open", channel, "--orchestrator", "A", "--worker", "B")
    return AgentChatError("TURN_NOT_FOUND", f"no turn was opened in channel {channel!r}", words)


def decode(channel: str, data: bytes) -> Turn:
    """The turn in the record's bytes; TURN_INVALID_RECORD names all that is wrong with it."""
    try:
        record = records.load(data)
        wrong = list(_problems(record))
    except records.Damaged as error:
        wrong = [str(error)]
    if wrong:
        raise _damaged(channel, "; ".join(wrong))
    return Turn(record)


def _damaged(channel: str, why: str) -> AgentChatError:
    details: dict[str, object] = {"file": names.TURN_FILE, "problems": ["TURN_INVALID_RECORD"]}
    text = f"{names.TURN_FILE} is damaged: {why}"
    return AgentChatError("TURN_INVALID_RECORD", text, ("doctor", channel), details)


def _problems(record: dict[str, Any]) -> Iterator[str]:
    if set(record) != set(FIELDS):
        yield f"its fields are not {', '.join(FIELDS)}"
        return
    if not _is_number(record["schema_version"]) or record["schema_version"] != SCHEMA_VERSION:
        yield f"schema_version {record['schema_version']!a}"
    if not _is_number(record["version"]):
        yield f"version {record['version']!a}"
    roles = [record[name] for name in ("orchestrator", "worker", "holder")]
    if not all(isinstance(name, str) and names.is_agent(name) for name in roles):
        yield "orchestrator, worker or holder is no agent's name"
    elif roles[0].lower() == roles[1].lower() or roles[2] not in roles[:2]:
        yield "orchestrator and worker are one, or the holder is neither"
    if record["state"] not in (OPEN, CLOSED):
        yield f"state {record['state']!a}"
    for name in ("last_assignment", "last_report"):
        if record[name] is not None and not _is_handover(record[name]):
            yield f"{name} is none"
    if not _is_stamp(record["updated_at"]):
        yield f"updated_at {record['updated_at']!a}"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12


def _is_stamp(value: object) -> bool:
    try:
        return isinstance(value, str) and clock.parse_stamp(value) is not None
    except ValueError:
        return False


def _is_handover(found: object) -> bool:
    if not isinstance(found, dict) or set(found) != set(HANDOVER_FIELDS):
        return False
    texts = all(isinstance(found[name], str) for name in ("title", "body"))
    maybe = all(found[name] is None or isinstance(found[name], str) for name in ("outcome", "request_id"))
    return texts and maybe and _is_number(found["version"]) and _is_stamp(found["at"])


# ---- what the two do ------------------------------------------------------------------------------------------


class Handover:
    """An assignment or a report, as typed. `version`: the one that its sender knows."""

    __slots__ = ("body", "outcome", "request_id", "title", "version")

    def __init__(self, version: int, title: str, body: str, outcome: str | None = None, request_id: str = "") -> None:
        self.version = version
        self.title = _title(title)
        self.body = _body(body)
        self.outcome = outcome
        self.request_id = request_id or None
        if request_id and not names.is_id(request_id):
            text = f"{request_id!a} is no request id (1 to 128 of A-Z a-z 0-9 . _ : -)"
            raise AgentChatError("TURN_INVALID_REQUEST_ID", text, ("turn", "--help"))
        if outcome is not None and outcome not in OUTCOMES:
            text = f"{outcome!a} is no outcome ({', '.join(OUTCOMES)})"
            raise AgentChatError("TURN_INVALID_OUTCOME", text, ("turn", "report", "--help"))

    def record(self, version: int, now: int) -> dict[str, Any]:
        values = (version, self.title, self.body, self.outcome, self.request_id, clock.micro_stamp(now))
        return dict(zip(HANDOVER_FIELDS, values))

    def is_as(self, found: dict[str, Any]) -> bool:
        """Whether a recorded one says the same."""
        return (self.title, self.body, self.outcome) == tuple(found.get(name) for name in HANDOVER_FIELDS[1:4])


def _title(text: str) -> str:
    try:
        title = frontmatter.one_line(text)
    except ValueError:
        title = ""
    if not title or len(title) > TITLE_LIMIT:
        text = f"a title is a line of 1 to {TITLE_LIMIT} characters"
        raise AgentChatError("TURN_INVALID_TEXT", text, ("turn", "--help"))
    return title


def _body(text: str) -> str:
    body = text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip()
    try:
        size = len(body.encode("utf-8"))
    except UnicodeEncodeError:
        raise AgentChatError("TURN_INVALID_TEXT", "the body is no valid Unicode text", ("turn", "--help")) from None
    if size > BODY_LIMIT:
        text = f"the body has {size} bytes, at most {BODY_LIMIT} are handed over; name a file instead"
        raise AgentChatError("TURN_INVALID_TEXT", text, ("turn", "--help"))
    return body


def open_turn(channel: Channel, actor: str, orchestrator: str, worker: str) -> Turn:
    """Begin: the orchestrator holds the turn. TURN_EXISTS, TURN_CLOSED, TURN_INVALID_ROLES."""
    check_roles(channel.name, orchestrator, worker)
    with channel.change("turn.opened", actor) as change:
        present = find(change)
        if present is not None:
            if present.state == CLOSED:
                raise closed(channel.name, present)
            words = ("turn", "show", channel.name)
            raise AgentChatError("TURN_EXISTS", f"there is one: {present.line()}", words, {"version": present.version})
        blank: dict[str, Any] = dict.fromkeys(FIELDS)
        blank.update({"version": _last_told(channel), "state": OPEN, "holder": orchestrator})
        blank.update({"orchestrator": orchestrator, "worker": worker})
        turn = Turn(blank).next(change.now)
        record(change, turn, "turn.opened", {}, {orchestrator, worker})
    return turn


def _last_told(channel: Channel) -> int:
    """The highest version that messages tell, or more: when a damaged record was put aside, counting goes on."""
    entries = messages.entries(channel)
    told = [int(number) for entry in entries for number in [_told_by(entry)] if number]
    return max(told) + sum(entry.status == "request.approved" for entry in entries) if told else 0


def _told_by(entry: Entry) -> str:
    """The version in the name of a turn's audit message; empty for any other."""
    event, _, number = entry.name.removesuffix(".md").rpartition("-")
    is_turn = entry.status in EVENTS and event.endswith("-" + names.slug(entry.status))
    return number if is_turn and number.isdigit() and len(number) <= 12 else ""


def check_roles(channel: str, orchestrator: str, worker: str) -> None:
    for name in (orchestrator, worker):
        names.agent(name)
    if orchestrator.lower() == worker.lower():
        words = ("turn", "show", channel)
        raise AgentChatError("TURN_INVALID_ROLES", "one agent cannot be orchestrator and worker", words)


def record(change: Change, turn: Turn, event: str, body: dict[str, object], about: set[str]) -> None:
    """Put the turn into the change, with its audit message."""
    change.put(names.TURN_FILE, turn.encode())
    change.audit(event, {"turn": str(turn.version)}, {**said(turn), **body}, about)


def said(turn: Turn) -> dict[str, object]:
    """What every message about a turn says of it."""
    return {name: getattr(turn, name) for name in ("version", "state", "holder", "orchestrator", "worker")}


def assign(channel: Channel, actor: str, handover: Handover) -> tuple[Turn, dict[str, Any], bool]:
    """Hand the turn to the worker; the turn now, the assignment, and whether it had been made before."""
    return _hand_over(channel, actor, handover, ASSIGNED)


def report(channel: Channel, actor: str, handover: Handover) -> tuple[Turn, dict[str, Any], bool]:
    """Hand the turn back; as `assign`."""
    return _hand_over(channel, actor, handover, REPORTED)


def _hand_over(channel: Channel, actor: str, handover: Handover, event: str) -> tuple[Turn, dict[str, Any], bool]:
    names.agent(actor)
    with channel.change(event, actor) as change:
        turn = load(change)
        known = _recorded(change, turn, event, handover)
        if known:
            return turn, known, True
        _check(channel.name, turn, actor, handover.version, event)
        receiver = turn.worker if event == ASSIGNED else turn.orchestrator
        made = handover.record(turn.version + 1, change.now)
        field = "last_assignment" if event == ASSIGNED else "last_report"
        turn = turn.next(change.now, holder=receiver, **{field: made})
        record(change, turn, event, {name: made[name] for name in HANDOVER_FIELDS[1:5]}, {receiver})
    return turn, made, False


def _check(channel: str, turn: Turn, actor: str, version: int, event: str) -> None:
    """TURN_CLOSED, TURN_STALE, TURN_NOT_YOURS."""
    if turn.state == CLOSED:
        raise closed(channel, turn)
    details: dict[str, object] = {"version": turn.version, "holder": turn.holder}
    if version != turn.version:
        text = f"you know version {version}, and {turn.line()}; read what came before you hand anything over"
        raise AgentChatError("TURN_STALE", text, ("turn", "show", channel), details)
    is_theirs = turn.is_worker(actor) == (event == REPORTED) and turn.is_party(actor)
    if not turn.is_held_by(actor) or not is_theirs:
        does = f"{turn.orchestrator} assigns" if event == ASSIGNED else f"{turn.worker} reports"
        words = ("turn", "wait", channel, "--as", actor)
        raise AgentChatError("TURN_NOT_YOURS", f"{turn.line()}, and {does}", words, details)


def closed(channel: str, turn: Turn) -> AgentChatError:
    text = f"{turn.line()}; only a person opens it again"
    return AgentChatError("TURN_CLOSED", text, ("turn", "reopen", channel), {"version": turn.version})


def _recorded(change: Change, turn: Turn, event: str, handover: Handover) -> dict[str, Any] | None:
    """What this request id did before; None when it is new. TURN_REQUEST_MISMATCH when it said something else.

    The record holds the last of each kind; what came before it stands in the audit messages.
    """
    if not handover.request_id:
        return None
    last = turn.last_assignment if event == ASSIGNED else turn.last_report
    found = last if last and last["request_id"] == handover.request_id else None
    if found is None and handover.version != turn.version:  # a repeat knows an older version
        found = _published(change, event, handover.request_id)
    if found is not None and not handover.is_as(found):
        text = f"request {handover.request_id} said something else in version {found['version']}"
        words = ("turn", "show", change.channel.name)
        raise AgentChatError("TURN_REQUEST_MISMATCH", text, words, {"version": found["version"]})
    return found


def _published(change: Change, event: str, request_id: str) -> dict[str, Any] | None:
    """The handover in the audit message of a request id, the newest first."""
    for entry in reversed(messages.entries(change.channel)):
        if entry.status != event or entry.sender.lower() != change.actor.lower():
            continue
        message = change.channel.log.message(entry.name)
        if message is None:
            continue
        try:
            body = records.load(message.body.encode("utf-8"))
        except records.Damaged:
            continue
        if body.get("request_id") == request_id and _is_number(body.get("version")):
            return {name: body.get(name) for name in HANDOVER_FIELDS} | {"at": body.get("updated_at")}
    return None


def give_back(channel: Channel, actor: str, known: int) -> Turn:
    """A worker that waits without having reported gives the turn back; the turn now. Nothing when it has not got it."""
    with channel.change(RETURNED, actor) as change:
        turn = load(change)
        if turn.is_held_by(actor) and turn.is_worker(actor) and turn.version == known:
            turn = turn.next(change.now, holder=turn.orchestrator)
            record(change, turn, RETURNED, {"notice": STILL_RUNNING}, {turn.orchestrator})
    return turn


# ---- what a person decides ------------------------------------------------------------------------------------


def close(change: Change) -> Turn:
    """The turn that is closed now; the same when it was."""
    turn = load(change)
    return turn if turn.state == CLOSED else turn.next(change.now, state=CLOSED)


def reopen(change: Change) -> Turn:
    """The turn that is open again, and the orchestrator's; the same when it was open."""
    turn = load(change)
    return turn if turn.state == OPEN else turn.next(change.now, state=OPEN, holder=turn.orchestrator)


def cast(change: Change, orchestrator: str, worker: str) -> Turn:
    """Other roles, an empty name leaves one as it is; the turn is the orchestrator's. TURN_INVALID_ROLES."""
    turn = load(change)
    orchestrator, worker = orchestrator or turn.orchestrator, worker or turn.worker
    check_roles(change.channel.name, orchestrator, worker)
    if (orchestrator, worker) == (turn.orchestrator, turn.worker):
        return turn
    return turn.next(change.now, holder=orchestrator, orchestrator=orchestrator, worker=worker)


def take_from(change: Change, agent: str) -> Turn | None:
    """What a granted takeover makes of an open turn that the old session held as the worker: the orchestrator's."""
    turn = find(change)
    if turn is None or not turn.is_held_by(agent) or not turn.is_worker(agent):
        return None
    return turn.next(change.now, holder=turn.orchestrator)
