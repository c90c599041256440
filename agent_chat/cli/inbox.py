"""What a host's hooks say: who you are, and how much is unread from whom.

For: hooks/entry.py. Looks without moving a cursor, and writes nothing but the session's registration and
the host's env file. Names and numbers only: no text of a message, but with $AGENT_CHAT_HOOK_TEXT=1, and then
in envelopes. Nothing is said when there is nothing; what cannot be read is left out.
"""

from __future__ import annotations

import os
import sys
import time

from agent_chat import channel as channels
from agent_chat import cursors, hosts, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_chat.channel import Channel
    from agent_chat.cursors import Unread

    Event = Callable[[], bytes]

LIMIT = 2000  # characters of a notice
TEXT_LIMIT = 8000  # characters with $AGENT_CHAT_HOOK_TEXT=1; hosts cut what is longer than 10,000
BUDGET = 3.0  # seconds of looking; a host waits
MANY = 500  # messages above the cursor that are looked at
_SENDERS = 5  # named for one channel
_MARK = "[agent-chat] "
_CODE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(what: str, event: Event) -> None:
    sys.argv = [os.path.join(_CODE, "chat.py")]  # what a command is said to be
    {"session": _session, "prompt": _prompt, "stop": _stop, "end": _end}[what](event)


class _Mail:
    """What is unread in one channel."""

    __slots__ = ("channel", "count", "senders")

    def __init__(self, channel: str, unread: Unread) -> None:
        self.channel = channel
        self.count = f"{len(unread.entries)}{'+' * unread.is_cut}"
        senders = dict.fromkeys(entry.sender for entry in unread.entries)
        self.senders = [sender for sender in senders if names.is_name(sender)]  # a model reads this: no other text

    def shown(self) -> str:
        more = len(self.senders) - _SENDERS
        named = ", ".join(self.senders[:_SENDERS]) or "?"
        return f"#{self.channel} {self.count} from {named}" + f" and {more} more" * (more > 0)


class _Inbox:
    """Who looks, and into which channels of which root."""

    __slots__ = ("_data", "_event", "agent", "deadline", "root", "session")

    def __init__(self, event: Event, session: str = "", pid: str = "") -> None:
        environment = os.environ
        self._event = event
        self._data: bytes | None = None
        self.deadline = time.monotonic() + BUDGET
        self.root = hosts.root_of(environment)
        self.session = session or hosts.session_id(environment)
        if not hosts.told_name(environment) and not self.session:
            self.session = hosts.field(self.event(), "session_id")
        self.agent = hosts.name_of(environment, self.root, self.session, pid)

    def event(self) -> bytes:
        """What the host sent; read when somebody asks, and once."""
        if self._data is None:
            self._data = self._event()
        return self._data

    def channels(self) -> list[str]:
        try:
            return hosts.channels_of(os.environ) or channels.list_names(self.root)
        except OSError:
            return []

    def each(self, look: Callable[[Channel], None]) -> int:
        """Call `look` with every channel that can be read; how many there was no time for."""
        wanted = self.channels() if names.is_agent(self.agent) else []
        for at, name in enumerate(wanted):
            if time.monotonic() > self.deadline:
                return len(wanted) - at
            try:
                with channels.find(self.root, name) as channel:
                    if channel.is_open():
                        look(channel)
            except (AgentChatError, OSError):
                continue  # a damaged channel hides none of the others; commands name what is wrong
        return 0

    def unread(self, channel: Channel, newest: int = 0) -> Unread:
        return cursors.look(channel, self.agent, os.environ.get("AGENT_CHAT_AUDIT") == "all", newest=newest)

    def counted(self, channel: Channel) -> Unread:
        """What is unread, or of very much the newest: the exact number would take longer than starting Python."""
        unread = self.unread(channel, MANY)
        return self.unread(channel) if unread.is_cut and not unread.entries else unread

    def command(self, *words: str) -> str:
        """A command line for the agent's shell."""
        from agent_chat.cli import output

        if os.environ.get("CLAUDECODE") and os.environ.get("CLAUDE_PLUGIN_ROOT"):
            sys.argv = ["agent-chat"]  # Claude Code puts the plugin's bin/ on the PATH, and hands its variables on
            return output.command_line(words)
        return output.command_line(words, os.environ.get("AGENT_CHAT_ROOT", ""))

    def notice(self, limit: int = LIMIT, roster: list[str] | None = None) -> str:
        """`bob has unread messages: …` in one line; empty when there are none. `roster` gets who is where."""
        mail: list[_Mail] = []

        def look(channel: Channel) -> None:
            if roster is not None:
                members = [member for member in channel.listed(channel.meta.members) if names.is_name(member)]
                roster.append(f"#{channel.name} {', '.join(members[:20])}".rstrip())
            unread = self.counted(channel)
            if unread.entries:
                mail.append(_Mail(channel.name, unread))

        unseen = self.each(look)
        if not mail:
            return ""
        from agent_chat.cli import output  # who has nothing to say does without

        head = f"{_MARK}{self.agent} has unread messages: "
        following = "; read: " + output.visible(self.command("read", mail[0].channel, "--as", self.agent))
        shown = _joined([one.shown() for one in mail], limit - len(head) - len(following) - 40)
        left = len(mail) - len(shown) + unseen
        return (head + "; ".join(shown) + following + f"; and {left} more channels" * (left > 0))[:limit]


