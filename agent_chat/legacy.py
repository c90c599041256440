"""Journals that agent-chat-plugin 0.7.5 left behind: recognised, and settled only when somebody asks.

`claims/.lease-transaction.json` (version 1 and 2) and `locks/.path-lock-transaction.json` (version 1)
store a phase. `prepared` goes back, `published` forward, `applied` by proof: an audit message with that
transaction id, of that event, sender and record. Version 1 of the lease journal has no transaction id,
so in phase `applied` nothing can be proved.
"""

from __future__ import annotations

from agent_chat import names
from agent_chat.errors import AgentChatError
from agent_chat.storage import journal, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_chat.channel import Channel

_PHASES = ("prepared", "applied", "published")


def decode(channel: Channel, family: str, data: bytes) -> tuple[journal.Journal, str, str]:
    """(the journal in our terms, its phase, before | after | unknown). journal.Invalid when it is damaged."""
    try:
        found = records.load(data)
    except records.Damaged as error:
        raise journal.Invalid(str(error)) from None
    entry = _lease(channel.name, found) if family == "task" else _path(channel.name, found)
    phase = found["phase"]
    if phase == "applied" and not entry.id:
        return entry, phase, "unknown"
    is_after = phase == "published" or (phase == "applied" and _is_published(channel, entry))
    return entry, phase, "after" if is_after else "before"


def _lease(channel: str, found: dict[str, Any]) -> journal.Journal:
    _expect(found.get("version") in (1, 2), "unknown version")
    _expect(found.get("phase") in _PHASES, "unknown phase")
    task_id, event, details = found.get("task_id"), found.get("event"), found.get("details", {})
    _expect(isinstance(task_id, str) and names.is_name(task_id), "no task id")
    _expect(isinstance(event, str) and isinstance(details, dict), "no event")
    _expect(found.get("task_file") == f"tasks/{task_id}.json", "the task file is another")
    transaction = found.get("transaction_id", "") if found["version"] == 2 else ""
    _expect(isinstance(transaction, str) and (transaction or found["version"] == 1), "no transaction id")
    images = [_image(f"tasks/{task_id}.json", found, "task_before", "task_after")]
    changes = found.get("claim_changes")
    _expect(isinstance(changes, list), "no claim changes")
    for change in changes or []:
        _expect(isinstance(change, dict) and isinstance(change.get("file"), str), "a claim change is none")
        name = change["file"]
        _expect(name.endswith(".json") and names.is_record(name[:-5]), f"{name!r} is no claim")
        images.append(_image(f"claims/{name}", change, "previous", "next"))
    _expect(len({image.path for image in images}) == len(images), "a claim stands twice")
    owner = details.get("lease_owner")
    actor = owner if isinstance(owner, str) else ""
    return journal.Journal(channel, transaction, str(event), actor, {"task_id": str(task_id)}, images, None)


def _path(channel: str, found: dict[str, Any]) -> journal.Journal:
    _expect(found.get("version") == 1, "unknown version")
    _expect(found.get("phase") in _PHASES, "unknown phase")
    target, event, actor = found.get("target"), found.get("event"), found.get("actor")
    _expect(isinstance(target, str) and target.endswith(".json"), "no target")
    lock_id = str(target)[:-5]
    _expect(names.is_lock_id(lock_id), f"{target!r} is no lock")
    _expect(isinstance(event, str) and isinstance(actor, str), "no event or actor")
    transaction = found.get("transaction_id")
    _expect(isinstance(transaction, str) and bool(transaction), "no transaction id")
    images = [_image(f"locks/{target}", found, "before", "after")]
    return journal.Journal(channel, str(transaction), str(event), str(actor), {"lock_id": lock_id}, images, None)


def _image(path: str, found: dict[str, Any], before: str, after: str) -> journal.Image:
    _expect(before in found and after in found, "an image is missing")
    return journal.Image(path, journal.unpacked(found[before]), journal.unpacked(found[after]))


def _expect(condition: object, why: str) -> None:
    if not condition:
        raise journal.Invalid(why)


def _is_published(channel: Channel, entry: journal.Journal) -> bool:
    """Whether an audit message of this very transaction is there."""
    there = {*channel.folder.names(), *(entry.name for entry in channel.log.archived(0))}
    for name in sorted(there, reverse=True):
        message = channel.log.message(name) if names.message_number(name) else None
        if message is None or message.status.lower() != entry.event.lower():
            continue
        if entry.actor and message.sender.lower() != entry.actor.lower():
            continue
        try:
            body = records.load(message.body.encode("utf-8"))
        except (records.Damaged, AgentChatError):
            continue
        wanted = {"event": entry.event, "transaction_id": entry.id, **entry.subject}
        if all(body.get(key) == value for key, value in wanted.items()):
            return True
    return False
