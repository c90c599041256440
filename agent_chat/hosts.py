"""Which session of a host is which agent, and whether it has left: `<root>/.hosts/<session id>.txt`.

For: a session that was given its name by `join` or an option, and finds it again after a clear (a new
session id in the same process) or a resume (the same id in a new process). Calling sequence: `register`
when a session starts or joins, `find` when a command or hook asks who it is, `leave` when it ends.

Subagents act under the name of their session; `<session id>.subagents` has a line for each, with its own id.

A file of `key: value` lines (no JSON: a hook reads it at every prompt), replaced whole. What a reader may
see: one of its states. A process is told by its id and the time it started, so that an id that was given
again is not believed. Derived: without these files a session is nobody until it says its name again.
"""

from __future__ import annotations

import os
import sys

from agent_chat import clock, names
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = ".hosts"
_SUBAGENTS = ".subagents"
HERE, AWAY = "here", "away"
_STARTTIME = 20  # where _stat gives field 22 of proc(5), which tells a process from an earlier one of its number
_KEPT = 30 * 24 * 3600 * clock.SECOND  # microseconds; then a session is forgotten
_FILE_LIMIT = 64 * 1024  # bytes
_MANY = 2000  # files that are looked at when there is no session id to go by
_KEYS = ("agent", "session", "harness", "pid", "started", "state", "at", "root", "channels")


class Session:
    """A registration. Every field is a text; `agent` is empty while the session has no name."""

    __slots__ = _KEYS

    def __init__(self, session: str, agent: str = "", harness: str = "", pid: str = "", **more: str) -> None:
        self.session = session
        self.agent = agent
        self.harness = harness
        self.pid = pid  # of the host's process; empty where it is not known
        self.started = more.get("started", "")
        self.state = more.get("state", HERE)
        self.at = more.get("at", "")  # when this was written
        self.root = more.get("root", "")  # the root and the channels that the host's settings name
        self.channels = more.get("channels", "")

    def is_same(self, other: Session) -> bool:
        """Whether it says the same, whenever that was written."""
        return all(getattr(self, key) == getattr(other, key) for key in _KEYS if key != "at")

    def is_here(self) -> bool:
        """Whether it has not said that it ended, and its process, where that is known, lives."""
        return self.state == HERE and (not self.started or started(self.pid) == self.started)


# What a host's process tells of itself, in the order in which it is believed.
SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
PID_VARIABLE = "CLAUDE_PID"
OPTION = "CLAUDE_PLUGIN_OPTION_"  # before the name of a variable: the plugin's option of that name


def setting(environment: Mapping[str, str], name: str) -> str:
    """A variable, or else the plugin's option that stands for it; hooks alone see options."""
    return environment.get(name) or environment.get(OPTION + name) or ""


def channels_of(environment: Mapping[str, str]) -> list[str]:
    """The channels that hooks look at; none means all."""
    return [name.strip() for name in setting(environment, "AGENT_CHAT_CHANNELS").split(",") if name.strip()]


def field(event: bytes, name: str) -> str:
    """A plain text in a host's event, without importing json; empty when it is not there.

    Inside a JSON text every quote is escaped, so that no prompt can look like a field.
    """
    after = event.partition(b'"%s"' % name.encode("ascii"))[2].lstrip()
    if after[:1] != b":":
        return ""
    quoted = after[1:].lstrip()
    return quoted[1:].partition(b'"')[0].decode("utf-8", "replace") if quoted[:1] == b'"' else ""


def session_id(environment: Mapping[str, str]) -> str:
    return next((environment[name] for name in SESSION_VARIABLES if environment.get(name)), "")


def harness_of(environment: Mapping[str, str]) -> str:
    """The host's name as far as its variables tell; empty when they do not."""
    if environment.get("CLAUDECODE"):
        return "claude"
    if any(name.startswith("CODEX_") or name == "PLUGIN_ROOT" for name in environment):
        return "codex"
    return "gemini" if "GEMINI_CLI" in environment or "GEMINI_SESSION_ID" in environment else ""