def _joined(parts: list[str], room: int) -> list[str]:
    """As many of these as fit into `room` characters with what stands between them, and at least one."""
    for at, part in enumerate(parts):
        room -= len(part) + 2
        if room < 0 and at:
            return parts[:at]
    return parts


# ---- the hooks ------------------------------------------------------------------------------------------


def _say(text: str, event: Event) -> None:
    """Text for the model: plain in Claude Code, in other hosts the object that they all take for it.

    Codex drops plain text that begins with a bracket as broken JSON, and Gemini takes nothing but JSON.
    """
    if not text:
        return
    name = "" if os.environ.get("CLAUDECODE") else hosts.field(event(), "hook_event_name")
    if name:
        inner = f'{{"hookEventName": {_json(name)}, "additionalContext": {_json(text)}}}'
        text = f'{{"hookSpecificOutput": {inner}}}'
    _emit(text)


def _emit(line: str) -> None:
    from agent_chat.cli import output

    output.emit(line + "\n")


def _json(text: str) -> str:
    """A text in JSON, in ASCII; importing json costs half as much as starting Python."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    plain = frozenset(range(32, 127)) - {34, 92}  # but the quote and the backslash
    return '"' + "".join(chr(code) if code in plain else f"\\u{code:04x}" for code in codes) + '"'


def _session(event: Event) -> None:
    data = event()
    pid = hosts.process_around(os.environ) if hosts.field(data, "source") == "clear" else ""
    inbox = _Inbox(lambda: data, hosts.field(data, "session_id"), pid)
    subagent = hosts.field(data, "agent_id")
    if subagent:  # it acts under the name of its session, whose registration stays as it is
        if hosts.is_session_id(inbox.session):
            hosts.note_subagent(inbox.root, inbox.session, subagent)
        return
    if not inbox.agent:
        if hosts.field(data, "source") in ("", "startup"):
            start = "start the host with AGENT_CHAT_NAME=NAME"
            if hosts.is_shared(os.environ):
                start = "all sessions share Codex's background server, and would have one name; your user starts each"
                start += " with AGENT_CHAT_NAME=NAME codex --no-daemon"
            join = inbox.command("join", "CHANNEL", "--as", "NAME")
            _say(f"{_MARK}you have no name here: {start}, or: {join}", inbox.event)
        return
    if not names.is_agent(inbox.agent):
        from agent_chat.cli import output

        wrong = output.visible(inbox.agent)[:100]
        _say(f"{_MARK}{wrong!r} is no agent's name; set AGENT_CHAT_NAME to another", inbox.event)
        return
    _export(inbox)
    _register(inbox)
    roster: list[str] = []
    said = [inbox.notice(LIMIT // 2, roster)]
    if roster and (said[0] or inbox.agent != os.environ.get("AGENT_CHAT_NAME")):  # nobody has told the agent yet
        said.insert(0, _roster(inbox.agent, roster, LIMIT // 2 - 300))
    if _has_twin(inbox):
        other = f"another session here is {inbox.agent}, too, and each message reaches only one of you"
        said.append(f"{_MARK}{other}: tell your user to start one of them with another AGENT_CHAT_NAME")
    _say("\n".join(filter(None, said)), inbox.event)


def _has_twin(inbox: _Inbox) -> bool:
    """Whether another living process of a host goes by the same name, as far as hooks said so."""
    own = hosts.process_around(os.environ)
    sessions = hosts.of_agent(inbox.root, inbox.agent) if own else []
    return any(session.started and session.pid != own and session.is_here() for session in sessions)


def _roster(agent: str, parts: list[str], limit: int) -> str:
    """`you are bob; channels: #review alice, bob` in one line."""
    head = f"{_MARK}you are {agent}; channels: "
    shown = _joined(parts, limit - len(head) - 20)
    left = len(parts) - len(shown)
    return (head + "; ".join(shown) + f"; and {left} more" * (left > 0))[:limit]


def _export(inbox: _Inbox) -> None:
    """Let the agent's shell have what only hooks are told, by the file that the host reads for that."""
    path = os.environ.get("CLAUDE_ENV_FILE")
    if not path:
        return
    from agent_chat.cli import output

    known = {"AGENT_CHAT_NAME": inbox.agent}
    for name in ("AGENT_CHAT_ROOT", "AGENT_CHAT_CHANNELS"):
        known[name] = hosts.setting(os.environ, name)
    lines = [
        f"export {name}={output.quoted(value)}\n"
        for name, value in known.items()
        if value and "\n" not in value and "\0" not in value
    ]
    try:
        with disk.Folder.open(os.path.dirname(os.path.abspath(path))) as folder:
            folder.append(os.path.basename(path), os.fsencode("".join(lines)))
    except (AgentChatError, OSError):
        output.note(f"agent-chat: {path} cannot be written: the shell does not know AGENT_CHAT_NAME")


