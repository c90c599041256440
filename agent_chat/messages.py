"""Post a message; find messages by number; who is known in a channel."""

from __future__ import annotations

from agent_chat import clock, frontmatter, log, names
from agent_chat.channel import Channel
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from agent_chat.arrivals import Entry, Exclusion
    from agent_chat.conditions import Conditions

    class Gate(Protocol):
        """Decides under the channel's lock, just before a draft is published: it may refuse by raising."""

        is_repeat: bool  # it named an earlier message

        def earlier(self, channel: Channel, draft: Draft, content: Content) -> Entry | None:
            """A message that stands for this one already, so that it is not posted again; None to go on."""


class Draft:
    """A message to be posted, as typed. `expires_in`: microseconds, 0 for ever. `conditions`: see conditions.py.

    `gates` are asked in their order; they may add to `header`, the keys that come after the title.
    """

    __slots__ = (
        "body",
        "conditions",
        "expires_in",
        "force",
        "gates",
        "header",
        "is_repeat",
        "reply_to",
        "sender",
        "status",
        "title",
        "to",
        "topic",
    )

    def __init__(
        self,
        sender: str,
        title: str,
        body: str,
        to: str = "",
        reply_to: int = 0,
        status: str = "",
        force: bool = False,
        topic: str = "",
        expires_in: int = 0,
        conditions: Conditions | None = None,
        gates: Sequence[Gate] = (),
    ) -> None:
        self.sender = sender
        self.title = title
        self.body = body
        self.to = to
        self.reply_to = reply_to
        self.status = status
        self.force = force
        self.topic = topic
        self.expires_in = expires_in
        self.conditions = conditions
        self.gates = gates
        self.header: list[tuple[str, str | int]] = []
        self.is_repeat = False  # `post` says so when it was posted before


class Content:
    """What a draft says, in the form in which it is written. AGENT_INVALID_NAME, MESSAGE_INVALID_TEXT."""

    __slots__ = ("body", "reply_to", "sender", "status", "title", "to", "topic")

    def __init__(self, draft: Draft) -> None:
        self.sender = names.agent(draft.sender)
        self.title = _text(draft.title)
        self.status = _text(draft.status) or "discussion"
        self.body = _body(draft.body)
        self.to = _recipients(draft.to)  # empty for everyone
        self.reply_to = draft.reply_to
        self.topic = draft.topic  # empty until it is known what a reply answers


def post(channel: Channel, draft: Draft, by_program: bool = False) -> tuple[int, str, list[str]]:
    """Publish a message; durable when this returns its number, its file's name, and warnings.

    `by_program`: its status is one that only the program writes. A request that was posted before is not
    posted again, whatever else is wrong by now: the answer names the first one.

    AGENT_INVALID_NAME, MESSAGE_INVALID_TEXT, MESSAGE_EMPTY_BODY, MESSAGE_TOO_LARGE,
    MESSAGE_RESERVED_STATUS, MESSAGE_NOT_FOUND (no such parent), MESSAGE_TOPIC_MISMATCH (the parent's is another),
    MESSAGE_UNKNOWN_RECIPIENT, CHANNEL_BUSY, MESSAGE_NOT_DURABLE (posted, but the last sync failed); with
    conditions theirs.
    """
    content, conditions, warnings = Content(draft), draft.conditions, list[str]()
    if conditions is None:
        warnings = _check(channel, draft, content, by_program)
    with channel.writing(content.sender) as lock:
        if conditions is not None:
            first = conditions.first(channel, content)
            if first:
                return _repeated(channel, draft, first)
            warnings = _check(channel, draft, content, by_program)
            conditions.check(channel, content.sender, lock)
        for gate in draft.gates:
            earlier = gate.earlier(channel, draft, content)
            if earlier:
                return _repeated(channel, draft, earlier)
        number, name = _publish(channel, draft, content)
        channel.log.forget_numbers(number)
        if number % 64 == 0:
            from agent_chat.storage import sweep

            sweep.sweep_temporaries(channel.folder)
    return number, name, warnings


