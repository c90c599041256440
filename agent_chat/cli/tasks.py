"""task create, list, show, update, claim, next, renew, done, block, release, recover, recover-pending."""

from __future__ import annotations

from agent_chat import frontmatter, leases, recovery, task_changes, tasks
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.cli.recovering import recover_pending, tell_pending
from agent_chat.errors import OK, REFUSED, AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.change import View
    from agent_chat.channel import Channel
    from agent_chat.tasks import Task

    Waits = list[tuple[str, str]]

_DONE = {
    "task create": "created",
    "task update": "updated",
    "task claim": "claimed",
    "task next": "claimed",
    "task renew": "renewed",
    "task recover": "recovered",
    "task release": "released",
    "task done": "done",
    "task block": "blocked",
}
_LEASE_COMMANDS = ("task claim", "task next", "task renew", "task recover")
_NAMED = 3  # damaged records named in one call


def run(call: Call) -> int:
    with call.channel("TASK_INVALID_CHANNEL", "TASK_CHANNEL_NOT_FOUND") as channel:
        if call.command == "task list":
            return _list(call, channel)
        if call.command == "task show":
            return _show(call, channel)
        if call.command == "task recover-pending":
            return recover_pending(call, channel, recovery.TASK)
        try:
            task = _change(call, channel)
        finally:
            for notice in channel.notices:
                output.note(f"agent-chat: {notice}")
        return output.answer(call, {"task": task.record()}, f"{_DONE[call.command]} task {task.id} [{task.status}]")


def _change(call: Call, channel: Channel) -> Task:
    task_id = call.text("task_id")
    if call.command == "task create":
        maker = call.agent("TASK_INVALID_CREATED_BY")
        call.needed("title", "--title")
        return task_changes.create(channel, task_id, maker, _edits(call), call.workspace(channel))
    actor = call.agent("LEASE_INVALID_OWNER" if call.command in _LEASE_COMMANDS else "AGENT_INVALID_NAME")
    if call.command == "task update":
        return task_changes.update(channel, task_id, actor, _edits(call), call.workspace(channel))
    if call.command == "task block":
        edits = task_changes.Edits(status=tasks.BLOCKED)
        return task_changes.update(channel, task_id, actor, edits, call.workspace(channel))
    if call.command in ("task done", "task release"):
        return leases.finish(channel, task_id, actor, tasks.DONE if call.command == "task done" else tasks.OPEN)
    length = leases.duration(call.text("duration")) if call.given("duration") else leases.DEFAULT
    if call.command == "task next":
        return leases.claim_next(channel, actor, length, call.workspace(channel))
    if call.command == "task claim":
        return leases.claim(channel, task_id, actor, length, call.workspace(channel))
    if call.command == "task renew":
        return leases.renew(channel, task_id, actor, length)
    return leases.recover(channel, task_id, actor, call.text("reason"), length)


def _edits(call: Call) -> task_changes.Edits:
    for name in ("owner", "branch"):
        if call.flag(f"clear_{name}") and call.given(name):
            text = f"--{name} and --clear-{name} exclude each other"
            raise AgentChatError("TASK_INVALID_UPDATE", text, ("task", "update", "--help"))
    given = {name: call.text(name) for name in ("title", "owner", "branch", "status") if call.given(name)}
    given.update({name: "" for name in ("owner", "branch") if call.flag(f"clear_{name}")})
    lists = {name: call.listed(name) for name in ("depends_on", "files_hint", "acceptance")}
    if call.command == "task update" and not given and all(value is None for value in lists.values()):
        raise AgentChatError("TASK_INVALID_UPDATE", "nothing to change was given", ("task", "update", "--help"))
    return task_changes.Edits(**given, **lists)  # type: ignore[arg-type]


# ---- list and show -----------------------------------------------------------------------------------------


def _list(call: Call, channel: Channel) -> int:
    status, owner, only_ready = call.text("status"), call.text("owner"), call.flag("ready")
    needs_waits = only_ready or call.wants_json
    if status and status not in tasks.STATUSES:
        text = f"{status!r} is no status ({', '.join(tasks.STATUSES)})"
        raise AgentChatError("TASK_INVALID_STATUS", text, ("task", "list", "--help"))

    def read(view: View) -> tuple[View, list[tuple[Task, Waits]], list[AgentChatError]]:
        found, damaged = tasks.everything(view)
        known = {task.id.lower(): task for task in found} if needs_waits else {}
        listed = []
        for task in found:
            if (status and task.status != status) or (owner and not task.is_owned_by(owner)):
                continue
            waits = tasks.unfinished(view, task, known) if needs_waits else []
            if not (only_ready and (waits or task.status != tasks.OPEN)):
                listed.append((task, waits))
        return view, listed, damaged

    view, listed, damaged = channel.look("task", read)
    tell_pending(view.pending, channel.name, call.text("root"))
    if call.wants_json:
        result: dict[str, object] = {"channel": channel.name, "tasks": [_object(*each) for each in listed]}
        result["damaged"] = [{"code": error.code, **error.details} for error in damaged]
        output.emit(output.as_json(result))
    else:
        output.answer(call, {}, _table([task for task, _ in listed]) if listed else f"(no tasks in {channel.name!r})")
    for error in damaged[:_NAMED]:
        output.refuse(error, False, call.text("root"))
    if len(damaged) > _NAMED:
        following = output.command_line(("doctor", channel.name), call.text("root"))
        output.note(f"agent-chat: {len(damaged) - _NAMED} more damaged records; next: {following}")
    return REFUSED if damaged else OK


def _table(listed: list[Task]) -> str:
    rows = [("ID", "STATUS", "OWNER", "DEPENDS_ON", "TITLE")]
    for task in listed:
        title = frontmatter.one_line(task.title)
        rows.append((task.id, task.status, task.owner or "-", ",".join(task.depends_on) or "-", title))
    return output.table(rows)


def _object(task: Task, waits: Waits) -> dict[str, object]:
    return {**task.record(), "ready": not waits, "waits_for": dict(waits)}


def _show(call: Call, channel: Channel) -> int:
    def read(view: View) -> tuple[View, Task, Waits]:
        task = tasks.load(view, call.text("task_id"))
        return view, task, tasks.unfinished(view, task)

    view, task, waits = channel.look("task", read)
    tell_pending(view.pending, channel.name, call.text("root"))
    lines = []
    for key, value in task.record().items():
        shown = ", ".join(value) if isinstance(value, list) else value
        lines.append(f"{key}: {frontmatter.one_line(shown) if shown else '-'}")
        if key == "depends_on":
            lines.append(f"dependencies: {f'blocked ({tasks.described(waits)})' if waits else 'ready'}")
    return output.answer(call, {"task": _object(task, waits)}, "\n".join(lines))