def _register(inbox: _Inbox) -> None:
    """Remember which agent this session is, for a clear, a resume, the monitor, and whoever asks who is here."""
    if not (hosts.is_session_id(inbox.session) and names.is_agent(inbox.agent)):
        return
    environment = os.environ
    pid = hosts.process_around(environment)
    session = hosts.Session(inbox.session, inbox.agent, hosts.harness_of(environment), pid)
    session.root = inbox.root
    session.channels = hosts.setting(environment, "AGENT_CHAT_CHANNELS")
    for root in filter(os.path.isdir, _roots()):  # `init` makes a root, a hook never
        try:
            hosts.register(root, session, os.path.expanduser("~"))
        except (AgentChatError, OSError):
            continue  # the name is known all the same, until a clear


def _register_late(inbox: _Inbox) -> None:
    """The root may have been made after the session began, and the monitor waits for its name.

    What `join` wrote in Codex's sandbox lacks the host's process, which is not seen from there.
    """
    if not hosts.is_session_id(inbox.session):
        return
    if not hosts.is_registered(inbox.root, inbox.session):
        _register(inbox)
    elif not hosts.told_name(os.environ):
        found = hosts.find(inbox.root, inbox.session)
        if found and not found.pid and hosts.process_around(os.environ):
            _register(inbox)


def _roots() -> list[str]:
    """Where registrations lie: in the root, and where somebody looks who knows no options: a monitor."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(hosts.OPTION)}
    return list(dict.fromkeys((hosts.root_of(os.environ), hosts.root_of(bare))))


def _prompt(event: Event) -> None:
    inbox = _Inbox(event)
    if not inbox.agent:
        return
    _register_late(inbox)
    _say(_texts(inbox) if os.environ.get("AGENT_CHAT_HOOK_TEXT") == "1" else inbox.notice(), inbox.event)


def _texts(inbox: _Inbox) -> str:
    """The unread messages themselves in envelopes, as far as they go, and the commands that pass them."""
    from agent_chat.cli import output

    parts: list[str] = []
    rest: list[str] = []
    commands = inbox.command("read", "c" * 64, "--as", inbox.agent)  # one for what is cut, one for what is left
    room = TEXT_LIMIT - len(output.CAUTION) - 200 - 2 * len(commands)

    def look(channel: Channel) -> None:
        nonlocal room
        unread = inbox.unread(channel)
        unread.load(channel, max_bytes=max(1, room))
        if not unread.messages:
            return
        command = inbox.command("ack", channel.name, "--as", inbox.agent, "--upto")
        bound = max(1, room - len(command))
        page = output.page(channel.name, unread.messages, "envelope", max_bytes=bound, cut=not parts)
        count = unread.whole_numbers(page.count)
        if count > page.count or len(page.text) + len(command) + 20 > room:
            rest.append(channel.name)
            return
        if page.cut:
            shown = inbox.command("show", channel.name, str(unread.messages[0].number))
            page.text += f"cut: all of it: {shown}\n"
        text = f"{page.text}when you have acted on these: {command} {unread.after(count)}\n"
        if unread.left(count):
            rest.append(channel.name)
        parts.append(text)
        room -= len(text)

    unseen = inbox.each(look)
    if not parts and not rest:
        return ""
    text = f"{_MARK}for {inbox.agent}:\n{output.CAUTION}\n" + "".join(parts)
    if rest:
        left = len(rest) + unseen
        command = inbox.command("read", rest[0], "--as", inbox.agent)
        text += f"more in {left} channel{'s' * (left > 1)}; read: {command}\n"
    return output.visible(text).rstrip("\n")


def _stop(event: Event) -> None:
    inbox = _Inbox(event)
    if inbox.agent:
        inbox.session = inbox.session or hosts.field(inbox.event(), "session_id")  # Codex has it nowhere else
        _register_late(inbox)
    notice = inbox.notice()
    if notice:
        _emit(f'{{"systemMessage": {_json(notice)}}}')


def _end(event: Event) -> None:
    data = event()
    if hosts.field(data, "agent_id") or hosts.field(data, "reason") == "clear":
        return
    session = hosts.field(data, "session_id") or hosts.session_id(os.environ)
    for root in _roots() if hosts.is_session_id(session) else []:
        hosts.leave(root, session)