def _check(channel: Channel, draft: Draft, content: Content, by_program: bool) -> list[str]:
    """Refuse what cannot be posted, and give the content its topic; warnings."""
    status = content.status.lower()
    if not by_program and (status == "ring" or _is_reserved(status)):
        text = f"only the program itself writes the status {content.status!r}"
        raise AgentChatError("MESSAGE_RESERVED_STATUS", text, ("post", "--help"))
    _check_body(content.body)
    warnings = _unknown_recipients(channel, draft, content.to)
    content.topic = draft.topic or names.GENERAL
    if draft.reply_to:
        parents = _numbered(channel, draft.reply_to)
        if not parents:
            raise not_found(channel, draft.reply_to)
        topics = [entry.topic if names.is_topic(entry.topic) else names.GENERAL for entry in parents]
        if draft.topic and draft.topic not in topics:
            text = f"#{draft.reply_to} is about {topics[0]!r}, and its answers too, not about {draft.topic!r}"
            again = _again(channel, draft, draft.to, topic="")
            raise AgentChatError("MESSAGE_TOPIC_MISMATCH", text, again, {"topic": topics[0]})
        content.topic = draft.topic or topics[0]
    return warnings


def _is_reserved(status: str) -> bool:
    if "." not in status:  # which every reserved one has
        return False
    from agent_chat import audit

    return status.startswith(audit.RESERVED)


def check_topic(topic: str) -> None:
    """MESSAGE_INVALID_TOPIC unless it fits the grammar."""
    if not names.is_topic(topic):
        text = f"{topic!a} is no topic (1 to 100 of a-z 0-9 . _ / -, the first a letter or digit)"
        raise AgentChatError("MESSAGE_INVALID_TOPIC", text, ("post", "--help"))


def _publish(channel: Channel, draft: Draft, content: Content) -> tuple[int, str]:
    while True:
        number = channel.log.take_number()
        name = names.message_file(number, content.sender, content.title)
        try:
            if draft.expires_in:
                _expect_expiry(channel, content.sender, name)
            channel.log.publish(name, _composed(channel, draft, content, number))
        except FileExistsError:
            continue  # a file of just this name was put there by another program: the number is used
        except disk.NotDurable as error:
            raise _not_durable(channel, number, name, error) from None
        except BaseException:
            if not channel.folder.exists(name):
                channel.log.give_back(number)
            raise
        return number, name


def _composed(channel: Channel, draft: Draft, content: Content, number: int) -> bytes:
    now = clock.now()
    later: list[tuple[str, str | int]] = [("topic", content.topic)] if content.topic != names.GENERAL else []
    if draft.conditions is not None and draft.conditions.request_id:
        later.append(("request_id", draft.conditions.request_id))
    if draft.expires_in:
        later.append(("expires_at", clock.micro_stamp(expiry(now, draft.expires_in))))
    later += draft.header
    return frontmatter.compose(
        number,
        content.sender,
        ",".join(content.to) or names.EVERYONE,
        content.reply_to,
        channel.name,
        clock.seconds_stamp(now),
        content.status,
        content.title,
        content.body,
        [*later, *channel.signature],
    )


def expiry(now: int, duration: int) -> int:
    """When a message expires. MESSAGE_INVALID_DURATION when that fits no timestamp."""
    try:
        return clock.expiry(now, duration)
    except ValueError as error:
        raise AgentChatError("MESSAGE_INVALID_DURATION", str(error), ("post", "--help")) from None


def _expect_expiry(channel: Channel, sender: str, name: str) -> None:
    """Its sender is to hear of it when it expires undelivered (receipts.py); a name that never appears is nothing."""
    with channel.folder.sub(f"{log.CURSORS}/{names.expiring_folder(sender)}", create=True) as folder:
        folder.create_new(name)
        folder.sync()


def _repeated(channel: Channel, draft: Draft, first: Entry | frontmatter.Message) -> tuple[int, str, list[str]]:
    """The answer that names the first one, which stays: its post may have died before it was durable."""
    draft.is_repeat = True
    try:
        channel.folder.sync_published(first.name)
    except disk.NotDurable as error:
        raise _not_durable(channel, first.number, first.name, error) from None
    return first.number, first.name, []


def _not_durable(channel: Channel, number: int, name: str, error: disk.NotDurable) -> AgentChatError:
    text = f"posted as #{number}, but the disk did not confirm it ({error.strerror}); do not repeat it"
    return AgentChatError(
        "MESSAGE_NOT_DURABLE", text, ("show", channel.name, str(number)), {"seq": number, "file": name}
    )


def _text(value: str) -> str:
    try:
        return frontmatter.one_line(value)
    except ValueError:
        raise AgentChatError(
            "MESSAGE_INVALID_TEXT", f"{value!a} is no valid Unicode text", ("post", "--help")
        ) from None


def _body(text: str) -> str:
    """The body as it is written; empty when there is none."""
    body = text[1:] if text.startswith("\ufeff") else text
    body = body.replace("\r\n", "\n").rstrip()
    return body + "\n" if body else ""


