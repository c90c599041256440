"""One change of several files as a transaction: journal, records, message, in that order.

For: every change of records. Calling sequence, all under the channel's exclusive lock: `write`, `apply`,
publish the message, `remove`; after an error, after a crash and for an operator: `settle`.
What a reader may see between two steps is told by the journal's own content and the disk:
  prepared   the journal is there, the records have their before bytes
  applied    the records have their after bytes
  published  the message's name holds exactly the message's bytes: the change is COMMITTED
A phase is never stored, so it cannot contradict the disk. A death anywhere leaves one of the three, or
a mixture of before and after, and `settle` ends in the before state, or in the after state when the
change is committed. `settle` may die anywhere itself: it changes nothing that its next run cannot see.
Not promised: anything when another program changes the same records meanwhile; that is found and refused.

Format: JSON, `version` 1, images and messages in base64. This layer knows files, not their meaning.
"""

from __future__ import annotations

import binascii

from agent_chat.errors import AgentChatError
from agent_chat.storage import disk, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Union

    from agent_chat.storage.digests import Digests

    # Of a record: its bytes, its digest (digests.py), or why it cannot be read.
    Content = Union[bytes, str, AgentChatError, OSError]

FOLDER, DAMAGED_FOLDER, ARCHIVE = ".journal", ".damaged", "archive"
VERSION = 1
LIMIT = 64 * 1024 * 1024  # bytes
_KEYS = ("version", "channel", "id", "event", "actor", "subject", "records", "message", "recovery", "replaces")


class Invalid(ValueError):
    """The journal is damaged or not this channel's; nothing was changed."""


class Unclear(ValueError):
    """A record equals neither its before nor its after image; nothing was changed. The text says which."""


class Changed(ValueError):
    """A record no longer had its before bytes when it was to be replaced; nothing was changed."""


class Image:
    """One record of a transaction: its path in the channel and its bytes before and after, None for no file."""

    __slots__ = ("after", "before", "path")

    def __init__(self, path: str, before: bytes | None, after: bytes | None) -> None:
        self.path = path
        self.before = before
        self.after = after


class Journal:
    """An unfinished transaction.

    `message` is (file name, bytes) of the audit message, `recovery` that of the message about its
    recovery once it has been settled; `subject` what the audit's body names, such as {"task_id": "T-1"};
    `replaces` the path of a journal in an older format that this one took the place of.
    """

    __slots__ = ("actor", "channel", "event", "id", "images", "message", "recovery", "replaces", "subject")

    def __init__(
        self,
        channel: str,
        id: str,
        event: str,
        actor: str,
        subject: dict[str, str],
        images: Sequence[Image],
        message: tuple[str, bytes] | None,
        recovery: tuple[str, bytes] | None = None,
        replaces: str = "",
    ) -> None:
        self.channel = channel
        self.id = id
        self.event = event
        self.actor = actor
        self.subject = subject
        self.images = list(images)
        self.message = message
        self.recovery = recovery
        self.replaces = replaces

    def encode(self) -> bytes:
        listed = [{"path": i.path, "before": _packed(i.before), "after": _packed(i.after)} for i in self.images]
        values = (VERSION, self.channel, self.id, self.event, self.actor, self.subject, listed)
        messages = [{"name": m[0], "text": _packed(m[1])} if m else None for m in (self.message, self.recovery)]
        return records.dump(dict(zip(_KEYS, (*values, *messages, self.replaces))))

    def is_committed(self, folder: disk.Folder) -> bool:
        """Whether the audit message was published: its name holds exactly its bytes."""
        return self.message is not None and holds(folder, *self.message)

    def phase(self, folder: disk.Folder) -> str:
        if self.is_committed(folder):
            return "published"
        return "applied" if all(_is(folder, i.path, i.after) for i in self.images) else "prepared"


