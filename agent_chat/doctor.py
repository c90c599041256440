"""Look at everything in a channel, and say what is wrong and which command helps.

Reads every message, cursor and record. Nothing is changed but by `fix`, which does only what loses nothing:
a cursor beyond the end goes to the end, and what crashed processes left in `.tmp/` goes away.
"""

from __future__ import annotations

import os
import stat
import time

from agent_chat import (
    claims,
    clock,
    cursors,
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
from agent_chat.storage import disk, oslock, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_chat.change import View
    from agent_chat.channel import Channel
    from agent_chat.frontmatter import Message

SKEW = 5 * 60 * clock.SECOND
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
    """Everything that is wrong in a channel."""
    found = [*_storage(channel), *_links(channel)]
    found += _messages(channel)
    found += _cursors(channel)
    found += channel.look("task", lambda view: list(_tasks(channel, view)))
    found += channel.look("path", lambda view: list(_locks(channel, view)))
    found += channel.look("turn", lambda view: list(_people(channel, view)))
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
            stale = sum(temporaries.lstat(name).st_mtime < old for name in temporaries.names())
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


def _links(channel: Channel) -> Iterator[Finding]:
    for name in sorted(channel.folder.names()):
        if stat.S_ISLNK(channel.folder.lstat(name).st_mode):
            path = os.path.join(channel.folder.path, name)
            yield Finding(
                "STORAGE_LINK_REFUSED", f"{name} is a link, and links are not followed", ("rm", "--", path), True
            )


def _messages(channel: Channel) -> Iterator[Finding]:
    folder = channel.folder.path
    by_number: dict[int, list[str]] = {}
    ahead = 0
    for message in messages.everything(channel):
        by_number.setdefault(message.number, []).append(message.name)
        yield from _header(channel, message)
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


def _header(channel: Channel, message: Message) -> Iterator[Finding]:
    written = message.header.get("seq", "")
    if written and written != str(message.number):
        text = f"{message.name} says it is #{written[:20]}; the file name rules"
        yield Finding("MESSAGE_NUMBER_DIFFERS", text, ("show", channel.name, str(message.number)))


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
            at = cursors.stored(channel, reader)
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
        except AgentChatError:
            continue  # named above, with its task
        if claim and claim.task_id.lower() not in known:
            text = f"{claim.path} claims task {claim.task_id}, which is not there"
            path = os.path.join(channel.folder.path, claim.path)
            yield Finding("LEASE_INCONSISTENT", text, ("mv", "--", path, path + ".orphan"), True)


def _expired(expiry: str, updated: str, now: int) -> str:
    if clock.parse_stamp(updated) > now + claims.CLOCK_SKEW:
        return f"was made in the future ({updated}): a clock is wrong, and it counts as expired"
    return f"expired at {expiry}"


def _locks(channel: Channel, view: View) -> Iterator[Finding]:
    if view.pending:
        yield of_refusal(view.pending.refusal(channel.name, ""))
    try:
        listed = view.names("locks")
    except AgentChatError as error:
        yield of_refusal(tasks.storage_invalid("PATH_LOCK_STORAGE_INVALID", view, error))
        return
    for name in listed:
        try:
            lock = path_locks.read(view, f"locks/{name}")
        except AgentChatError as error:
            yield of_refusal(error)
            continue
        if lock and lock.is_expired(view.now):
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
    ended = presence.ended(channel)
    if ended:
        text, words = f"{ended} files of waiters that were killed", ("doctor", channel.name, "--fix")
        yield Finding("STALE_WAITERS", text, words, fix=lambda: presence.waiting(channel))