def _check_body(body: str) -> None:
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


def _again(channel: Channel, draft: Draft, to: str, topic: str | None = None) -> tuple[str, ...]:
    """The words that post this draft to others, or about another topic; a body of several lines is left to stdin."""
    words = ["post", channel.name, "--from", draft.sender, *(("--to", to) if to else ())]
    body = draft.body.strip()
    for option, value in (
        ("--reply", str(draft.reply_to or "")),
        ("--topic", draft.topic if topic is None else topic),
        ("--status", draft.status),
        *(draft.conditions.words() if draft.conditions is not None else ()),
        ("--expires-in", f"{draft.expires_in / clock.SECOND:g}" if draft.expires_in else ""),
        ("--title", draft.title),
        ("--body", body if len(body) <= 200 and body.isprintable() else ""),
    ):
        if value or option == "--title":
            words += [option, value] if value[:1] not in ("", "-") else [f"{option}={value}"]
    if draft.conditions is not None and draft.conditions.if_read:
        words.append("--if-read")
    return tuple(words)


def is_known(channel: Channel, agent: str) -> bool:
    """Whether `agent` is a member, or has posted or read here."""
    return channel.meta.has(agent) or agent.lower() in readers(channel) or has_posted(channel, agent)


def readers(channel: Channel) -> list[str]:
    try:
        with channel.folder.sub(log.CURSORS) as cursors:
            return log.readers(cursors)
    except FileNotFoundError:
        return []


def has_posted(channel: Channel, agent: str) -> bool:
    return any(entry.sender.lower() == agent.lower() for entry in entries(channel))


def _seen(channel: Channel) -> list[str]:
    return [*readers(channel), *sorted({entry.sender for entry in entries(channel)})]


def entries(channel: Channel, above: int = 0, count: int = 0) -> list[Entry]:
    """The messages numbered above `above`, or the last `count` of them, as the index knows them."""
    return channel.look_at_log().above(above, count)


def _near(name: str, others: Sequence[str]) -> str:
    import difflib

    low = {other.lower(): other for other in others}
    found = difflib.get_close_matches(name.lower(), list(low), n=1)
    return low[found[0]] if found else ""


def _numbered(channel: Channel, number: int) -> list[Entry]:
    return [entry for entry in entries(channel, number - 1) if entry.number == number]


def by_number(channel: Channel, number: int) -> list[frontmatter.Message]:
    """The messages with this number. MESSAGE_NOT_FOUND when there is none."""
    listed = (channel.log.message(entry.name) for entry in _numbered(channel, number))
    found = [message for message in listed if message]
    if not found:
        raise not_found(channel, number)
    return found


def not_found(channel: Channel, number: int) -> AgentChatError:
    return AgentChatError(
        "MESSAGE_NOT_FOUND", f"no message #{number} in channel {channel.name!r}", ("peek", channel.name)
    )


def recent(channel: Channel, instant: int) -> list[Entry]:
    """The messages since `instant`, the newest last, and some older ones.

    Read backwards from the newest, until the older half of what was read is from before it: one wrong clock hides
    nothing then.
    """
    here, count = channel.log.look(), 128
    while True:
        found = here.above(0, count)
        if len(found) < count or not any(is_since(entry, instant) for entry in found[: count // 2]):
            return found
        count *= 4


def is_since(entry: Entry, instant: int) -> bool:
    """Whether it was posted at `instant` or later; one whose time is none is as old as can be."""
    try:
        return clock.parse_stamp(entry.ts) >= instant
    except ValueError:
        return False


def last_number(channel: Channel) -> int:
    """The newest message's number; 0 when there is none."""
    return channel.look_at_log().last


def newest(channel: Channel, count: int, excluded: Exclusion | None = None) -> list[frontmatter.Message]:
    """The last `count` messages that are not `excluded`, oldest first."""
    listed = entries(channel, 0, 0 if excluded else count)
    if excluded:
        listed = [entry for entry in listed if not excluded(entry)][-count:]
    found = (channel.log.message(entry.name) for entry in listed)
    return [message for message in found if message]


def everything(channel: Channel, wanted: Callable[[Entry], bool] | None = None) -> list[frontmatter.Message]:
    """The whole thread, by number; of it what `wanted` says yes to."""
    found = (channel.log.message(entry.name) for entry in entries(channel) if wanted is None or wanted(entry))
    return [message for message in found if message]
