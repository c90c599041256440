"""A channel's folder: find, create, list; its lock.

A channel is a folder of the root with a `_meta.json`; linking that file is what makes it a channel.
Names are found without regard to case. Whoever changes what others rely on holds the channel's lock
(`with channel.writing(who):`); where kernel locks do not work, messages go on without it.
"""

from __future__ import annotations

import os

from agent_chat import clock, names
from agent_chat.arrivals import INDEX
from agent_chat.errors import AgentChatError
from agent_chat.log import CURSORS, Log
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from agent_chat.change import Change, View
    from agent_chat.log import Look
    from agent_chat.policy import Policy
    from agent_chat.storage.oslock import Lock

    Result = TypeVar("Result")

META = "_meta.json"
_CURSOR_LIMIT = 64  # bytes
_MUCH = 50  # messages that nobody has put into the index
_META_LIMIT = 1024 * 1024  # bytes
_META_KEYS = ("channel", "members", "topic", "created")
_GITIGNORE = b".*\n!.gitignore\n!.cursors/\n.cursors/*.lock\n"


class Meta:
    """What `_meta.json` says."""

    __slots__ = ("created", "members", "topic")

    def __init__(self, members: Sequence[str], topic: str, created: str) -> None:
        self.members = list(members)
        self.topic = topic
        self.created = created

    def has(self, agent: str) -> bool:
        low = agent.lower()
        return any(member.lower() == low for member in self.members)


class Unlocked:
    """Stands in for the lock where the file system has none; numbers are unique all the same."""

    def __enter__(self) -> Unlocked:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class Channel:
    """An open channel."""

    __slots__ = ("_meta", "folder", "log", "name", "notices", "policy", "proof", "recovery", "signature")
    LOCK = ".lock"

    def __init__(self, name: str, folder: disk.Folder) -> None:
        self.recovery = "explicit"  # what a crash asks for where the policy does not say: explicit or auto
        self.notices: list[str] = []  # what the caller should be told in one line each
        self.proof: Callable[[], object] | None = None  # refuses, under the lock, who lost its name meanwhile
        self.signature: list[tuple[str, str]] = []  # header keys of every message written from here: session, key
        self.policy: Policy | None = None  # what a person decided, where it was looked at
        self.name = name
        self.folder = folder
        self.log = Log(folder)
        self._meta = _read_meta(folder)

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.folder.close()

    @property
    def meta(self) -> Meta:
        return self._meta

    def meta_with(self, data: bytes, member: str) -> bytes | None:
        """A `_meta.json` that holds `data`, with one more member; None when it has that one. CHANNEL_META_INVALID."""
        from agent_chat.storage import records

        if _any_meta(self.folder, data).has(member):
            return None
        found = records.load(data)
        return records.dump({**found, "members": [*found.get("members", []), member]})

    def is_open(self) -> bool:
        """Whether hooks speak about it: not when a person turned it off, or its policy cannot be read."""
        try:
            return self._policy("access") != "off"
        except AgentChatError:
            return False

    def is_only_joined(self) -> bool:
        """Whether only joined agents are listed and reached; a policy that cannot be read hides nobody."""
        try:
            return self._policy("reach") == "joined"
        except AgentChatError:
            return False

    def listed(self, named: Sequence[str]) -> list[str]:
        """Whom of these others are shown."""
        if not self.is_only_joined():
            return list(named)
        return [name for name in named if names.is_agent(name) and self.folder.exists(names.session_file(name))]

    def cursor_of(self, agent: str) -> int:
        """The cursor of `agent` (cursors.py), -1 without one. CURSOR_INVALID, STORAGE_LINK_REFUSED."""
        try:
            with self.folder.sub(CURSORS) as folder:
                data = folder.read(names.cursor_file(agent), _CURSOR_LIMIT)
        except FileNotFoundError:
            return -1
        except AgentChatError as error:
            if error.code != "STORAGE_TOO_LARGE":
                raise
            data = b"?"
        text = data.decode("ascii", "replace").strip()
        if not text.isdigit():
            raise AgentChatError(
                "CURSOR_INVALID",
                f"the cursor of {agent} in {self.name!r} is no number: {text[:20]!r}",
                ("ack", self.name, "--as", agent, "--upto", "0"),
            )
        return int(text)

    def _policy(self, key: str) -> str:
        """What counts for a key; empty without a policy. POLICY_INVALID."""
        if not self.folder.exists(names.POLICY_FILE):
            return ""
        from agent_chat import policy

        return policy.load(self.folder, self.name).value(key)

    def writing(self, who: str, seconds: float = disk.LOCK_PATIENCE) -> Lock | Unlocked:
        """The channel's exclusive lock, noting `who` holds it. CHANNEL_BUSY after 10 s behind one holder."""
        lock = _writing(self.folder, self.name, who, seconds)
        if not isinstance(lock, Unlocked):
            self.log.heed(lock.time)
        self._prove(lock)
        return lock

    def look_at_log(self) -> Look:
        """Which messages are there. Where much is new it enters the index, or every look would open it again."""
        here = self.log.look()
        if len(here.new) > _MUCH:
            try:
                with self.writing("a reader", 0):
                    return self.log.note()
            except (AgentChatError, OSError):
                pass  # somebody is at it, or these are read-only media
        return here

    def exclusive(self, who: str, seconds: float = disk.LOCK_PATIENCE) -> Lock:
        """The channel's exclusive lock. oslock.Busy, oslock.NoLocks."""
        from agent_chat.storage import oslock

        lock = oslock.hold(self.folder, self.LOCK, note(who), seconds)
        self.log.heed(lock.time)
        self._prove(lock)
        return lock

    def _prove(self, lock: Lock | Unlocked) -> None:
        if self.proof:
            try:
                self.proof()
            except BaseException:
                lock.__exit__()
                raise

    def change(self, event: str, actor: str) -> Change:
        """A transaction over records: the only way to alter them. See change.py for its steps and refusals."""
        from agent_chat import change, recovery

        return change.Change(self, event, actor, recovery.family_of(event))

    def look(self, family: str, reader: Callable[[View], Result], must_lock: bool = False) -> Result:
        """What `reader` makes of a consistent view of a family's records (`task`, `path` or `turn`)."""
        from agent_chat import change, recovery

        return change.look(self, recovery.FAMILIES[family], reader, must_lock)


