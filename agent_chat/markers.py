"""Marker files: `task-<id>.md` is work for whoever renames it first.

The rename is the claim, the record and the proof, and it works without locks: of several that rename
one file exactly one succeeds, because for the others it is gone.
"""

from __future__ import annotations

from agent_chat import names
from agent_chat.channel import Channel
from agent_chat.errors import AgentChatError


def claim(channel: Channel, marker: str, agent: str) -> str:
    """Take the marker; the new name. CLAIM_INVALID_MARKER; CLAIM_LOST names who has it."""
    names.agent(agent)
    _checked(channel, marker, agent)
    holder = _holder(channel, marker)
    if not holder:
        try:
            channel.folder.move(marker, names.claimed_marker(marker, agent))
            channel.folder.sync()
            return names.claimed_marker(marker, agent)
        except FileNotFoundError:
            holder = _holder(channel, marker)
    raise AgentChatError(
        "CLAIM_LOST",
        f"{marker} is claimed by {holder}" if holder else f"no marker {marker} in channel {channel.name!r}",
        ("peek", channel.name),
        {"owner": holder},
    )


def unclaim(channel: Channel, marker: str, agent: str, reason: str = "") -> str:
    """Give the marker back; who held it. CLAIM_NOT_FOUND; CLAIM_OWNER_MISMATCH for another's without a reason."""
    names.agent(agent)
    _checked(channel, marker, agent)
    holder = _holder(channel, marker)
    if not holder:
        raise AgentChatError(
            "CLAIM_NOT_FOUND", f"{marker} is not claimed in channel {channel.name!r}", ("peek", channel.name)
        )
    if holder != agent.lower() and not reason.strip():
        raise AgentChatError(
            "CLAIM_OWNER_MISMATCH",
            f"{marker} is claimed by {holder}",
            ("unclaim", channel.name, marker, "--as", agent, "--reason", "WHY"),
            {"owner": holder},
        )
    try:
        channel.folder.move(names.claimed_marker(marker, holder), marker)
    except FileNotFoundError:
        raise AgentChatError("CLAIM_NOT_FOUND", f"{marker} was given back just now", ("peek", channel.name)) from None
    except FileExistsError:
        raise AgentChatError(
            "CLAIM_INVALID_MARKER",
            f"a free {marker} lies beside the claimed one; remove one of them",
            ("peek", channel.name),
        ) from None
    channel.folder.sync()
    return holder


def _checked(channel: Channel, marker: str, agent: str) -> None:
    if not names.marker_id(marker):
        is_task_id = names.is_name(marker) and not marker.endswith(".md")
        next_command = ("task", "claim", channel.name, marker, "--as", agent) if is_task_id else ("claim", "--help")
        raise AgentChatError("CLAIM_INVALID_MARKER", f"{marker!r} is no marker file (task-<id>.md)", next_command)


def _holder(channel: Channel, marker: str) -> str:
    return next(
        (owner for name in sorted(channel.folder.names()) for owner in [names.marker_owner(name, marker)] if owner), ""
    )
