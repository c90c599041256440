"""Whether a command may be run in a channel, by its policy and by the token that the caller shows.

Imported only where there is a policy or a token: everybody else pays one look for the file.
"""

from __future__ import annotations

from agent_chat import policy
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel
    from agent_chat.cli.options import Call

# What goes on in a channel that is turned off or whose policy cannot be read: nothing of these sends, shows a
# message or waits for one, or a person decides it.
_ALWAYS = frozenset(["channels", "roster", "state", "doctor", "agents", "requests", "approve", "deny"])
_ALWAYS |= {"policy show", "policy set", "turn close", "turn reopen", "turn roles", "guards reset"}
_ALWAYS |= {"task recover-pending", "recover-pending"}


def admit(call: Call, channel: Channel) -> None:
    """CHANNEL_OFF, POLICY_INVALID."""
    try:
        found = policy.load(channel.folder, channel.name)
    except AgentChatError:
        if call.command not in _ALWAYS or call.flag("write"):
            raise
        return
    if found.value("access") == policy.OFF and (call.command not in _ALWAYS or call.flag("write")):
        raise policy.channel_off(channel.name)
