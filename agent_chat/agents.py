"""Who is here and what they do: every agent of a channel at a glance, and one of them closely.

Derived at each call from registrations, held locks, messages, cursors and records; nothing is stored.
"""

from __future__ import annotations

import os

from agent_chat import (
    audit,
    cursors,
    events,
    frontmatter,
    hosts,
    messages,
    names,
    path_locks,
    people,
    presence,
    tasks,
    turns,
)
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_chat.arrivals import Entry
    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message
    from agent_chat.path_locks import Lock
    from agent_chat.people import Session
    from agent_chat.tasks import Task
    from agent_chat.turns import Turn

RESTING = ("idle", "stopped")
_STATUS_EVENT = "event.status"
_SHOWN, _WORK = 4, 8  # messages, and tasks and locks, in a digest


class Agent:
    """What is known of one agent. `waiting`: since when; None when it does not wait."""

    __slots__ = ("host", "last", "locks", "name", "session", "status", "tasks", "turn", "unread", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.session: Session | None = None
        self.host = ""  # here or away, as the hooks of its host say; empty where none did
        self.waiting: str | None = None
        self.status: dict[str, Any] | None = None  # its last status event
        self.last: list[Entry] = []  # its last messages, the oldest first
        self.unread: int | None = None  # None when its cursor cannot be read
        self.tasks: list[Task] = []
        self.locks: list[Lock] = []
        self.turn: Turn | None = None  # the open turn that it holds

    def shown(self) -> dict[str, object]:
        last = self.last[-1] if self.last else None
        return {
            "agent": self.name,
            "joined": self.session.shown() if self.session else None,
            "host": self.host or None,
            "waiting": self.waiting is not None,
            "waiting_since": self.waiting or None,
            "status": self.status,
            "last": _entry(last) if last else None,
            "unread": self.unread,
            "tasks": [task.id for task in self.tasks],
            "locks": [lock.lock_id for lock in self.locks],
            "turn": self.turn.version if self.turn else None,
        }

    @property
    def state(self) -> str:
        """The word of its last status event; empty for none."""
        return str(self.status["status"]) if self.status else ""


def _entry(entry: Entry) -> dict[str, object]:
    return {"seq": entry.number, "status": entry.status, "ts": entry.ts, "file": entry.name}


def everybody(channel: Channel) -> tuple[list[Agent], list[AgentChatError]]:
    """The members and joined agents, and the damaged records that may hide something about them.

    Where only the joined are reached, nobody else is listed.
    """
    sessions, damaged = channel.look("turn", people.everything)
    listed = {session.agent.lower(): session.agent for session in sessions}
    if not channel.is_only_joined():
        listed.update((name.lower(), name) for name in channel.meta.members if names.is_agent(name))
    found = {low: Agent(name) for low, name in listed.items()}
    for session in sessions:
        found[session.agent.lower()].session = session
    _look(channel, found, damaged)
    return sorted(found.values(), key=lambda one: one.name.lower()), damaged


def one(channel: Channel, name: str) -> Agent:
    """One agent. AGENT_NOT_FOUND for who is neither a member nor has joined, posted or read here; REACH_REFUSED."""
    names.agent(name)
    if channel.is_only_joined():
        people.need_joined(channel, name, is_self=False)
    session = channel.look("turn", lambda view: people.load(view, name))
    if session is None and not messages.is_known(channel, name):
        text = f"nobody named {name!r} is in channel {channel.name!r}"
        raise AgentChatError("AGENT_NOT_FOUND", text, ("agents", channel.name))
    member = (other for other in channel.meta.members if other.lower() == name.lower())
    agent = Agent(session.agent if session else next(member, name))
    agent.session = session
    _look(channel, {name.lower(): agent}, [])
    return agent


def _look(channel: Channel, found: dict[str, Agent], damaged: list[AgentChatError]) -> None:
    """Fill in what the channel says about these."""
    for name, since in presence.waiting(channel).items():
        if name.lower() in found:
            found[name.lower()].waiting = since
    for low, word in hosts.presence(os.path.dirname(channel.folder.path)).items():
        if low in found:
            found[low].host = word
    _look_at_messages(channel, found)
    for agent in found.values():
        try:
            agent.unread = len(cursors.look(channel, agent.name).entries)
        except AgentChatError:
            agent.unread = None  # `doctor` names the cure
    for look in (_look_at_tasks, _look_at_locks, _look_at_turn):
        try:
            damaged += look(channel, found)
        except AgentChatError as error:  # what cannot be read at all hides nothing else
            damaged.append(error)


def _look_at_tasks(channel: Channel, found: dict[str, Agent]) -> list[AgentChatError]:
    listed, damaged = channel.look("task", tasks.everything)
    for task in listed:
        agent = found.get((task.owner or "").lower())
        if agent and task.status not in tasks.FINAL:
            agent.tasks.append(task)
    return damaged


def _look_at_locks(channel: Channel, found: dict[str, Agent]) -> list[AgentChatError]:
    listed, damaged = channel.look("path", path_locks.survey)
    for lock in listed:
        if lock.owner.lower() in found:
            found[lock.owner.lower()].locks.append(lock)
    return damaged


def _look_at_turn(channel: Channel, found: dict[str, Agent]) -> list[AgentChatError]:
    turn = channel.look("turn", turns.find)
    if turn and turn.state == turns.OPEN and turn.holder.lower() in found:
        found[turn.holder.lower()].turn = turn
    return []


def _look_at_messages(channel: Channel, found: dict[str, Agent]) -> None:
    for entry in reversed(messages.entries(channel)):
        agent = found.get(entry.sender.lower())
        if agent is None:
            continue
        if len(agent.last) < _SHOWN:
            agent.last.insert(0, entry)
        if agent.status is None and entry.status.lower() == _STATUS_EVENT:
            agent.status = _event(channel, entry)


def _event(channel: Channel, entry: Entry) -> dict[str, Any] | None:
    message = channel.log.message(entry.name)
    try:
        return events.decode(channel.name, message) if message else None
    except AgentChatError:
        return None  # `event read` and `doctor` name it; an older one counts


# ---- one agent closely ------------------------------------------------------------------------------------------


def is_resting(agent: Agent, above: int) -> bool:
    """Whether it says that it rests, or has written a message numbered above this."""
    return agent.state in RESTING or bool(agent.last and agent.last[-1].number > above)


def last_number(agent: Agent) -> int:
    return agent.last[-1].number if agent.last else 0


def digest(channel: Channel, agent: Agent, limit: int) -> str:
    """What it does, in at most `limit` bytes: its open work, and its last messages as far as there is room."""
    work = [_headline(channel, agent), *_work(agent)]
    said = [found for entry in agent.last for found in [channel.log.message(entry.name)] if found]
    for excerpt in (400, 200, 100, 40, 0):
        text = "\n".join([*work, *(_said(message, excerpt) for message in said)])
        if len(text.encode("utf-8")) <= limit:
            return text
    return text.encode("utf-8")[:limit].decode("utf-8", "ignore")


def _headline(channel: Channel, agent: Agent) -> str:
    parts = ["not waiting" if agent.waiting is None else f"waiting since {agent.waiting}".removesuffix(" since ")]
    if agent.status:
        detail = f" ({_short(str(agent.status['detail']), 200)})" if agent.status.get("detail") else ""
        parts.append(f"{agent.state}{detail} at {agent.status['ts']}")
    if agent.session:
        parts.append(f"joined {agent.session.joined_at[:19]}")
    if agent.turn:
        parts.append(f"holds the turn (v{agent.turn.version})")
    if agent.unread:
        parts.append(f"{agent.unread} unread")
    return f"{agent.name} in {channel.name}: {'; '.join(parts)}"


def _work(agent: Agent) -> list[str]:
    lines = []
    for task in agent.tasks:
        lease = f" until {task.lease_expires_at[:19]}" if task.lease_expires_at else ""
        lines.append(f"task {task.id} [{task.status}]{lease} {_short(task.title, 80)}")
    for lock in agent.locks:
        lines.append(f"lock {_short(lock.shown_paths(), 120)} until {lock.expires_at[:19]}")
    if len(lines) > _WORK:
        lines = [*lines[:_WORK], f"and {len(lines) - _WORK} more"]
    return lines


def _said(message: Message, excerpt: int) -> str:
    """A message in a line or two. Its text is indented, so that it cannot look like a line of ours."""
    head = f"#{message.number} {message.ts[:19]} [{_short(message.status, 40)}] {_short(message.title, 100)}"
    is_audit = audit.concerned(message) is not None
    return head if is_audit or not excerpt else f"{head}\n  {_short(message.body, excerpt)}"


def _short(text: str, limit: int) -> str:
    """The beginning of a text, as one line."""
    line = frontmatter.one_line(text.replace("\n", " "))
    return line if len(line) <= limit else line[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
