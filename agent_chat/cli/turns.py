"""turn open, show, assign, report, wait, close, reopen, roles: one responsible at a time."""

from __future__ import annotations

import os
import sys
import time

from agent_chat import clock, decisions, ledger, requests, turns
from agent_chat.cli import admission, operator, output, posting, reading
from agent_chat.cli.options import Call
from agent_chat.cli.recovering import tell_pending
from agent_chat.errors import FAILED, OK, TIMED_OUT, AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_chat.channel import Channel
    from agent_chat.turns import Turn


def run(call: Call) -> int:
    does = {"open": _open, "show": _show, "assign": _hand_over, "report": _hand_over, "wait": _wait}
    does.update(dict.fromkeys(("close", "reopen", "roles"), _decide))
    with call.channel() as channel:
        try:
            return does[call.command.partition(" ")[2]](call, channel)
        finally:
            for notice in channel.notices:
                output.note(f"agent-chat: {notice}")


def _open(call: Call, channel: Channel) -> int:
    orchestrator, worker = call.needed("orchestrator", "--orchestrator"), call.needed("worker", "--worker")
    actor = call.agent() if call.is_agent_known() else orchestrator
    turn = turns.open_turn(channel, actor, orchestrator, worker)
    return output.answer(call, {"channel": channel.name, "turn": turn.record()}, turn.line())


def _show(call: Call, channel: Channel) -> int:
    pending, turn = channel.look("turn", lambda view: (view.pending, turns.find(view)))
    tell_pending(pending, channel.name, call.text("root"))
    if turn is None:
        return output.answer(call, {"channel": channel.name, "turn": None}, f"(no turn was opened in {channel.name!r})")
    lines = [turn.line(), *_lines("assignment", turn.orchestrator, turn.last_assignment)]
    lines += _lines("report", turn.worker, turn.last_report)
    return output.answer(call, {"channel": channel.name, "turn": turn.record()}, "\n".join(lines))


def _lines(kind: str, who: str, found: dict[str, Any] | None) -> list[str]:
    """A handover for people and models. Its text is indented, so that it cannot look like a line of ours."""
    if found is None:
        return []
    outcome = f" ({found['outcome']})" if found["outcome"] else ""
    head = f"{kind} v{found['version']} from {who}{outcome}: {found['title']}"
    return [head, *(f"  {line}" for line in found["body"].split("\n") if found["body"])]


# ---- assign and report ----------------------------------------------------------------------------------------


def _hand_over(call: Call, channel: Channel) -> int:
    actor, is_report = call.agent(), call.command == "turn report"
    call.needed("version", "--version")
    version = call.number("version", "--version", least=1)
    outcome = call.needed("outcome", "--outcome") if is_report else None
    title = call.text("title") if is_report and call.given("title") else outcome or call.needed("title", "--title")
    if call.given("body") and call.given("body_file"):
        raise call.usage("--body and --body-file exclude each other")
    body = posting.body(call) if call.given("body_file") else call.text("body")
    handover = turns.Handover(version, title, body, outcome, call.text("request_id"))
    with ledger.Attempt(channel, "turn", actor, "-", title, body, call.text("request_id")) as attempt:
        turn, made, is_repeat = (turns.report if is_report else turns.assign)(channel, actor, handover)
        to = turn.orchestrator if is_report else turn.worker
        attempt.came_to(0, ledger.DUPLICATE if is_repeat else ledger.POSTED, to=to)
    result: dict[str, object] = {"channel": channel.name, "version": made["version"], "repeated": is_repeat}
    did = "reported" if is_report else "assigned"
    again = " already, nothing was done again" if is_repeat else ""
    text = f"{did} as v{made['version']}{again}; {turn.line()}"
    return output.answer(call, {**result, "turn": turn.record()}, text)


# ---- wait -----------------------------------------------------------------------------------------------------