def _writing(folder: disk.Folder, name: str, who: str, seconds: float = disk.LOCK_PATIENCE) -> Lock | Unlocked:
    from agent_chat.storage import oslock  # a hook looks without a lock, and loads none

    try:
        return oslock.hold(folder, Channel.LOCK, note(who), seconds)
    except oslock.NoLocks:
        return Unlocked()
    except oslock.Busy as busy:
        raise AgentChatError(
            "CHANNEL_BUSY",
            f"{busy.holder} holds the lock of channel {name!r}",
            ("peek", name),
            {"holder": busy.holder},
        ) from None


def note(who: str) -> str:
    """The note in a lock file: who holds it."""
    return f"{who} (pid {os.getpid()}) since {clock.seconds_stamp(clock.now())}"


def find(root: str, name: str, invalid: str = "CHANNEL_INVALID_NAME", missing: str = "CHANNEL_NOT_FOUND") -> Channel:
    """Open a channel. Refused with `invalid` or `missing`; CHANNEL_META_INVALID, STORAGE_LINK_REFUSED."""
    names.channel(name, invalid)
    found = _spelling(root, name)
    if found:
        folder = disk.Folder.open(os.path.join(root, found))
        try:
            return Channel(found, folder)
        except FileNotFoundError:
            folder.close()
        except BaseException:
            folder.close()
            raise
    raise AgentChatError(missing, f"no channel {name!r} in {root}", ("init", name), {"root": root})


def _spelling(root: str, name: str) -> str:
    """The entry of `root` that is `name`, without regard to case, best a channel; empty for none."""
    if _is_channel(os.path.join(root, name)):
        return name
    try:
        entries = os.listdir(root)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    alike = [entry for entry in sorted(entries) if entry.lower() == name.lower()]
    alike.sort(key=lambda entry: (not _is_channel(os.path.join(root, entry)), entry != name))
    return alike[0] if alike else ""


def list_names(root: str) -> list[str]:
    """The channels of a root, sorted. A missing root is an empty one."""
    try:
        entries = os.listdir(root)
    except FileNotFoundError:
        return []
    return sorted(name for name in entries if names.is_name(name) and _is_channel(os.path.join(root, name)))


def _is_channel(path: str) -> bool:
    """Whether it has a `_meta.json`, be it damaged; what cannot be opened counts, to be refused by name then."""
    try:
        os.lstat(os.path.join(path, META))
        return True
    except PermissionError:
        return True
    except OSError:
        return os.path.islink(path)


