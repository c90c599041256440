"""Every command: word -> (module, help line, positionals, options). Literals only.

`cli.options` reads plain command lines by this table, `cli.parser` builds argparse from it for help,
errors and everything unusual. A positional ending in `+` takes one or more words, one in `*` any number,
one in `?` one or none.
An option's value is the name of its setting; ending in `?` it is a flag, in `*` it may stand several times.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Spec = tuple[str, str, tuple[str, ...], Mapping[str, str]]

EVERYWHERE = {"--root": "root", "--json": "json?"}
_AS = {"--as": "agent", "--from": "agent"}
_LEASE = {"--lease-seconds": "duration", "--lease": "duration", "--ttl": "duration"}
_WORKSPACE = {"--workspace": "workspace"}
_FIELDS = {
    "--title": "title",
    "--owner": "owner",
    "--depends-on": "depends_on*",
    "--files-hint": "files_hint*",
    "--acceptance": "acceptance*",
    "--branch": "branch",
}
_OWNER = {**_AS, "--owner": "agent"}
_PATHS, _TARGET = ("channel", "paths+"), ("channel", "target")
_STATE = {**_AS, "--actor": "agent", "--strict": "strict?", "--no-audit": "no_audit?"}
_TASK = ("channel", "task_id")
_RECOVERY = {
    "--resolve-publication": "resolve_publication",
    "--discard-journal": "discard_journal?",
    "--reason": "reason",
}
_FORMAT = {"--format": "format"}
_EXCLUDE = {"--exclude-topic": "exclude_topic*", "--exclude-from": "exclude_from*"}
_BOUNDS = {**_EXCLUDE, "--limit": "limit", "--max-bytes": "max_bytes", "--audit": "audit?"}
_ASKED = {**_AS, "--reason": "reason"}
_HANDOVER = {
    **_AS,
    "--version": "version",
    "--title": "title",
    "--body": "body",
    "--body-file": "body_file",
    "--request-id": "request_id",
}

COMMANDS: dict[str, Spec] = {
    "init": (
        "channels",
        "make a channel",
        ("channel",),
        {"--members": "members", "--topic": "topic", "--recovery": "recovery", "--guards": "guards?"},
    ),
    "channels": ("channels", "list the channels of the root", (), {}),
    "roster": ("channels", "show one channel: members, topic, who has read how far", ("channel",), {}),
    "post": (
        "posting",
        "post one message; the body comes from --body, --body-file or stdin",
        ("channel",),
        {
            **_AS,
            "--to": "to",
            "--title": "title",
            "--body": "body",
            "--body-file": "body_file",
            "--reply": "reply",
            "--status": "status",
            "--session": "session",
            "--topic": "topic",
            "--request-id": "request_id",
            "--if-latest": "if_latest",
            "--if-read": "if_read?",
            "--expires-in": "expires_in",
            "--save-refused": "save_refused",
            "--force": "force?",
        },
    ),
    "ring": (
        "ringing",
        "interrupt one agent: a line of at most 200 characters, and a pointer to where the content is",
        ("channel", "text"),
        {**_AS, "--to": "to", "--ref": "ref", "--session": "session", "--force": "force?", **_WORKSPACE},
    ),
    "read": (
        "reading",
        "show what is new for --as and move its cursor",
        ("channel",),
        {**_AS, **_FORMAT, **_BOUNDS, "--peek": "peek?", "--all": "all?", "--after": "after"},
    ),
    "wait": (
        "reading",
        "block until something is new, then act as read; no token is spent",
        ("channels+",),
        {
            **_AS,
            **_FORMAT,
            **_BOUNDS,
            "--timeout": "timeout",
            "--interval": "interval",
            "--peek": "peek?",
            "--outlive-parent": "outlive_parent?",
        },
    ),
    "watch": (
        "watching",
        "show messages as they come, moving the cursor as read does, until interrupted",
        ("channels*",),
        {
            **_AS,
            **_FORMAT,
            **_EXCLUDE,
            "--audit": "audit?",
            "--timeout": "timeout",
            "--interval": "interval",
            "--notify": "notify?",
            "--outlive-parent": "outlive_parent?",
        },
    ),
    "peek": (
        "showing",
        "show the last messages, no cursor involved",
        ("channel",),
        {**_FORMAT, **_EXCLUDE, "-n": "count", "--last": "count"},
    ),
    "topics": ("conversations", "list the topics: how many messages, the last one and its time", ("channel",), {}),
    "thread": (
        "conversations",
        "show the conversation of a message as a tree; with --format whole",
        ("channel", "number"),
        {**_FORMAT, "-n": "count"},
    ),
    "receipts": ("conversations", "tell what became of a message, for each recipient", ("channel", "number"), {}),
    "search": (
        "conversations",
        "find messages by the words in their titles and bodies",
        ("channel", "words+"),
        {"-n": "count"},
    ),
    "log": (
        "conversations",
        "list the last messages, one line each; with --ledger also what was refused, said twice or expired",
        ("channel",),
        {"-n": "count", "--ledger": "ledger?"},
    ),
    "show": ("showing", "show one message by its number", ("channel", "number"), _FORMAT),
    "ack": (
        "reading",
        "move a cursor without showing anything",
        ("channel",),
        {**_AS, "--upto": "upto", "--force": "force?"},
    ),
    "claim": ("markers", "take a marker file task-<id>.md; exactly one agent wins", ("channel", "marker"), _AS),
    "unclaim": ("markers", "give a claimed marker file back", ("channel", "marker"), {**_AS, "--reason": "reason"}),
    "task create": (
        "tasks",
        "make a task; other tasks it waits for are named by --depends-on",
        _TASK,
        {**_AS, "--created-by": "agent", **_FIELDS, **_WORKSPACE},
    ),
    "task list": (
        "tasks",
        "list the tasks",
        ("channel",),
        {"--status": "status", "--owner": "owner", "--ready": "ready?"},
    ),
    "task show": ("tasks", "show every field of a task and what it waits for", _TASK, {}),
    "task update": (
        "tasks",
        "change fields of a task",
        _TASK,
        {
            **_AS,
            **_FIELDS,
            **_WORKSPACE,
            "--status": "status",
            "--clear-owner": "clear_owner?",
            "--clear-branch": "clear_branch?",
        },
    ),
    "task claim": ("tasks", "take a ready task for a while", _TASK, {**_AS, **_LEASE, **_WORKSPACE}),
    "task next": ("tasks", "take the first ready task", ("channel",), {**_AS, **_LEASE, **_WORKSPACE}),
    "task renew": ("tasks", "prolong your lease", _TASK, {**_AS, **_LEASE}),
    "task done": ("tasks", "finish a task", _TASK, _AS),
    "task block": ("tasks", "mark a task as blocked", _TASK, _AS),
    "task release": ("tasks", "give a task back", _TASK, _AS),
    "task recover": ("tasks", "take over an expired lease, saying why", _TASK, {**_AS, **_LEASE, "--reason": "reason"}),
    "task recover-pending": (
        "tasks",
        "settle what a crashed task or lease command left",
        ("channel",),
        {**_AS, **_RECOVERY},
    ),
    "lock": ("locks", "say which paths you are about to change", _PATHS, {**_OWNER, **_LEASE, **_WORKSPACE}),
    "check": ("locks", "tell whether paths are free; exit 3 when not", _PATHS, {**_OWNER, **_WORKSPACE}),
    "unlock": ("locks", "give up your lock", _TARGET, {**_OWNER, **_WORKSPACE}),
    "renew-lock": ("locks", "prolong your lock", _TARGET, {**_OWNER, **_LEASE, **_WORKSPACE}),
    "recover": (
        "locks",
        "take over an expired lock, saying why; or put a damaged record aside",
        _TARGET,
        {**_OWNER, **_LEASE, **_WORKSPACE, "--reason": "reason"},
    ),
    "locks": ("locks", "list the path locks", ("channel",), {}),
    "recover-pending": (
        "locks",
        "settle what a crashed path-lock, turn or policy command left",
        ("channel",),
        {**_AS, **_RECOVERY},
    ),
    "state": (
        "state",
        "derive the summary of a channel; --write saves it",
        ("channel",),
        {**_STATE, "--write": "write?", "--save": "write?"},
    ),
    "compact": ("state", "write the summary to state.md", ("channel",), _STATE),
    "event post": (
        "events",
        "publish a capability or status event",
        ("channel",),
        {
            **_AS,
            "--type": "type",
            "--harness": "harness",
            "--primitives": "primitives*",
            "--status": "status",
            "--detail": "detail",
        },
    ),
    "event read": (
        "events",
        "read events, one JSON object a line",
        ("channel",),
        {"--from": "agent", "--as": "agent", "--type": "type", "--latest": "latest?"},
    ),
    "join": (
        "people",
        "take a name in a channel for this session, and get the token that proves it",
        ("channel",),
        {**_AS, "--session": "session", "--harness": "harness", "--takeover": "takeover?", "--reason": "reason"},
    ),
    "leave": ("people", "give the name up", ("channel",), {**_AS, "--session": "session"}),
    "requests": ("decisions", "list what waits for a person's decision", ("channel",), {"--all": "all?"}),
    "approve": ("decisions", "grant a request; for a person at a terminal", ("channel", "request"), {}),
    "deny": (
        "decisions",
        "refuse a request, saying why; for a person at a terminal",
        ("channel", "request"),
        {"--reason": "reason"},
    ),
    "agents": ("agents", "list who is here: waiting, status, last message, unread, work", ("channel",), {}),
    "digest": (
        "agents",
        "show what one agent does: its open work and last messages, at most 2 KB",
        ("channel",),
        {"--of": "of", "--wait": "wait?", "--timeout": "timeout"},
    ),
    "turn open": (
        "turns",
        "begin to take turns: the orchestrator has the first one",
        ("channel",),
        {**_AS, "--orchestrator": "orchestrator", "--worker": "worker"},
    ),
    "turn show": ("turns", "show whose turn it is, and what was handed over last", ("channel",), {}),
    "turn assign": ("turns", "hand the turn to the worker, with what is to be done", ("channel",), _HANDOVER),
    "turn report": (
        "turns",
        "hand the turn back to the orchestrator, saying how it went",
        ("channel",),
        {**_HANDOVER, "--outcome": "outcome"},
    ),
    "turn wait": (
        "turns",
        "block until --as holds the turn; no token is spent",
        ("channel",),
        {
            **_AS,
            "--have": "have",
            "--timeout": "timeout",
            "--interval": "interval",
            "--outlive-parent": "outlive_parent?",
        },
    ),
    "turn close": ("turns", "end it; for a person at a terminal, an agent asks for it", ("channel",), _ASKED),
    "turn reopen": ("turns", "go on with it; for a person, an agent asks for it", ("channel",), _ASKED),
    "turn roles": (
        "turns",
        "give it other roles; for a person, an agent asks for it",
        ("channel",),
        {**_ASKED, "--orchestrator": "orchestrator", "--worker": "worker"},
    ),
    "policy show": ("decisions", "show what a person decided about a channel", ("channel",), {}),
    "policy set": (
        "decisions",
        "decide one thing about a channel; for a person at a terminal",
        ("channel", "key", "value"),
        {},
    ),
    "guards show": (
        "guards",
        "show the limits, who is near one, and which pairs are cut off",
        ("channel",),
        {},
    ),
    "guards reset": (
        "guards",
        "let a pair that was cut off talk again; for a person at a terminal",
        ("channel", "pair"),
        {},
    ),
    "guard pre-commit": ("guard", "as a git hook: refuse a commit of paths that others have locked", (), _AS),
    "guard install": ("guard", "make that git hook in this repository", (), {}),
    "archive": (
        "archive",
        "move old messages to the archive, where readers still find them; or delete them",
        ("channel",),
        {"--older-than": "older_than", "--before": "before", "--delete": "delete?", "--force": "force?"},
    ),
    "doctor": ("doctor", "look for what is wrong, and name the command that helps", ("channel?",), {"--fix": "fix?"}),
    "setup": (
        "setup",
        "let a host run the hooks of this checkout and offer its skill",
        (),
        {"--host": "host", "--dry-run": "dry_run?", "--remove": "remove?"},
    ),
    "demo": (
        "demo",
        "show two agents at work in a fresh root, in a few seconds",
        (),
        {"--keep": "keep?"},
    ),
    "version": ("channels", "print the version", (), {}),
}
# Words that begin a command of two words: word -> what its commands are about.
GROUPS: dict[str, str] = {
    "task": "tasks and leases: work that agents hand to each other",
    "event": "capability and status events",
    "guard": "path locks, enforced by git",
    "guards": "limits for conversations that no person is in",
    "turn": "turns: one responsible at a time, for a pair where one directs and the other does",
    "policy": "what a person decides about a channel",
}
