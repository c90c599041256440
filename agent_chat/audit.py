"""Audit messages: whom the record of a change concerns (protocol, section 7).

Every change of a task, lease or path lock publishes one message to all. It is news only for the agents
that its `concerns:` key names; for everybody else it neither wakes `wait` nor counts as unread.
Messages of agent-chat-plugin 0.7.5 have no such key: there it is derived from event and body.
"""

from __future__ import annotations

from agent_chat import frontmatter, names

EVENTS = frozenset(
    """task.created task.updated lease.claimed lease.renewed lease.released lease.completed lease.recovered
    path.locked path.lock.unlocked path.lock.renewed path.lock.recovered state.compacted
    lease.transaction.recovered lease.transaction.cleaned
    path.lock.transaction.recovered path.lock.transaction.cleaned
    policy.set request.filed request.approved request.denied agent.joined agent.left
    turn.opened turn.assigned turn.reported turn.returned turn.closed turn.reopened turn.roles
    archive.deleted turn.transaction.recovered turn.transaction.cleaned guard.cut guard.reset""".split()
)
# Statuses that only the program writes: `post --status` refuses them.
RESERVED = (
    *("task.", "lease.", "path.", "state.", "turn.", "event."),
    *("policy.", "request.", "agent.", "archive.", "guard."),
)
_FREEING = ("status", "owner", "depends_on")  # a change of other fields makes no task ready
_AGENT_KEYS = ("owner", "lease_owner", "previous_owner", "created_by")


def concerned(message: frontmatter.Message) -> frozenset[str] | None:
    """The agents (lower case) whom an audit message concerns, or `all`; None when it is an ordinary message."""
    if message.recipients or message.status.lower() not in EVENTS:
        return None
    body = _body(message)
    if body is None:
        return None
    written = message.header.get("concerns")
    if written is not None:
        return frozenset(part.strip(' []"').lower() for part in written.split(",")) - {""}
    return _derived(message, body)


def about(message: frontmatter.Message) -> str:
    """Whom it concerns, as a word of the index: a comma list, `-` for nobody; empty for an ordinary message."""
    found = concerned(message)
    return "" if found is None else ",".join(sorted(found)) or "-"


def _body(message: frontmatter.Message) -> dict[str, object] | None:
    from agent_chat.storage import records

    try:
        body = records.load(message.body.encode("utf-8"))
    except records.Damaged:
        return None
    event = body.get("event")
    return body if isinstance(event, str) and event.lower() == message.status.lower() else None


def _derived(message: frontmatter.Message, body: dict[str, object]) -> frozenset[str]:
    about = {value.lower() for value in map(body.get, _AGENT_KEYS) if isinstance(value, str)}
    status = message.status.lower()
    is_freed = status in ("task.created", "lease.released")
    if status == "task.updated":
        changed = body.get("changed_fields", _FREEING)
        is_freed = isinstance(changed, (list, tuple)) and any(field in changed for field in _FREEING)
    if is_freed and body.get("status") == "open" and body.get("owner") is None and not body.get("waits_for"):
        about.add(names.EVERYONE)
    return frozenset(about - {message.sender.lower()})
