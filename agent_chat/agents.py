"""Who is here and what they do: every agent of a channel at a glance, and one of them closely.

Derived at each call from registrations, held locks, messages, cursors and records; nothing is stored.
"""

from __future__ import annotations

from agent_chat import cursors, events, messages, names, path_locks, people, policy, presence, tasks, turns
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_chat.arrivals import Entry
    from agent_chat.channel import Channel
    from agent_chat.path_locks import Lock
    from agent_chat.people import Session
    from agent_chat.tasks import Task
    from agent_chat.turns import Turn

RESTING = ("idle", "stopped")
_STATUS_EVENT = "event.status"
_SHOWN = 4  # messages in a digest


class Agent:
    """What is known of one agent. `waiting`: since when; None when it does not wait."""

    __slots__ = ("last", "locks", "name", "session", "status", "tasks", "turn", "unread", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.session: Session | None = None
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
    if not is_only_joined(channel):
        listed.update((name.lower(), name) for name in channel.meta.members if names.is_agent(name))
    found = {low: Agent(name) for low, name in listed.items()}
    for session in sessions:
        found[session.agent.lower()].session = session
    _look(channel, found, damaged)
    return sorted(found.values(), key=lambda one: one.name.lower()), damaged


def one(channel: Channel, name: str) -> Agent:
    """One agent. AGENT_NOT_FOUND for who is neither a member nor has joined, posted or read here; REACH_REFUSED."""
    names.agent(name)
    if is_only_joined(channel):
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


def is_only_joined(channel: Channel) -> bool:
    """Whether the policy lets only joined agents be reached; an unreadable one hides nobody from a person."""
    if not channel.folder.exists(names.POLICY_FILE):
        return False
    try:
        return policy.load(channel.folder, channel.name).value("reach") == "joined"
    except AgentChatError:
        return False


def _look(channel: Channel, found: dict[str, Agent], damaged: list[AgentChatError]) -> None:
    """Fill in what the channel says about these."""
    for name, since in presence.waiting(channel).items():
        if name.lower() in found:
            found[name.lower()].waiting = since
    _look_at_messages(channel, found)
    for agent in found.values():
        try:
            agent.unread = len(cursors.look(channel, agent.name).entries)
        except AgentChatError:
            agent.unread = None  # `doctor` names the cure
    held, more = channel.look("task", tasks.everything)
    locks, worse = channel.look("path", path_locks.survey)
    damaged += [*more, *worse]
    for task in held:
        agent_of = found.get((task.owner or "").lower())
        if agent_of and task.status not in tasks.FINAL:
            agent_of.tasks.append(task)
    for lock in locks:
        if lock.owner.lower() in found:
            found[lock.owner.lower()].locks.append(lock)
    try:
        turn = channel.look("turn", turns.find)
    except AgentChatError as error:
        damaged.append(error)
    else:
        if turn and turn.state == turns.OPEN and turn.holder.lower() in found:
            found[turn.holder.lower()].turn = turn


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
