"""Leases: claim, renew, release, complete, recover. Nothing expired is ever taken silently.

A lease lives in two records that change together: the task (status, owner, expiry) and the claim.
"""

from __future__ import annotations

from agent_chat import change as changes
from agent_chat import claims, clock, names, recovery, task_audit, tasks
from agent_chat.claims import Claim
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.change import Change
    from agent_chat.channel import Channel
    from agent_chat.tasks import Task
    from agent_chat.workspace import Workspace

DEFAULT = 300 * clock.SECOND


def duration(text: str, code: str = "LEASE_INVALID_DURATION") -> int:
    """Seconds as typed, in microseconds; refused with `code` unless finite and above 0."""
    try:
        return clock.parse_duration(text)
    except ValueError:
        raise AgentChatError(code, f"a lease lasts a number of seconds above 0, not {text!r}", ("--help",)) from None


def claim(channel: Channel, task_id: str, actor: str, length: int, workspace: Workspace) -> Task:
    """Take a ready task. LEASE_CONFLICT names who has it and until when; LEASE_RECOVERY_REQUIRED when expired."""
    names.agent(actor, "LEASE_INVALID_OWNER")
    with channel.change("lease.claimed", actor) as change:
        return _claim(change, tasks.load(change, task_id), length, workspace)


def claim_next(channel: Channel, actor: str, length: int, workspace: Workspace) -> Task:
    """Take the first ready open task: those assigned to `actor` go before free ones. TASK_NOT_FOUND."""
    names.agent(actor, "LEASE_INVALID_OWNER")
    with channel.change("lease.claimed", actor) as change:
        listed, _ = tasks.everything(change)
        known = {task.id.lower(): task for task in listed}
        ready = [task for task in listed if task.status == tasks.OPEN and not tasks.unfinished(change, task, known)]
        mine = [task for task in ready if task.is_owned_by(actor)] + [task for task in ready if task.owner is None]
        refusals = []
        for task in mine:
            try:
                return _claim(change, task, length, workspace)
            except AgentChatError as error:  # a damaged claim blocks only its own task
                refusals.append(error)
    if refusals:
        raise refusals[0]
    text = f"no ready task for {actor} in channel {channel.name!r}"
    raise AgentChatError("TASK_NOT_FOUND", text, ("wait", channel.name, "--as", actor))


def _claim(change: Change, task: Task, length: int, workspace: Workspace) -> Task:
    lease = claims.of_task(change, task)
    if lease is not None:
        if lease.is_expired(change.now):
            raise _expired(change, task, lease)
        raise _conflict(task, f"is leased by {lease.owner} until {lease.lease_expires_at}", lease.owner)
    if task.status in tasks.FINAL:
        text = f"{task.id} is {task.status}"
        raise AgentChatError("TASK_INVALID_TRANSITION", text, ("task", "show", task.channel, task.id))
    if task.owner is not None and not task.is_owned_by(change.actor):
        raise _conflict(task, f"is assigned to {task.owner}", task.owner)
    tasks.need_ready(change, task)
    for hint in task.files_hint:
        workspace.check_hint(hint, "LEASE_PATH_OUTSIDE_WORKSPACE")
    return _grant(change, task, None, "lease.claimed", length, "")


def renew(channel: Channel, task_id: str, actor: str, length: int) -> Task:
    """Prolong one's own unexpired lease; it began when it began."""
    names.agent(actor, "LEASE_INVALID_OWNER")
    with channel.change("lease.renewed", actor) as change:
        task = tasks.load(change, task_id)
        lease = _own_lease(change, task)
        expiry = _expiry(change.now, length)
        stamp = clock.micro_stamp(change.now)
        renewed = {key: getattr(lease, key) for key in claims.FIELDS}
        renewed.update({"lease_expires_at": expiry, "updated_at": stamp})
        change.put(lease.path, Claim(lease.path, renewed).encode())
        after = task.changed(change.now, lease_expires_at=expiry)
        task_audit.record(change, "lease.renewed", task, after, _details(change, lease.owner))
    return after


def finish(channel: Channel, task_id: str, actor: str, status: str) -> Task:
    """`done` or `release`: with a lease by its owner, who gives it up; without one a plain change of status."""
    names.agent(actor)
    with channel.change("lease.completed" if status == tasks.DONE else "lease.released", actor) as change:
        task = tasks.load(change, task_id)
        if claims.of_task(change, task) is None:
            tasks.check_move(change, task, status)
            return task_audit.record_if_changed(change, task, task.changed(change.now, status=status))
        lease = _own_lease(change, task)
        tasks.check_move(change, task, status)
        change.put(lease.path, None)
        after = task.changed(change.now, status=status, owner=None, lease_expires_at=None)
        task_audit.record(change, change.event, task, after, _details(change, lease.owner))
    return after


