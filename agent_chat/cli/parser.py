"""argparse, built from `cli.table`: the authority for help, errors and unusual command lines."""

from __future__ import annotations

import argparse

from agent_chat.cli.table import COMMANDS, EVERYWHERE
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from agent_chat.cli.options import Values

HELP = {
    "root": ("DIR", "folder of the channels (default $AGENT_CHAT_ROOT, else ~/agent-chat)"),
    "json": ("", "answer as one JSON object"),
    "agent": ("NAME", "who acts (default $AGENT_CHAT_NAME)"),
    "format": ("F", "auto, envelope, markdown or json (default $AGENT_CHAT_FORMAT, else auto)"),
    "members": ("A,B", "agents of the channel; others may post too, but are asked about"),
    "topic": ("TEXT", "what it is about: of a channel any line, of a message a word such as docs/review"),
    "to": ("A,B", "recipients; all, * or nothing is everyone"),
    "title": ("TEXT", "one line that stands for the message"),
    "body": ("TEXT", "the text itself"),
    "body_file": ("FILE", "a UTF-8 file with the body; - is stdin"),
    "ledger": ("", "also what was refused, said twice, or expired unseen, as the ledger has it"),
    "guards": ("", "keep agents from talking without end: limits that `guards show` lists"),
    "save_refused": ("FILE", "keep the body in this file, which must be new, if the post is refused"),
    "pair": ("A,B", "the two agents"),
    "ref": ("REF", "seq:12, task:T-1, lock:ID, path:src/a.py, owner/repo#12 or a URL"),
    "text": ("TEXT", "what is wanted, on one line"),
    "reply": ("N", "number of the message this one answers"),
    "status": ("WORD", "kind of message (default discussion)"),
    "force": ("", "do it in spite of the refusal"),
    "if_latest": ("N", "only if no message for you is newer than N"),
    "if_read": ("", "only if you have read everything"),
    "expires_in": ("S", "seconds after which it is delivered no more"),
    "older_than": ("AGE", "what was written longer ago than this, such as 14d (default: the policy's retention)"),
    "before": ("N", "what has a lower number"),
    "delete": ("", "remove it for good instead, for a person at a terminal, and only what nobody needs any more"),
    "after": ("N", "what is above N, read or not; leaves the cursor"),
    "exclude_topic": ("TOPIC", "leave this topic out, and pass over it; may stand several times"),
    "exclude_from": ("NAME", "leave out what this agent or session wrote; may stand several times"),
    "limit": ("N", "at most N messages; the rest stays unread"),
    "max_bytes": ("N", "at most N bytes of whole messages, at least one; 0 lifts the limit of the envelope format"),
    "audit": ("", "include every audit message ($AGENT_CHAT_AUDIT=all)"),
    "peek": ("", "leave the cursor"),
    "all": ("", "the whole thread, read or not; leaves the cursor"),
    "timeout": ("S", "seconds to wait (default 900; 0 looks once)"),
    "interval": ("S", "seconds between two looks at the folder (default: adaptive)"),
    "outlive_parent": ("", "go on when the process that started it is gone"),
    "count": ("N", "how many (default 3; thread 100, search and log 20)"),
    "upto": ("N", "the number up to which everything counts as read"),
    "reason": ("TEXT", "why"),
    "keep": ("", "keep the folder of the demo and say where it is"),
    "task_id": ("ID", "id of the task"),
    "owner": ("NAME", "whose task it is"),
    "depends_on": ("ID,ID", "tasks that must be done first; may stand several times"),
    "files_hint": ("PATH,PATH", "files it will touch; may stand several times"),
    "acceptance": ("TEXT,TEXT", "when it counts as done; may stand several times"),
    "branch": ("NAME", "git branch of the work"),
    "clear_owner": ("", "nobody's task any more"),
    "clear_branch": ("", "no branch any more"),
    "duration": ("S", "seconds the lease lasts (default 300)"),
    "workspace": ("DIR", "folder that paths are relative to (default $AGENT_CHAT_WORKSPACE, else the git top level)"),
    "paths": ("PATH", "path or pattern, relative to the workspace; ./ and ../ to the working directory"),
    "target": ("ID|PATH", "id of a lock, or exactly one of its paths"),
    "strict": ("", "refuse any damaged source"),
    "no_audit": ("", "publish no audit message"),
    "write": ("", "write state.md, as compact does"),
    "type": ("TYPE", "capability or status"),
    "harness": ("NAME", "the program the agent runs in"),
    "primitives": ("WORD,WORD", "what it can do (default all); may stand several times"),
    "detail": ("TEXT", "one line more about a status"),
    "latest": ("", "only the last of each agent and type"),
    "host": ("HOST", "claude, codex, omp, opencode or gemini; default: those that are there"),
    "dry_run": ("", "show what would change, and change nothing"),
    "remove": ("", "take the lines out again"),
    "notify": ("", "one short line a burst: how many, where, from whom; moves no cursor"),
    "fix": ("", "mend what can be mended without losing anything"),
    "ready": ("", "only open tasks whose dependencies are done"),
    "resolve_publication": ("WORD", "rollback or published: your word on whether the change was published"),
    "discard_journal": ("", "put a damaged journal aside (needs --reason)"),
    "recovery": ("WORD", "explicit (default) or auto: who settles what a crash left"),
    "of": ("NAME", "the agent it is about"),
    "wait": ("", "until it says idle or stopped, or writes a message (300 s at most)"),
    "orchestrator": ("NAME", "the agent that directs"),
    "worker": ("NAME", "the agent that does"),
    "version": ("V", "the version of the turn that you know"),
    "outcome": ("WORD", "done or blocked"),
    "request_id": ("ID", "an id of your choice: a repeat with it writes nothing and answers what the first one did"),
    "have": ("V", "the version that you know: a worker that holds it without having reported gives it back"),
    "session": ("ID", "which session this is (default $AGENT_CHAT_SESSION, else the host's own id)"),
    "takeover": ("", "ask your user for a name that another session has (needs --reason)"),
    "request": ("R-N", "id of the request, as `requests` lists it"),
    "key": ("KEY", "what is decided: a key of `policy show`"),
    "value": ("VALUE", "the word that is to count for it"),
    "channel": ("CH", "name of the channel"),
    "channels": ("CH", "name of the channel"),
    "marker": ("MARKER", "file name task-<id>.md"),
    "words": ("WORD", "all of them must be there, in any order and case"),
    "number": ("N", "number of the message"),
}


