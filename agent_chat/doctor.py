"""Look at everything in a channel, and say what is wrong and which command helps.

Reads every message, cursor and record. Nothing is changed but by `fix`, which does only what loses nothing:
a cursor beyond the end goes to the end, and what crashed processes left in `.tmp/` goes away.
"""

from __future__ import annotations

import os
import stat
import time

from agent_chat import (
    arrivals,
    claims,
    clock,
    cursors,
    events,
    guards,
    log,
    messages,
    names,
    path_locks,
    people,
    policy,
    presence,
    requests,
    tasks,
    turns,
)
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk, journal, oslock, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agent_chat.change import View
    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message
    from agent_chat.tasks import Task

SKEW = 5 * 60 * clock.SECOND
_RECORDS = ("tasks", "claims", "locks", names.SESSIONS, names.REQUESTS)
_FOLDERS = (*_RECORDS, log.CURSORS, log.NUMBERS, arrivals.INDEX, disk.TMP, journal.FOLDER, ".waiters", "archive")
_FILES = ("_meta.json", names.POLICY_FILE, names.TURN_FILE, "state.md", ".lock", ".gitignore")
_TIME_OFF = 2_000_000_000  # ns between the file system's clock and ours


class Finding:
    """Something wrong. `next` is a command of this program, or with `is_shell` one of the shell."""

    __slots__ = ("fix", "is_shell", "kind", "next", "text")

    def __init__(
        self,
        kind: str,
        text: str,
        next: tuple[str, ...],
        is_shell: bool = False,
        fix: Callable[[], object] | None = None,
    ) -> None:
        self.kind = kind
        self.text = text
        self.next = next
        self.is_shell = is_shell
        self.fix = fix


def of_refusal(error: AgentChatError, folder: str = "") -> Finding:
    """A refusal as a finding; where it named only this command, the record in `folder` is put aside."""
    record = str(error.details.get("file", ""))
    if error.next[:1] != ("doctor",) or not record:
        return Finding(error.code, error.message, error.next)
    path = os.path.join(folder, record)
    aside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.damaged")
    return Finding(error.code, error.message, ("mv", "--", path, aside), is_shell=True)


def examine(channel: Channel) -> list[Finding]:
    """Everything that is wrong in a channel, each thing once. What stops one section stops no other."""
    found = [*_section(_storage(channel), channel), *_section(_entries(channel), channel)]
    found += _section(_messages(channel), channel)
    found += _section(_retention(channel), channel)
    found += _section(_cursors(channel), channel)
    for family, section in (("task", _tasks), ("path", _locks), ("turn", _people)):
        found += _looked(channel, family, section)
    return list({(one.kind, one.text): one for one in reversed(found)}.values())[::-1]


def _looked(channel: Channel, family: str, section: Callable[[Channel, View], Iterator[Finding]]) -> Iterable[Finding]:
    return channel.look(family, lambda view: _section(section(channel, view), channel))


def _section(findings: Iterator[Finding], channel: Channel) -> list[Finding]:
    """What a section finds, up to what stops it."""
    found = []
    try:
        for finding in findings:
            found.append(finding)
    except AgentChatError as error:
        found.append(of_refusal(error, channel.folder.path))
    except OSError as error:
        text = f"{error.filename or channel.folder.path}: {error.strerror}"
        found.append(Finding("STORAGE_IO_ERROR", text, ("roster", channel.name)))
    return found


def _aside(path: str) -> tuple[str, ...]:
    """The shell's command that makes a numbered file no message: names with `_` never are."""
    return ("mv", "--", path, os.path.join(os.path.dirname(path), "_" + os.path.basename(path)))