class _Waiting:
    """Who waits for the turn, and with which version in hand."""

    __slots__ = ("_agent", "_call", "_have", "last")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._agent = call.agent()
        self._have = call.number("have", "--have", least=1)
        self.last: Turn | None = None

    @property
    def agent(self) -> str:
        return self._agent

    def serve(self, channel: Channel) -> bool:
        """Print what was handed over when the agent holds the turn. TURN_CLOSED, TURN_NOT_YOURS."""
        if channel.folder.is_gone():
            text = f"channel {channel.name!r} was removed during the wait"
            raise AgentChatError("CHANNEL_NOT_FOUND", text, ("channels",))
        self._call.admit(channel)  # a person may have turned it off meanwhile
        turn = self.last = channel.look("turn", turns.find)
        if turn is None:
            return False
        if turn.state == turns.CLOSED:
            raise turns.closed(channel.name, turn)
        if not turn.is_party(self._agent):
            text = f"{turn.line()}, and {self._agent} is neither"
            raise AgentChatError("TURN_NOT_YOURS", text, ("turn", "show", channel.name))
        if not turn.is_held_by(self._agent):
            return False
        if turn.is_worker(self._agent) and turn.version == self._have:
            turns.give_back(channel, self._agent, self._have)
            return self.serve(channel)  # it has another version now, or was closed meanwhile
        self._show(channel, turn)
        return True

    def _show(self, channel: Channel, turn: Turn) -> None:
        is_worker = turn.is_worker(self._agent)
        found = turn.last_assignment if is_worker else turn.last_report
        if found and found["version"] != turn.version:
            found = None  # it came back without a report, or was opened again
        kind = "assignment" if is_worker else "report"
        lines = [output.CAUTION, turn.line()]
        lines += _lines(kind, turn.orchestrator if is_worker else turn.worker, found)
        if not is_worker and found is None and turn.last_assignment:
            lines.append(f"it came back without a report: {turns.STILL_RUNNING}")
        typed = self._call.text("root")
        does = ("report", "--outcome", turns.DONE) if is_worker else ("assign",)
        words = ("turn", does[0], channel.name, "--as", self._agent, "--version", str(turn.version), *does[1:])
        lines.append(f"next: {output.command_line((*words, '--title', 'TITLE', '--body', 'TEXT'), typed)}")
        result: dict[str, object] = {"channel": channel.name, "agent": self._agent, "turn": turn.record()}
        output.answer(self._call, {**result, "handed_over": found}, "\n".join(lines))


def _wait(call: Call, channel: Channel) -> int:
    waiting = _Waiting(call)
    timeout = reading.seconds(call, "timeout", clock.parse_timeout, reading.DEFAULT_TIMEOUT)
    interval = reading.seconds(call, "interval", clock.parse_duration, 0) or None
    deadline = time.monotonic() + timeout
    is_free = call.flag("outlive_parent") or sys.platform == "win32"
    ended = reading.never if is_free else reading.parent_is_gone(os.getppid())
    with reading.Vigil([channel], waiting.agent, ended, interval) as vigil:
        if vigil.is_served(waiting.serve, deadline):
            return OK
    if ended():
        output.note("agent-chat: turn wait ended: the process that started it is gone")
        return FAILED
    stands = waiting.last.line() if waiting.last else "no turn was opened"
    output.note(
        f"agent-chat: {waiting.agent} did not get the turn in {channel.name!r} within {timeout:g} s"
        f" ({stands}); that is no permission to work"
    )
    return TIMED_OUT


# ---- close, reopen, roles: a person's, or a request ----------------------------------------------------------


def _decide(call: Call, channel: Channel) -> int:
    kind = call.command.replace(" ", ".")
    wants = {name: call.text(name) for name in ("orchestrator", "worker") if call.given(name)}
    if kind == requests.ROLES and not wants:
        raise call.usage("turn roles needs --orchestrator, --worker or both")
    present = channel.look("turn", turns.load)
    if wants:
        turns.check_roles(
            channel.name, wants.get("orchestrator", present.orchestrator), wants.get("worker", present.worker)
        )
    if call.is_agent_known() and not operator.is_person():
        return _ask(call, channel, kind, wants, present)
    operator.confirm(call, channel, " ".join([f"to {kind.replace('.', ' ')}", *map("=".join, wants.items())]))
    turn = decisions.decide_turn(channel, kind, wants)
    return output.answer(call, {"channel": channel.name, "turn": turn.record()}, turn.line())


def _ask(call: Call, channel: Channel, kind: str, wants: dict[str, str], present: Turn) -> int:
    """An agent files a request."""
    admission.prove(call, channel)
    agent = call.agent()
    reason = requests.check_reason(call.text("reason"), *call.command.split(), channel.name, "--as", agent)
    parties = [present.orchestrator, present.worker]
    found = requests.file(channel, kind, agent, wants, reason, agent, parties)
    text = f"asked for it as {found.id}: your user decides, by `approve {channel.name} {found.id}`"
    return output.answer(call, {"channel": channel.name, "request": found.record()}, text)
