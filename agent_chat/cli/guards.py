"""guards show, guards reset: limits for conversations that no person is in."""

from __future__ import annotations

from agent_chat import guards, policy
from agent_chat.cli import operator, output
from agent_chat.cli.options import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel

_SAID = {
    "guard_size": "{} bytes in a body",
    "guard_rate": "{} messages of one sender at once, then one each {} s",
    "guard_duplicate": "the same text to the same recipients within {} s is dropped",
    "guard_hops": "{} messages in a chain without a person",
    "guard_pingpong": "{} messages of a pair within {} s without a person, then it is cut off",
}


def run(call: Call) -> int:
    with call.channel() as channel:
        try:
            return _reset(call, channel) if call.command == "guards reset" else _show(call, channel)
        finally:
            for notice in channel.notices:
                output.note(f"agent-chat: {notice}")


def _show(call: Call, channel: Channel) -> int:
    found = policy.load(channel.folder, channel.name)
    cut, near = guards.cut_off(channel), guards.near(channel, found)
    rows = []
    for key, said in _SAID.items():
        limit = found.limit(key)
        rows.append((key, said.format(*limit) if limit else "off"))
    lines = [output.table(rows)]
    for one in near:
        who = " and ".join(map(str, one["who"])) if isinstance(one["who"], list) else ""
        lines.append(f"near {one['guard']}: {who}, {one['used']} of {one['limit']}")
    lines += [f"{one.line()}; next: {_next(call, channel, one.pair)}" for one in cut]
    if not found.is_guarded():
        on = output.command_line(("policy", "set", channel.name, "guards", "on"), call.text("root"))
        lines.append(f"no limit is set; next: {on}")
    limits = {key: found.value(key) for key in policy.LIMITS}
    result: dict[str, object] = {"channel": channel.name, "limits": limits, "near": near}
    return output.answer(call, {**result, "cut": [one.record() for one in cut]}, "\n".join(lines))


def _next(call: Call, channel: Channel, pair: str) -> str:
    return output.command_line(("guards", "reset", channel.name, pair), call.text("root"))


def _reset(call: Call, channel: Channel) -> int:
    one, _, other = call.text("pair").partition(",")
    pair = guards.pair_of(one.strip(), other.strip())
    if not guards.is_pair(pair):
        raise call.usage(f"a pair is two names with a comma between, not {call.text('pair')!a}")
    operator.confirm(call, channel, f"letting {pair.replace(',', ' and ')} talk to each other again")
    found = guards.reset(channel, pair)
    text = f"{pair.replace(',', ' and ')} may talk to each other again"
    result: dict[str, object] = {"channel": channel.name, "pair": pair.split(","), "was_cut": found is not None}
    return output.answer(call, result, text if found else f"{text}: they were not cut off")
