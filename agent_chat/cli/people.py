"""join, leave: who takes part in a channel."""

from __future__ import annotations

import os

from agent_chat import hosts, people, requests
from agent_chat.cli import output
from agent_chat.cli.admission import TOKEN
from agent_chat.cli.options import Call
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel


def run(call: Call) -> int:
    with call.channel() as channel:
        try:
            return {"join": _join, "leave": _leave}[call.command](call, channel)
        finally:
            for notice in channel.notices:
                output.note(f"agent-chat: {notice}")


def _session(call: Call) -> str:
    """Which session this is: --session, $AGENT_CHAT_SESSION, or what the host calls it; else a new one."""
    typed = call.session() or hosts.session_id(os.environ)
    return people.check_session(typed) if typed else f"s-{os.urandom(6).hex()}"


def _earlier(call: Call, agent: str) -> list[str]:
    """The ids that this session had before, in the same process of its host: a clear gives it a new one."""
    pid = os.environ.get(hosts.PID_VARIABLE, "")
    began = hosts.started(pid)
    if not began:
        return []
    return [one.session for one in hosts.of_agent(call.root, agent) if (one.pid, one.started) == (pid, began)]


def _token(channel: Channel) -> str:
    return people.token_for(os.environ.get(TOKEN, ""), channel.name)


def _join(call: Call, channel: Channel) -> int:
    agent, session = call.agent(), _session(call)
    harness = call.text("harness") or hosts.harness_of(os.environ)
    if not harness.isprintable() or len(harness) > people.HARNESS_LIMIT:
        raise call.usage(f"--harness is a line of at most {people.HARNESS_LIMIT} characters")
    if call.flag("takeover"):
        return _ask(call, channel, agent, session, harness)
    found, token = people.join(channel, agent, session, harness, _token(channel), _earlier(call, agent))
    _tell_host(call, agent)
    shown = found.shown()
    result: dict[str, object] = {"channel": channel.name, **shown, "token": token}
    lines = [
        f"joined {channel.name} as {agent} (session {session}, key {shown['key']})",
        "your token, shown only now: whoever has it is you",
        f"export {TOKEN}={token}",
    ]
    return output.answer(call, result, "\n".join(lines))


def _ask(call: Call, channel: Channel, agent: str, session: str, harness: str) -> int:
    """A takeover is a person's to grant."""
    reason = requests.check_reason(call.text("reason"), "join", channel.name, "--as", agent, "--takeover")
    present = people.registered(channel, agent)
    again = ("join", channel.name, "--as", agent, "--session", session)
    if present is None or present.session == session:
        raise AgentChatError("SESSION_FREE", f"{agent} is free for this session: just join", again)
    wants = {"session": session, "harness": harness}
    found = requests.file(channel, requests.TAKEOVER, agent, wants, reason, "system", [agent])
    following = output.command_line(again, call.text("root"))
    result: dict[str, object] = {"channel": channel.name, "request": found.record(), "next": following}
    text = f"asked for it as {found.id}: your user decides, by `approve {channel.name} {found.id}`; then: {following}"
    return output.answer(call, result, text)


def _tell_host(call: Call, agent: str) -> None:
    """Let the hooks of the session around this process know its name, too."""
    session = hosts.session_id(os.environ)
    if not hosts.is_session_id(session):
        return
    pid = os.environ.get(hosts.PID_VARIABLE, "")
    found = hosts.Session(session, agent, hosts.harness_of(os.environ), pid, root=call.root)
    try:
        hosts.register(call.root, found, os.path.expanduser("~"))
    except (AgentChatError, OSError):
        output.note("agent-chat: the host's session could not be registered: its hooks do not know your name")


def _leave(call: Call, channel: Channel) -> int:
    left = people.leave(channel, call.agent(), call.session() or hosts.session_id(os.environ), _token(channel))
    result: dict[str, object] = {"channel": channel.name, "agent": left.agent, "session": left.session}
    return output.answer(call, result, f"{left.agent} left {channel.name}; its token is void")
