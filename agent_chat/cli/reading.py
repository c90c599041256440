"""read, wait, ack: what moves a cursor."""

from __future__ import annotations

import os
import sys
import time

from agent_chat import channel as channels
from agent_chat import clock, cursors
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import FAILED, OK, TIMED_OUT, AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_chat.channel import Channel
    from agent_chat.presence import Announced
    from agent_chat.receipts import Undelivered

DEFAULT_TIMEOUT = 900  # seconds
NEVER = float("inf")  # a deadline


def run(call: Call) -> int:
    return {"read": _read, "wait": _wait, "ack": _ack}[call.command](call)


class Reader:
    """Who reads, and how the answer looks: what read and wait have in common."""

    __slots__ = ("after", "agent", "call", "every_audit", "excluded", "limit", "max_bytes", "shape")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.agent = call.agent()
        self.shape = output.message_format(call)
        self.limit = call.number("limit", "--limit", least=1)
        self.max_bytes = call.number(
            "max_bytes", "--max-bytes", output.ENVELOPE_LIMIT if self.shape == "envelope" else 0
        )
        self.every_audit = call.flag("audit") or os.environ.get("AGENT_CHAT_AUDIT") == "all"
        self.excluded = call.excluded()
        self.after = call.number("after", "--after", -1)

    def look(self, channel: Channel, persist: bool = False) -> cursors.Unread:
        return cursors.look(channel, self.agent, self.every_audit, persist, self.excluded)

    def page(
        self, channel: Channel, unread: cursors.Unread, is_moving: bool, told: Sequence[Undelivered] = ()
    ) -> tuple[str, int]:
        """The answer, and how many messages it shows. `told`: what expired before its recipients saw it."""
        bounds = self.limit, self.max_bytes
        unread.load(channel, *bounds)
        page = output.page(channel.name, unread.messages, self.shape, *bounds, cut=not self.call.given("max_bytes"))
        count = unread.whole_numbers(page.count)
        if count > page.count:
            page = output.page(channel.name, unread.messages[:count], self.shape)
        cursor = unread.after(count) if is_moving else unread.cursor
        if self.shape == "json":
            return self._object(channel, unread, count, cursor, told), count
        if not count:
            above = f" above #{self.after}" if self.after >= 0 else ""
            text = f"(no new messages for {self.agent}{above} in {channel.name!r}; cursor at #{cursor})\n"
        else:
            text = page.text if self.shape == "markdown" else f"{output.CAUTION}\n{page.text}"
        if page.cut:
            number = unread.messages[0].number
            text += (
                f"cut: #{number} has {page.cut} bytes; all of it: {self._command('show', channel.name, str(number))}\n"
            )
        for one in told:
            shown = self._command("show", channel.name, str(one.number))
            text += f"expired: #{one.number} was not seen in time by {', '.join(one.missed)}; its text: {shown}\n"
        left = unread.left(count)
        if left:
            above = str(unread.messages[count - 1].number) if count and self.after >= 0 else ""
            text += f"more: {left} message{'s' if left > 1 else ''}; next: {self.again(channel, above)}\n"
        return text, count

    def again(self, channel: Channel, above: str = "") -> str:
        """The command that reads what is left, with the same choice of messages."""
        words = ["read", channel.name, "--as", self.agent, *(("--after", above) if above else ())]
        for option in ("exclude_topic", "exclude_from"):
            for word in self.call.words(option):
                words += ["--" + option.replace("_", "-"), word]
        return self._command(*words, *(("--audit",) if self.call.flag("audit") else ()))

    def _command(self, *words: str) -> str:
        return output.command_line(words, self.call.text("root"))

    def _object(
        self, channel: Channel, unread: cursors.Unread, count: int, cursor: int, told: Sequence[Undelivered]
    ) -> str:
        shown = [output.message_object(channel.name, message) for message in unread.messages[:count]]
        result = {"channel": channel.name, "agent": self.agent, "messages": shown, "cursor": cursor}
        if told:
            result["expired"] = [one.record() for one in told]
        return output.as_json({**result, "latest_seq": unread.latest, "has_more": unread.left(count) > 0})

    def deliver(
        self,
        channel: Channel,
        only_news: bool = False,
        ended: Callable[[], bool] = bool,
        patience: float = disk.LOCK_PATIENCE,
    ) -> bool:
        """Show what is new and move the cursor after it. False when there is nothing and `only_news`, or it `ended`."""
        with cursors.reading(channel, self.agent, patience):
            cursors.begin(channel, self.agent)
            unread = self.look(channel, persist=True)
            told, done = _undelivered(channel, unread)
            text, count = self.page(channel, unread, True, told)
            if only_news and not count:
                return False
            with cursors.prepare(channel, self.agent, unread, count) as move:
                if ended():
                    return False
                self.tell_odd(channel, unread)
                output.emit(text, sync=True)
                move()
                if done:
                    _forget(channel, self.agent, done)
                if told and channel.policy is not None:
                    from agent_chat import ledger

                    for one in told:
                        ledger.expired(channel, self.agent, one.number, one.missed)
        return True

    def tell_odd(self, channel: Channel, unread: cursors.Unread) -> None:
        if unread.beyond:
            output.note(
                f"agent-chat: the cursor of {self.agent} in {channel.name!r} stood at #{unread.stored}, beyond the end;"
                f" it counts as #{unread.latest}"
            )
        output.skipped(channel.name, unread.unreadable)

    def tell_stranger(self, channel: Channel) -> None:
        if not channel.meta.members or channel.meta.has(self.agent):
            return
        from agent_chat import messages

        if not messages.is_known(channel, self.agent):
            members = ", ".join(channel.listed(channel.meta.members))
            output.note(f"agent-chat: {self.agent} is no member of {channel.name!r} ({members})")


