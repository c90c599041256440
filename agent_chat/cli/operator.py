"""The operator: whether a person is at the terminal, and their word on one decision.

Nothing here stops a process of the same user, which could as well edit the files. It keeps an honest agent from
deciding for a person by mistake: an agent has no terminal, and its host's environment names itself.
"""

from __future__ import annotations

import os
import sys

from agent_chat.cli import output
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_chat.channel import Channel
    from agent_chat.cli.options import Call

# What the hosts of agents put into the environment of what they run; people export other CLAUDE_CODE_* for themselves.
_HOSTS = frozenset(["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT"])
_HOSTS |= {"GEMINI_CLI", "GEMINI_SESSION_ID", "OPENCODE", "CURSOR_AGENT"}
_HOSTS |= {"AGENT_CHAT_TOKEN"}  # what `join` gave to an agent
_PREFIX = "CODEX_"


def host_of(environment: Mapping[str, str]) -> str:
    """The variable by which an agent's host names itself; empty where none does."""
    found = (name for name in sorted(environment) if name in _HOSTS or name.startswith(_PREFIX))
    return next((name for name in found if environment[name]), "")


def missing() -> str:
    """Why nobody at a terminal is here, for people; empty when a person is."""
    host = host_of(os.environ)
    if host:
        return f"this runs inside an agent's host (${host} is set)"
    for fd, name in ((0, "standard input"), (2, "error output")):
        try:
            if not os.isatty(fd):
                return f"{name} is no terminal"
        except OSError:
            return f"{name} is no terminal"
    return ""


def is_person() -> bool:
    """Whether a person is at the terminal, as an operator would be."""
    return not missing()


def confirm(call: Call, channel: Channel, what: str) -> None:
    """Have the person type the channel's name, or refuse: OPERATOR_REQUIRED. `what` is about to be decided."""
    why = missing()
    if why:
        raise _refused(call, f"{what} is for a person at a terminal to decide, and {why}; tell your user")
    output.note(f"agent-chat: {what} in channel {channel.name!r}; type the channel's name to confirm it:")
    if _line() != channel.name:
        raise _refused(call, f"{what}: the channel's name was not typed; nothing was changed")
    channel.signature = [("operator", "yes")]


def _line() -> str:
    """What the person types, up to the end of the line."""
    try:
        return sys.stdin.readline().strip()
    except (OSError, ValueError):
        return ""


def _refused(call: Call, text: str) -> AgentChatError:
    words = [call.text(name) for name in ("channel", "key", "value", "request") if call.given(name)]
    for name in ("before", "older_than"):
        words += [f"--{name.replace('_', '-')}", call.text(name)] if call.given(name) else []
    words += [f"--{name}" for name in ("delete", "force") if call.flag(name)]
    return AgentChatError("OPERATOR_REQUIRED", text, (*call.command.split(), *words))
