"""Who has joined a channel: `.sessions/<name>.json`, one session for a name, and the token that proves it.

A token is `<channel>/<name>:<random>`. It is shown once, by `join`; the record holds only its SHA-256 (`key`), of
which messages carry the first 12 digits. The same session may join again and gets a fresh token; the older one is
void then. Nothing here stops a process that edits the files: it keeps honest agents from each other's names.
"""

from __future__ import annotations

import os

from agent_chat import change as changes
from agent_chat import clock, names, recovery
from agent_chat.errors import AgentChatError
from agent_chat.storage import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any, Union

    from agent_chat.change import Change, View
    from agent_chat.channel import Channel

    Source = Union[View, Change]

FIELDS = ("schema_version", "agent", "session", "harness", "key", "joined_at", "last_seen_at")
SCHEMA_VERSION = 1
SHOWN_KEY = 12  # digits of a key that messages carry
HARNESS_LIMIT = 100  # characters
META_FILE = "_meta.json"


class Session:
    """A sound registration. An empty `key` fits no token: its session joins once more to get one."""

    __slots__ = FIELDS[1:]

    def __init__(self, agent: str, session: str, harness: str, key: str, joined_at: str, last_seen_at: str) -> None:
        self.agent = agent
        self.session = session
        self.harness = harness
        self.key = key
        self.joined_at = joined_at
        self.last_seen_at = last_seen_at

    def record(self) -> dict[str, object]:
        return {"schema_version": SCHEMA_VERSION, **{name: getattr(self, name) for name in FIELDS[1:]}}

    def encode(self) -> bytes:
        return records.dump(self.record())

    def shown(self) -> dict[str, object]:
        """What others may see of it."""
        return {**self.record(), "key": self.key[:SHOWN_KEY]}

    def fits(self, token: str) -> bool:
        return bool(token) and self.key == key_of(token)


# ---- tokens -------------------------------------------------------------------------------------------------


def new_token(channel: str, agent: str) -> str:
    return f"{channel}/{agent}:{os.urandom(16).hex()}"


def key_of(token: str) -> str:
    import hashlib  # it loads OpenSSL: only for who shows a token

    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def name_in(token: str) -> str:
    """The agent that a token names; empty when it is none of ours."""
    name = token.partition(":")[0].rpartition("/")[2]
    return name if "/" in token and names.is_agent(name) else ""


def token_for(given: str, channel: str) -> str:
    """Of tokens separated by commas the one for a channel; one that names no channel is taken for it, and fits none."""
    found = [token.strip() for token in given.split(",") if token.strip()]
    mine = [token for token in found if token.partition("/")[0].lower() == channel.lower() and name_in(token)]
    odd = [token for token in found if not name_in(token)]
    return (mine or odd or [""])[0]


# ---- records ------------------------------------------------------------------------------------------------


def load(source: Source, agent: str) -> Session | None:
    """The registration of a name; None without one. SESSION_INVALID_RECORD."""
    path = names.session_file(agent)
    try:
        data = source.read(path)
    except AgentChatError as error:
        raise _damaged(source.channel.name, path, error.message) from None
    return None if data is None else decode(source.channel.name, path, data)


def everything(source: Source) -> tuple[list[Session], list[AgentChatError]]:
    """All sound registrations by name, and what is wrong with the others."""
    try:
        found, damaged = changes.sound(source, names.SESSIONS, decode)
    except AgentChatError as error:
        return [], [_damaged(source.channel.name, names.SESSIONS, error.message)]
    return sorted(found, key=lambda one: one.agent.lower()), damaged


def decode(channel: str, path: str, data: bytes | AgentChatError | OSError) -> Session:
    """The registration in a record's bytes; SESSION_INVALID_RECORD names all that is wrong with it."""
    if not isinstance(data, bytes):
        raise _damaged(channel, path, str(data))
    try:
        record = records.load(data)
        wrong = list(_problems(path, record))
    except records.Damaged as error:
        wrong = [str(error)]
    if wrong:
        raise _damaged(channel, path, "; ".join(wrong))
    return Session(**{name: record[name] for name in FIELDS[1:]})


def _problems(path: str, record: dict[str, Any]) -> Iterator[str]:
    if set(record) != set(FIELDS):
        yield f"its fields are not {', '.join(FIELDS)}"
        return
    if record["schema_version"] != SCHEMA_VERSION or isinstance(record["schema_version"], bool):
        yield f"schema_version {record['schema_version']!a}"
    if not all(isinstance(record[name], str) for name in FIELDS[1:]):
        yield "a field is no text"
        return
    if not names.is_agent(record["agent"]) or names.session_file(record["agent"]) != path:
        yield f"agent {record['agent']!a}"
    if not names.is_id(record["session"]):
        yield f"session {record['session']!a}"
    if len(record["harness"]) > HARNESS_LIMIT or not record["harness"].isprintable():
        yield f"harness {record['harness']!a}"
    if record["key"] and (len(record["key"]) != 64 or not frozenset("0123456789abcdef").issuperset(record["key"])):
        yield "key is no SHA-256"
    for name in ("joined_at", "last_seen_at"):
        try:
            clock.parse_stamp(record[name])
        except ValueError:
            yield f"{name} {record[name]!a}"