def _storage(channel: Channel) -> Iterator[Finding]:
    folder, help_words = channel.folder, ("roster", channel.name)
    try:
        with oslock.hold(folder, channel.LOCK, "doctor", 1.0) as lock:
            off = abs(lock.time - clock.now() * 1000)
        if off > _TIME_OFF:
            yield Finding("CLOCK", f"the file system's clock is {off / 1e9:.0f} s off ours", help_words)
        with folder.sub(disk.TMP, create=True) as temporaries:
            before = temporaries.stamp()
            with folder.prepare("doctor", b"doctor\n"):
                if temporaries.stamp() == before:
                    text = "folder times do not move here; `wait` looks every 2 s instead of at once"
                    yield Finding("NO_FOLDER_TIMES", text, help_words)
            old = time.time() - sweep.STALE
            times = (_stat(temporaries, name) for name in temporaries.names())
            stale = sum(found is not None and found.st_mtime < old for found in times)
        if stale:
            text = f"{stale} files of crashed processes in .tmp/"
            words = ("doctor", channel.name, "--fix")
            yield Finding("STALE_FILES", text, words, fix=lambda: sweep.sweep_temporaries(folder))
    except oslock.NoLocks:
        yield Finding(
            "STORAGE_NO_LOCKS", "no locks on this file system: messages work, records cannot change", help_words
        )
    except oslock.Busy as busy:
        yield Finding("CHANNEL_BUSY", f"{busy.holder} holds the lock", help_words)
    except OSError as error:
        yield Finding("STORAGE_DENIED", f"{folder.path} cannot be written: {error.strerror}", help_words)


def _stat(folder: disk.Folder, name: str) -> os.stat_result | None:
    """None when it went away since the listing."""
    try:
        return folder.lstat(name)
    except FileNotFoundError:
        return None


def _entries(channel: Channel) -> Iterator[Finding]:
    """What lies in the folder: links, something else where a file or a folder of ours belongs, stray names."""
    folder = channel.folder
    for name in sorted(folder.names()):
        found, path = _stat(folder, name), os.path.join(folder.path, name)
        if found is None:
            continue
        aside = ("mv", "--", path, path + ".odd")
        if stat.S_ISLNK(found.st_mode):
            text = f"{name} is a link, and links are not followed"
            yield Finding("STORAGE_LINK_REFUSED", text, ("rm", "--", path), True)
        elif name in _FOLDERS and not stat.S_ISDIR(found.st_mode):
            yield Finding("STORAGE_NOT_A_FILE", f"{name} is no folder", aside, True)
        elif name in _FILES and not stat.S_ISREG(found.st_mode):
            yield Finding("STORAGE_NOT_A_FILE", f"{name} is no regular file", aside, True)
        elif name in _FOLDERS and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            yield Finding("STORAGE_DENIED", f"{name}/ cannot be read and written", ("chmod", "u+rwx", "--", path), True)
        elif name in _FOLDERS:
            yield from _strays(folder, name)


def _strays(folder: disk.Folder, where: str) -> Iterator[Finding]:
    """Names that nobody reads: what editors, merges and sync programs leave beside records and cursors."""
    with folder.sub(where) as sub:
        listed = sorted(sub.names())
    for name in listed:
        if name[0] == ".":
            continue  # put aside by somebody
        if where == log.CURSORS:
            is_stray = name.endswith(".txt") and not names.is_name(name[:-4])
        else:
            is_stray = where in _RECORDS and not journal.is_listed(name)
        if is_stray:
            path = os.path.join(folder.path, where, name)
            hidden = os.path.join(folder.path, where, "." + name)
            yield Finding("STRAY_FILE", f"{where}/{name} is read by nobody", ("mv", "--", path, hidden), True)


