"""What has been talked about: topics, threads, and messages by their words.

All of it is derived from the messages at each call. A thread is a tree over `reply_to`; only a lower number can be a
parent, so that no header can tie a knot, and a parent that is not there any more leaves its answers readable.
"""

from __future__ import annotations

from agent_chat import messages
from agent_chat.arrivals import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message

SNIPPET = 100  # characters


class Topic:
    """A topic in use."""

    __slots__ = ("count", "last", "name", "ts")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = self.last = 0
        self.ts = ""  # of the last one

    def record(self) -> dict[str, object]:
        return {"topic": self.name, "count": self.count, "last_seq": self.last, "ts": self.ts}


def topics(channel: Channel) -> list[Topic]:
    """Every topic in use, the one that was last written about first."""
    found: dict[str, Topic] = {}
    for entry in messages.entries(channel):
        topic = found.setdefault(entry.topic, Topic(entry.topic))
        topic.count += 1
        topic.last, topic.ts = entry.number, entry.ts
    return sorted(found.values(), key=lambda topic: (-topic.last, topic.name))


# ---- threads ----------------------------------------------------------------------------------------------


class Thread:
    """A conversation, each message after the one that it answers. `missing`: the first number, where it is gone."""

    __slots__ = ("missing", "nodes", "root")

    def __init__(self, root: int, missing: bool, nodes: list[tuple[int, Entry]]) -> None:
        self.root = root
        self.missing = missing
        self.nodes = nodes  # (depth, message)


def thread(channel: Channel, number: int) -> Thread:
    """The whole conversation that a number belongs to. MESSAGE_NOT_FOUND, also when nobody answers it any more."""
    by_number: dict[int, list[Entry]] = {}
    answers: dict[int, list[Entry]] = {}
    for entry in messages.entries(channel):
        by_number.setdefault(entry.number, []).append(entry)
        parent = _parent(entry)
        if parent:
            answers.setdefault(parent, []).append(entry)
    if number not in by_number and number not in answers:
        raise messages.not_found(channel, number)
    root = number
    while root in by_number and _parent(by_number[root][0]):
        root = _parent(by_number[root][0])
    nodes: list[tuple[int, Entry]] = []
    waiting = [(0, entry) for entry in reversed(by_number.get(root, []))]
    waiting = waiting or [(1, entry) for entry in reversed(answers[root])]
    while waiting:
        depth, entry = waiting.pop()
        nodes.append((depth, entry))
        waiting += [(depth + 1, answer) for answer in reversed(answers.pop(entry.number, []))]
    return Thread(root, root not in by_number, nodes)


def _parent(entry: Entry) -> int:
    return entry.reply_to if 0 < entry.reply_to < entry.number else 0


# ---- words ------------------------------------------------------------------------------------------------


def search(channel: Channel, words: Sequence[str]) -> list[Message]:
    """The messages whose title and body hold all these words, without regard to case; oldest first."""
    wanted = [word.casefold() for word in words]
    return [message for message in messages.everything(channel) if _holds(message, wanted)]


def _holds(message: Message, wanted: Sequence[str]) -> bool:
    text = f"{message.title}\n{message.body}".casefold()
    return all(word in text for word in wanted)


def snippet(message: Message, words: Sequence[str]) -> str:
    """The first line of the body that holds one of the words, cut around it; empty when only the title does."""
    for line in message.body.split("\n"):
        low = line.casefold()
        at = min((low.find(word.casefold()) for word in words if word.casefold() in low), default=-1)
        if at >= 0:
            start = max(0, min(at - SNIPPET // 3, len(line) - SNIPPET))
            cut = line[start : start + SNIPPET].strip()
            return f"{'...' * (start > 0)}{cut}{'...' * (start + SNIPPET < len(line))}"
    return ""
