"""The summary of a channel, derived from messages and records, never authority itself.

`derive` reads everything and returns plain values in the shapes of agent-chat-plugin 0.7.5; `render` is the
Markdown of state.md. Equal sources give equal bytes: nothing depends on the time, the zone or the machine
but `generated_at`. What a message adds is told by points.py.
"""

from __future__ import annotations

from agent_chat import clock, frontmatter, guards, path_locks, points, recovery, tasks
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from agent_chat.change import View
    from agent_chat.channel import Channel
    from agent_chat.path_locks import Lock
    from agent_chat.tasks import Task

    Looker = Callable[[str, Callable[[View], Any]], Any]
    Entry = dict[str, Any]

SCHEMA_VERSION = 1
NONE = "*(none)*"


# ---- deriving -------------------------------------------------------------------------------------------


def derive(channel: Channel, look: Looker | None = None, anew: bool = False) -> Entry:
    """The whole summary. `look`: how records are read, `channel.look` unless the caller holds the lock.

    `anew`: every message is opened, whatever is remembered.
    """
    look = look or channel.look
    decisions: list[Entry] = []
    blockers: list[Entry] = []
    evidence: list[Entry] = []
    completed: dict[str, tuple[str, str]] = {}  # task id in lower case -> who finished it, and when
    told = points.of_messages(channel, anew)
    for point in told.found:
        common = {"author": point.author, "time": point.time, "title": point.title}
        if points.DECISION.name in point.kinds:
            values = {"details": point.text, "seq": point.number, "source": f"message:{point.number:04d}"}
            decisions.append({**common, **values})
        if points.BLOCKER.name in point.kinds:
            blockers.append(_blocker("message", f"#{point.number:04d}", common, point.text))
        if points.EVIDENCE.name in point.kinds:
            source = {"source_id": str(point.number), "source_type": "message"}
            evidence.append({**common, "acceptance": [], "evidence": point.text, **source})
        if point.done:
            completed[point.done] = (point.author, point.done_at)
    found, damaged, pending = look("task", lambda view: (*_tasks(view), view.pending))
    locks, damaged_locks, pending_paths = look("path", lambda view: (*_locks(view), view.pending))
    pending_turn = look("turn", lambda view: view.pending)
    _add_tasks(found, completed, decisions, blockers, evidence)
    for one in (pending, pending_paths, pending_turn):
        if one:
            blockers.append(_pending(one, channel.name))
    for error in [*damaged, *damaged_locks]:
        blockers.append(_damaged(error))
    for cut in guards.cut_off(channel):
        blockers.append(_cut(cut, channel.name))
    unfinished = [task for task in found if task.status not in tasks.FINAL]
    return {
        "blockers": blockers,
        "channel": channel.name,
        "created_at": channel.meta.created,
        "decisions": decisions,
        "generated_at": clock.seconds_stamp(clock.now()),
        "last_seq": told.last,
        "members": channel.meta.members,
        "open_tasks": [task.record() for task in unfinished],
        "owners": _owners(unfinished, locks),
        "path_locks": [lock.record() for lock in locks],
        "schema_version": SCHEMA_VERSION,
        "topic": channel.meta.topic,
        "verification": evidence,
    }


def _tasks(view: View) -> tuple[list[Task], list[AgentChatError]]:
    """The sound tasks by id, and what is wrong with the others, or with their folder."""
    try:
        return tasks.everything(view)
    except AgentChatError as error:
        return [], [error]


def _locks(view: View) -> tuple[list[Lock], list[AgentChatError]]:
    """The sound locks by id, and what is wrong with the others."""
    found, damaged = [], []
    try:
        listed = view.names("locks")
    except AgentChatError as error:
        return [], [error]
    for name in listed:
        try:
            lock = path_locks.read(view, f"locks/{name}")
        except AgentChatError as error:
            damaged.append(error)
        else:
            found += [lock] if lock else []
    return found, damaged


