"""setup: the few lines that a host needs to run this checkout's hooks and to offer its skill.

Every file is the host's own, and only our lines in it change: twice is once, --remove takes them out again, and
--dry-run shows them. hooks/hooks.json and SKILL.md of the checkout are what is written; a wheel has neither.
"""

from __future__ import annotations

import os

from agent_chat import jsonc
from agent_chat.cli import output
from agent_chat.cli.options import Call
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Change = Callable[[str], str]

_CODE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LIMIT = 8 * 1024 * 1024  # bytes of a settings file
_NAMES = ("session_inbox", "prompt_inbox", "path_guard", "stop_inbox", "session_end")
_MARKET, _PLUGIN = "agent-chat-local", "agent-chat@agent-chat-local"
# Gemini's events, in milliseconds; its tools are not those that the guard knows.
_GEMINI = {"SessionStart": "SessionStart", "BeforeAgent": "UserPromptSubmit", "AfterAgent": "Stop"}
_GEMINI["SessionEnd"] = "SessionEnd"
_SKILL_END = "\n<!-- written by `agent-chat setup` for: {} -->\n"
_NAMED = "start each session with a name of its own: AGENT_CHAT_NAME=alice "
_WAIT = "nothing wakes an idle session there but a `wait` in the background, if the host has that (see SKILL.md)"
NOTES = {
    "claude": [
        "the host installs the plugin at its next start; there it has hooks, skill, commands and the monitor",
        _NAMED + "claude",
    ],
    "codex": [
        "Codex runs these hooks only after you approved them: start it, and trust them when it says that they are new",
        "do not install the plugin beside them, or each notice comes twice",
        "an idle session is woken by what `codex queue` sends it, nothing else (see README.md)",
        "its sandbox writes only to folders that it was given and that are there: mkdir -p ~/agent-chat",
        _NAMED + "codex --no-daemon -s workspace-write --add-dir ~/agent-chat",
    ],
    "omp": [
        "Oh My Pi reads the skill, and skill and commands of an installed Claude Code plugin; hooks.json is no"
        " integration for it: it tells of no mail by itself, and no guard runs",
        _WAIT,
    ],
    "opencode": ["OpenCode reads the skill; its own plugins are JavaScript, so no hook and no guard runs", _WAIT],
    "gemini": ["Gemini CLI runs the hooks that tell of mail; the path guard does not know its tools", _WAIT],
}


class _File:
    """A file of a host, and what is to become of its text; `change` gets an empty text for one that is not there."""

    __slots__ = ("change", "host", "is_ours", "path")

    def __init__(self, host: str, path: str, change: Change, is_ours: bool = False) -> None:
        self.is_ours = is_ours  # all of it, and not worth showing line by line
        self.host = host
        self.path = os.path.realpath(path)  # people keep their settings elsewhere, behind a link
        self.change = change

    def read(self) -> str | None:
        try:
            with disk.Folder.open(os.path.dirname(self.path)) as folder:
                return folder.read(os.path.basename(self.path), _LIMIT).decode("utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise self.unfit("it is no UTF-8") from None

    def after(self, before: str | None) -> str:
        try:
            return self.change(before or "")
        except jsonc.NotJson as error:
            raise self.unfit(str(error)) from None

    def unfit(self, why: str) -> AgentChatError:
        text = f"{self.path} was not touched: {why}"
        return AgentChatError("SETUP_FILE_INVALID", text, ("setup", "--help"), {"file": self.path})

    def write(self, text: str) -> None:
        """Put it there, or take the file away when nothing is left."""
        folder_path, name = os.path.split(self.path)
        if text:
            disk.make_folders(folder_path, os.path.expanduser("~"))
        with disk.Folder.open(folder_path) as folder:
            if text:
                folder.replace(name, text.encode("utf-8"))
                try:
                    folder.remove_folder(disk.TMP)  # the host's folder is no channel
                except OSError:
                    pass  # another one is being written there
            else:
                folder.remove(name)
        if not text and self.is_ours:
            with disk.Folder.open(os.path.dirname(folder_path)) as above:
                above.remove_folder(os.path.basename(folder_path))


def run(call: Call) -> int:
    chosen = _chosen(call)
    if not os.path.isfile(os.path.join(_CODE, "hooks", "hooks.json")):
        text = f"{_CODE} has no hooks/: a host needs a checkout, not an installed package"
        raise AgentChatError("SETUP_NO_PLUGIN", text, ("version",))
    is_dry, is_undo = call.flag("dry_run"), call.flag("remove")
    planned = []
    for file in [file for host in chosen for file in _files(host, is_undo)]:
        before = file.read()
        planned.append((file, before, file.after(before)))
    result, lines = [], []
    for file, before, after in planned:
        changed = after != (before or "")
        if changed and not is_dry:
            file.write(after)
        diff = _diff(before or "", after) if changed and not file.is_ours else []
        word = "unchanged" if not changed else "would change" if is_dry else "changed" if after else "removed"
        lines += [f"{file.host}: {word}: {file.path}", *(f"    {line}" for line in diff if is_dry)]
        result.append({"host": file.host, "path": file.path, "changed": changed, "diff": diff})
    notes = {} if is_undo else {host: NOTES[host] for host in chosen}
    lines += [f"{host}: {note}" for host, texts in notes.items() for note in texts]
    return output.answer(call, {"dry_run": is_dry, "files": result, "notes": notes}, "\n".join(lines))


def _folder(host: str) -> str:
    """Where the host keeps its settings."""
    variable = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}.get(host, "")
    found = os.environ.get(variable, "") if variable else ""
    return found or os.path.expanduser({"opencode": "~/.config/opencode"}.get(host, f"~/.{host}"))


