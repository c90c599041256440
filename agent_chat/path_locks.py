"""Lock records `locks/<lock id>.json`: files that an agent says it is about to change.

Paths are compared in the one spelling of workspace.py. A record that cannot be read might cover anything, so it
stops every check and lock until `recover` puts it aside.
"""

from __future__ import annotations

from agent_chat import claims, clock, names, patterns, tasks
from agent_chat.errors import AgentChatError
from agent_chat.storage import records
from agent_chat.storage.digests import Digests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence
    from typing import Any

    from agent_chat.tasks import Source
    from agent_chat.workspace import Entry, Workspace

    Wanted = Callable[[str, Iterable[tuple[str, str]]], bool]

FIELDS = (
    *("channel", "expires_at", "lock_id", "locked_at", "owner", "paths"),
    *("previous_expires_at", "previous_owner", "recovery_reason", "updated_at"),
)
_OPTIONAL = ("previous_expires_at", "previous_owner", "recovery_reason")
_KINDS = (patterns.FILE, patterns.DIRECTORY, patterns.PATTERN)
PATH_FIELDS = ("display_path", "kind", "normalized_path")


class Lock:
    """A sound lock record. `path` is its file in the channel."""

    __slots__ = (*FIELDS, "path")

    channel: str
    expires_at: str
    lock_id: str
    locked_at: str
    owner: str
    paths: list[dict[str, str]]
    previous_expires_at: str | None
    previous_owner: str | None
    recovery_reason: str | None
    updated_at: str
    path: str

    def __init__(self, path: str, record: dict[str, Any]) -> None:
        self.path = path
        for key in FIELDS:
            setattr(self, key, record.get(key))

    @classmethod
    def of_digest(cls, path: str, texts: Sequence[str]) -> Lock:
        """The lock whose `digest` this is."""
        made = cls.__new__(cls)
        made.path = path
        made.channel, made.expires_at, made.lock_id, made.locked_at, made.owner = texts[:5]
        previous = [text or None for text in texts[5:8]]
        made.previous_expires_at, made.previous_owner, made.recovery_reason = previous
        made.updated_at = texts[8]
        made.paths = [dict(zip(PATH_FIELDS, texts[at : at + 3])) for at in range(9, len(texts), 3)]
        return made

    def digest(self) -> list[str]:
        """All of it: the fields in order, then each path's; none of them can be empty but those that are null."""
        texts = [getattr(self, key) or "" for key in FIELDS if key != "paths"]
        return texts + [one[key] for one in self.paths for key in PATH_FIELDS]

    def word(self) -> str:
        """The name that all its paths begin with; empty where there is none."""
        firsts = {patterns.first_part(one["kind"], one["normalized_path"]) for one in self.paths}
        return firsts.pop() if len(firsts) == 1 else ""

    def record(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in FIELDS}

    def changed(self, now: int, **values: object) -> Lock:
        return Lock(self.path, {**self.record(), **values, "updated_at": clock.micro_stamp(now)})

    def encode(self) -> bytes:
        return records.dump(self.record(), sort_keys=True)

    def is_held_by(self, agent: str) -> bool:
        return self.owner.lower() == agent.lower()

    def is_expired(self, now: int) -> bool:
        is_over = now >= clock.parse_stamp(self.expires_at)
        return is_over or clock.parse_stamp(self.updated_at) > now + claims.CLOCK_SKEW

    def line(self) -> str:
        """`locked <id> owner=bob expires=…`."""
        return f"locked {self.lock_id} owner={self.owner} expires={self.expires_at}"

    def shown_paths(self) -> str:
        return ", ".join(one["display_path"] for one in self.paths)


def command(verb: str, channel: str, typed: Sequence[str], *options: str) -> tuple[str, ...]:
    """The words of a command about paths, also when one looks like an option."""
    if any(text.startswith("-") for text in typed):
        return (verb, channel, *options, "--", *typed)
    return (verb, channel, *typed, *options)


def words(wanted: Sequence[Entry], space: Workspace) -> Container[str] | None:
    """The words of locks (`Lock.word`) that can meet one of these entries; None for all."""
    if space.folds_case or not all(entry.normalized_path.isascii() for entry in wanted):
        return None  # a record of another system may have another spelling
    return patterns.meeting_first_parts((entry.kind, entry.normalized_path) for entry in wanted)


# ---- reading ------------------------------------------------------------------------------------------


def everything(
    source: Source, actor: str = "", wanted: Wanted | None = None, having: Container[str] | None = None
) -> list[Lock]:
    """All locks by id, as `survey`. The code of the first damaged record, which closes the family."""
    found, damaged = survey(source, actor, wanted, having)
    if damaged:
        raise damaged[0]
    return found


def survey(
    source: Source, actor: str = "", wanted: Wanted | None = None, having: Container[str] | None = None
) -> tuple[list[Lock], list[AgentChatError]]:
    """All sound locks by id, and what is wrong with the other records. `actor`: for the command that clears them.

    `wanted`: asked about an owner and the (kind, normalized path) of each path of a lock; the others are left out.
    `having`: each wanted one has one of these words or none, so that `wanted` need not be asked about all.
    """
    channel, digests = source.channel.name, Digests(source.channel.folder, "locks", having)
    try:
        listed = source.read_all("locks", digests)
    except AgentChatError as error:
        raise tasks.storage_invalid("PATH_LOCK_STORAGE_INVALID", source, error) from None
    found, damaged = [], []
    for path, data in listed:
        try:
            if isinstance(data, str):
                texts = data.split("\t")
                if texts[0].lower() == channel.lower() and len(texts) >= 12 and len(texts) % 3 == 0:
                    if wanted is not None and not wanted(texts[4], zip(texts[10::3], texts[11::3])):
                        continue
                    if tasks.is_stamp(texts[1]) and tasks.is_stamp(texts[8]):
                        found.append(Lock.of_digest(path, texts))
                        continue
                data = source.read(path) or b""  # the channel's folder was renamed, or somebody wrote the index
            lock = decode(channel, path, data, actor)
        except AgentChatError as error:
            damaged.append(error)
            continue
        if wanted is None or wanted(lock.owner, ((one["kind"], one["normalized_path"]) for one in lock.paths)):
            found.append(lock)
        digests.learn(path[6:], lock.digest(), lock.word())
    digests.save()
    return found, damaged


