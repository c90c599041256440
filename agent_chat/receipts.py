"""What became of a message, for each of its recipients; and what expired before somebody saw it.

Derived from cursors, late entries, presence, registrations and the policy. Only one thing cannot be derived: whether
a cursor that is beyond an expired message passed it over. So `post --expires-in` makes an empty
`.cursors/<sender>.expiring/<message name>`, a read that passes the message over when it has expired adds
`<message name>.<agent>` there, and the sender's next read after the expiry takes all of it and tells.
"""

from __future__ import annotations

from agent_chat import arrivals, clock, cursors, log, messages, names, people, policy, presence
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message

PASSED, WAITING, PARKED, EXPIRED = "passed", "waiting", "parked", "expired"  # shown; at once; later; never
REFUSED, UNKNOWN = "refused", "unknown"  # by the policy; nobody has heard of this name


def delivery(channel: Channel, message: Message) -> dict[str, str]:
    """The verdict for each recipient, in the spelling by which it is known."""
    present = {name.lower() for name in presence.waiting(channel)}
    missed = _passed_over(channel, message)
    has_expired = arrivals.has_expired(message.header.get("expires_at", ""), clock.now())
    latest = messages.last_number(channel)
    found: dict[str, str] = {}
    for name in recipients(channel, message):
        low = name.lower()
        if low in missed:
            found[name] = EXPIRED
        elif _has_passed(channel, name, message, latest):
            found[name] = PASSED
        elif has_expired:
            found[name] = EXPIRED
        elif _is_refused(channel, name):
            found[name] = REFUSED
        elif low in present:
            found[name] = WAITING
        else:
            found[name] = PARKED if _has_joined(channel, name) or messages.is_known(channel, name) else UNKNOWN
    return found


def recipients(channel: Channel, message: Message) -> list[str]:
    """Whom it is for: those it names, else whoever is known here; of an audit message those it concerns."""
    entry = arrivals.of_message(message)
    if entry.recipients:
        named = [part.strip() for part in message.to.split(",")]
    elif entry.about and names.EVERYONE not in entry.about.split(","):
        named = entry.about.split(",")
    else:
        joined, _ = channel.look("turn", people.everything)
        named = [*channel.meta.members, *(one.agent for one in joined), *messages.readers(channel)]
    found: dict[str, str] = {message.sender.lower(): ""}
    for name in named:
        if names.is_name(name):
            found.setdefault(name.lower(), name)
    return [name for name in found.values() if name]


def _has_passed(channel: Channel, name: str, message: Message, latest: int) -> bool:
    try:
        at = min(channel.cursor_of(name), latest)
        return at >= message.number and message.name not in cursors.late_names(channel, name)
    except AgentChatError:
        return False  # a damaged cursor shows nothing


def _is_refused(channel: Channel, name: str) -> bool:
    if not channel.folder.exists(names.POLICY_FILE):
        return False
    said = policy.load(channel.folder, channel.name)
    if said.value("access") == policy.OFF:
        return True
    return said.value("reach") == "joined" and not _has_joined(channel, name)


def _has_joined(channel: Channel, name: str) -> bool:
    try:
        return people.registered(channel, name) is not None
    except AgentChatError:
        return False  # a damaged registration lets nobody in


# ---- what expired undelivered --------------------------------------------------------------------------------


class Undelivered:
    """A message that expired before some of its recipients saw it."""

    __slots__ = ("missed", "number")

    def __init__(self, number: int, missed: list[str]) -> None:
        self.number = number
        self.missed = missed

    def record(self) -> dict[str, object]:
        return {"seq": self.number, "to": self.missed}


def undelivered(channel: Channel, marks: Iterable[str], latest: int) -> tuple[list[Undelivered], list[str]]:
    """What a sender is to be told, by its `.expiring/`, and which of these marks are done with."""
    told: list[Undelivered] = []
    done: list[str] = []
    now, marks = clock.now(), sorted(marks)
    for name in marks:
        number = names.message_number(name)
        message = channel.log.message(name) if number else None
        if message is None:
            if 0 < number <= latest and name in channel.log.unreadable:
                done.append(name)  # never published, or taken away
            continue
        if not arrivals.has_expired(message.header.get("expires_at", ""), now):
            continue
        missed = [to for to, verdict in delivery(channel, message).items() if verdict == EXPIRED]
        if missed:
            told.append(Undelivered(number, missed))
        done += [mark for mark in marks if mark == name or mark.startswith(name + ".")]
    return told, done


def forget(channel: Channel, agent: str, done: Iterable[str]) -> None:
    """Take marks away that were told."""
    with channel.folder.sub(f"{log.CURSORS}/{names.expiring_folder(agent)}") as folder:
        for name in done:
            folder.remove(name)


def _passed_over(channel: Channel, message: Message) -> frozenset[str]:
    """Who passed over it when it had expired, as far as its sender has not been told."""
    if "expires_at" not in message.header or not names.is_agent(message.sender):
        return frozenset()
    try:
        with channel.folder.sub(f"{log.CURSORS}/{names.expiring_folder(message.sender)}") as folder:
            listed = folder.names()
    except (FileNotFoundError, AgentChatError):
        return frozenset()
    head = message.name + "."
    return frozenset(name[len(head) :] for name in listed if name.startswith(head))
