"""Doorbells: a line of text that wakes one agent, and a pointer to where the content is.

A ring is an ordinary message with `status: ring` and `ref:`. What it points to inside of the channel or the workspace
must be there. Whether it is one too many is told from the messages of the last 24 hours, under the channel's lock in
which it is then published, so that of two at once only one rings.
"""

from __future__ import annotations

import os

from agent_chat import clock, frontmatter, ledger, messages, names, path_locks, people, tasks
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_chat.arrivals import Entry
    from agent_chat.channel import Channel
    from agent_chat.messages import Content, Draft, Gate
    from agent_chat.workspace import Workspace

STATUS = "ring"
TEXT_LIMIT, REF_LIMIT = 200, 500  # characters
SAME = 5 * 60 * clock.SECOND  # the same text again within this long is dropped
DAY, MOST = 24 * 3600 * clock.SECOND, 2  # rings for one reference in this long
DUPLICATE, FREQUENCY = "duplicate", "frequency"


class Ring:
    """What became of a ring: its message, or, with a `reason`, the earlier one because of which nothing was posted."""

    __slots__ = ("name", "number", "reason", "warnings")

    def __init__(self, number: int, name: str, reason: str, warnings: list[str]) -> None:
        self.number = number
        self.name = name
        self.reason = reason
        self.warnings = warnings


def ring(
    channel: Channel,
    sender: str,
    to: str,
    ref: str,
    text: str,
    space: Workspace,
    force: bool = False,
    gates: Sequence[Gate] = (),
) -> Ring:
    """Ring once; `gates` are asked after our own.

    RING_INVALID_TEXT, RING_INVALID_REF, RING_REF_NOT_FOUND, MESSAGE_UNKNOWN_RECIPIENT, as `post`.
    """
    names.agent(sender)
    names.agent(to)
    line = _line(channel, text)
    ref = ref.strip()
    check_ref(channel, ref, space)
    if channel.meta.members and not force and not messages.is_known(channel, to):
        words = ("ring", channel.name, "--from", sender, "--to", to, "--ref", ref, "--force", "--", line)
        raise AgentChatError("MESSAGE_UNKNOWN_RECIPIENT", f"nobody named {to!r} is in channel {channel.name!r}", words)
    bell = Bell(ref)
    draft = messages.Draft(sender, line, f"see {ref}", to, status=STATUS, force=True, gates=(bell, *gates))
    draft.header.append(("ref", ref))
    with ledger.Attempt(channel, STATUS, sender, to, line, ref) as attempt:
        number, name, warnings = messages.post(channel, draft, by_program=True)
        outcomes = {DUPLICATE: ledger.DUPLICATE, FREQUENCY: ledger.REFUSED}
        attempt.came_to(number, outcomes.get(bell.reason, ledger.POSTED), bell.reason)
    return Ring(number, name, bell.reason, warnings)


def need_token(channel: Channel, agent: str) -> None:
    """IDENTITY_REQUIRED when `agent` has joined, and the caller has shown no token of it."""
    if any(key == "key" for key, _ in channel.signature) or people.registered(channel, agent) is None:
        return
    text = f"{agent} has joined channel {channel.name!r}, and rings only with its token in $AGENT_CHAT_TOKEN"
    raise AgentChatError("IDENTITY_REQUIRED", text, ("join", channel.name, "--as", agent))


class Bell:
    """The gate of a ring: whether it was rung before, or too often. `reason` says which."""

    __slots__ = ("_ref", "is_repeat", "reason")

    def __init__(self, ref: str) -> None:
        self._ref = ref
        self.is_repeat = False
        self.reason = ""

    def earlier(self, channel: Channel, draft: Draft, content: Content) -> Entry | None:
        now = clock.now()
        rung = [entry for entry in messages.recent(channel, now - DAY) if _is_of(entry, content)]
        texts = [entry for entry in rung if messages.is_since(entry, now - SAME)]
        for entry in reversed(texts):
            found = channel.log.message(entry.name)
            if found and found.title == content.title:
                return self._drop(DUPLICATE, entry)
        about = [entry for entry in rung if messages.is_since(entry, now - DAY) and self._is_about(channel, entry)]
        if len(about) >= MOST:
            return self._drop(FREQUENCY, about[-1])
        return None

    def _drop(self, reason: str, entry: Entry) -> Entry:
        self.reason, self.is_repeat = reason, True
        return entry

    def _is_about(self, channel: Channel, entry: Entry) -> bool:
        found = channel.log.message(entry.name)
        return found is not None and found.header.get("ref") == self._ref