def decode(data: bytes, channel: str, fits: Callable[[str], bool]) -> Journal:
    """A journal from its bytes. Invalid unless it is this channel's and `fits` says so of every record path."""
    try:
        found = records.load(data)
    except records.Damaged as error:
        raise Invalid(str(error)) from None
    if found.get("version") != VERSION or found["version"] is True:
        raise Invalid(f"unknown version {found.get('version')!r}")
    if set(found) != set(_KEYS):
        raise Invalid("its fields are not those of a journal")
    texts = [found[key] for key in ("channel", "id", "event", "actor", "replaces")]
    subject = found["subject"]
    texts += subject.values() if isinstance(subject, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise Invalid("a field has the wrong type")
    if found["channel"] != channel:
        raise Invalid(f"it belongs to channel {found['channel']!r}")
    images = []
    for one in found["records"] if isinstance(found["records"], list) else [None]:
        if not isinstance(one, dict) or set(one) != {"path", "before", "after"} or not isinstance(one["path"], str):
            raise Invalid("a record is none")
        if not fits(one["path"]):
            raise Invalid(f"{one['path']!r} is no record of this channel")
        images.append(Image(one["path"], unpacked(one["before"]), unpacked(one["after"])))
    if len({image.path for image in images}) != len(images):
        raise Invalid("a record stands twice")
    message, recovery = _message(found["message"]), _message(found["recovery"])
    if message is None and recovery is None:
        raise Invalid("it has no message")
    return Journal(channel, texts[1], texts[2], texts[3], subject, images, message, recovery, texts[4])


def _message(found: Any) -> tuple[str, bytes] | None:
    if found is None:
        return None
    if not isinstance(found, dict) or set(found) != {"name", "text"}:
        raise Invalid("a message is none")
    name, text = found["name"], unpacked(found["text"])
    if not isinstance(name, str) or text is None:
        raise Invalid("a message has no name or text")
    return name, text


def _packed(data: bytes | None) -> str | None:
    return None if data is None else binascii.b2a_base64(data, newline=False).decode("ascii")


def unpacked(text: Any) -> bytes | None:
    """The bytes of an image. Invalid when it is neither base64 nor null."""
    if text is None:
        return None
    import base64

    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Invalid("an image is no base64") from None


# ---- files by their path in the channel ---------------------------------------------------------------


def read(folder: disk.Folder, path: str) -> bytes | None:
    """The bytes of a record; None when there is no such file. AgentChatError STORAGE_* when it is something else."""
    where, _, name = path.rpartition("/")
    try:
        if not where:
            return folder.read(name, LIMIT)
        with folder.sub(where) as sub:
            return sub.read(name, LIMIT)
    except FileNotFoundError:
        return None


def read_all(folder: disk.Folder, where: str, digests: Digests | None = None) -> list[tuple[str, Content]]:
    """Path and bytes of every record in a folder, by name, or why it cannot be read; the folder is opened once.

    `digests`: what they know of a record stands in for its bytes.
    """
    found: list[tuple[str, Content]] = []
    try:
        with folder.sub(where) as sub:
            listed = digests.names(sub, is_listed) if digests else [(name, None) for name in _listed(sub)]
            for name, digest in listed:
                if digest is not None:
                    found.append((f"{where}/{name}", digest))
                    continue
                try:
                    found.append((f"{where}/{name}", sub.read(name, LIMIT)))
                except FileNotFoundError:
                    continue  # gone since the listing
                except (AgentChatError, OSError) as error:  # it stops only what needs it
                    found.append((f"{where}/{name}", error))
    except FileNotFoundError:
        pass  # no folder, no records
    return found


def _listed(folder: disk.Folder) -> list[str]:
    return sorted(filter(is_listed, folder.names()))


def is_listed(name: str) -> bool:
    """Whether a file in a folder of records is one: dot files and other endings are not."""
    return name.endswith(".json") and not name.startswith(".")


def holds(folder: disk.Folder, name: str, data: bytes) -> bool:
    """Whether the file `name` of the channel, or of its archive, holds exactly `data`."""
    return _holds(folder, name, data) or any(_holds(inner, name, data) for inner in _archive(folder))


def _holds(folder: disk.Folder, name: str, data: bytes) -> bool:
    try:
        return folder.read(name) == data
    except (OSError, AgentChatError):  # also a link or a folder of that name
        return False


def _archive(folder: disk.Folder) -> Iterator[disk.Folder]:
    """Every folder of the archive, which old messages are moved to."""
    try:
        with folder.sub(ARCHIVE) as archive:
            for name in archive.names():
                try:
                    with archive.sub(name) as inner:
                        yield inner
                except (OSError, AgentChatError):
                    continue  # no folder
    except (OSError, AgentChatError):
        return  # there is none


def _is(folder: disk.Folder, path: str, data: bytes | None) -> bool:
    """Whether a record is exactly this."""
    try:
        return read(folder, path) == data
    except AgentChatError:
        return False


def put(folder: disk.Folder, wanted: Sequence[tuple[str, bytes | None]]) -> None:
    """Replace or remove each of these files, then sync their folders."""
    for where in sorted({path.rpartition("/")[0] for path, _ in wanted}):
        here = [(path.rpartition("/")[2], data) for path, data in wanted if path.rpartition("/")[0] == where]
        if where:
            with folder.sub(where, create=True) as sub:
                _put(sub, here)
        else:
            _put(folder, here)


def _put(folder: disk.Folder, wanted: Sequence[tuple[str, bytes | None]]) -> None:
    for name, data in wanted:
        if data is None:
            folder.remove(name)
        else:
            folder.replace(name, data, sync=False)
    folder.sync()


# ---- the steps ----------------------------------------------------------------------------------------


def write(folder: disk.Folder, family: str, journal: Journal) -> None:
    """Step 3: the journal under its fixed name, synced."""
    with folder.sub(FOLDER, create=True) as sub:
        sub.replace(family + ".json", journal.encode())


def apply(folder: disk.Folder, family: str, journal: Journal) -> None:
    """Steps 4 and 5: the records get their after bytes. Changed, and no journal, when one has not its before bytes."""
    for image in journal.images:
        if not _is(folder, image.path, image.before):
            remove(folder, family)
            raise Changed(image.path)
    put(folder, [(image.path, image.after) for image in journal.images])


def remove(folder: disk.Folder, family: str) -> None:
    """Step 7. No sync: should it come back, it settles forward and changes nothing."""
    try:
        with folder.sub(FOLDER) as sub:
            sub.remove(family + ".json")
    except FileNotFoundError:
        pass  # without the folder there is no journal either


def load(folder: disk.Folder, family: str) -> bytes | None:
    """The bytes of the family's journal; None when there is none."""
    return read(folder, f"{FOLDER}/{family}.json")


def settle(folder: disk.Folder, journal: Journal, want_after: bool, force: str = "") -> None:
    """Steps b and c: every record to its after or its before image. Unclear unless `force`.

    `force`: a record that equals neither is first kept as `.journal/<name>.conflict-<force>`.
    """
    differing: list[tuple[str, bytes | None]] = []
    conflicts: list[tuple[str, bytes]] = []
    for image in journal.images:
        want = image.after if want_after else image.before
        try:
            present = read(folder, image.path)
        except AgentChatError as error:
            raise Unclear(f"{error.message}; move it away, then repeat this") from None
        if present not in (image.before, image.after):
            if not force:
                raise Unclear(f"{image.path} is neither as before nor as after {journal.event}")
            if present is not None:
                conflicts.append((f"{image.path.replace('/', '.')}.conflict-{force}", present))
        if present != want:
            differing.append((image.path, want))
    if conflicts:
        with folder.sub(FOLDER, create=True) as sub:
            for name, data in conflicts:
                sub.replace(name, data)
    if differing:
        put(folder, differing)


def set_aside(folder: disk.Folder, path: str, stamp: str, why: str) -> str:
    """Move a damaged journal to `.journal/.damaged/`, and `why` beside it; its new path.

    FileNotFoundError when there is none.
    """
    data = read(folder, path)
    if data is None:
        raise FileNotFoundError(path)
    kept = keep_aside(folder, path, data, stamp, why)
    put(folder, [(path, None)])
    return kept


def keep_aside(folder: disk.Folder, path: str, data: bytes, stamp: str, why: str) -> str:
    """Put a copy of the damaged file `path` into `.journal/.damaged/`, and `why` beside it; its new path."""
    name = f"{path.rpartition('/')[2].lstrip('.')}.{stamp}"
    with folder.sub(FOLDER, create=True) as sub, sub.sub(DAMAGED_FOLDER, create=True) as damaged:
        damaged.replace(f"{name}.why", why.encode("utf-8", "replace") + b"\n", sync=False)
        damaged.replace(name, data)
    return f"{FOLDER}/{DAMAGED_FOLDER}/{name}"