def _messages(channel: Channel) -> Iterator[Finding]:
    folder = channel.folder.path
    by_number: dict[int, list[str]] = {}
    ahead = 0
    for message in messages.everything(channel):
        by_number.setdefault(message.number, []).append(message.name)
        yield from _header(channel, message)
        yield from _event(channel, message)
        ahead += _is_ahead(message)
    for bad in sorted(channel.log.unreadable.values(), key=lambda bad: bad.name):
        if not bad.is_young:
            yield Finding("MESSAGE_UNREADABLE", f"{bad.name}: {bad.why}", _aside(os.path.join(folder, bad.name)), True)
    for number, found in sorted(by_number.items()):
        if len(found) > 1:
            text = f"{len(found)} messages are #{number} ({', '.join(found)}); both are delivered"
            yield Finding("MESSAGE_NUMBER_TWICE", text, ("show", channel.name, str(number)))
    for name in sorted(channel.folder.names()):
        digits = name.partition("-")[0]
        if digits.isascii() and digits.isdigit() and name.endswith(".md") and not names.claimed_number(name):
            text = f"{name}: a number has 4 to 9 digits"
            yield Finding("MESSAGE_ODD_NUMBER", text, _aside(os.path.join(folder, name)), True)
    if ahead:
        text = f"{ahead} messages were written in the future: some clock is wrong"
        yield Finding("CLOCK", text, ("peek", channel.name))


def _retention(channel: Channel) -> Iterator[Finding]:
    if not channel.folder.exists(names.POLICY_FILE):
        return
    from agent_chat import archive

    try:
        wanted = archive.retention(channel)
    except AgentChatError:
        return  # the policy is damaged, which is named below
    count = len(archive.old(channel, wanted)) if wanted else 0
    if count:
        text = f"{count} messages are older than the policy keeps them"
        yield Finding("RETENTION", text, ("archive", channel.name))


def _header(channel: Channel, message: Message) -> Iterator[Finding]:
    written = message.header.get("seq", "")
    if written and written != str(message.number):
        text = f"{message.name} says it is #{written[:20]}; the file name rules"
        yield Finding("MESSAGE_NUMBER_DIFFERS", text, ("show", channel.name, str(message.number)))


def _event(channel: Channel, message: Message) -> Iterator[Finding]:
    if events.is_event(message):
        try:
            events.decode(channel.name, message)
        except AgentChatError as error:
            yield of_refusal(error)


def _is_ahead(message: Message) -> bool:
    try:
        return clock.parse_stamp(message.ts) > clock.now() + SKEW
    except ValueError:
        return False


def _cursors(channel: Channel) -> Iterator[Finding]:
    try:
        with channel.folder.sub(log.CURSORS) as folder:
            readers = log.readers(folder)
    except FileNotFoundError:
        return
    except AgentChatError as error:
        yield of_refusal(error)
        return
    end = messages.last_number(channel)
    for reader in readers:
        try:
            at = channel.cursor_of(reader)
        except AgentChatError as error:
            yield of_refusal(error)
            continue
        if at > end:
            words = ("ack", channel.name, "--as", reader, "--upto", str(end), "--force")
            text = f"the cursor of {reader} stands at #{at}, beyond the end (#{end})"
            yield Finding("CURSOR_BEYOND_END", text, words, fix=_to_the_end(channel, reader, end))


def _to_the_end(channel: Channel, reader: str, end: int) -> Callable[[], object]:
    return lambda: cursors.acknowledge(channel, reader, end, force=True)


def _tasks(channel: Channel, view: View) -> Iterator[Finding]:
    if view.pending:
        yield of_refusal(view.pending.refusal(channel.name, ""))
    found, damaged = tasks.everything(view)
    yield from (of_refusal(error, channel.folder.path) for error in damaged)
    known = {task.id.lower() for task in found}
    yield from _twice(channel, found)
    for task in found:
        for other in task.depends_on:
            if other.lower() not in known:
                words = ("task", "show", channel.name, task.id)
                yield Finding("TASK_UNKNOWN_DEPENDENCY", f"{task.id} waits for {other}, which is not there", words)
        try:
            lease = claims.of_task(view, task)
        except AgentChatError as error:
            yield of_refusal(error, channel.folder.path)
            continue
        if lease and lease.is_expired(view.now):
            about = _expired(lease.lease_expires_at, lease.updated_at, view.now)
            recover = ("task", "recover", channel.name, task.id, "--as", "NAME", "--reason", "WHY")
            yield Finding("LEASE_EXPIRED", f"the lease of {task.id} by {lease.owner} {about}", recover)
    for name in view.names("claims"):
        try:
            claim = claims.read(view, f"claims/{name}")
        except AgentChatError as error:  # once more, if it was named with its task
            yield of_refusal(error, channel.folder.path)
            continue
        if claim and claim.task_id.lower() not in known:
            text = f"{claim.path} claims task {claim.task_id}, which is not there"
            path = os.path.join(channel.folder.path, claim.path)
            yield Finding("LEASE_INCONSISTENT", text, ("mv", "--", path, path + ".orphan"), True)


