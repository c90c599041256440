"""Post a message; find messages by number; who is known in a channel."""

from __future__ import annotations

from agent_chat import audit, clock, frontmatter, log, names
from agent_chat.channel import Channel
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_chat.arrivals import Entry


class Draft:
    """A message to be posted, as typed."""

    __slots__ = ("body", "force", "reply_to", "sender", "status", "title", "to")

    def __init__(
        self, sender: str, title: str, body: str, to: str = "", reply_to: int = 0, status: str = "", force: bool = False
    ) -> None:
        self.sender = sender
        self.title = title
        self.body = body
        self.to = to
        self.reply_to = reply_to
        self.status = status
        self.force = force


def post(channel: Channel, draft: Draft, by_program: bool = False) -> tuple[int, str, list[str]]:
    """Publish a message; durable when this returns its number, its file's name, and warnings.

    `by_program`: its status is one that only the program writes.

    AGENT_INVALID_NAME, MESSAGE_INVALID_TEXT, MESSAGE_EMPTY_BODY, MESSAGE_TOO_LARGE,
    MESSAGE_RESERVED_STATUS, MESSAGE_NOT_FOUND (no such parent), MESSAGE_UNKNOWN_RECIPIENT, CHANNEL_BUSY,
    MESSAGE_NOT_DURABLE (posted, but the last sync failed).
    """
    sender = names.agent(draft.sender)
    title, status, body = _text(draft.title), _text(draft.status) or "discussion", _body(draft.body)
    if not by_program and (status.lower().startswith(audit.RESERVED) or status.lower() == "ring"):
        raise AgentChatError(
            "MESSAGE_RESERVED_STATUS", f"only the program itself writes the status {status!r}", ("post", "--help")
        )
    to = _recipients(draft.to)
    warnings = _unknown_recipients(channel, draft, to)
    if draft.reply_to and not numbered(channel, draft.reply_to):
        raise _not_found(channel, draft.reply_to)
    with channel.writing(sender):
        number, name = _publish(channel, draft.reply_to, sender, ",".join(to) or names.EVERYONE, status, title, body)
        channel.log.forget_numbers(number)
        if number % 64 == 0:
            from agent_chat.storage import sweep

            sweep.sweep_temporaries(channel.folder)
    return number, name, warnings


def _publish(channel: Channel, reply: int, sender: str, to: str, status: str, title: str, body: str) -> tuple[int, str]:
    while True:
        number = channel.log.take_number()
        name = names.message_file(number, sender, title)
        now = clock.seconds_stamp(clock.now())
        try:
            later = channel.signature
            data = frontmatter.compose(number, sender, to, reply, channel.name, now, status, title, body, later)
            channel.log.publish(name, data)
        except FileExistsError:
            continue  # a file of just this name was put there by another program: the number is used
        except disk.NotDurable as error:
            raise AgentChatError(
                "MESSAGE_NOT_DURABLE",
                f"posted as #{number}, but the disk did not confirm it ({error.strerror}); do not repeat it",
                ("show", channel.name, str(number)),
                {"seq": number, "file": name},
            ) from None
        except BaseException:
            if not channel.folder.exists(name):
                channel.log.give_back(number)
            raise
        return number, name


def _text(value: str) -> str:
    try:
        return frontmatter.one_line(value)
    except ValueError:
        raise AgentChatError(
            "MESSAGE_INVALID_TEXT", f"{value!a} is no valid Unicode text", ("post", "--help")
        ) from None


def _body(text: str) -> str:
    body = text[1:] if text.startswith("\ufeff") else text
    body = body.replace("\r\n", "\n").rstrip()
    if not body:
        raise AgentChatError(
            "MESSAGE_EMPTY_BODY", "a message needs a body (--body, --body-file or stdin)", ("post", "--help")
        )
    try:
        size = len(body.encode("utf-8"))
    except UnicodeEncodeError:
        raise AgentChatError("MESSAGE_INVALID_TEXT", "the body is no valid Unicode text", ("post", "--help")) from None
    if size > disk.MESSAGE_LIMIT - 65536:
        raise AgentChatError("MESSAGE_TOO_LARGE", f"the body has {size} bytes; post a path to it", ("post", "--help"))
    return body + "\n"