def _read(call: Call) -> int:
    reader = Reader(call)
    with call.channel() as channel:
        reader.tell_stranger(channel)
        if call.given("after"):
            if call.flag("all"):
                raise call.usage("--after and --all exclude each other")
            unread = cursors.since(channel, reader.agent, reader.after, reader.every_audit, reader.excluded)
            reader.tell_odd(channel, unread)
            output.emit(reader.page(channel, unread, is_moving=False)[0])
            return OK
        if call.flag("all"):
            return _read_all(reader, channel)
        if call.flag("peek"):
            unread = reader.look(channel)
            reader.tell_odd(channel, unread)
            output.emit(reader.page(channel, unread, is_moving=False)[0])
            return OK
        reader.deliver(channel)
        return OK


def _read_all(reader: Reader, channel: Channel) -> int:
    unread = reader.look(channel)
    excluded = reader.excluded
    from agent_chat import messages

    unread.entries = [entry for entry in messages.entries(channel) if not (excluded and excluded(entry))]
    if not reader.call.given("max_bytes"):
        reader.max_bytes = 0
    unread.unreadable = list(channel.log.unreadable.values())
    reader.tell_odd(channel, unread)
    output.emit(reader.page(channel, unread, is_moving=False)[0])
    return OK


def _undelivered(channel: Channel, unread: cursors.Unread) -> tuple[list[Undelivered], list[str]]:
    """What the reader's own expired messages have come to, and the marks that are done with then."""
    if not unread.expiring:
        return [], []
    from agent_chat import receipts

    return receipts.undelivered(channel, unread.expiring, unread.latest)


def _forget(channel: Channel, agent: str, done: list[str]) -> None:
    from agent_chat import receipts

    receipts.forget(channel, agent, done)


def _ack(call: Call) -> int:
    agent = call.agent()
    call.needed("upto", "--upto")
    with call.channel() as channel:
        at = cursors.acknowledge(channel, agent, call.number("upto", "--upto"), call.flag("force"))
        result: dict[str, object] = {"channel": channel.name, "agent": agent, "cursor": at}
        return output.answer(call, result, f"cursor of {agent} in {channel.name} at #{at}")


def seconds(call: Call, name: str, read: Callable[[str], int], default: int) -> float:
    try:
        return read(call.text(name)) / clock.SECOND if call.given(name) else default
    except ValueError:
        bound = "from 0" if name == "timeout" else "above 0"
        raise call.usage(f"--{name} takes seconds {bound}, not {call.text(name)!r}") from None


