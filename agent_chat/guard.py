"""May these files be written? What the path locks say to a host's hook and to a git hook, and whose turn it is.

For: hooks/path_guard.py and `guard pre-commit`. Calling sequence: `paths_of(event)` for a host's event, then
`judge(...)`; of its Verdict `refusal` denies and `doubt` is told.

Only what is sure denies: an active lock of another agent, in a record that can be read, in a channel without an
unfinished change of locks; and, for a host's hook, a turn that an agent which joined the channel does not hold.
Everything else is a doubt: allowed, and said. Nothing here waits: a channel whose lock is held just now is read
past it, and a great many paths are compared for 2 seconds at most.

Names only: no text out of a channel but names and times of a fixed grammar goes into a refusal, because a model
reads it.
"""

from __future__ import annotations

import os
import time

from agent_chat import change as changes
from agent_chat import channel as channels
from agent_chat import names, path_locks, patterns, recovery, workspace
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from typing import Any

    from agent_chat.change import View
    from agent_chat.path_locks import Lock
    from agent_chat.workspace import Entry

BUDGET = 2.0  # seconds of comparing
FILE_TOOLS = ("Write", "Edit", "NotebookEdit")
PATCH_TOOL = "apply_patch"
SHELL_TOOL = "Bash"  # where Codex says `apply_patch <<'EOF'`
PATCH = "*** Begin Patch"
_PATCH_LINES = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


class Held:
    """A path that an active lock of another agent covers."""

    __slots__ = ("channel", "lock", "path")

    def __init__(self, path: str, channel: str, lock: Lock) -> None:
        self.path = path  # as the workspace spells it
        self.channel = channel
        self.lock = lock

    def shown(self) -> dict[str, str]:
        lock = self.lock
        about = {"lock_id": lock.lock_id, "owner": lock.owner, "expires_at": lock.expires_at}
        return {"path": self.path, "channel": self.channel, **about}


class Verdict:
    """What is held by others, by path, a turn that is not the agent's, and what could not be told."""

    __slots__ = ("agent", "doubts", "held", "turn")

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.held: dict[str, Held] = {}
        self.doubts: list[AgentChatError] = []
        self.turn: AgentChatError | None = None

    def refusal(self) -> AgentChatError | None:
        """TURN_NOT_YOURS; PATH_LOCK_CONFLICT: the first held path, and how many more; None when there is none."""
        if self.turn:
            return self.turn
        if not self.held:
            return None
        first, more = next(iter(self.held.values())), len(self.held) - 1
        text = f"{first.path} is locked by {first.lock.owner} until {first.lock.expires_at} in channel {first.channel}"
        text += f", and {more} more of these paths are locked" if more else ""
        options = ("--as", self.agent) if self.agent else ()
        words = path_locks.command("check", first.channel, [first.path], *options)
        details: dict[str, object] = {"held": [held.shown() for held in self.held.values()]}
        return AgentChatError("PATH_LOCK_CONFLICT", text, words, details)

    def doubt(self) -> AgentChatError | None:
        """The first doubt, and how many more; None when there is none."""
        if not self.doubts:
            return None
        first, more = self.doubts[0], len(self.doubts) - 1
        text = f"allowed, but not sure: {first.message}" + (f" (and {more} more)" if more else "")
        return AgentChatError(first.code, text, first.next)


# ---- what is about to be written ------------------------------------------------------------------------


def paths_of(event: object) -> list[str]:
    """The paths that a host's PreToolUse event is about to write, as given; none for a tool that is not guarded.

    GUARD_EVENT_UNKNOWN when a writing tool names no path that this program understands.
    """
    found = event if isinstance(event, dict) else {}
    tool, given = found.get("tool_name"), found.get("tool_input")
    if tool in FILE_TOOLS and isinstance(given, dict):
        typed = [given.get(key) for key in ("file_path", "notebook_path")]
        paths = [path for path in typed if isinstance(path, str) and path]
    elif tool == PATCH_TOOL:
        paths = [path for text in _texts(given) for path in patch_paths(text)]
    elif tool == SHELL_TOOL:
        paths = [path for text in _texts(given) for path in _shell_patch_paths(text)]
    else:
        paths = []
    if not paths and (tool in (*FILE_TOOLS, PATCH_TOOL) or not isinstance(tool, str)):
        raise AgentChatError("GUARD_EVENT_UNKNOWN", "the host's event names no file that is to be written")
    return paths


