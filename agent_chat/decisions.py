"""What only a person decides: the policy of a channel, and what agents have asked for.

Whether a person is there is the command line's to know (cli/operator.py). Each decision is one transaction
with one audit message, from `system`, since no agent made it.
"""

from __future__ import annotations

from agent_chat import clock, names, policy
from agent_chat.errors import AgentChatError
from agent_chat.storage import journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel


def check_policy(channel: str, key: str, value: str) -> None:
    """POLICY_UNKNOWN_KEY, POLICY_INVALID_VALUE."""
    if key not in policy.KEYS:
        text = f"no policy is called {key!a}; there are {', '.join(policy.KEYS)}"
        raise AgentChatError("POLICY_UNKNOWN_KEY", text, ("policy", "show", channel))
    if not policy.is_word(key, value):
        text = f"{key} can be {policy.choices(key)}, not {value!a}"
        raise AgentChatError("POLICY_INVALID_VALUE", text, ("policy", "show", channel))


def set_policy(channel: Channel, key: str, value: str) -> policy.Policy:
    """Set one key of the policy; setting what is set already publishes nothing. The codes of `check_policy`.

    A policy that cannot be understood is replaced, and a copy of it kept.
    """
    check_policy(channel.name, key, value)
    with channel.change("policy.set", names.SYSTEM) as change:
        before = change.read(names.POLICY_FILE)
        try:
            present = policy.decode(before, channel.name)
        except AgentChatError as error:
            present = policy.Policy({})
            stamp = clock.micro_stamp(change.now).replace(":", "")[:24]
            kept = journal.keep_aside(channel.folder, names.POLICY_FILE, before or b"", stamp, error.message)
            channel.notices.append(f"the policy that could not be read was kept as {channel.name}/{kept}")
        after = present.changed(key, value)
        if present.said != after.said:
            change.put(names.POLICY_FILE, after.encode())
            change.audit("policy.set", {"key": key}, {"value": value, "previous_value": present.value(key)}, ())
    return after