def _recipients(to: str) -> list[str]:
    """The recipients as typed, each once; empty for everyone."""
    found: dict[str, str] = {}
    for part in to.split(","):
        part = part.strip()
        if part.lower() in (names.EVERYONE, "*"):
            return []
        if part:
            found.setdefault(part.lower(), names.agent(part))
    return list(found.values())


def _unknown_recipients(channel: Channel, draft: Draft, to: list[str]) -> list[str]:
    """Warnings about recipients nobody has heard of; MESSAGE_UNKNOWN_RECIPIENT where the channel has members."""
    unknown = [name for name in to if not is_known(channel, name)]
    if not unknown:
        return []
    near = _near(unknown[0], [*channel.meta.members, *_seen(channel)])
    text = f"nobody named {unknown[0]!r} is in channel {channel.name!r}" + (f"; did you mean {near}?" if near else "")
    if draft.force or not channel.meta.members:
        return [text]
    better = ",".join(near if near and name == unknown[0] else name for name in to)
    again = _again(channel, draft, better)
    raise AgentChatError(
        "MESSAGE_UNKNOWN_RECIPIENT", text, again if near else (*again, "--force"), {"unknown": unknown}
    )


def _again(channel: Channel, draft: Draft, to: str) -> tuple[str, ...]:
    """The words that post this draft to others; a body of several lines is left to stdin."""
    words = ["post", channel.name, "--from", draft.sender, "--to", to]
    body = draft.body.strip()
    for option, value in (
        ("--reply", str(draft.reply_to or "")),
        ("--status", draft.status),
        ("--title", draft.title),
        ("--body", body if len(body) <= 200 and body.isprintable() else ""),
    ):
        if value or option == "--title":
            words += [option, value] if value[:1] not in ("", "-") else [f"{option}={value}"]
    return tuple(words)


def is_known(channel: Channel, agent: str) -> bool:
    """Whether `agent` is a member, or has posted or read here."""
    return channel.meta.has(agent) or agent.lower() in _readers(channel) or has_posted(channel, agent)


def _readers(channel: Channel) -> list[str]:
    try:
        with channel.folder.sub(log.CURSORS) as cursors:
            return log.readers(cursors)
    except FileNotFoundError:
        return []


def has_posted(channel: Channel, agent: str) -> bool:
    return any(entry.sender.lower() == agent.lower() for entry in entries(channel))


def _seen(channel: Channel) -> list[str]:
    return [*_readers(channel), *sorted({entry.sender for entry in entries(channel)})]


def entries(channel: Channel, above: int = 0, count: int = 0) -> list[Entry]:
    """The messages numbered above `above`, or the last `count` of them, as the index knows them."""
    return channel.log.look().above(above, count)


def _near(name: str, others: Sequence[str]) -> str:
    import difflib

    low = {other.lower(): other for other in others}
    found = difflib.get_close_matches(name.lower(), list(low), n=1)
    return low[found[0]] if found else ""


def numbered(channel: Channel, number: int) -> list[str]:
    """The names of the messages with this number."""
    return [entry.name for entry in entries(channel, number - 1) if entry.number == number]


def by_number(channel: Channel, number: int) -> list[frontmatter.Message]:
    """The messages with this number. MESSAGE_NOT_FOUND when there is none."""
    found = [message for name in numbered(channel, number) for message in [channel.log.message(name)] if message]
    if not found:
        raise _not_found(channel, number)
    return found


def _not_found(channel: Channel, number: int) -> AgentChatError:
    return AgentChatError(
        "MESSAGE_NOT_FOUND", f"no message #{number} in channel {channel.name!r}", ("peek", channel.name)
    )


def last_number(channel: Channel) -> int:
    """The newest message's number; 0 when there is none."""
    return channel.log.look().last


def newest(channel: Channel, count: int) -> list[frontmatter.Message]:
    """The last `count` messages, oldest first."""
    found = (channel.log.message(entry.name) for entry in entries(channel, 0, count))
    return [message for message in found if message]


def everything(channel: Channel, wanted: Callable[[Entry], bool] | None = None) -> list[frontmatter.Message]:
    """The whole thread, by number; of it what `wanted` says yes to."""
    found = (channel.log.message(entry.name) for entry in entries(channel) if wanted is None or wanted(entry))
    return [message for message in found if message]
