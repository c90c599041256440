"""What every hook has in common: where the program is, the host's event, and that the status is always 0.

The code is found by a non-empty CLAUDE_PLUGIN_ROOT, else beside this folder. This file runs on any Python 3, so
that one too old for agent_chat is told about and stops nobody.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

OLDEST = (3, 9)  # a variable: linters know that this project's own Python is newer
PATIENCE = 1.0  # seconds for the event to arrive
EVENT_LIMIT = 64 * 1024 * 1024  # bytes


def run(what: str) -> None:
    """Run a hook of agent_chat.cli.inbox, and end this process."""
    finish(lambda: _start(what), lambda why: _note("the " + what + " hook failed: " + why))


def finish(action: "Callable[[], object]", failed: "Callable[[str], object]") -> None:
    """Do it, say in one line what went wrong, and end with 0: a host would take another status as a word."""
    try:
        action()
    except BaseException as error:
        try:
            failed(type(error).__name__)
        except BaseException:
            pass  # nobody listens
    os._exit(0)  # also while the event is still awaited, and without a flush that could fail


def _start(what: str) -> None:
    if sys.version_info < OLDEST:
        if what == "session":  # the one that may speak without a cause
            os.write(1, b"[agent-chat] the hooks need Python 3.9 or newer, and python3 is older: tell your user\n")
    elif find_code():
        from agent_chat.cli import inbox

        inbox.run(what, lambda: read_event()[0])


def find_code() -> str:
    """The folder of the program, now importable; empty, and said in one line, when it is not there."""
    code = os.environ.get("CLAUDE_PLUGIN_ROOT") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.isfile(os.path.join(code, "agent_chat", "hosts.py")):
        _note("hook skipped: no agent_chat in " + code)
        return ""
    sys.path.insert(0, code)
    return code


def _note(text: str) -> None:
    os.write(2, b"agent-chat: " + os.fsencode(text) + b"\n")


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
