"""doctor: what is wrong, one line each with the command that helps."""

from __future__ import annotations

import shlex
import shutil
import sys

from agent_chat import channel as channels
from agent_chat import doctor
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import HELD, OK, AgentChatError


def run(call: Call) -> int:
    names = [call.text("channel")] if call.given("channel") else channels.list_names(call.root)
    found = [(name, *one) for name in names for one in _examine(call, name)]
    left = [one for one in found if not one[2]]
    version = ".".join(map(str, sys.version_info[:3]))
    git = shutil.which("git")
    head = f"{len(names)} channel{'s' * (len(names) != 1)} in {call.root}"
    head += f"; Python {version}, git {'found' if git else 'missing'}"
    shown = [_shown(call, *one) for one in found]
    result: dict[str, object] = {"root": call.root, "channels": names, "python": version, "git": git, "findings": shown}
    lines = [
        f"{name}: {one.kind}: {one.text}; {'fixed' if is_fixed else f'next: {_next(call, one)}'}"
        for name, one, is_fixed in found
    ]
    lines = [" ".join(line.split("\n")) for line in lines]  # a file's name may hold one
    output.answer(call, result, "\n".join([head, *lines]) if lines else f"{head}: nothing found")
    return HELD if left else OK


def _examine(call: Call, name: str) -> list[tuple[doctor.Finding, bool]]:
    """What is wrong in a channel, each with whether it was mended."""
    try:
        with channels.find(call.root, name) as channel:
            return [(finding, _fix(call, finding)) for finding in doctor.examine(channel)]
    except AgentChatError as error:
        if call.given("channel") and error.code in ("CHANNEL_NOT_FOUND", "CHANNEL_INVALID_NAME"):
            raise
        return [(doctor.of_refusal(error), False)]
    except OSError as error:
        return [(doctor.of_refusal(output.explain(error, call.root, call.command)), False)]


def _fix(call: Call, finding: doctor.Finding) -> bool:
    if finding.fix is None or not call.flag("fix"):
        return False
    try:
        finding.fix()
    except (AgentChatError, OSError):
        return False  # it stays a finding, with the command that says why
    return True


def _next(call: Call, finding: doctor.Finding) -> str:
    if finding.is_shell:
        return " ".join(map(shlex.quote, finding.next))
    return output.command_line(finding.next or ("--help",), call.text("root"))


def _shown(call: Call, name: str, finding: doctor.Finding, is_fixed: bool) -> dict[str, object]:
    what = {"channel": name, "kind": finding.kind, "message": finding.text}
    return {**what, "next": _next(call, finding), "fixed": is_fixed}
