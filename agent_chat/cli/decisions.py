"""policy show, policy set: what a person decides about a channel."""

from __future__ import annotations

from agent_chat import decisions, policy
from agent_chat.cli import operator, output
from agent_chat.cli.options import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel
    from agent_chat.policy import Policy


def run(call: Call) -> int:
    with call.channel() as channel:
        if call.command == "policy show":
            return _show(call, channel, policy.load(channel.folder, channel.name))
        try:
            return _set(call, channel)
        finally:
            for notice in channel.notices:
                output.note(f"agent-chat: {notice}")


def _show(call: Call, channel: Channel, found: Policy) -> int:
    rows = [("KEY", "VALUE", "CAN BE")]
    for key, value in found.values().items():
        rows.append((key, value if key in found.said else f"{value} (default)", policy.choices(key)))
    result: dict[str, object] = {"channel": channel.name, "policy": dict(found.values()), "said": dict(found.said)}
    return output.answer(call, result, output.table(rows))


def _set(call: Call, channel: Channel) -> int:
    key, value = call.text("key"), call.text("value")
    decisions.check_policy(channel.name, key, value)
    operator.confirm(call, channel, f"setting the policy {key} to {value}")
    found = decisions.set_policy(channel, key, value)
    result: dict[str, object] = {"channel": channel.name, "key": key, "value": value, "policy": dict(found.values())}
    return output.answer(call, result, f"policy of {channel.name}: {key} is {value}")
