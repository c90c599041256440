"""PreToolUse: deny writing a file that another agent has locked. The exit status is always 0.

Standard output is empty or one JSON object. A host waits for this before every write, so the event is awaited
for a second at most, and most calls end before anything is imported. This file itself runs on any Python 3,
so that one too old for agent_chat is told about and stops nobody.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.errors import AgentChatError

PATIENCE = 1.0  # seconds for the event to arrive
EVENT_LIMIT = 64 * 1024 * 1024  # bytes
TEXT_LIMIT = 1950  # characters, and what stands before them: a hook says at most 2,000


def main() -> None:
    agent = os.environ.get("AGENT_CHAT_NAME") or os.environ.get("CLAUDE_PLUGIN_OPTION_AGENT_CHAT_NAME")
    if not agent or os.environ.get("AGENT_CHAT_GUARD", "").lower() == "off":
        return
    code = os.environ.get("CLAUDE_PLUGIN_ROOT") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.isfile(os.path.join(code, "agent_chat", "guard.py")):
        os.write(2, b"agent-chat: the path guard is skipped: no agent_chat in %s\n" % os.fsencode(code))
        return
    data, is_whole = read_event()
    is_shell = b'"tool_name":"Bash"' in data or b'"tool_name": "Bash"' in data
    if (is_whole and not data.strip()) or (is_shell and b"*** Begin Patch" not in data):
        return
    sys.path.insert(0, code)
    answer(agent, code, data)


def read_event() -> "tuple[bytes, bool]":
    """(What standard input holds up to the end of its first line or of itself, whether that end was seen)."""
    import _thread  # select knows no pipes on Windows

    parts, done = [], _thread.allocate_lock()
    done.acquire()

    def read() -> None:
        size = 0
        try:
            while size < EVENT_LIMIT:
                part = os.read(0, 65536)
                if not part:
                    break
                parts.append(part)
                size += len(part)
                if b"\n" in part and b"".join(parts).rstrip().endswith(b"}"):
                    break  # some hosts keep the pipe open
        except OSError:
            pass  # closed: as if it were empty
        finally:
            done.release()

    _thread.start_new_thread(read, ())
    is_whole = done.acquire(True, PATIENCE)
    return b"".join(parts), is_whole


def answer(agent: str, code: str, data: bytes) -> None:
    import json

    from agent_chat import guard
    from agent_chat.errors import AgentChatError

    try:
        event = json.JSONDecoder().raw_decode(data.decode("utf-8", "replace").lstrip("\ufeff\r\n\t "))[0]
    except ValueError:
        return say({}, "checked nothing: no whole event came from the host")
    root = os.environ.get("AGENT_CHAT_ROOT") or os.path.join("~", "agent-chat")
    wanted = [name.strip() for name in os.environ.get("AGENT_CHAT_CHANNELS", "").split(",") if name.strip()]
    try:
        paths = guard.paths_of(event)
        cwd = event.get("cwd")
        cwd = cwd if isinstance(cwd, str) and cwd else os.getcwd()
        root = os.path.abspath(os.path.expanduser(root))
        workspace = os.environ.get("AGENT_CHAT_WORKSPACE")
        verdict = guard.judge(root, wanted, agent, paths, workspace, cwd) if paths else guard.Verdict(agent)
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


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:  # a host would take a status that is not 0 as a word about the write
        try:
            text = f"agent-chat: path guard: checked nothing, it failed: {type(error).__name__}"
            os.write(1, b'{"systemMessage": "' + text.encode("ascii") + b'"}\n')
        except BaseException:
            pass  # nobody listens
    os._exit(0)  # also while the event is still awaited, and without a flush that could fail