def read(source: Source, path: str, actor: str = "") -> Lock | None:
    """The lock in a file; None when it is gone. The codes of a damaged record."""
    try:
        data: bytes | AgentChatError | OSError | None = source.read(path)
    except (AgentChatError, OSError) as error:
        data = error
    return None if data is None else decode(source.channel.name, path, data, actor)


def decode(channel: str, path: str, data: bytes | AgentChatError | OSError, actor: str = "") -> Lock:
    """The lock in a record's bytes; one AgentChatError names all of its problems, with the first one's code.

    `data`: also why it cannot be read: a link, a folder, ... in its place, or an error of the disk.
    """
    if isinstance(data, AgentChatError):
        raise _damaged(channel, path, [("PATH_LOCK_STORAGE_INVALID", data.message)], actor)
    if isinstance(data, OSError):
        problem = ("PATH_LOCK_STORAGE_ERROR", f"{path} cannot be read: {data.strerror}")
        raise _damaged(channel, path, [problem], actor)
    try:
        record = records.load(data)
    except records.Damaged as error:
        problems = [("PATH_LOCK_INVALID_RECORD", str(error))]
    else:
        problems = list(_problems(channel, path, record))
        if not problems:
            return Lock(path, record)
    raise _damaged(channel, path, problems, actor)


def _damaged(channel: str, path: str, problems: list[tuple[str, str]], actor: str) -> AgentChatError:
    """It might cover anything, so it stops every check and lock; `recover` puts it aside."""
    text = f"{path} is damaged: {'; '.join(text for _, text in problems)}"
    words = command("recover", channel, [path.rpartition("/")[2]], "--as", actor or "NAME", "--reason", "WHY")
    return AgentChatError(problems[0][0], text, words, {"file": path, "problems": [p[0] for p in problems]})


def _problems(channel: str, path: str, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    shape = list(_shape(record))
    yield from shape
    if shape:
        return
    if not names.is_lock_id(record["lock_id"]) or names.lock_file(record["lock_id"]) != path:
        yield "PATH_LOCK_INVALID_LOCK_ID", f"lock_id {record['lock_id']!r}"
    if record["channel"].lower() != channel.lower():
        yield "PATH_LOCK_INVALID_CHANNEL", f"it belongs to channel {record['channel']!r}"
    for key in ("owner", "previous_owner"):
        if record[key] is not None and not names.is_agent(record[key]):
            yield "PATH_LOCK_INVALID_OWNER", f"{key} {record[key]!r}"
    stamps = {record[key]: key for key in ("expires_at", "locked_at", "previous_expires_at", "updated_at")}
    for stamp, key in stamps.items():  # each once: reading them is most of the work of reading a record
        if stamp is not None and not tasks.is_stamp(stamp):
            yield "PATH_LOCK_INVALID_TIMESTAMP", f"{key} {stamp!r}"
    if record["recovery_reason"] is not None and not record["recovery_reason"].strip():
        yield "PATH_LOCK_INVALID_REASON", "recovery_reason is blank"
    for one in record["paths"]:
        parts = one["normalized_path"].split("/")
        if not parts[0] or ".." in parts or one["kind"] not in _KINDS:
            yield "PATH_LOCK_INVALID_PATH", f"path {one['normalized_path']!r} of kind {one['kind']!r}"


def _shape(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    code = "PATH_LOCK_INVALID_RECORD"
    for key in FIELDS:
        if key not in record:
            yield code, f"no {key}"
        elif key != "paths" and not isinstance(record[key], str) and not (record[key] is None and key in _OPTIONAL):
            yield code, f"{key} has the wrong type"
    for key in sorted(set(record) - set(FIELDS)):
        yield code, f"unknown field {key!r}"
    listed = record.get("paths")
    if not isinstance(listed, list) or not listed:
        yield code, "paths is no list of paths"
    elif not all(isinstance(one, dict) and set(one) == set(PATH_FIELDS) for one in listed) or not all(
        isinstance(value, str) for one in listed for value in one.values()
    ):
        yield code, "a path in paths has not its three texts"


def expired(channel: str, actor: str, held: Lock, now: int, what: str) -> AgentChatError:
    """PATH_LOCK_RECOVERY_REQUIRED: `what` is under an expired lock."""
    is_over = now >= clock.parse_stamp(held.expires_at)
    why = "which is over" if is_over else "by a clock ahead of this one: expired"
    details: dict[str, object] = {"lock_id": held.lock_id, "owner": held.owner, "expires_at": held.expires_at}
    text = f"{what} was locked by {held.owner} until {held.expires_at}, {why}"
    words = ("recover", channel, held.lock_id, "--as", actor or "NAME", "--reason", "WHY")
    return AgentChatError("PATH_LOCK_RECOVERY_REQUIRED", text, words, details)
