"""agents, digest: who is here, and what one of them does."""

from __future__ import annotations

import os
import sys
import time

from agent_chat import agents, clock, guards
from agent_chat.cli import output, reading
from agent_chat.cli.options import Call
from agent_chat.errors import FAILED, OK, REFUSED, TIMED_OUT
from agent_chat.storage import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.agents import Agent
    from agent_chat.channel import Channel

LONGEST = 300.0  # seconds that a digest waits at most
LIMIT = 2048  # bytes of a digest
_NAMED = 3  # damaged records named in one call


def run(call: Call) -> int:
    with call.channel() as channel:
        return _agents(call, channel) if call.command == "agents" else _digest(call, channel)


def _agents(call: Call, channel: Channel) -> int:
    found, damaged = agents.everybody(channel)
    rows: list[tuple[str, ...]] = [("AGENT", "JOINED", "HOST", "WAITING", "STATUS", "LAST", "UNREAD", "WORK")]
    rows += [_row(agent) for agent in found]
    empty = f"(nobody is in {channel.name!r})"
    cut = guards.cut_off(channel)
    result: dict[str, object] = {"channel": channel.name, "agents": [agent.shown() for agent in found]}
    lines = [output.table(rows) if found else empty]
    for one in cut:
        words = ("guards", "reset", channel.name, one.pair)
        lines.append(f"{one.line()}; next: {output.command_line(words, call.text('root'))}")
    output.answer(call, {**result, "cut": [one.record() for one in cut]}, "\n".join(lines))
    for error in damaged[:_NAMED]:
        output.refuse(error, False, call.text("root"))
    return REFUSED if damaged else OK


def _row(agent: Agent) -> tuple[str, ...]:
    last = agent.last[-1] if agent.last else None
    work = [*(task.id for task in agent.tasks)]
    if agent.locks:
        work.append(f"{len(agent.locks)} lock{'s' * (len(agent.locks) > 1)}")
    if agent.turn:
        work.insert(0, f"turn v{agent.turn.version}")
    return (
        agent.name,
        agent.session.joined_at[:16] if agent.session else "-",
        agent.host or "-",
        "-" if agent.waiting is None else f"since {agent.waiting[:19]}" if agent.waiting else "yes",
        agent.state or "-",
        f"#{last.number} {last.ts[:16]}" if last else "-",
        "?" if agent.unread is None else str(agent.unread),
        " ".join(work) or "-",
    )


def _digest(call: Call, channel: Channel) -> int:
    name = call.needed("of", "--of")
    timeout = min(LONGEST, reading.seconds(call, "timeout", clock.parse_timeout, int(LONGEST)))
    agent = agents.one(channel, name)
    waits = call.flag("wait")
    is_resting, is_orphan = True, False
    if waits and agent.state not in agents.RESTING:
        agent, is_resting, is_orphan = _until_resting(call, channel, agent, time.monotonic() + timeout)
    if is_orphan:
        output.note("agent-chat: digest ended: the process that started it is gone")
        return FAILED
    text = agents.digest(channel, agent, LIMIT - len(output.CAUTION) - 200)
    if not is_resting:
        text += f"\n{agent.name} is still busy after {timeout:g} s"
    result: dict[str, object] = {"channel": channel.name, "agent": agent.shown()}
    result.update({"digest": text, "busy": not is_resting})
    output.answer(call, result, f"{output.CAUTION}\n{text}")
    return OK if is_resting else TIMED_OUT


def _until_resting(call: Call, channel: Channel, agent: Agent, deadline: float) -> tuple[Agent, bool, bool]:
    """The agent once it rests or has written, whether it does, and whether nobody is left to hear of it."""
    is_free = sys.platform == "win32"
    ended = reading.never if is_free else reading.parent_is_gone(os.getppid())
    watcher, before = watch.Watch([watch.time_of(channel.folder)]), agents.last_number(agent)
    while True:
        watcher.arm()
        call.admit(channel)  # a person may have turned it off meanwhile
        agent = agents.one(channel, agent.name)
        if agents.is_resting(agent, before):
            return agent, True, False
        if not watcher.sleep(deadline, False, ended):
            return agent, False, ended()
