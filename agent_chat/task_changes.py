"""Create, update and block tasks: the changes that no lease is needed for."""

from __future__ import annotations

from agent_chat import claims, clock, frontmatter, names, task_audit, tasks
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_chat.change import Change
    from agent_chat.channel import Channel
    from agent_chat.tasks import Task
    from agent_chat.workspace import Workspace

_LEASED = ("status", "owner")  # what an active lease decides


class Edits:
    """What is to be changed in a task, as typed; None leaves a field as it is, an empty text clears it."""

    __slots__ = ("acceptance", "branch", "depends_on", "files_hint", "owner", "status", "title")

    def __init__(
        self,
        title: str | None = None,
        owner: str | None = None,
        depends_on: Sequence[str] | None = None,
        files_hint: Sequence[str] | None = None,
        acceptance: Sequence[str] | None = None,
        branch: str | None = None,
        status: str | None = None,
    ) -> None:
        self.title = title
        self.owner = owner
        self.depends_on = depends_on
        self.files_hint = files_hint
        self.acceptance = acceptance
        self.branch = branch
        self.status = status

    def values(self, change: Change, task_id: str, workspace: Workspace) -> dict[str, object]:
        """The record's new values, checked. The codes of each field's rule."""
        found: dict[str, object] = {}
        if self.title is not None:
            found["title"] = _title(self.title)
        if self.owner is not None:
            found["owner"] = names.agent(self.owner, "LEASE_INVALID_OWNER") if self.owner else None
        if self.depends_on is not None:
            found["depends_on"] = tasks.checked_dependencies(change, task_id, self.depends_on)
        if self.files_hint is not None:
            for hint in self.files_hint:
                workspace.check_hint(_text(hint), "TASK_PATH_OUTSIDE_WORKSPACE")
            found["files_hint"] = list(self.files_hint)
        if self.acceptance is not None:
            found["acceptance"] = [_text(item) for item in self.acceptance]
        if self.branch is not None:
            found["branch"] = _branch(self.branch) if self.branch else None
        if self.status is not None:
            found["status"] = self.status
        return found


def create(channel: Channel, task_id: str, maker: str, edits: Edits, workspace: Workspace) -> Task:
    """Make an open task. TASK_ALREADY_EXISTS, and the codes of its fields."""
    tasks.checked_id(task_id)
    names.agent(maker, "TASK_INVALID_CREATED_BY")
    with channel.change("task.created", maker) as change:
        if tasks.is_there(change, task_id):
            text = f"task {task_id} exists already in channel {channel.name!r}"
            raise AgentChatError("TASK_ALREADY_EXISTS", text, ("task", "show", channel.name, task_id))
        record: dict[str, object] = dict.fromkeys(tasks.FIELDS)
        record.update({"id": task_id, "channel": channel.name, "status": tasks.OPEN, "created_by": maker})
        record.update({"depends_on": [], "files_hint": [], "acceptance": []})
        record.update(edits.values(change, task_id, workspace))
        task = tasks.Task(names.task_file(task_id), {**record, "updated_at": clock.micro_stamp(change.now)})
        claims.of_task(change, task)  # one that is left from a record that is gone
        task_audit.record(change, "task.created", None, task, {})
    return task


def update(channel: Channel, task_id: str, actor: str, edits: Edits, workspace: Workspace) -> Task:
    """Change fields of a task; nothing is published when nothing differs.

    TASK_INVALID_TRANSITION, TASK_DEPENDENCY_NOT_READY; with a lease LEASE_MUTATION_REQUIRED,
    LEASE_OWNER_MISMATCH, LEASE_RECOVERY_REQUIRED.
    """
    names.agent(actor)
    with channel.change("task.updated", actor) as change:
        task = tasks.load(change, task_id)
        values = edits.values(change, task.id, workspace)
        _respect_lease(change, task, actor, values)
        after = task.changed(change.now, **values)
        tasks.check_move(change, task, after.status)
        if after.status in tasks.NEEDS_READY and "depends_on" in values:
            tasks.need_ready(change, after)
        return task_audit.record_if_changed(change, task, after)


def _respect_lease(change: Change, task: Task, actor: str, values: dict[str, object]) -> None:
    lease = claims.of_task(change, task)
    if lease is None:
        return
    channel = change.channel.name
    touched = [key for key in _LEASED if key in values]
    if lease.is_expired(change.now):
        if touched:
            text = f"the lease of {task.id} by {lease.owner} {lease.ended(change.now)}"
            words = ("task", "recover", channel, task.id, "--as", actor, "--reason", "WHY")
            raise AgentChatError("LEASE_RECOVERY_REQUIRED", text, words)
    elif touched:
        text = f"{task.id} is leased by {lease.owner} until {lease.lease_expires_at}; {touched[0]} is its lease's"
        is_own = lease.is_held_by(actor)
        follow = ("task", "release", channel, task.id, "--as", actor) if is_own else ("task", "show", channel, task.id)
        raise AgentChatError("LEASE_MUTATION_REQUIRED", text, follow)
    elif not lease.is_held_by(actor):
        text = f"{task.id} is leased by {lease.owner} until {lease.lease_expires_at}"
        raise AgentChatError("LEASE_OWNER_MISMATCH", text, ("task", "show", channel, task.id))


def _title(text: str) -> str:
    title = _text(text)
    if not title:
        raise AgentChatError("TASK_INVALID_ARGUMENT", "a task needs a title", ("task", "create", "--help"))
    return title


def _text(text: str) -> str:
    try:
        return frontmatter.one_line(text)
    except ValueError:
        raise AgentChatError(
            "TASK_INVALID_ARGUMENT", f"{text!a} is no valid Unicode text", ("task", "--help")
        ) from None


def _branch(text: str) -> str:
    if not tasks.is_branch(text):
        raise AgentChatError("TASK_INVALID_BRANCH", f"{text!a} is no branch name", ("task", "--help"))
    return text
