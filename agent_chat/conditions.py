"""What must hold for a post: `--request-id`, `--if-latest`, `--if-read`. Imported by posts that ask for one.

All of it is decided under the channel's lock, in which the message is then published: of two agents that post
with a condition at once, the second sees what the first one wrote. A request id is known by the arrival index,
and what the index says is compared with the file. Not promised where the file system has no locks: there two
repeats at the very same moment may both be posted, and what depends on the newest message is refused.
"""

from __future__ import annotations

from agent_chat import archived, arrivals, cursors, names
from agent_chat.channel import Unlocked
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.arrivals import Entry
    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message
    from agent_chat.messages import Content
    from agent_chat.storage import oslock

_NAMED = 10  # numbers in one refusal's text


class Conditions:
    """`request_id`: empty for none. `if_latest`: -1 for no condition. MESSAGE_INVALID_REQUEST_ID."""

    __slots__ = ("if_latest", "if_read", "request_id")

    def __init__(self, request_id: str = "", if_latest: int = -1, if_read: bool = False) -> None:
        if request_id and not names.is_id(request_id):
            text = f"{request_id[:140]!a} is no request id (1 to 128 of A-Z a-z 0-9 . _ : -)"
            raise AgentChatError("MESSAGE_INVALID_REQUEST_ID", text, ("post", "--help"))
        self.request_id = request_id
        self.if_latest = if_latest
        self.if_read = if_read

    def words(self) -> list[tuple[str, str]]:
        """The options that say this, but for the flag."""
        latest = str(self.if_latest) if self.if_latest >= 0 else ""
        return [("--request-id", self.request_id), ("--if-latest", latest)]

    def first(self, channel: Channel, content: Content) -> Message | None:
        """What this sender posted under this request id. MESSAGE_REQUEST_MISMATCH when it says something else."""
        if not self.request_id:
            return None
        low = content.sender.lower()
        for entry in _requested(channel, self.request_id):
            if entry.request_id != self.request_id or entry.sender.lower() != low:
                continue
            found = channel.log.message(entry.name)
            if found and found.header.get("request_id") == self.request_id and found.sender.lower() == low:
                _compare(channel, content, found, self.request_id)
                return found
        return None

    def check(self, channel: Channel, sender: str, lock: oslock.Lock | Unlocked) -> None:
        """MESSAGE_STALE, naming the numbers, when there is news for the sender; STORAGE_NO_LOCKS."""
        if self.if_latest < 0 and not self.if_read:
            return
        if isinstance(lock, Unlocked):
            text = "the file system has no locks, so that nobody can say what is newest when this is posted"
            raise AgentChatError("STORAGE_NO_LOCKS", text, ("doctor", channel.name))
        channel.log.must_list = True
        unread = cursors.look(channel, sender).entries if self.if_read else []
        newer = cursors.since(channel, sender, self.if_latest).entries if self.if_latest >= 0 else []
        channel.log.must_list = False
        if unread or newer:
            raise _stale(channel, sender, unread or newer, () if unread else ("--after", str(self.if_latest)))


def _requested(channel: Channel, request_id: str) -> list[Entry]:
    """What may be a message of this request id, by the indexes; in order.

    Always by a listing: a folder's time that did not move when the first one was linked, before the death of its
    writer, must hide nothing.
    """
    log = channel.log
    log.must_list = True
    here = log.look()
    log.must_list = False
    known = arrivals.lines(log.folder) if here.indexed is not None else here.kept
    mark = b"\t%s\t" % request_id.encode("ascii")
    found = [arrivals.entry(line) for line in (*known, *here.new) if mark in line and arrivals.is_sound(line)]
    if log.folder.exists(names.ARCHIVE):
        found += archived.requested(log, request_id)
    return sorted(found, key=arrivals.order)


def differing(content: Content, found: Message) -> list[str]:
    """In what a message says something else."""
    topic = content.topic or (found.topic if content.reply_to else names.GENERAL)
    pairs = {
        "recipients": (frozenset(name.lower() for name in content.to), found.recipients),
        "parent": (content.reply_to, found.reply_to),
        "topic": (topic, found.topic),
        "status": (content.status, found.status),
        "title": (content.title, found.title),
        "body": (content.body, found.body),
    }
    return [name for name, (wanted, present) in pairs.items() if wanted != present]


def _compare(channel: Channel, content: Content, found: Message, request_id: str) -> None:
    others = differing(content, found)
    if others:
        text = f"request {request_id!r} was posted as #{found.number}, with another {', '.join(others)}"
        details = {"seq": found.number, "differing": others}
        raise AgentChatError("MESSAGE_REQUEST_MISMATCH", text, ("show", channel.name, str(found.number)), details)


def _stale(channel: Channel, sender: str, newer: list[Entry], after: tuple[str, ...]) -> AgentChatError:
    numbers = [entry.number for entry in newer]
    listed = ", ".join(f"#{number}" for number in numbers[:_NAMED])
    if len(numbers) > _NAMED:
        listed += f" and {len(numbers) - _NAMED} more"
    text = f"not posted: {sender} has not seen {listed} yet"
    return AgentChatError("MESSAGE_STALE", text, ("read", channel.name, "--as", sender, *after), {"numbers": numbers})