class _Parser(argparse.ArgumentParser):
    """Raises instead of printing and exiting."""

    usage_code = "USAGE_ERROR"

    def error(self, message: str) -> NoReturn:
        words = tuple(self.prog.split()[1:])
        raise AgentChatError(self.usage_code, message.replace("\n", " "), (*words, "--help"))


def build(command: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    _, about, positionals, options = COMMANDS[command]
    parser = _Parser(prog=f"agent-chat {command}", description=about, allow_abbrev=False)
    parser.usage_code = "TASK_INVALID_ARGUMENT" if command.startswith("task") else "USAGE_ERROR"
    for name in positionals:
        plain = name.rstrip("+?*")
        metavar, text = HELP[plain]
        parser.add_argument(plain, metavar=metavar, help=text, nargs=name[-1] if name != plain else None)
    spellings: dict[str, list[str]] = {}
    for option, target in {**options, **EVERYWHERE}.items():
        spellings.setdefault(target, []).append(option)
    for target, names in spellings.items():
        plain = target.rstrip("?*")
        metavar, text = HELP[plain]
        if target.endswith("?"):
            parser.add_argument(*names, dest=plain, action="store_true", help=text)
        else:
            action = "append" if target.endswith("*") else "store"
            parser.add_argument(*names, dest=plain, action=action, metavar=metavar, help=text)
    return parser


def parse(words: list[str], command: str) -> Values:
    """The settings of a command line; USAGE_ERROR or TASK_INVALID_ARGUMENT."""
    parser = build(command)
    # argparse takes an optional positional as missing when an option comes before it, unless intermixed.
    is_optional = COMMANDS[command][2][-1:] and COMMANDS[command][2][-1].endswith(("?", "*"))
    found = vars(parser.parse_intermixed_args(words) if is_optional else parser.parse_args(words))
    if found.get("channels") == []:
        del found["channels"]  # none of any number
    return {name: _mended(value) for name, value in found.items() if value is not None and value is not False}


def _mended(value: object) -> object:
    """Before Python 3.13 argparse takes the `--` out of `--title=--` and gives an empty list."""
    if value == []:
        return "--"
    return [_mended(part) for part in value] if isinstance(value, list) else value