def _is_of(entry: Entry, content: Content) -> bool:
    """Whether it is a ring by the same sender to the same recipient."""
    return (
        entry.status == STATUS
        and entry.sender.lower() == content.sender.lower()
        and entry.recipients == {name.lower() for name in content.to}
    )


def _line(channel: Channel, text: str) -> str:
    try:
        line = frontmatter.one_line(text.strip())
    except ValueError:
        line = ""
    if not line or len(line) > TEXT_LIMIT or line != text.strip():
        why = f"it has {len(line)}" if len(line) > TEXT_LIMIT else "this is none"
        found = f"a ring is one line of 1 to {TEXT_LIMIT} characters, {why}; post the content, and ring with seq:N"
        raise AgentChatError("RING_INVALID_TEXT", found, ("post", channel.name, "--help"))
    return line


# ---- references -----------------------------------------------------------------------------------------------


def check_ref(channel: Channel, ref: str, space: Workspace) -> None:
    """RING_INVALID_REF unless it is of a known form; RING_REF_NOT_FOUND when it points to nothing in here."""
    kind, colon, what = ref.partition(":")
    if not ref.isprintable() or " " in ref or not 0 < len(ref) <= REF_LIMIT:
        raise _invalid(ref)
    if colon and kind in _FINDERS and what:
        if not _FINDERS[kind](channel, what, space):
            text = f"{ref} points to nothing: record the content first, then ring"
            raise AgentChatError("RING_REF_NOT_FOUND", text, ("ring", "--help"))
    elif not (_is_url(ref) or _is_issue(ref)):
        raise _invalid(ref)


def _invalid(ref: str) -> AgentChatError:
    forms = "seq:12, task:T-1, lock:ID, path:src/a.py, owner/repo#12, https://..."
    return AgentChatError("RING_INVALID_REF", f"{ref[:100]!a} is no reference ({forms})", ("ring", "--help"))


def _is_url(ref: str) -> bool:
    scheme, mark, rest = ref.partition("://")
    return mark != "" and scheme.isascii() and scheme.replace("+", "").isalnum() and rest != ""


def _is_issue(ref: str) -> bool:
    """`owner/repo#12`."""
    repository, mark, number = ref.partition("#")
    parts = repository.split("/")
    is_number = number.isascii() and number.isdigit() and len(number) <= 12
    return mark != "" and is_number and len(parts) >= 2 and all(map(names.is_record, parts))


def _has_message(channel: Channel, what: str, space: Workspace) -> bool:
    number = int(what) if what.isascii() and what.isdigit() and len(what) <= 9 else 0
    return number > 0 and any(entry.number == number for entry in messages.entries(channel, number - 1))


def _has_task(channel: Channel, what: str, space: Workspace) -> bool:
    try:
        return channel.look("task", lambda view: tasks.load(view, what)) is not None
    except AgentChatError as error:
        return error.code not in ("TASK_NOT_FOUND", "TASK_INVALID_ID")  # a damaged one is there


def _has_lock(channel: Channel, what: str, space: Workspace) -> bool:
    if not names.is_lock_id(what):
        return False
    try:
        return channel.look("path", lambda view: path_locks.read(view, names.lock_file(what))) is not None
    except AgentChatError:
        return True  # damaged, and there


def _has_path(channel: Channel, what: str, space: Workspace) -> bool:
    try:
        return os.path.lexists(os.path.join(space.root, space.entry(what).normalized_path))
    except AgentChatError as error:
        raise AgentChatError("RING_INVALID_REF", error.message, ("ring", "--help")) from None


_FINDERS = {"seq": _has_message, "task": _has_task, "lock": _has_lock, "path": _has_path}