def create(
    root: str,
    name: str,
    members: Sequence[str] = (),
    topic: str = "",
    home: str = "",
    policy: dict[str, str] | None = None,
) -> None:
    """Make a channel; exactly one of several that race for a name wins.

    CHANNEL_EXISTS, CHANNEL_INVALID_NAME, AGENT_INVALID_NAME. A new root below `home` is private.
    `policy`: what it says from the beginning; without it no policy is written.
    """
    names.channel(name)
    members = list(_distinct(members))
    topic = _topic(topic)
    found = _spelling(root, name)
    if found and os.path.lexists(os.path.join(root, found, META)):
        raise _exists(found)
    disk.make_folders(root, home)
    path = os.path.join(os.path.realpath(root), found or name)
    disk.make_folders(path, home)
    # The lock is for file systems without links, where publish cannot exclude another, and for the policy.
    with disk.Folder.open(path) as folder, _writing(folder, name, "init"):
        if folder.exists(META):
            raise _exists(name)
        if not folder.exists(".gitignore"):
            folder.replace(".gitignore", _GITIGNORE, sync=False)
        folder.sub(INDEX, create=True).close()
        from agent_chat.storage import records

        if policy:
            folder.replace(names.POLICY_FILE, records.dump(policy), sync=False)
        values = (found or name, members, topic, clock.seconds_stamp(clock.now()))
        try:
            folder.publish(META, records.dump(dict(zip(_META_KEYS, values))))
        except FileExistsError:
            raise _exists(name) from None


def _exists(name: str) -> AgentChatError:
    return AgentChatError("CHANNEL_EXISTS", f"channel {name!r} exists already", ("roster", name))


def _distinct(members: Sequence[str]) -> Iterator[str]:
    seen = set()
    for member in members:
        if names.agent(member).lower() not in seen:
            seen.add(member.lower())
            yield member


def _topic(text: str) -> str:
    from agent_chat.frontmatter import one_line

    try:
        return one_line(text)
    except ValueError:
        raise AgentChatError("MESSAGE_INVALID_TEXT", "the topic is no valid Unicode text", ("init", "--help")) from None


def _read_meta(folder: disk.Folder) -> Meta:
    """FileNotFoundError when it is no channel; CHANNEL_META_INVALID names file and line."""
    try:
        data = folder.read(META, _META_LIMIT)
    except AgentChatError as error:
        if error.code != "STORAGE_TOO_LARGE":
            raise
        raise _damaged(folder, f"larger than {_META_LIMIT} bytes (line 1)") from None
    return _plain_meta(data) or _any_meta(folder, data)


def _plain_meta(data: bytes) -> Meta | None:
    """A `_meta.json` spelled exactly as we write it, without importing json; None for any other spelling."""
    text = data.decode("utf-8", "replace")
    texts = text.split('"')[1::2]  # the keys and strings of the file, in order
    if len(texts) < 7 or "\\" in text or not all(map(str.isprintable, texts)):
        return None
    channel, members, topic, created = texts[1], texts[3:-4], texts[-3], texts[-1]
    listed = "[\n" + ",\n".join(f'    "{member}"' for member in members) + "\n  ]" if members else "[]"
    plain = (
        f'{{\n  "channel": "{channel}",\n  "members": {listed},\n  "topic": "{topic}",\n  "created": "{created}"\n}}'
    )
    return Meta(members, topic, created) if plain == text.rstrip("\n") else None


def _any_meta(folder: disk.Folder, data: bytes) -> Meta:
    from agent_chat.storage import records

    try:
        found = records.load(data)
    except records.Damaged as error:
        raise _damaged(folder, str(error)) from None
    members, topic, created = found.get("members", []), found.get("topic", ""), found.get("created", "")
    if not (isinstance(members, list) and all(isinstance(member, str) for member in members)):
        raise _damaged(folder, "members is no list of names (line 1)")
    if not (isinstance(topic, str) and isinstance(created, str)):
        raise _damaged(folder, "topic or created is no text (line 1)")
    return Meta(members, topic, created)


def _damaged(folder: disk.Folder, why: str) -> AgentChatError:
    return AgentChatError("CHANNEL_META_INVALID", f"{os.path.join(folder.path, META)} is damaged: {why}", ("channels",))