def _chosen(call: Call) -> list[str]:
    typed = call.text("host")
    if typed:
        if typed not in NOTES:
            raise call.usage(f"--host is one of {', '.join(NOTES)}, not {typed!r}")
        return [typed]
    found = [host for host in NOTES if os.path.isdir(_folder(host))]
    if not found:
        text = f"no settings of a host are there; name one of {', '.join(NOTES)}"
        raise AgentChatError("SETUP_NO_HOST", text, ("setup", "--host", "claude"))
    return found


def _files(host: str, is_undo: bool) -> list[_File]:
    """What a host's files become; without our lines when `is_undo`."""
    folder = _folder(host)
    if host == "claude":
        return [_File(host, os.path.join(folder, "settings.json"), lambda text: _plugin(text, is_undo))]
    skill = os.path.expanduser("~/.agents/skills/agent-chat/SKILL.md")
    files = [_File(host, skill, lambda text: _skill(text, host, is_undo), is_ours=True)]
    if host == "codex":
        groups = {event: [(event, group) for group in groups] for event, groups in _registered().items()}
        path = os.path.join(folder, "hooks.json")
        files.append(_File(host, path, lambda text: _hooks(text, groups, is_undo)))
    elif host == "gemini":
        known = _registered()
        groups = {event: [(event, _in_milliseconds(group)) for group in known[of]] for event, of in _GEMINI.items()}
        path = os.path.join(folder, "settings.json")
        files.append(_File(host, path, lambda text: _hooks(text, groups, is_undo)))
    return files


# ---- what is written ------------------------------------------------------------------------------------------


def _plugin(text: str, is_undo: bool) -> str:
    """Claude Code's settings name the checkout as a marketplace, and its plugin as enabled."""
    market, plugin = ("extraKnownMarketplaces", _MARKET), ("enabledPlugins", _PLUGIN)
    if is_undo:
        return _emptied(jsonc.take(jsonc.take(text, plugin), market)) if text else ""
    source = {"source": {"source": "directory", "path": _CODE}}
    return jsonc.put(jsonc.put(text or "{}\n", market, source), plugin, True)


def _registered() -> dict[str, list[dict[str, Any]]]:
    """hooks/hooks.json of the checkout, with its path written out."""
    import json
    import shlex

    with disk.Folder.open(os.path.join(_CODE, "hooks")) as folder:
        found: dict[str, list[dict[str, Any]]] = json.loads(folder.read("hooks.json"))["hooks"]
    for group in [group for groups in found.values() for group in groups]:
        for handler in group["hooks"]:
            for name in _NAMES:
                quoted = shlex.quote(os.path.join(_CODE, "hooks", f"{name}.py"))
                typed = f'"${{CLAUDE_PLUGIN_ROOT}}/hooks/{name}.py"'
                handler["command"] = handler["command"].replace(typed, quoted)
    return found


def _in_milliseconds(group: dict[str, Any]) -> dict[str, Any]:
    return {**group, "hooks": [{**handler, "timeout": handler["timeout"] * 1000} for handler in group["hooks"]]}


def _hooks(text: str, groups: dict[str, list[tuple[str, dict[str, Any]]]], is_undo: bool) -> str:
    """A host's `hooks`, with ours as the last of each event."""
    wanted = [] if is_undo else [group for several in groups.values() for _, group in several]
    for event in groups:
        if text:
            text = jsonc.drop(text, ("hooks", event), lambda group: _is_ours(group) and group not in wanted)
    if is_undo:
        return _emptied(text)
    for event, group in [pair for several in groups.values() for pair in several]:
        text = jsonc.append(text or "{}\n", ("hooks", event), group)
    return text


def _is_ours(group: object) -> bool:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    commands = [str(one.get("command")) for one in handlers or [] if isinstance(one, dict)]
    return bool(commands) and all(
        command.startswith("python3 -I -S ")
        and command.endswith(" || true")
        and any(f"hooks/{name}.py" in command.replace("\\", "/") for name in _NAMES)
        for command in commands
    )


def _emptied(text: str) -> str:
    """Nothing where an empty object is left that `setup` would have made."""
    return "" if text.strip() == "{}" else text


def _skill(text: str, host: str, is_undo: bool) -> str:
    """A copy of SKILL.md that names the program by its path, and for whom it was written."""
    with disk.Folder.open(_CODE) as folder:
        skill = folder.read("SKILL.md").decode("utf-8")
    head, _, tail = _SKILL_END.partition("{}")
    rest, _, named = text.rpartition(head)
    hosts = [name for name in named.removesuffix(tail).split(", ") if name in NOTES] if rest else []
    if text and not hosts:
        raise jsonc.NotJson("it was not written by `agent-chat setup`")
    hosts = [name for name in hosts if name != host] + ([] if is_undo else [host])
    if not hosts:
        return ""
    placed = skill.replace("<folder of this file>/chat.py", os.path.join(_CODE, "chat.py"))
    return placed + _SKILL_END.format(", ".join(sorted(hosts)))


def _diff(before: str, after: str) -> list[str]:
    """The lines that go and come, with one around them."""
    import difflib

    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1))[2:]
