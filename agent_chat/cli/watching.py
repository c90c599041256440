"""watch: messages as they come, or with --notify one short line a burst, which wakes the session of a host.

Without channels it watches those that the settings name, or all of the root, new ones too. In a host it waits
until the session has a name, and ends with the host.
"""

from __future__ import annotations

import os
import sys
import time

from agent_chat import channel as channels
from agent_chat import clock, hosts, names
from agent_chat.cli import output, reading
from agent_chat.cli.options import Call
from agent_chat.cli.reading import NEVER
from agent_chat.errors import OK, TIMED_OUT, AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_chat.channel import Channel

LINE_LIMIT = 500  # characters; hosts cut longer lines
QUIET, BURST = 0.3, 2.0  # seconds without news that end a burst, and the longest burst
BELL_PAUSE = 0.25  # seconds between two polls of a bell: it runs all day, and nobody waits for it
SETTLED = 2.0  # seconds between two looks at who and what is to be watched
_SENDERS = 5


def run(call: Call) -> int:
    if call.flag("notify"):
        return _notify(call)
    reader = reading.Reader(call)
    if not call.given("max_bytes"):
        reader.max_bytes = 0  # a stream has no page
    ended, deadline = _ended(call), _deadline(call)
    interval = reading.seconds(call, "interval", clock.parse_duration, 0) or None
    while True:
        with _Watched(call).vigil(reader.agent, ended, interval) as vigil:
            for channel in vigil.opened:
                reader.tell_stranger(channel)
            vigil.is_served(lambda channel: _deliver(reader, channel, ended), deadline)
        if ended():
            return OK
        if time.monotonic() >= deadline:
            return TIMED_OUT


def _deadline(call: Call) -> float:
    if not call.given("timeout"):
        return NEVER
    return time.monotonic() + reading.seconds(call, "timeout", clock.parse_timeout, 0)


def _deliver(reader: reading.Reader, channel: Channel, ended: Callable[[], bool]) -> bool:
    if not reader.call.words("channels") and (channel.folder.is_gone() or not channel.is_open()):
        return False  # a person took it away or turned it off; the others are watched on
    if reading.look_again(reader, channel).entries:
        reader.deliver(channel, only_news=True, ended=ended, patience=1.0)
    return False


class _Watched:
    """Which channels of which root, as typed, or as the session's settings say at the moment."""

    __slots__ = ("_call", "_due", "_is_fixed", "_settings")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._is_fixed = bool(call.words("channels"))
        self._due = time.monotonic() + SETTLED
        self._settings = self._read()

    def _read(self) -> tuple[str, str, list[str]]:
        """(root, name of the session where it has one, channels)."""
        environment, root = os.environ, self._call.root
        found = hosts.find(root, hosts.session_id(environment), environment.get(hosts.PID_VARIABLE, ""))
        if found and found.root and not (self._call.given("root") or environment.get("AGENT_CHAT_ROOT")):
            root = found.root
        wanted = self._call.words("channels") or hosts.channels_of(environment)
        if not wanted and found:
            wanted = hosts.channels_of({"AGENT_CHAT_CHANNELS": found.channels})
        try:
            there = channels.list_names(root)
        except OSError:
            there = []
        if self._is_fixed:
            return root, "", wanted
        low = {name.lower() for name in wanted}
        return root, self._name(found), [name for name in there if not low or name.lower() in low]

    def _name(self, found: hosts.Session | None) -> str:
        typed = self._call.text("agent") or hosts.told_name(os.environ)
        return typed or (found.agent if found else "")

    @property
    def agent(self) -> str:
        return self._settings[1]

    def vigil(self, agent: str, ended: Callable[[], bool], interval: float | None) -> reading.Vigil:
        return reading.Vigil(self._open(), agent, lambda: ended() or self._is_outdated(), interval)

    def _open(self) -> list[Channel]:
        root, _, wanted = self._settings
        opened: list[Channel] = []
        for name in wanted:
            try:
                opened.append(channels.find(root, name))
            except (AgentChatError, OSError) as error:
                if self._is_fixed:
                    raise
                output.note(f"agent-chat: {name} is not watched: {getattr(error, 'message', error)}")
        return opened

    def _is_outdated(self) -> bool:
        """Whether another look finds other settings or channels."""
        if self._is_fixed or time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + SETTLED
        return self._read() != self._settings


