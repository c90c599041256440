"""PreToolUse: deny writing a file that another agent has locked, and any while another has the turn. Always 0.

Standard output is empty or one JSON object. A host waits for this before every write, so most calls end before
anything is imported. This file runs on any Python 3, as entry.py does.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import entry
except ImportError:
    os.write(2, b"agent-chat: hook skipped: entry.py is not beside it\n")
    os._exit(0)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.errors import AgentChatError

TEXT_LIMIT = 1950  # characters, and what stands before them: a hook says at most 2,000


def main() -> None:
    if os.environ.get("AGENT_CHAT_GUARD", "").lower() == "off":
        return
    code = entry.find_code()
    if not code:
        return
    data, is_whole = entry.read_event()
    is_shell = b'"tool_name":"Bash"' in data or b'"tool_name": "Bash"' in data
    if (is_whole and not data.strip()) or (is_shell and b"*** Begin Patch" not in data):
        return
    answer(code, data)


def answer(code: str, data: bytes) -> None:
    from agent_chat import hosts

    root = hosts.root_of(os.environ)
    agent = hosts.name_of(os.environ, root, hosts.field(data, "session_id"))
    if not agent:
        return

    import json

    from agent_chat import guard
    from agent_chat.errors import AgentChatError

    try:
        event = json.JSONDecoder().raw_decode(data.decode("utf-8", "replace").lstrip("\ufeff\r\n\t "))[0]
    except ValueError:
        return say({}, "checked nothing: no whole event came from the host")
    wanted = hosts.channels_of(os.environ)
    try:
        paths = guard.paths_of(event)
        cwd = event.get("cwd")
        cwd = cwd if isinstance(cwd, str) and cwd else os.getcwd()
        workspace = os.environ.get("AGENT_CHAT_WORKSPACE")
        verdict = guard.judge(root, wanted, agent, paths, workspace, cwd, True) if paths else guard.Verdict(agent)
    except AgentChatError as error:
        return say({}, described(error, code))
    refusal, doubt, said = verdict.refusal(), verdict.doubt(), {}
    if refusal:
        reason = "agent-chat: " + described(refusal, code)
        said["hookSpecificOutput"] = {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    if refusal or doubt:
        say(said, described(doubt, code) if doubt else "")


def described(error: "AgentChatError", code: str) -> str:
    """A refusal or a doubt in one line, with the command that helps."""
    from agent_chat.cli import output

    sys.argv = [os.path.join(code, "chat.py")]  # what the command is said to be
    text = f"{error.code}: {error.message[: TEXT_LIMIT // 2]}"
    if error.next:
        text += "; next: " + output.command_line(error.next, os.environ.get("AGENT_CHAT_ROOT", ""))
    return " ".join(output.visible(text).split("\n"))[:TEXT_LIMIT]


def say(said: "dict[str, object]", doubt: str) -> None:
    import json

    if doubt:
        said["systemMessage"] = "agent-chat: path guard: " + doubt
    os.write(1, json.dumps(said).encode("ascii") + b"\n")


def failed(why: str) -> None:
    text = "agent-chat: path guard: checked nothing, it failed: " + why
    os.write(1, b'{"systemMessage": "' + text.encode("ascii") + b'"}\n')


if __name__ == "__main__":
    entry.finish(main, failed)
