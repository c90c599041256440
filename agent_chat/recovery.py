"""What a crash leaves of a change, and how it is settled (protocol, section 7).

A family is a kind of records with one journal: tasks with their leases, path locks, turns with what people and
the operator decide. `pending` finds an
unfinished transaction; `settle_or_refuse` is step 1 of every change; `recover` is the operator's
`recover-pending`, and what a policy of automatic recovery runs. Each settling publishes exactly one message,
whose name is in the journal before it appears, so that dying anywhere repeats nothing.
"""

from __future__ import annotations

import stat

from agent_chat import clock, frontmatter, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import journal, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel


class Family:
    """Records that share a journal, their codes, and the commands that recover them."""

    __slots__ = (
        *("changed", "files", "folders", "io", "legacy", "list_words"),
        *("lock", "name", "prefix", "recovered", "unclear", "words"),
    )

    def __init__(
        self,
        name: str,
        prefix: str,
        plain: str,
        io: str,
        unclear: str,
        legacy: str,
        folders: tuple[str, ...],
        files: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.prefix = prefix  # of the codes about transactions
        self.io = io
        self.lock = {"TASK": "TASK_LOCK_TIMEOUT", "PATH_LOCK": "PATH_LOCK_TIMEOUT"}.get(plain, "CHANNEL_BUSY")
        self.changed = f"{plain}_CHANGED"
        self.unclear = unclear
        self.legacy = legacy  # path of the journal of format 0.7.5; empty where there was none
        self.folders = folders
        self.files = files  # records beside the folders
        self.recovered = f"{prefix.lower().replace('_', '.')}.transaction"
        self.words = ("task", "recover-pending") if name == "task" else ("recover-pending",)
        self.list_words = {"task": ("task", "list"), "path": ("locks",)}.get(name, ("peek",))

    def code(self, what: str) -> str:
        return f"{self.prefix}_{what}"

    def audit_failed(self, event: str) -> str:
        return "TASK_AUDIT_FAILED" if event.startswith("task.") else self.code("AUDIT_FAILED")

    def fits(self, path: str) -> bool:
        """Whether `path` is the name of a record of this family."""
        if path in self.files:
            return True
        folder, _, name = path.partition("/")
        if name.startswith(".damaged/") and folder == "locks":
            return self is PATH and names.is_record(name[9:])
        return folder in self.folders and name.endswith(".json") and names.is_record(name[:-5])


TASK = Family(
    *("task", "LEASE", "TASK", "TASK_IO_ERROR", "LEASE_TRANSACTION_RECOVERY_FAILED"),
    *("claims/.lease-transaction.json", ("tasks", "claims")),
)
PATH = Family(
    *("path", "PATH_LOCK", "PATH_LOCK", "PATH_LOCK_STORAGE_ERROR", "PATH_LOCK_TRANSACTION_INVALID"),
    *("locks/.path-lock-transaction.json", ("locks",)),
)
TURN = Family(
    *("turn", "TURN", "TURN", "TURN_IO_ERROR", "TURN_TRANSACTION_RECOVERY_FAILED"),
    *("", (names.SESSIONS, names.REQUESTS)),
    files=(names.TURN_FILE, names.POLICY_FILE, "_meta.json"),
)
FAMILIES = {family.name: family for family in (TASK, PATH, TURN)}


def family_of(event: str) -> Family:
    """The family whose records an event changes."""
    first = event.partition(".")[0]
    is_turn = first in ("turn", "policy", "request", "agent", "archive", "guard")
    return PATH if first == "path" else TURN if is_turn else TASK


class Pending:
    """An unfinished transaction found on the disk. `broken` says why it cannot be understood, else it is empty."""

    __slots__ = ("broken", "family", "journal", "legacy_outcome", "phase")

    def __init__(self, family: Family, found: journal.Journal | None, phase: str, broken: str = "") -> None:
        self.family = family
        self.journal = found
        self.phase = phase
        self.broken = broken
        self.legacy_outcome = ""  # before, after or unknown; empty for a journal of ours

    def refusal(self, channel: str, actor: str) -> AgentChatError:
        words = (*self.family.words, channel, "--as", actor or "NAME")
        if self.journal is None:
            again = (*words, "--discard-journal", "--reason", "WHY")
            text = f"the journal of an unfinished change is damaged: {self.broken}"
            return AgentChatError(self.family.code("TRANSACTION_INVALID"), text, again)
        about = " ".join(self.journal.subject.values())
        who = f" by {self.journal.actor}" if self.journal.actor else ""
        what = f"{self.journal.event} {about}{who} was interrupted ({self.phase})"
        text = f"{what}; nothing of its kind changes until it is settled"
        details: dict[str, object] = {"event": self.journal.event, "phase": self.phase, **self.journal.subject}
        return AgentChatError(self.family.code("TRANSACTION_PENDING"), text, words, details)


def pending(channel: Channel, family: Family) -> Pending | None:
    """The unfinished transaction of a family; None when there is none."""
    try:
        data = journal.load(channel.folder, family.name)
        if data is not None:
            found = _decode(channel, family, data)
            return Pending(family, found, found.phase(channel.folder))
        data = _legacy_bytes(channel, family)
        if data is None:
            return None
        from agent_chat import legacy

        found, phase, outcome = legacy.decode(channel, family.name, data)
    except (journal.Invalid, AgentChatError) as error:  # also a link or a folder in its place
        return Pending(family, None, "", str(error))
    result = Pending(family, found, phase)
    result.legacy_outcome = outcome
    return result


def _legacy_bytes(channel: Channel, family: Family) -> bytes | None:
    if not family.legacy:
        return None
    try:
        return journal.read(channel.folder, family.legacy)
    except AgentChatError:
        if stat.S_ISDIR(channel.folder.lstat(family.legacy.partition("/")[0]).st_mode):
            raise
        return None  # who needs that folder says what is wrong with it


def _decode(channel: Channel, family: Family, data: bytes) -> journal.Journal:
    """A journal of ours. journal.Invalid unless its records, messages and older journal are this family's."""
    found = journal.decode(data, channel.name, family.fits)
    if found.replaces not in ("", family.legacy):
        raise journal.Invalid(f"{found.replaces!r} is no journal")
    for message in (found.message, found.recovery):
        if message is not None:
            if not names.message_number(message[0]):
                raise journal.Invalid(f"{message[0]!r} is no message's name")
            try:
                frontmatter.parse(*message)
            except frontmatter.NotWhole as error:
                raise journal.Invalid(f"its message {message[0]} is none: {error}") from None
    return found


def settle_or_refuse(channel: Channel, family: Family, actor: str) -> None:
    """Step 1, under the lock: a journal is settled where the policy says so, else refused as PENDING."""
    found = pending(channel, family)
    if found is None:
        return
    if found.journal is None or found.legacy_outcome or not recovers_by_itself(channel):
        raise found.refusal(channel.name, actor)
    event = recover(channel, found, actor)
    about = " ".join(found.journal.subject.values())
    channel.notices.append(f"settled {found.journal.event} {about}, interrupted by a crash: {event}")


def recovers_by_itself(channel: Channel) -> bool:
    """Whether the policy, or where it does not say the caller, wants recovery to be automatic. POLICY_INVALID."""
    from agent_chat import policy

    return policy.load(channel.folder, channel.name).said.get("recovery", channel.recovery) == "auto"


def recover(channel: Channel, found: Pending, actor: str, resolve: str = "") -> str:
    """Settle a pending transaction, under the lock; the event that was published about it.

    `resolve`: the operator's word on whether the change was published: rollback or published.
    """
    folder, family, entry = channel.folder, found.family, found.journal
    if entry is None:
        raise found.refusal(channel.name, actor)
    if entry.recovery is None:
        is_after = _outcome(channel, found, actor, resolve)
        try:
            journal.settle(folder, entry, is_after, _stamp() if resolve else "")
        except journal.Unclear as unclear:
            words = _resolving(channel, family, actor, "published" if is_after else "rollback")
            text = f"{unclear}; nothing was changed; --resolve-publication keeps a copy of it and settles"
            raise AgentChatError(family.unclear, text, words) from None
        if is_after and entry.message and not entry.is_committed(folder):
            _publish(channel, family, entry)
        entry.recovery = _recovery_message(channel, entry, actor, family, is_after)
        if found.legacy_outcome:
            entry.images, entry.message, entry.replaces = [], None, family.legacy
        journal.write(folder, family.name, entry)
    while not journal.holds(folder, *entry.recovery):
        try:
            channel.log.publish(*entry.recovery)
        except FileExistsError:
            entry.recovery = _renumbered(channel, entry.recovery)
            journal.write(folder, family.name, entry)
    folder.sync()  # one that was there may have been left by a crash before it was durable
    if entry.replaces:
        journal.put(folder, [(entry.replaces, None)])
    journal.remove(folder, family.name)
    return frontmatter.parse(*entry.recovery).status


def _outcome(channel: Channel, found: Pending, actor: str, resolve: str) -> bool:
    """Whether the change stands."""
    if resolve:
        return resolve == "published"
    if found.legacy_outcome == "unknown":
        text = "a journal of version 1 cannot prove whether its change was published: see whether a message says so,"
        text += " then give --resolve-publication published, or else rollback"
        words = _resolving(channel, found.family, actor, "rollback")
        raise AgentChatError(found.family.code("TRANSACTION_PUBLICATION_UNKNOWN"), text, words)
    return found.legacy_outcome == "after" or found.phase == "published"


def _resolving(channel: Channel, family: Family, actor: str, word: str) -> tuple[str, ...]:
    return (*family.words, channel.name, "--as", actor, "--resolve-publication", word)


def _stamp() -> str:
    """Now, for a file's name."""
    return clock.micro_stamp(clock.now()).replace(":", "")[:24]


def _publish(channel: Channel, family: Family, entry: journal.Journal) -> None:
    """The operator's `published`: publish the stored message, under a new number if its own is used by now."""
    assert entry.message
    if channel.folder.exists(entry.message[0]) or _is_used(channel, entry.message[0]):
        entry.message = _renumbered(channel, entry.message)
        journal.write(channel.folder, family.name, entry)
    channel.log.publish(*entry.message)


def _is_used(channel: Channel, name: str) -> bool:
    number = names.claimed_number(name)
    return any(names.claimed_number(other) == number for other in channel.folder.names())


def _renumbered(channel: Channel, message: tuple[str, bytes]) -> tuple[str, bytes]:
    """The same message under a new number."""
    old, number = names.claimed_number(message[0]), channel.log.take_number()
    name = f"{number:04d}{message[0][message[0].index('-') :]}"
    return name, message[1].replace(b"seq: %d\n" % old, b"seq: %d\n" % number, 1)


def _recovery_message(
    channel: Channel, entry: journal.Journal, actor: str, family: Family, is_after: bool
) -> tuple[str, bytes]:
    event = f"{family.recovered}.{'cleaned' if is_after else 'recovered'}"
    body: dict[str, object] = {**entry.subject, "channel": channel.name, "event": event, "transaction_id": entry.id}
    body.update({"interrupted_event": entry.event, "interrupted_actor": entry.actor or None})
    number = channel.log.take_number()
    stamp = clock.micro_stamp(clock.now())
    concerns = "" if entry.actor.lower() == actor.lower() else entry.actor
    return audit_message(channel, number, actor, event, entry.subject, body, stamp, concerns)


def discard_journal(channel: Channel, family: Family, actor: str, reason: str) -> str:
    """Put a damaged journal aside, with who did it and why, under the lock; its new path. Records stay as they are."""
    found = pending(channel, family)
    if found is None:
        raise AgentChatError(family.code("TRANSACTION_NOT_FOUND"), "no journal is there", ("peek", channel.name))
    if found.journal is not None:
        text = "the journal is sound: settle it instead of discarding it"
        raise AgentChatError(family.code("TRANSACTION_PENDING"), text, (*family.words, channel.name, "--as", actor))
    path = f"{journal.FOLDER}/{family.name}.json"
    try:
        is_ours = journal.read(channel.folder, path) is not None
        return journal.set_aside(channel.folder, path if is_ours else family.legacy, _stamp(), f"{actor}: {reason}")
    except AgentChatError as error:
        text = f"{error.message}; move it away by hand"
        raise AgentChatError(family.code("TRANSACTION_INVALID"), text, ("doctor", channel.name)) from None


def audit_message(
    channel: Channel,
    number: int,
    actor: str,
    event: str,
    subject: dict[str, str],
    body: dict[str, object],
    stamp: str,
    concerns: str,
) -> tuple[str, bytes]:
    """The file name and bytes of the message that records a change."""
    title = " ".join([event, *subject.values()])
    full = {"updated_at": stamp, **body} if stamp else body
    text = records.dump(full, sort_keys=True).decode("utf-8")
    later = [*([("concerns", concerns)] if concerns else []), *channel.signature]
    ts = clock.seconds_stamp(clock.now())
    data = frontmatter.compose(number, actor, names.EVERYONE, 0, channel.name, ts, event, title, text, later)
    return names.message_file(number, actor, title), data