def _damaged(channel: str, path: str, why: str) -> AgentChatError:
    details: dict[str, object] = {"file": path, "problems": ["SESSION_INVALID_RECORD"]}
    return AgentChatError("SESSION_INVALID_RECORD", f"{path} is damaged: {why}", ("doctor", channel), details)


# ---- joining and leaving ------------------------------------------------------------------------------------


def check_session(session: str) -> str:
    if not names.is_id(session):
        text = f"{session!a} names no session (1 to 128 of A-Z a-z 0-9 . _ : -)"
        raise AgentChatError("SESSION_INVALID_ID", text, ("join", "--help"))
    return session


def join(
    channel: Channel, agent: str, session: str, harness: str, token: str = "", same: Collection[str] = ()
) -> tuple[Session, str]:
    """Register a name for a session; the registration and its fresh token. The name becomes a member's.

    `token`: what the caller shows of an earlier registration; `same`: other ids of this session. SESSION_TAKEN
    when the name is another session's.
    """
    names.agent(agent)
    check_session(session)
    with channel.change("agent.joined", agent) as change:
        present = load(change, agent)
        if present and present.session not in (session, *same) and not present.fits(token):
            raise taken(channel.name, present)
        fresh, stamp = new_token(channel.name, agent), clock.micro_stamp(change.now)
        joined = present.joined_at if present else stamp
        found = Session(agent, session, harness[:HARNESS_LIMIT], key_of(fresh), joined, stamp)
        change.put(names.session_file(agent), found.encode())
        meta = channel.meta_with(change.read(META_FILE) or b"", agent)
        if meta:
            change.put(META_FILE, meta)
        body: dict[str, object] = {"session": session, "harness": found.harness, "key": found.key[:SHOWN_KEY]}
        change.audit("agent.joined", {"agent": agent}, {**body, "joined_again": present is not None}, ())
    return found, fresh


def taken(channel: str, present: Session) -> AgentChatError:
    text = f"{present.agent} is registered for another session, since {present.joined_at}"
    text += "; only your user can give it to this one, or take another name"
    words = ("join", channel, "--as", present.agent, "--takeover", "--reason", "WHY")
    return AgentChatError("SESSION_TAKEN", text, words, {"joined_at": present.joined_at})


def leave(channel: Channel, agent: str, session: str, token: str = "") -> Session:
    """End a registration; the name stays a member's, so that it can still be written to.

    SESSION_NOT_FOUND; SESSION_TAKEN for another session without the token.
    """
    names.agent(agent)
    with channel.change("agent.left", agent) as change:
        present = load(change, agent)
        if present is None:
            text = f"{agent} has not joined channel {channel.name!r}"
            raise AgentChatError("SESSION_NOT_FOUND", text, ("join", channel.name, "--as", agent))
        if present.session != session and not present.fits(token):
            raise taken(channel.name, present)
        change.put(names.session_file(agent), None)
        change.audit("agent.left", {"agent": agent}, {"session": present.session}, ())
    return present


def taken_over(present: Session | None, agent: str, session: str, harness: str, now: int) -> Session:
    """The registration that a granted takeover leaves: the new session's, which joins again for its token."""
    stamp = clock.micro_stamp(now)
    return Session(present.agent if present else agent, session, harness, "", stamp, stamp)


# ---- who may act --------------------------------------------------------------------------------------------


def registered(channel: Channel, agent: str) -> Session | None:
    """The registration of a name, as it stands now. SESSION_INVALID_RECORD."""
    return channel.look("turn", lambda view: load(view, agent))


def verify(channel: Channel, token: str, is_locked: bool = False) -> Session:
    """The registration that a token fits. IDENTITY_MISMATCH. `is_locked`: the caller holds the channel's lock."""
    agent = name_in(token)
    if agent and is_locked:
        found = load(changes.View(channel, recovery.pending(channel, recovery.TURN)), agent)
    else:
        found = registered(channel, agent) if agent else None
    if found is None or not found.fits(token):
        who = f"of {agent} " if agent else ""
        text = f"$AGENT_CHAT_TOKEN is no token {who}for channel {channel.name!r}, or no longer one"
        raise AgentChatError("IDENTITY_MISMATCH", text, ("join", channel.name, "--as", agent or "NAME"))
    return found


def need_joined(channel: Channel, agent: str, is_self: bool) -> None:
    """REACH_REFUSED, where only joined agents may be reached and this one has not joined."""
    if registered(channel, agent) is not None:
        return
    if is_self:
        text = f"only joined agents act in channel {channel.name!r}, and {agent} has not joined; ask your user"
        raise AgentChatError("REACH_REFUSED", text, ("join", channel.name, "--as", agent))
    text = f"only joined agents can be reached in channel {channel.name!r}, and {agent!a} is none"
    raise AgentChatError("REACH_REFUSED", f"{text}; do not guess another name, ask your user", ("agents", channel.name))