# ---- the bell ---------------------------------------------------------------------------------------------


class _Bell:
    """What is new since the last line."""

    __slots__ = ("_heard", "_is_fixed", "_new", "count", "reader")

    def __init__(self, reader: reading.Reader, is_fixed: bool) -> None:
        self.reader = reader
        self._is_fixed = is_fixed
        self._heard: dict[str, set[str]] = {}  # channel -> files of unread messages that were told
        self._new: dict[str, list[str]] = {}  # channel -> who wrote what is to be told, one a message
        self.count = 0

    def hears(self, channel: Channel) -> bool:
        try:
            unread = reading.look_again(self.reader, channel).entries
        except (AgentChatError, OSError):
            if self._is_fixed:
                raise
            return False  # damaged or gone: commands name what is wrong
        told = self._heard.get(channel.name, set())
        new = [entry.sender for entry in unread if entry.name not in told]
        self._heard[channel.name] = {entry.name for entry in unread}
        if new:
            self._new.setdefault(channel.name, []).extend(new)
            self.count += len(new)
        return bool(new)

    def ring(self) -> None:
        """`3 new messages for bob: #review 2 from alice; #ops 1 from carol`; with --json an object. And forget it."""
        found = [
            (name, len(senders), [sender for sender in dict.fromkeys(senders) if names.is_name(sender)])
            for name, senders in self._new.items()
        ]
        agent, plural = self.reader.agent, "s" if self.count > 1 else ""
        text, left = f"[agent-chat] {self.count} new message{plural} for {agent}: ", len(found)
        for name, count, senders in found:
            more = f" and {len(senders) - _SENDERS} more" if len(senders) > _SENDERS else ""
            part = f"#{name} {count} from {', '.join(senders[:_SENDERS]) or '?'}{more}"
            if len(text) + len(part) > LINE_LIMIT - 30:
                text += f"and {left} more channels"
                break
            left -= 1
            text += part + ("; " if left else "")
        result: dict[str, object] = {"agent": agent, "count": self.count}
        result["channels"] = [{"channel": name, "count": count, "from": senders} for name, count, senders in found]
        self._new, self.count = {}, 0
        output.answer(self.reader.call, result, text[:LINE_LIMIT])


def _notify(call: Call) -> int:
    ended, deadline = _ended(call), _deadline(call)
    interval = reading.seconds(call, "interval", clock.parse_duration, 0) or BELL_PAUSE
    if not _named(call, ended):
        return OK
    bell: _Bell | None = None
    while True:
        watched = _Watched(call)
        agent = names.agent(watched.agent or call.agent())
        if bell is None or bell.reader.agent != agent:
            bell = _Bell(reading.Reader(call.by(agent)), bool(call.words("channels")))
        with watched.vigil(agent, ended, interval) as vigil:
            while vigil.is_served(bell.hears, deadline):
                _tell(bell, vigil)
        if ended():
            return OK
        if time.monotonic() >= deadline:
            return TIMED_OUT


def _tell(bell: _Bell, vigil: reading.Vigil) -> None:
    """One line when the burst is over."""
    until = time.monotonic() + BURST
    while True:
        before = bell.count
        time.sleep(QUIET)
        for channel in vigil.opened:
            bell.hears(channel)
        if bell.count == before or time.monotonic() > until:
            break
    bell.ring()


def _named(call: Call, ended: Callable[[], bool]) -> bool:
    """Wait until the host's session has a name; False when the host ended before. USAGE_ERROR outside of a host."""
    while not (call.is_agent_known() or _Watched(call).agent):
        if hosts.PID_VARIABLE not in os.environ:
            call.agent()  # refused
        time.sleep(1.0)
        if ended():
            return False
    return True


def _ended(call: Call) -> Callable[[], bool]:
    """Whether the process that started this one is gone, or the host that it belongs to."""
    if call.flag("outlive_parent") or sys.platform == "win32":
        return reading.never
    parent_is_gone, host = reading.parent_is_gone(os.getppid()), os.environ.get(hosts.PID_VARIABLE, "")
    if not (host.isascii() and host.isdigit() and int(host) > 1):
        return parent_is_gone

    def ended() -> bool:
        try:
            os.kill(int(host), 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            pass  # it is there, and somebody else's
        return parent_is_gone()

    return ended
