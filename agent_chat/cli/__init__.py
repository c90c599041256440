"""main(): find the command word, import that one module, run it; every error becomes one line.

What that takes is imported when it is called, since a hook loads this package for inbox.py alone.
"""

from __future__ import annotations

import os
import sys

from agent_chat.errors import OK, AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from agent_chat.cli.options import Values

INTERRUPTED = 130


def start() -> NoReturn:
    """Run this process's command line and end, without the interpreter's clearing-up: a sixth of a command's time."""
    status = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()  # the program itself has written everything; this is for what Python has to say
        except (OSError, ValueError, AttributeError):
            pass  # closed, or none
    os._exit(status)


def main(argv: list[str] | None = None) -> int:
    """Run one command line; the exit status."""
    from agent_chat.cli import output

    words = list(sys.argv[1:] if argv is None else argv)
    typed_root, wants_json = _typed_root(words), "--json" in words
    disk.durable = os.environ.get("AGENT_CHAT_FSYNC") != "0"
    try:
        return _run(words)
    except AgentChatError as error:
        return output.refuse(error, wants_json, typed_root)
    except BrokenPipeError:
        return output.CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # a defect must not look like a crash of the agent's own command
        return output.internal(error)


def _typed_root(words: list[str]) -> str:
    for at, word in enumerate(words):
        if word == "--root":
            return words[at + 1] if at + 1 < len(words) else ""
        if word.startswith("--root="):
            return word[7:]
    return ""


def _run(words: list[str]) -> int:
    from agent_chat.cli import output
    from agent_chat.cli.table import COMMANDS, GROUPS

    root = ""
    while words and words[0].partition("=")[0] == "--root":
        first = words.pop(0)
        root = first[7:] if first.startswith("--root=") else words.pop(0) if words else ""
    word = words.pop(0) if words else ""
    if word in ("--help", "-h", "help"):
        return _overview(words)
    if word == "--version":
        word = "version"
    if word in GROUPS:
        word = _command_of_group(word, words)
        if not word:
            return OK
    if word not in COMMANDS:
        raise AgentChatError("USAGE_ERROR", f"no command {word!r}" if word else "a command is needed", ("--help",))
    if "--help" in words or "-h" in words:
        from agent_chat.cli.parser import build

        output.emit(build(word).format_help())
        return OK
    return _call(word, words, root)


def _call(command: str, words: list[str], root: str) -> int:
    from agent_chat.cli import output
    from agent_chat.cli.options import Call, read
    from agent_chat.cli.table import COMMANDS

    spec = COMMANDS[command]
    values: Values | None = read(words, spec)
    if values is None:
        from agent_chat.cli.parser import parse

        values = parse(words, command)
    module = __import__(f"agent_chat.cli.{spec[0]}", fromlist=["run"])
    call = Call(command, values, root)
    try:
        status: int = module.run(call)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output.explain(error, call.root, command.partition(" ")[0]) from None
    return status


def _command_of_group(group: str, words: list[str]) -> str:
    """The command `group word`; empty after the group's help was printed."""
    from agent_chat.cli.table import COMMANDS, GROUPS

    if words and words[0] in ("--help", "-h"):
        _list([command for command in COMMANDS if command.startswith(group + " ")], GROUPS[group])
        return ""
    command = f"{group} {words.pop(0)}" if words else group
    if command not in COMMANDS:
        code = "TASK_INVALID_COMMAND" if group == "task" else "USAGE_ERROR"
        raise AgentChatError(
            code, f"no command {command!r}" if " " in command else f"{group} needs a command", (group, "--help")
        )
    return command


def _overview(words: list[str]) -> int:
    from agent_chat import __version__
    from agent_chat.cli.table import COMMANDS

    _list(list(COMMANDS), f"agent-chat {__version__}: agents talk and share work through files")
    return OK


def _list(commands: list[str], about: str) -> None:
    from agent_chat.cli import output
    from agent_chat.cli.table import COMMANDS

    width = max(map(len, commands))
    lines = [f"  {command:<{width}}  {COMMANDS[command][1]}" for command in commands if command != "version"]
    usage = "usage: agent-chat [--root DIR] COMMAND ...; COMMAND --help tells its options"
    output.emit("\n".join([about, usage, "", *lines]) + "\n")
