"""What only a person decides: the policy of a channel, and what agents have asked for.

Whether a person is there is the command line's to know (cli/operator.py). Each decision is one transaction
with one audit message, from `system`, since no agent made it.
"""

from __future__ import annotations

from agent_chat import clock, names, people, policy, requests, turns
from agent_chat.errors import AgentChatError
from agent_chat.storage import journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.change import Change
    from agent_chat.channel import Channel
    from agent_chat.requests import Request


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


# ---- what agents asked for ------------------------------------------------------------------------------------


def pending(channel: Channel) -> tuple[list[Request], list[AgentChatError]]:
    """The requests that wait for a decision, and what is wrong with the records."""
    found, damaged = channel.look("turn", requests.everything)
    return [request for request in found if request.state == requests.OPEN], damaged


def find(channel: Channel, request_id: str, state: str) -> Request:
    """A request that is open, or was decided as `state` already. REQUEST_NOT_FOUND, REQUEST_DECIDED."""
    return channel.look("turn", lambda view: _undecided(channel, requests.load(view, request_id), state))


def _undecided(channel: Channel, request: Request, state: str) -> Request:
    if request.state not in (requests.OPEN, state):
        text = f"{request.id} was {request.state} already, at {request.decided_at}"
        raise AgentChatError("REQUEST_DECIDED", text, ("requests", channel.name, "--all"))
    return request


def approve(channel: Channel, request_id: str) -> Request:
    """Do what was asked for. Approving what was approved changes nothing."""
    with channel.change("request.approved", names.SYSTEM) as change:
        request = _undecided(channel, requests.load(change, request_id), requests.APPROVED)
        if request.state != requests.OPEN:
            return request
        request = request.decided(change.now, requests.APPROVED, None)
        body, about = _GRANT[request.kind](change, request)
        _record(change, request, "request.approved", body, about)
    return request


def deny(channel: Channel, request_id: str, reason: str) -> Request:
    """Refuse it, and say why. Denying what was denied changes nothing."""
    with channel.change("request.denied", names.SYSTEM) as change:
        request = _undecided(channel, requests.load(change, request_id), requests.DENIED)
        if request.state != requests.OPEN:
            return request
        request = request.decided(change.now, requests.DENIED, reason)
        _record(change, request, "request.denied", {"decision": reason}, {request.agent})
    return request


def _record(change: Change, request: Request, event: str, body: dict[str, object], about: set[str]) -> None:
    change.put(names.request_file(request.id), request.encode())
    known: dict[str, object] = {"kind": request.kind, "agent": request.agent, "wants": request.wants}
    change.audit(event, {"request_id": request.id}, {**known, "reason": request.reason, **body}, about)


def _take_over(change: Change, request: Request) -> tuple[dict[str, object], set[str]]:
    """The name goes to the session that asked; the old token is void, the history stays."""
    present = people.load(change, request.agent)
    session, harness = request.wants["session"], request.wants["harness"]
    found = people.taken_over(present, request.agent, session, harness, change.now)
    change.put(names.session_file(request.agent), found.encode())
    body: dict[str, object] = {"session": session, "previous_session": present.session if present else None}
    turn = turns.take_from(change, request.agent)
    if turn:
        change.put(names.TURN_FILE, turn.encode())
    present_turn = turn or turns.find(change)
    parties = {present_turn.orchestrator, present_turn.worker} if present_turn else set()
    if any(name.lower() == request.agent.lower() for name in parties):
        body.update({"notice": turns.STILL_RUNNING, **(turns.said(turn) if turn else {})})
        return body, {request.agent, *parties}
    return body, {request.agent}


# ---- turns ----------------------------------------------------------------------------------------------------

_TURN_EVENT = {requests.CLOSE: "turn.closed", requests.REOPEN: "turn.reopened", requests.ROLES: "turn.roles"}


def decide_turn(channel: Channel, kind: str, wants: dict[str, str]) -> turns.Turn:
    """Close or reopen the turn, or give it other roles; the turn now. What is so already publishes nothing."""
    with channel.change(_TURN_EVENT[kind], names.SYSTEM) as change:
        before = turns.load(change)
        turn = _decided_turn(change, kind, wants)
        if turn.version != before.version:
            turns.record(change, turn, _TURN_EVENT[kind], {}, _parties(before, turn))
    return turn


def _decided_turn(change: Change, kind: str, wants: dict[str, str]) -> turns.Turn:
    if kind == requests.CLOSE:
        return turns.close(change)
    if kind == requests.REOPEN:
        return turns.reopen(change)
    return turns.cast(change, wants.get("orchestrator", ""), wants.get("worker", ""))


def _parties(*found: turns.Turn) -> set[str]:
    return {name for turn in found for name in (turn.orchestrator, turn.worker)}


def _grant_turn(change: Change, request: Request) -> tuple[dict[str, object], set[str]]:
    before = turns.load(change)
    turn = _decided_turn(change, request.kind, request.wants)
    if turn.version != before.version:
        change.put(names.TURN_FILE, turn.encode())
    return turns.said(turn), {request.agent, *_parties(before, turn)}


_GRANT = {requests.TAKEOVER: _take_over, **dict.fromkeys(_TURN_EVENT, _grant_turn)}
