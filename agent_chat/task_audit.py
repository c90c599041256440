"""A change of a task with its audit message, and whom that concerns (protocol, section 7).

Owner and maker, who owns a task that waits for it, the previous owner of a lease, less the one who acted;
everybody when the change leaves work that anybody may take: a ready task without an owner.
"""

from __future__ import annotations

from agent_chat import names, tasks
from agent_chat.errors import AgentChatError
from agent_chat.storage.digests import Digests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.change import Change
    from agent_chat.tasks import Source, Task

_FOR_NOTHING = "-"  # no task's id


def record(change: Change, event: str, before: Task | None, after: Task, extra: dict[str, object]) -> None:
    """Put the task into the change, with its audit message."""
    change.put(after.path, after.encode())
    waits = tasks.unfinished(change, after)
    body: dict[str, object] = {"status": after.status, "owner": after.owner, "lease_expires_at": after.lease_expires_at}
    if before is not None:
        differ = [key for key in tasks.FIELDS if getattr(before, key) != getattr(after, key) and key != "updated_at"]
        body.update({"changed_fields": differ, "previous_status": before.status})
    if waits:
        body["waits_for"] = [other for other, _ in waits]
    owners = (after.owner, after.created_by, before and before.owner, extra.get("previous_owner"))
    about = {name for name in owners if isinstance(name, str)}
    waiting = waiters(change, after)
    about |= {other.owner for other in waiting if other.owner}
    if _is_free(after, bool(waits)) and not (before and _is_free(before, bool(tasks.unfinished(change, before)))):
        about.add(names.EVERYONE)
    if after.status == tasks.DONE and before and before.status != tasks.DONE:
        known = {after.id.lower(): after}
        freed = (other for other in waiting if other.owner is None and other.status == tasks.OPEN)
        if any(not tasks.unfinished(change, other, known) for other in freed):
            about.add(names.EVERYONE)
    change.audit(event, {"task_id": after.id}, {**body, **extra}, about)


def record_if_changed(change: Change, before: Task, after: Task) -> Task:
    """Record a plain change; no change, no audit message."""
    if {**after.record(), "updated_at": before.updated_at} == before.record():
        return before
    record(change, "task.updated", before, after, {})
    return after


def _is_free(task: Task, waits: bool) -> bool:
    """Whether anybody may take it."""
    return task.status == tasks.OPEN and task.owner is None and not waits


def waiters(source: Source, task: Task) -> list[Task]:
    """The unfinished tasks that depend on this one. Damaged ones are passed over: they stop only what needs them.

    The digest of a task is what it waits for, in lower case; of a finished one nothing. Its word is the only one of
    these, if it is one.
    """
    found = []
    name, low = source.channel.name, task.id.lower()
    digests = Digests(source.channel.folder, "tasks", words=[low])
    for path, data in tasks.read_all(source, digests):
        if isinstance(data, str) and low not in data.split("\t"):
            continue
        try:
            other = tasks.load(source, path[6:-5]) if isinstance(data, str) else tasks.decode(name, path, data)
        except AgentChatError:
            continue
        waits_for = [] if other.status in tasks.FINAL else [one.lower() for one in other.depends_on]
        word = waits_for[0] if len(waits_for) == 1 else "" if waits_for else _FOR_NOTHING
        digests.learn(path.rpartition("/")[2], waits_for, word)
        if low in waits_for and path != task.path:
            found.append(other)
    digests.save()
    return found
