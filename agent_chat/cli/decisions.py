"""policy show, policy set, requests, approve, deny: what a person decides about a channel."""

from __future__ import annotations

from agent_chat import decisions, policy, requests
from agent_chat.cli import operator, output
from agent_chat.cli.options import Call
from agent_chat.errors import OK, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel
    from agent_chat.requests import Request

_NAMED = 3  # damaged records named in one call


def run(call: Call) -> int:
    does = {"policy show": _show, "policy set": _set, "requests": _requests, "approve": _approve, "deny": _deny}
    with call.channel() as channel:
        try:
            return does[call.command](call, channel)
        finally:
            for notice in channel.notices:
                output.note(f"agent-chat: {notice}")


def _show(call: Call, channel: Channel) -> int:
    found = policy.load(channel.folder, channel.name)
    rows = [("KEY", "VALUE", "CAN BE")]
    for key, value in found.values().items():
        rows.append((key, value if key in found.said else f"{value} (default)", policy.choices(key)))
    result: dict[str, object] = {"channel": channel.name, "policy": found.values(), "said": found.said}
    return output.answer(call, result, output.table(rows))


def _set(call: Call, channel: Channel) -> int:
    key, value = call.text("key"), call.text("value")
    decisions.check_policy(channel.name, key, value)
    operator.confirm(call, channel, f"setting the policy {key} to {value}")
    found = decisions.set_policy(channel, key, value)
    result: dict[str, object] = {"channel": channel.name, "key": key, "value": value, "policy": found.values()}
    return output.answer(call, result, f"policy of {channel.name}: {key} is {value}")


def _requests(call: Call, channel: Channel) -> int:
    found, damaged = channel.look("turn", requests.everything)
    if not call.flag("all"):
        found = [request for request in found if request.state == requests.OPEN]
    rows = [("ID", "STATE", "FILED", "WANTS", "REASON")]
    rows += [(one.id, one.state, one.filed_at[:19], one.line(), one.reason) for one in found]
    empty = f"(no request {'was ever made' if call.flag('all') else 'waits for a decision'} in {channel.name!r})"
    result: dict[str, object] = {"channel": channel.name, "requests": [one.record() for one in found]}
    output.answer(call, result, output.table(rows) if found else empty)
    for error in damaged[:_NAMED]:
        output.refuse(error, False, call.text("root"))
    return REFUSED if damaged else OK


def _approve(call: Call, channel: Channel) -> int:
    request = decisions.find(channel, call.text("request"), requests.APPROVED)
    operator.confirm(call, channel, f"approving {_described(request)}")
    return _decided(call, channel, decisions.approve(channel, request.id))


def _deny(call: Call, channel: Channel) -> int:
    reason = requests.check_reason(call.text("reason"), "deny", channel.name, call.text("request"))
    request = decisions.find(channel, call.text("request"), requests.DENIED)
    operator.confirm(call, channel, f"denying {_described(request)}")
    return _decided(call, channel, decisions.deny(channel, request.id, reason))


def _described(request: Request) -> str:
    """What the person decides about; the reason is the agent's word for it."""
    return f"{request.id} ({request.line()}; reason given: {request.reason})"


def _decided(call: Call, channel: Channel, request: Request) -> int:
    result: dict[str, object] = {"channel": channel.name, "request": request.record()}
    return output.answer(call, result, f"{request.state} {request.id} ({request.line()})")