def _add_tasks(
    found: list[Task],
    completed: dict[str, tuple[str, str]],
    decisions: list[Entry],
    blockers: list[Entry],
    evidence: list[Entry],
) -> None:
    known = {task.id.lower(): task for task in found}
    waiting, stuck = [], []
    for task in found:
        author, time = completed.get(task.id.lower(), (task.owner or task.created_by, task.updated_at))
        common = {"author": author, "time": time, "title": f"Task {task.id} completed: {task.title}"}
        if task.status == tasks.DONE and task.acceptance:
            text = f"Completed task criteria satisfied for {task.id}."
            values = {"acceptance": task.acceptance, "evidence": text, "source_id": task.id, "source_type": "task"}
            evidence.append({**common, **values})
        if task.status == tasks.DONE and (
            task.id.lower().startswith("decision") or task.title.lower().startswith("decision")
        ):
            text = "\n".join(task.acceptance) or f"Task {task.id} is done."
            decisions.append({**common, "title": task.title, "details": text, "seq": None, "source": f"task:{task.id}"})
        if task.status in tasks.FINAL:
            continue
        by_maker = {"author": task.created_by, "time": task.updated_at}
        waits = [(other, _status(known, other)) for other in task.depends_on if _status(known, other) != tasks.DONE]
        if waits:
            listed = ", ".join(other for other, _ in waits)
            text = "Unfinished dependencies: " + ", ".join(f"{other} (status: {status})" for other, status in waits)
            title = f"Task {task.id} blocked on dependencies: {listed}"
            entry = _blocker("task_dependency", task.id, {**by_maker, "title": title}, text)
            waiting.append({**entry, "blocking_items": [other for other, _ in waits]})
        if task.status == tasks.BLOCKED:
            title = f"Task {task.id} blocked ({task.title})"
            text = "Task is marked with status 'blocked'"
            stuck.append(_blocker("task_status", task.id, {**by_maker, "title": title}, text))
    blockers += [*waiting, *stuck]


def _status(known: dict[str, Task], task_id: str) -> str:
    task = known.get(task_id.lower())
    return task.status if task else "missing"


def _blocker(kind: str, source: str, common: Entry, details: str) -> Entry:
    return {**common, "blocking_items": [], "details": details, "kind": kind, "source_id": source}


def _pending(found: recovery.Pending, channel: str) -> Entry:
    refusal = found.refusal(channel, "")
    actor = found.journal.actor if found.journal else ""
    title = f"Unfinished {found.family.name} transaction"
    return _blocker("transaction", found.family.name, {"author": actor, "time": "", "title": title}, refusal.message)


def _damaged(error: AgentChatError) -> Entry:
    source = str(error.details.get("file", error.code))
    return _blocker("damaged_record", source, {"author": "", "time": "", "title": error.code}, error.message)


def _cut(cut: guards.Cut, channel: str) -> Entry:
    """Two agents that the guards keep from talking to each other."""
    title = f"{cut.pair.replace(',', ' and ')} are cut off from each other"
    text = f"Until a person posts in {channel}, or decides it: guards reset {channel} {cut.pair}"
    return _blocker("guard", f"#{cut.number:04d}", {"author": "", "time": cut.ts, "title": title}, text)


def _owners(unfinished: list[Task], locks: list[Lock]) -> dict[str, Entry]:
    spelled: dict[str, str] = {}
    owners: dict[str, Entry] = {}

    def entry(owner: str) -> Entry:
        name = spelled.setdefault(owner.lower(), owner)
        return owners.setdefault(name, {"owner": name, "path_locks": [], "tasks": []})

    for task in unfinished:
        if task.owner is not None:
            shown = {"id": task.id, "lease_expires_at": task.lease_expires_at, "status": task.status}
            entry(task.owner)["tasks"].append({**shown, "title": task.title})
    for lock in locks:
        paths = [one["normalized_path"] for one in lock.paths]
        held = {"expires_at": lock.expires_at, "lock_id": lock.lock_id, "paths": paths}
        entry(lock.owner)["path_locks"].append(held)
    return {name: owners[name] for name in sorted(owners, key=lambda name: (name.lower(), name))}