def recover(channel: Channel, task_id: str, actor: str, reason: str, length: int) -> Task:
    """Take over an expired lease, recording who had it, until when, and why.

    LEASE_NOT_FOUND, LEASE_NOT_EXPIRED, LEASE_INVALID_REASON.
    """
    names.agent(actor, "LEASE_INVALID_OWNER")
    if not tasks.is_reason(reason):
        words = ("task", "recover", channel.name, task_id, "--as", actor, "--reason", "WHY")
        raise AgentChatError("LEASE_INVALID_REASON", "a recovery needs a reason", words)
    with channel.change("lease.recovered", actor) as change:
        task = tasks.load(change, task_id)
        lease = _lease(change, task)
        if not lease.is_expired(change.now):
            text = f"the lease of {task.id} by {lease.owner} runs until {lease.lease_expires_at}"
            raise AgentChatError("LEASE_NOT_EXPIRED", text, ("task", "show", channel.name, task.id))
        after = _grant(change, task, lease, "lease.recovered", length, reason.strip())
    return after


def _grant(change: Change, task: Task, lost: Claim | None, event: str, length: int, reason: str) -> Task:
    """Put the task and a new claim by the actor into the change; `lost` is the expired one it follows."""
    path = names.claim_file(task.id, change.actor)
    if lost is not None and lost.path.lower() == path.lower():
        path = lost.path
    else:
        if lost is not None:
            change.put(lost.path, None)
        other = claims.read(change, path)
        if other is not None:
            raise _conflict(task, f"cannot be claimed: {path} is {other.owner}'s claim of {other.task_id}", other.owner)
    expiry, stamp = _expiry(change.now, length), clock.micro_stamp(change.now)
    record: dict[str, object] = dict.fromkeys(claims.FIELDS)
    record.update({"task_id": task.id, "channel": task.channel, "owner": change.actor, "lease_expires_at": expiry})
    record.update({"claimed_at": stamp, "updated_at": stamp})
    extra = _details(change, change.actor)
    if lost is not None:
        previous = {"previous_owner": lost.owner, "previous_lease_expires_at": lost.lease_expires_at}
        previous["recovery_reason"] = reason
        record.update(previous)
        extra.update(previous)
    change.put(path, Claim(path, record).encode())
    after = task.changed(change.now, status=tasks.IN_PROGRESS, owner=change.actor, lease_expires_at=expiry)
    task_audit.record(change, event, task, after, extra)
    return after


def _details(change: Change, owner: str) -> dict[str, object]:
    return {"lease_owner": owner, "transaction_id": change.id}


def _expiry(now: int, length: int) -> str:
    try:
        return clock.micro_stamp(clock.expiry(now, length))
    except ValueError as error:
        raise AgentChatError("LEASE_INVALID_DURATION", str(error), ("task", "--help")) from None


def _lease(change: Change, task: Task) -> Claim:
    lease = claims.of_task(change, task)
    if lease is None:
        words = ("task", "claim", task.channel, task.id, "--as", change.actor)
        raise AgentChatError("LEASE_NOT_FOUND", f"{task.id} has no lease", words)
    return lease


def _own_lease(change: Change, task: Task) -> Claim:
    lease = _lease(change, task)
    if not lease.is_held_by(change.actor):
        text = f"{task.id} is leased by {lease.owner} until {lease.lease_expires_at}"
        raise AgentChatError(
            "LEASE_OWNER_MISMATCH", text, ("task", "show", task.channel, task.id), {"owner": lease.owner}
        )
    if lease.is_expired(change.now):
        raise _expired(change, task, lease)
    return lease


def _expired(change: Change, task: Task, lease: Claim) -> AgentChatError:
    text = f"the lease of {task.id} by {lease.owner} {lease.ended(change.now)}"
    words = ("task", "recover", task.channel, task.id, "--as", change.actor, "--reason", "WHY")
    details: dict[str, object] = {"owner": lease.owner, "expires_at": lease.lease_expires_at}
    return AgentChatError("LEASE_RECOVERY_REQUIRED", text, words, details)


def _conflict(task: Task, why: str, owner: str) -> AgentChatError:
    details: dict[str, object] = {"owner": owner, "expires_at": task.lease_expires_at}
    return AgentChatError("LEASE_CONFLICT", f"{task.id} {why}", ("task", "show", task.channel, task.id), details)


class LeaseStore:
    """The recovery of a channel's unfinished task or lease change, for operators and programs."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def recover_pending(self, actor: str, resolve_publication: str | None = None) -> str:
        """Settle what a crash left; the event published about it. Nothing is stolen or reassigned.

        `resolve_publication`: the operator's word where the disk cannot tell: rollback or published.
        LEASE_TRANSACTION_NOT_FOUND, _INVALID, _RECOVERY_FAILED, _PUBLICATION_UNKNOWN.
        """
        return recover_pending(self.channel, recovery.TASK, actor, resolve_publication)


def recover_pending(channel: Channel, family: recovery.Family, actor: str, resolve: str | None) -> str:
    """As LeaseStore.recover_pending, for any family."""
    names.agent(actor)
    if resolve not in (None, "rollback", "published"):
        code = "TASK_INVALID_ARGUMENT" if family is recovery.TASK else "USAGE_ERROR"
        raise AgentChatError(code, f"{resolve!r} is neither rollback nor published", (*family.words, "--help"))
    with changes.take_lock(channel, family, actor):
        found = recovery.pending(channel, family)
        if found is None:
            text = f"nothing is pending in channel {channel.name!r}"
            raise AgentChatError(family.code("TRANSACTION_NOT_FOUND"), text, ("peek", channel.name))
        return recovery.recover(channel, found, actor, resolve or "")