class Vigil:
    """Channels that are looked into again and again: what wait and watch have in common."""

    __slots__ = ("_agent", "_ended", "_present", "_watch", "busy", "opened")

    def __init__(
        self, opened: list[Channel], agent: str, ended: Callable[[], bool], interval: float | None = None
    ) -> None:
        self.opened = opened
        self._agent = agent
        self._ended = ended
        from agent_chat.storage import watch

        self._watch = watch.Watch([watch.time_of(channel.folder) for channel in opened], interval)
        self._present: Announced | None = None
        self.busy: AgentChatError | None = None  # of the last look: another reading of this agent

    def __enter__(self) -> Vigil:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._present:
            self._present.end()
        for channel in self.opened:
            channel.folder.close()

    def is_served(self, serve: Callable[[Channel], bool], deadline: float = NEVER) -> bool:
        """Whether `serve` answered True for a channel, before the deadline (monotonic seconds) and the end."""
        while True:
            self._watch.arm()
            self.busy = None
            for channel in self.opened:
                channel.log.must_list, channel.log.looks_again = self._watch.is_full_look, True
                try:
                    if serve(channel):
                        return True
                except AgentChatError as error:
                    if error.code != "CURSOR_BUSY":
                        raise
                    self.busy = error  # another reading of this agent may yet fail and leave it all to us
            if self._present is None and time.monotonic() < deadline:
                self._present = _announce(self.opened, self._agent)
                self._watch.trusts_times = self._present.times_move
            is_young = any(bad.is_young for channel in self.opened for bad in channel.log.unreadable.values())
            if not self._watch.sleep(deadline, is_young or self.busy is not None, self._ended):
                return False


def _wait(call: Call) -> int:
    reader = Reader(call)
    timeout = seconds(call, "timeout", clock.parse_timeout, DEFAULT_TIMEOUT)
    interval = seconds(call, "interval", clock.parse_duration, 0) or None
    deadline = time.monotonic() + timeout
    ended = never if call.flag("outlive_parent") or sys.platform == "win32" else parent_is_gone(os.getppid())
    opened = [channels.find(call.root, name) for name in call.words("channels")]
    with Vigil(opened, reader.agent, ended, interval) as vigil:
        for channel in opened:
            call.admit(channel)
            reader.tell_stranger(channel)
        if vigil.is_served(lambda one: _serve(reader, one, ended, min(1.0, deadline - time.monotonic())), deadline):
            return OK
    if ended():
        output.note("agent-chat: wait ended: the process that started it is gone")
        return FAILED
    if vigil.busy:
        raise vigil.busy
    where = ", ".join(repr(channel.name) for channel in opened)
    output.note(f"agent-chat: no new message for {reader.agent} in {where} within {timeout:g} s")
    return TIMED_OUT


def _announce(opened: list[Channel], agent: str) -> Announced:
    """From now on others see that the agent waits; not imported by a wait that has something to show."""
    from agent_chat import presence

    return presence.announce(opened, agent)


def _serve(reader: Reader, channel: Channel, ended: Callable[[], bool], patience: float) -> bool:
    """Deliver, or with --peek announce, what is new in the channel; whether there was something. CURSOR_BUSY."""
    unread = look_again(reader, channel)
    if not unread.entries:
        return False
    if not reader.call.flag("peek"):
        return reader.deliver(channel, True, ended, patience)
    senders = list(dict.fromkeys(entry.sender for entry in unread.entries))
    count, following = len(unread.entries), reader.again(channel)
    result: dict[str, object] = {"channel": channel.name, "agent": reader.agent, "count": count, "from": senders}
    plural = "s" if count > 1 else ""
    text = (
        f"{count} message{plural} for {reader.agent} in {channel.name!r} from {', '.join(senders)}; read: {following}"
    )
    output.answer(reader.call, {**result, "next": following}, text)
    return True


def look_again(reader: Reader, channel: Channel) -> cursors.Unread:
    if channel.folder.is_gone():
        raise AgentChatError(
            "CHANNEL_NOT_FOUND", f"channel {channel.name!r} was removed during the wait", ("channels",)
        )
    reader.call.admit(channel)  # a person may have turned it off meanwhile
    return reader.look(channel)


def never() -> bool:
    return False


def parent_is_gone(parent: int) -> Callable[[], bool]:
    return lambda: os.getppid() != parent
