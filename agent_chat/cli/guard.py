"""guard pre-commit, guard install: git refuses a commit of paths that other agents have locked.

git is what is guarded here, so it is asked: the one place of agent-chat that runs it.
"""

from __future__ import annotations

import os
import sys

from agent_chat import guard, hosts
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import OK, AgentChatError
from agent_chat.storage import disk

BYPASS = "AGENT_CHAT_GUARD"  # off: nothing is checked
_GIT_PATIENCE = 10.0  # seconds
_HOOK = "pre-commit"
_HOOK_LIMIT = 1024 * 1024  # bytes


def run(call: Call) -> int:
    return _install(call) if call.command == "guard install" else _pre_commit(call)


def _git(*words: str, cwd: str | None = None) -> str:
    """What git prints, without the last line feed. GUARD_GIT_FAILED."""
    import subprocess

    try:
        done = subprocess.run(
            ["git", *words], stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd, timeout=_GIT_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise AgentChatError("GUARD_GIT_FAILED", f"git cannot be asked: {error}", ("guard", "--help")) from None
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split("\n", 1)[0].split())
        raise AgentChatError("GUARD_GIT_FAILED", f"git {words[0]} failed: {said}", ("guard", "--help"))
    return os.fsdecode(done.stdout).removesuffix("\n")


# ---- guard pre-commit -----------------------------------------------------------------------------------


def _pre_commit(call: Call) -> int:
    """Allowed, with what is not sure in one line; or PATH_LOCK_CONFLICT. A person's commit is only warned."""
    agent = call.text("agent") or hosts.told_name(os.environ)
    if os.environ.get(BYPASS, "").lower() == "off":
        output.note(f"agent-chat: {BYPASS}=off: this commit was not checked against path locks")
        return _allow(call, guard.Verdict(agent))
    verdict = guard.Verdict(agent)
    try:
        top = _git("rev-parse", "--show-toplevel")
        paths = [os.path.join(top, name) for name in _staged(top)]
        wanted = [name.strip() for name in os.environ.get("AGENT_CHAT_CHANNELS", "").split(",") if name.strip()]
        verdict = guard.judge(call.root, wanted, agent, paths, os.environ.get("AGENT_CHAT_WORKSPACE"), top)
    except AgentChatError as error:
        verdict.doubts.append(error)
    refusal, doubt = verdict.refusal(), verdict.doubt()
    if refusal and agent:
        raise refusal
    if refusal:
        output.note(f"agent-chat: warning: {refusal.message}; a commit without an agent's name goes on")
    if doubt:
        following = output.command_line(doubt.next or ("guard", "--help"), _typed_root(call))
        output.note(f"agent-chat: {doubt.code}: {doubt.message}; next: {following}")
    return _allow(call, verdict)


def _typed_root(call: Call) -> str:
    """The root, unless it is the one that a command without --root finds."""
    return "" if call.root == Call("", {}, "").root else call.root


def _staged(top: str) -> list[str]:
    """What the commit changes, from the top level; a renamed file with both its names.

    Of a merge only what differs from both sides: the rest is the other side's work, taken over as it is.
    """
    words = ("diff", "--cached", "--name-only", "--no-renames", "-z")
    found = _git(*words, cwd=top).split("\0")
    try:
        _git("rev-parse", "--quiet", "--verify", "MERGE_HEAD", cwd=top)
    except AgentChatError:
        return found[:-1]
    others = set(_git(*words, "MERGE_HEAD", cwd=top).split("\0"))
    return [name for name in found[:-1] if name in others]


def _allow(call: Call, verdict: guard.Verdict) -> int:
    if call.wants_json:
        doubts = [{"code": doubt.code, "message": doubt.message} for doubt in verdict.doubts]
        held = [held.shown() for held in verdict.held.values()]
        output.emit(output.as_json({"allowed": True, "held": held, "doubts": doubts}))
    return OK


# ---- guard install --------------------------------------------------------------------------------------


def _install(call: Call) -> int:
    """Write git's hook. GUARD_HOOK_EXISTS names the line for one that is there; GUARD_GIT_FAILED."""
    top = _git("rev-parse", "--show-toplevel")
    # Relative to the top level, where git runs hooks; the common folder of all worktrees, or core.hooksPath.
    folder = os.path.realpath(os.path.join(top, _git("rev-parse", "--git-path", "hooks", cwd=top)))
    path, line = os.path.join(folder, _HOOK), _line(call)
    about = f"# agent-chat: no commit of paths that other agents have locked; {BYPASS}=off turns it off"
    try:
        disk.make_folders(folder)
        with disk.Folder.open(folder) as hooks:
            is_new = not hooks.exists(_HOOK)
            if is_new:
                hooks.publish(_HOOK, os.fsencode(f"#!/bin/sh\n{about}\n{line}\n"), 0o777)
                _tidy(hooks)
            elif line not in _read(hooks):
                message = f"{path} is there already and was not touched; add this line to it: {line}"
                details: dict[str, object] = {"hook": path, "line": line}
                raise AgentChatError("GUARD_HOOK_EXISTS", message, ("guard", "pre-commit"), details)
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror}"
        raise AgentChatError("STORAGE_IO_ERROR", text, ("guard", "install")) from None
    result: dict[str, object] = {"hook": path, "line": line, "installed": is_new}
    return output.answer(call, result, f"installed {path}" if is_new else f"{path} has the guard already")


def _read(hooks: disk.Folder) -> str:
    try:
        return os.fsdecode(hooks.read(_HOOK, _HOOK_LIMIT))
    except AgentChatError:
        return ""  # a link or something else: somebody's own, and not looked into


def _tidy(hooks: disk.Folder) -> None:
    """Take away the folder of unfinished files: these hooks are no channel."""
    try:
        hooks.remove_folder(disk.TMP)
    except OSError:
        pass  # another installation is under way


def _line(call: Call) -> str:
    """The line of a shell script that runs this very program, and lets the commit pass when it is gone or broken."""
    from shlex import quote

    started = os.path.abspath(sys.argv[0]) if sys.argv else ""
    if os.path.basename(started) == "chat.py" and os.path.isfile(started):
        program = [sys.executable, started]
    else:  # installed: not by -m, which would look into the repository for agent_chat
        code = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        start = f"import sys; sys.path.insert(0, {code!r}); from agent_chat.cli import start; start()"
        program, started = [sys.executable, "-I", "-c", start], os.path.join(code, "agent_chat")
    root = _typed_root(call)
    words = " ".join(map(quote, [*program, *(["--root", root] if root else []), "guard", "pre-commit"]))
    gone = quote(f"agent-chat: {started} is gone; this commit was not checked against path locks")
    return f"if [ -e {quote(started)} ]; then {words} || [ $? -ne 2 ] || exit 1; else echo {gone} >&2; fi"