# ---- rendering ------------------------------------------------------------------------------------------


def render(state: Entry) -> str:
    """The Markdown of a summary; no line of a message can look like a section."""
    sections = [
        ("Decisions", [_decision(one) for one in state["decisions"]]),
        ("Open Tasks", [_task(one) for one in state["open_tasks"]]),
        ("Blockers", [_render_blocker(one) for one in state["blockers"]]),
        ("Owners & Leases", [_owner(one) for one in state["owners"].values()]),
        ("Path Locks", [_lock(one) for one in state["path_locks"]]),
        ("Verification Evidence", [_evidence(one) for one in state["verification"]]),
    ]
    lines = [
        f"# State: {state['channel']}",
        "",
        "## Goal & Topic",
        f"- **Channel**: {state['channel']}",
        f"- **Topic**: {_line(state['topic']) or '(none)'}",
        f"- **Members**: {', '.join(map(_line, state['members'])) or '(none)'}",
        f"- **Last Message Sequence**: #{state['last_seq']:04d}",
    ]
    for title, entries in sections:
        lines += ["", f"## {title}", *(entries or [NONE])]
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    return frontmatter.one_line(text)


def _indented(text: str, mark: str = "") -> str:
    return "\n".join(f"  {mark}{line}" for line in text.split("\n"))


def _decision(one: Entry) -> str:
    source = f"#{one['seq']:04d}" if one["seq"] else one["source"].partition(":")[2]
    head = f"- `[{source}]` **{_line(one['title'])}** (by `{one['author']}` at `{one['time']}`):"
    return f"{head}\n{_indented(one['details'])}"


def _task(one: Entry) -> str:
    listed = {
        key: ", ".join(map(_line, sorted(one[key]))) or "none" for key in ("depends_on", "files_hint", "acceptance")
    }
    lines = [
        f"- `[{one['id']}]` **{_line(one['title'])}** (`{one['status']}`)",
        f"  - **Owner**: `{one['owner'] or 'unassigned'}`",
        f"  - **Lease**: `{one['lease_expires_at'] or 'none'}`",
        f"  - **Depends on**: `{listed['depends_on']}`",
        f"  - **Files hint**: `{listed['files_hint']}`",
        f"  - **Acceptance**: `{listed['acceptance']}`",
    ]
    return "\n".join(lines)


def _render_blocker(one: Entry) -> str:
    by = f" (by `{one['author']}`)" if one["author"] else ""
    return f"- `[{one['source_id']}]` **{_line(one['title'])}**{by}:\n{_indented(one['details'])}"


def _owner(one: Entry) -> str:
    lines = [f"- **{one['owner']}**:"]
    for task in one["tasks"]:
        expiry = f", lease expires: `{task['lease_expires_at']}`" if task["lease_expires_at"] else ""
        lines.append(f"  - Task `{task['id']}` (**{_line(task['title'])}**, status: `{task['status']}`{expiry})")
    for lock in one["path_locks"]:
        paths = ", ".join(sorted(map(_line, lock["paths"])))
        lines.append(f"  - Path Lock `{lock['lock_id']}` (`{paths}`, expires: `{lock['expires_at']}`)")
    return "\n".join(lines)


def _lock(one: Entry) -> str:
    paths = ", ".join(sorted(_line(path["normalized_path"]) for path in one["paths"]))
    return f"- `[{one['lock_id']}]` `{paths}` (owner: `{one['owner']}`, expires: `{one['expires_at']}`)"


def _evidence(one: Entry) -> str:
    text = _indented(one["evidence"], "> ")
    if one["source_type"] == "message":
        head = (
            f"- `[#{int(one['source_id']):04d}]` **{_line(one['title'])}** (by `{one['author']}` at `{one['time']}`):"
        )
        return f"{head}\n{text}"
    head = f"- `[{one['source_id']}]` **{_line(one['title'])}** (verified by `{one['author']}` at `{one['time']}`):"
    return f"{head}\n  - Acceptance criteria: {', '.join(map(_line, one['acceptance']))}\n{text}"