def _texts(value: Any) -> Iterator[str]:
    """The texts in a tool's input, whatever the key: hosts differ, and an argument list is one text a word."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            if isinstance(one, (str, list)):
                yield from _texts(one)


def patch_paths(patch: str) -> list[str]:
    """The files that an apply_patch patch adds, changes, deletes or moves, from and to."""
    lines = (line.rstrip() for line in patch.partition(PATCH)[2].split("\n"))
    return [line[len(head) :] for line in lines for head in _PATCH_LINES if line.startswith(head)]


def _shell_patch_paths(command: str) -> list[str]:
    """Of `apply_patch <<'EOF' …` or `cd DIR && apply_patch …`; no other shell command is understood."""
    before, word, rest = command.partition(PATCH_TOOL)
    if not word:
        return []
    before = before.strip()
    folder = before[3:-2].strip().strip("'\"") if before.startswith("cd ") and before.endswith("&&") else ""
    return [os.path.join(folder, path) for path in patch_paths(rest)]


# ---- judging --------------------------------------------------------------------------------------------


def judge(
    root: str,
    wanted: Sequence[str],
    agent: str,
    paths: Sequence[str],
    env_workspace: str | None,
    cwd: str,
    takes_turns: bool = False,
) -> Verdict:
    """What the locks in the channels `wanted` (none: all) say about `agent` writing `paths`.

    `paths` are absolute or relative to `cwd`. Without an agent every lock is somebody else's. `takes_turns`: whether
    it must hold the turn, too, where it has joined.
    """
    verdict = Verdict(agent)
    if agent and not names.is_agent(agent):
        verdict.doubts.append(AgentChatError("AGENT_INVALID_NAME", f"{agent!r} is no agent's name"))
        return verdict
    deadline = time.monotonic() + BUDGET
    try:
        listed = wanted or channels.list_names(root)
    except OSError as error:
        verdict.doubts.append(_unread(f"the root {root}", error))
        return verdict
    for name in listed:
        try:
            with channels.find(root, name) as channel:
                if channel.is_open():
                    if takes_turns and agent:
                        verdict.turn = verdict.turn or _turn_of_another(channel, agent)
                    _judge(verdict, channel, paths, env_workspace, cwd, deadline)
        except AgentChatError as error:
            if error.code != "CHANNEL_NOT_FOUND":  # where there is no channel there are no locks
                verdict.doubts.append(error)
        except OSError as error:
            verdict.doubts.append(_unread(f"channel {name}", error))
    return verdict


def _unread(what: str, error: OSError) -> AgentChatError:
    return AgentChatError("STORAGE_IO_ERROR", f"{what} cannot be read: {error.strerror}", ("channels",))


def _turn_of_another(channel: channels.Channel, agent: str) -> AgentChatError | None:
    """TURN_NOT_YOURS where the agent has joined, turns are taken and it holds none; None elsewhere."""
    if not (channel.folder.exists(names.TURN_FILE) and channel.folder.exists(names.session_file(agent))):
        return None
    from agent_chat import policy, turns

    if policy.load(channel.folder, channel.name).value("turn_guard") == policy.OFF:
        return None
    turn = changes.look(channel, recovery.TURN, turns.find, patience=0)
    if turn is None or turn.is_held_by(agent):
        return None
    text = f"in channel {channel.name} {turn.line()}; {agent} reads meanwhile, and writes nothing"
    words = ("turn", "wait", channel.name, "--as", agent)
    return AgentChatError("TURN_NOT_YOURS", text, words, {"holder": turn.holder, "version": turn.version})


def _judge(
    verdict: Verdict,
    channel: channels.Channel,
    paths: Sequence[str],
    env_workspace: str | None,
    cwd: str,
    deadline: float,
) -> None:
    if not channel.folder.exists("locks"):
        return
    space = workspace.find(None, env_workspace, cwd, channel.folder.path)
    placed = [entry for entry in map(space.place, paths) if entry]
    if not placed:
        return  # what lies outside concerns nobody
    having = path_locks.words(placed, space)
    now, locks, damaged = changes.look(
        channel, recovery.PATH, lambda view: _others(view, verdict.agent, having), patience=0
    )
    verdict.doubts += damaged
    held = [
        (lock, [(one["kind"], space.fold(one["kind"], one["normalized_path"])) for one in lock.paths]) for lock in locks
    ]
    for at, entry in enumerate(placed):
        if time.monotonic() > deadline:
            text = f"only {at} of {len(placed)} paths were compared with the locks of channel {channel.name} in time"
            verdict.doubts.append(AgentChatError("GUARD_TOO_MANY", text, ("locks", channel.name)))
            return
        covering = sorted(_covering(held, entry), key=lambda lock: lock.is_expired(now))  # the active first
        if covering and covering[0].is_expired(now):
            verdict.doubts.append(path_locks.expired(channel.name, verdict.agent, covering[0], now, entry.display_path))
        elif covering:
            verdict.held.setdefault(entry.display_path, Held(entry.display_path, channel.name, covering[0]))


def _others(view: View, agent: str, having: Container[str] | None) -> tuple[int, list[Lock], list[AgentChatError]]:
    """Now, the locks of others that have one of these words or none, and what is wrong with the records."""
    if view.pending:
        return view.now, [], [view.pending.refusal(view.channel.name, agent)]
    found, damaged = path_locks.survey(view, agent, lambda owner, paths: owner.lower() != agent.lower(), having)
    return view.now, found, damaged


def _covering(held: Sequence[tuple[Lock, Sequence[tuple[str, str]]]], entry: Entry) -> list[Lock]:
    """The locks that the entry can be in."""
    wanted = (entry.kind, entry.normalized_path)
    return [lock for lock, taken in held if any(patterns.overlaps(one, wanted) for one in taken)]