def root_of(environment: Mapping[str, str]) -> str:
    typed = setting(environment, "AGENT_CHAT_ROOT") or os.path.join("~", "agent-chat")
    return os.path.abspath(os.path.expanduser(typed))


def is_shared(environment: Mapping[str, str]) -> bool:
    """Whether Codex's background server runs this: one process, with the environment of whoever started it, for all
    sessions of a home. Codex (0.171.0) tells of it by the folder of its programs alone."""
    return "/app-server-daemon/" in environment.get("PATH", "").replace("\\", "/") and "CLAUDECODE" not in environment


def told_name(environment: Mapping[str, str]) -> str:
    """The variable or the plugin's option, where that is of this session and not of whichever came first."""
    named = setting(environment, "AGENT_CHAT_NAME")
    return "" if named and is_shared(environment) else named


def name_of(environment: Mapping[str, str], root: str, session: str = "", pid: str = "") -> str:
    """Who acts, empty when nobody knows: the variable, the plugin's option, the registration of this session."""
    named = told_name(environment)
    if named:
        return named
    found = find(root, session or session_id(environment), pid or environment.get(PID_VARIABLE, ""))
    return found.agent if found else ""


def is_session_id(text: str) -> bool:
    return names.is_name(text)


def process_around(environment: Mapping[str, str]) -> str:
    """The host's process, for a hook: Codex does not tell it, and runs hooks by a shell. Empty when not known."""
    told = environment.get(PID_VARIABLE, "")
    if told or is_shared(environment):
        return told
    host = _stat(str(os.getppid()))[2:3]
    return host[0] if host and _stat(host[0])[:1] == ["codex"] else ""


def started(pid: str) -> str:
    """When the process began, in whatever the system counts; empty when it is gone or that is not known."""
    if not (pid.isascii() and pid.isdigit()):
        return ""
    if sys.platform == "darwin":
        import subprocess

        try:
            done = subprocess.run(["/bin/ps", "-p", pid, "-o", "lstart="], capture_output=True, timeout=2, check=False)
        except (OSError, subprocess.SubprocessError):
            return ""
        return "-".join(done.stdout.decode("ascii", "replace").split())
    fields = _stat(pid)
    return fields[_STARTTIME] if len(fields) > _STARTTIME and fields[1] != "Z" else ""


def _stat(pid: str) -> list[str]:
    """Name, state, parent and so on of a process, as proc(5) says from its 2nd field on; nothing when it is gone, or
    without /proc."""
    try:
        fd = os.open(f"/proc/{int(pid)}/stat", os.O_RDONLY)
    except OSError:
        return []
    try:
        name, _, rest = os.read(fd, 4096).partition(b"(")[2].rpartition(b")")  # the name may hold anything
    except OSError:
        return []
    finally:
        os.close(fd)
    return [part.decode("ascii", "replace") for part in (name, *rest.split())]


def is_registered(root: str, session_id: str) -> bool:
    """Whether something is written of this session; one call of the system."""
    return os.path.lexists(os.path.join(root, FOLDER, _file(session_id)))


def register(root: str, session: Session, home: str = "") -> None:
    """Write it down; another session of the same process is over. A new root below `home` is private. OSError."""
    path = os.path.join(root, FOLDER)
    if not os.path.isdir(path):
        disk.make_folders(path, home)
    session.started = started(session.pid)
    with disk.Folder.open(path) as folder:
        present = _read(folder, _file(session.session))
        if present and present.is_same(session):
            return
        if not present:
            if not folder.exists(".gitignore"):
                folder.replace(".gitignore", b"*\n", sync=False)
            from agent_chat.storage import sweep

            sweep.sweep_temporaries(folder)
            _tidy(folder, session)
        _write(folder, session)


def _tidy(folder: disk.Folder, present: Session) -> None:
    """End the sessions that its process had before, and forget old ones, but those whose process still lives."""
    now = clock.now()
    for found in _all(folder):
        lives = bool(found.started) and found.is_here()
        if lives and (found.pid, found.started) == (present.pid, present.started):
            found.state = AWAY
            _write(folder, found)
        elif not lives and not 0 <= now - _instant(found.at) < _KEPT:
            folder.remove(_file(found.session))
            folder.remove(found.session + _SUBAGENTS)


