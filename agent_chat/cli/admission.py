"""Whether a command may be run in a channel, by its policy and by the token that the caller shows.

Imported only where there is a policy or a token: everybody else pays one look for the file.
"""

from __future__ import annotations

import os

from agent_chat import names, policy
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.channel import Channel
    from agent_chat.cli.options import Call

TOKEN = "AGENT_CHAT_TOKEN"
# What goes on in a channel that is turned off or whose policy cannot be read: nothing of these sends, shows a
# message or waits for one, or a person decides it.
_OPERATORS = frozenset(["policy set", "approve", "deny", "turn close", "turn reopen", "turn roles", "guards reset"])
_ALWAYS = _OPERATORS | {"channels", "roster", "state", "doctor", "agents", "requests", "policy show"}
_ALWAYS |= {"task recover-pending", "recover-pending", "archive"}
# What changes nothing in anybody's name. The operators' commands ask for a person, or, from an agent, by themselves.
_LOOKS = _OPERATORS | {"roster", "state", "agents", "requests", "policy show", "peek", "show", "digest", "turn show"}
_LOOKS |= {"task list", "task show", "locks", "check", "event read", "topics", "thread", "receipts", "turn wait"}
_LOOKS |= {"guards show", "search", "log", "archive"}
# Settling gives nobody anything, and must go on where a crash keeps everybody from joining.
_LOOKS |= {"task recover-pending", "recover-pending"}
_OWN_PROOF = frozenset(["join", "leave"])  # they look at session and token by themselves
_READS = frozenset(["read", "wait", "watch", "ack"])  # they move the reader's own cursor, and reach nobody


def admit(call: Call, channel: Channel) -> None:
    """Refuse what the policy or the token forbids, and sign what is written from here with the token's key.

    CHANNEL_OFF, POLICY_INVALID, IDENTITY_REQUIRED, IDENTITY_MISMATCH, REACH_REFUSED.
    """
    found = policy.Policy({})
    try:
        found = channel.policy = policy.load(channel.folder, channel.name)
    except AgentChatError:
        if call.command not in _ALWAYS or call.flag("write"):
            raise
    if found.value("access") == policy.OFF and (call.command not in _ALWAYS or call.flag("write")):
        raise policy.channel_off(channel.name)
    if call.command in _OWN_PROOF:
        return
    is_proven = _prove(call, channel) if call.command not in _ALWAYS else False
    if not is_look(call):
        need(call, channel, found, is_proven)


def is_look(call: Call) -> bool:
    """Whether the command changes nothing in anybody's name."""
    if call.command in _READS:
        return any(map(call.given, ("peek", "all", "after", "notify")))
    # A worker's `turn wait --have` may give the turn back, `state --write` publishes.
    return call.command in _LOOKS and not (call.given("have") or call.flag("write"))


def need(call: Call, channel: Channel, found: policy.Policy, is_proven: bool) -> None:
    """What the policy asks of whoever changes something or sends."""
    if found.value("identity") == "required" and not is_proven:
        agent = call.agent()
        text = f"channel {channel.name!r} wants proof that you are {agent}: join, and show the token in ${TOKEN}"
        raise AgentChatError("IDENTITY_REQUIRED", text, ("join", channel.name, "--as", agent))
    if found.value("reach") == "joined" and call.command not in _READS:
        from agent_chat import people

        people.need_joined(channel, call.agent(), is_self=True)
        addressed = [*call.text("to").split(","), *map(call.text, ("owner", "orchestrator", "worker"))]
        for name in addressed:
            if name.strip().lower() not in ("", "*", names.EVERYONE):
                people.need_joined(channel, name.strip(), is_self=False)


def prove(call: Call, channel: Channel) -> None:
    """For a command that asks a person or files a request in an agent's name: what the policy asks of that agent."""
    need(call, channel, policy.load(channel.folder, channel.name), _prove(call, channel))


def _prove(call: Call, channel: Channel) -> bool:
    """Whether the caller showed the token of its name. IDENTITY_MISMATCH for another one."""
    given = os.environ.get(TOKEN)
    if not given:
        return False
    from agent_chat import people

    token = people.token_for(given, channel.name)
    if not token:
        return False
    session = people.verify(channel, token)
    if not is_look(call) and call.agent().lower() != session.agent.lower():
        raise mismatch(call.agent(), session.agent)
    key = ("key", session.key[: people.SHOWN_KEY])
    channel.proof = lambda: people.verify(channel, token, is_locked=True)  # a takeover may be granted meanwhile
    channel.signature = [*(one for one in channel.signature if one[0] != "key"), key]
    return True


def own_name(call: Call, given: str, typed: str) -> str:
    """Who acts by the tokens `given`: the name in that of this call's channel. IDENTITY_MISMATCH for a typed other."""
    from agent_chat import people

    channel = call.text("channel") or next(iter(call.words("channels")), "")
    name = people.name_in(people.token_for(given, channel))
    if name and typed and name.lower() != typed.lower():
        raise mismatch(typed, name)
    return typed or name


def mismatch(typed: str, name: str) -> AgentChatError:
    text = f"${TOKEN} is {name}'s, and you act as {typed!a}: leave the name out, or show its own token"
    return AgentChatError("IDENTITY_MISMATCH", text, ("join", "--help"))