def _twice(channel: Channel, found: list[Task]) -> Iterator[Finding]:
    """Records of one id whose names differ in case: a file system that folds case would hold only one of them."""
    by_id: dict[str, list[Task]] = {}
    for task in found:
        by_id.setdefault(task.id.lower(), []).append(task)
    for several in by_id.values():
        if len(several) > 1:
            odd = max(several, key=lambda task: (task.path != names.task_file(task.id), task.path))
            paths = ", ".join(sorted(task.path for task in several))
            path = os.path.join(channel.folder.path, odd.path)
            yield Finding("TASK_TWICE", f"{paths} are one task", ("mv", "--", path, path + ".twice"), True)


def _expired(expiry: str, updated: str, now: int) -> str:
    if clock.parse_stamp(updated) > now + claims.CLOCK_SKEW:
        return f"was made in the future ({updated}): a clock is wrong, and it counts as expired"
    return f"expired at {expiry}"


def _locks(channel: Channel, view: View) -> Iterator[Finding]:
    if view.pending:
        yield of_refusal(view.pending.refusal(channel.name, ""))
    found, damaged = path_locks.survey(view)
    yield from map(of_refusal, damaged)
    for lock in found:
        if lock.is_expired(view.now):
            words = ("recover", channel.name, lock.lock_id, "--as", "NAME", "--reason", "WHY")
            about = _expired(lock.expires_at, lock.updated_at, view.now)
            yield Finding("PATH_LOCK_EXPIRED", f"the lock of {lock.shown_paths()} by {lock.owner} {about}", words)


def _people(channel: Channel, view: View) -> Iterator[Finding]:
    """What people and the operator decide: the policy, the turn, requests, registrations; who seems to wait."""
    if view.pending:
        yield of_refusal(view.pending.refusal(channel.name, ""))
    try:
        policy.load(channel.folder, channel.name)
    except AgentChatError as error:
        yield of_refusal(error)
    try:
        turn = turns.find(view)
    except AgentChatError as error:
        yield of_refusal(error, channel.folder.path)
    else:
        parties = {turn.orchestrator, turn.worker} if turn else set()
        for name in sorted(name for name in parties if not messages.is_known(channel, name)):
            text = f"{name} takes turns, and is neither a member nor has posted or read here"
            yield Finding("TURN_UNKNOWN_AGENT", text, ("turn", "roles", channel.name))
    asked, damaged = requests.everything(view)
    for request in asked:
        if request.state == requests.OPEN:
            text = f"{request.id} waits for a person's decision since {request.filed_at}: {request.line()}"
            yield Finding("REQUEST_OPEN", text, ("approve", channel.name, request.id))
    _, damaged_sessions = people.everything(view)
    yield from (of_refusal(error, channel.folder.path) for error in [*damaged, *damaged_sessions])
    for cut in guards.cut_off(channel):
        yield Finding("GUARD_PAIR_CUT", cut.line(), ("guards", "reset", channel.name, cut.pair))
    ended = presence.ended(channel)
    if ended:
        text, words = f"{ended} files of waiters that were killed", ("doctor", channel.name, "--fix")
        yield Finding("STALE_WAITERS", text, words, fix=lambda: presence.waiting(channel))