def leave(root: str, session_id: str) -> None:
    """Mark it as away, if it is registered."""
    try:
        with disk.Folder.open(os.path.join(root, FOLDER)) as folder:
            found = _read(folder, _file(session_id))
            if found and found.state == HERE:
                found.state = AWAY
                _write(folder, found)
    except FileNotFoundError:
        pass  # nothing was registered


def note_subagent(root: str, session_id: str, subagent: str) -> None:
    """Write down that a subagent began to act under the name of this session; nothing where it is not registered."""
    if not is_session_id(subagent):
        return
    name = session_id + _SUBAGENTS
    try:
        with disk.Folder.open(os.path.join(root, FOLDER)) as folder:
            is_full = folder.exists(name) and folder.lstat(name).st_size > _FILE_LIMIT
            if folder.exists(_file(session_id)) and not is_full:
                folder.append(name, f"{clock.seconds_stamp(clock.now())} {subagent}\n".encode("ascii"))
    except FileNotFoundError:
        pass  # nothing was registered


def find(root: str, session_id: str, pid: str = "") -> Session | None:
    """The registration of a session; where that id has none, or one that ended, the newest one of its process."""
    try:
        with disk.Folder.open(os.path.join(root, FOLDER)) as folder:
            found = _read(folder, _file(session_id)) if is_session_id(session_id) else None
            began = started(pid) if not found or found.state == AWAY else ""
            if not began:
                return found
            same = [one for one in _all(folder) if (one.pid, one.started) == (pid, began)]
            return max(same, key=lambda one: one.at, default=found)
    except (OSError, AgentChatError):
        return None  # no registration that can be read is none


def of_agent(root: str, agent: str) -> list[Session]:
    """The sessions that are or were `agent`, the newest first."""
    try:
        with disk.Folder.open(os.path.join(root, FOLDER)) as folder:
            found = [one for one in _all(folder) if one.agent.lower() == agent.lower()]
    except (OSError, AgentChatError):
        return []
    return sorted(found, key=lambda one: one.at, reverse=True)


def presence(root: str) -> dict[str, str]:
    """Agent (lower case) -> `here` when one of its sessions is, else `away`; who was in no host is not in it."""
    try:
        with disk.Folder.open(os.path.join(root, FOLDER)) as folder:
            found = sorted((one.agent.lower(), HERE if one.is_here() else AWAY) for one in _all(folder))
    except (OSError, AgentChatError):
        return {}
    return {agent: word for agent, word in found if agent}  # `here` comes last, and stays


def _file(session_id: str) -> str:
    return session_id + ".txt"


def _all(folder: disk.Folder) -> list[Session]:
    found = [_read(folder, name) for name in sorted(folder.names())[:_MANY] if name.endswith(".txt")]
    return [one for one in found if one]


def _read(folder: disk.Folder, name: str) -> Session | None:
    """None when there is none, or it is none that we wrote."""
    try:
        text = folder.read(name, _FILE_LIMIT).decode("utf-8", "replace")
    except (FileNotFoundError, AgentChatError):
        return None
    pairs = (line.partition(": ")[::2] for line in text.split("\n"))
    values = {key: value for key, value in pairs if key in _KEYS}
    session, agent, state = values.pop("session", ""), values.pop("agent", ""), values.get("state")
    if name != _file(session) or not is_session_id(session) or state not in (HERE, AWAY):
        return None
    return Session(session, agent if agent and names.is_agent(agent) else "", **values)


def _write(folder: disk.Folder, session: Session) -> None:
    session.at = clock.micro_stamp(clock.now())
    lines = [f"{key}: {value}" for key in _KEYS for value in [getattr(session, key)] if value and value.isprintable()]
    folder.replace(_file(session.session), "\n".join([*lines, ""]).encode("utf-8", "replace"), sync=False)


def _instant(at: str) -> int:
    try:
        return clock.parse_stamp(at)
    except ValueError:
        return 0
