"""hooks/path_guard.py as a host runs it: a process with one line of JSON, and never a status other than 0."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from board import QUICK, write
from locked import lock, lock_expired, make_workspace
from support import CHAT, REPOSITORY, Root, clean_environment, make_root, open_channel

HOOK = REPOSITORY / "hooks/path_guard.py"
TEXT_LIMIT = 2000
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_workspace(tmp_path)
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def root(tmp_path: Path, work: Path) -> Root:
    return make_root(tmp_path)


class Guard:
    """The hook, as bob's host runs it."""

    def __init__(self, root: Root, work: Path) -> None:
        self.work = work
        self.environment = {"AGENT_CHAT_ROOT": str(root.path), "AGENT_CHAT_NAME": "bob"}

    def event(self, path: object = "src/a.py", tool: str = "Write", **given: Any) -> dict[str, Any]:
        found = {"session_id": "s", "hook_event_name": "PreToolUse", "cwd": str(self.work), "tool_use_id": "t"}
        return {**found, "tool_name": tool, "tool_input": given or {"file_path": str(path), "content": "x"}}

    def run(self, event: object, script: Path = HOOK, **environment: str | None) -> Any:
        """What the hook says, None for nothing. `event`: bytes, or what is sent as JSON."""
        data = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
        extra = {key: value for key, value in {**self.environment, **environment}.items() if value is not None}
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(script)],
            input=data,
            capture_output=True,
            cwd=self.work.parent,  # a host's own folder: the event says where the agent is
            env=clean_environment(**extra),
            timeout=60,
            check=False,
        )
        self.errors = done.stderr.decode()
        assert done.returncode == 0, done
        return said(done.stdout)

    def denies(self, event: object, **environment: str | None) -> str:
        """Why the write is denied."""
        found = self.run(event, **environment)
        assert set(found) == {"hookSpecificOutput"} and not self.errors, (found, self.errors)
        inner = found["hookSpecificOutput"]
        assert inner.pop("hookEventName") == "PreToolUse" and inner.pop("permissionDecision") == "deny"
        assert set(inner) == {"permissionDecisionReason"}
        return str(inner["permissionDecisionReason"])

    def doubts(self, event: object, **environment: str | None) -> str:
        """Why it is allowed without being sure."""
        found = self.run(event, **environment)
        assert set(found) == {"systemMessage"} and not self.errors, (found, self.errors)
        return str(found["systemMessage"])


def said(out: bytes) -> Any:
    """Standard output is empty, or one JSON object in one line of ASCII, of at most 2,000 characters."""
    if not out:
        return None
    assert out.endswith(b"}\n") and out.count(b"\n") == 1 and out.isascii()
    found = json.loads(out)
    assert isinstance(found, dict) and set(found) <= {"hookSpecificOutput", "systemMessage"}
    texts = [found.get("systemMessage", ""), found.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")]
    assert all(len(text) <= TEXT_LIMIT and "\n" not in text for text in texts)
    return found


@pytest.fixture
def guard(root: Root, work: Path) -> Guard:
    return Guard(root, work)


# ---- denying and allowing -----------------------------------------------------------------------------------


def test_a_denial_names_holder_time_channel_and_a_command_that_runs(guard: Guard, root: Root, work: Path) -> None:
    record = lock(root, "src/a.py")
    reason = guard.denies(guard.event(work / "src/a.py"))
    head, _, command = reason.partition("; next: ")
    told = f"src/a.py is locked by alice until {record['expires_at']} in channel c"
    assert head == f"agent-chat: PATH_LOCK_CONFLICT: {told}"
    words = shlex.split(command)
    assert words[:2] == ["python3", CHAT]
    done = subprocess.run(
        [sys.executable, *words[1:]], capture_output=True, encoding="utf-8", cwd=work, env=clean_environment()
    )
    assert done.returncode == 3 and "owner=alice" in done.stdout, done


PATCH = "*** Begin Patch\n*** Update File: b.py\n*** Move to: src/a.py\n@@\n-x\n+y\n*** End Patch\n"


@pytest.mark.parametrize(
    "tool, given",
    [
        ("Write", {"file_path": "{work}/src/a.py", "content": "x"}),
        ("Edit", {"file_path": "{work}/src/../src/./a.py", "old_string": "a", "new_string": "b", "replace_all": False}),
        ("Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}),
        ("NotebookEdit", {"notebook_path": "{work}/src/a.py", "new_source": "x", "cell_id": "1"}),
        ("apply_patch", {"input": PATCH}),
        ("apply_patch", {"command": ["apply_patch", PATCH]}),
        ("Bash", {"command": f"apply_patch <<'EOF'\n{PATCH}EOF\n"}),
        ("Bash", {"command": "cd src && apply_patch <<'EOF'\n" + PATCH.replace("src/", "") + "EOF\n"}),
    ],
)
def test_every_writing_tool_is_guarded(guard: Guard, root: Root, work: Path, tool: str, given: dict[str, Any]) -> None:
    lock(root, "src/a.py")
    filled = {k: v.replace("{work}", str(work)) if isinstance(v, str) else v for k, v in given.items()}
    assert "src/a.py is locked by alice" in guard.denies(guard.event(tool=tool, **filled))
    assert guard.run(guard.event(tool=tool, **filled), AGENT_CHAT_NAME="alice") is None


def test_what_is_not_guarded_is_allowed_silently(guard: Guard, root: Root, work: Path) -> None:
    lock(root, "src")
    commands = ("rm -rf src", "echo apply_patch", "cat <<E\n*** Begin Patch\n*** Add File: src/a.py\nE")
    for event in (
        *(guard.event(path) for path in ("b.py", work / "docs/a.md", "/etc/passwd", work.parent / "src/a.py")),
        guard.event("src/a.py", tool="Read"),
        *(guard.event(tool="Bash", command=text) for text in commands),
        guard.event(tool="Agent", prompt="*** Begin Patch\n*** Add File: src/a.py"),
    ):
        assert guard.run(event) is None and not guard.errors


def test_a_long_path_is_cut(guard: Guard, root: Root) -> None:
    lock(root, "src")
    assert guard.denies(guard.event("src/" + "long/" * 700)).startswith("agent-chat: PATH_LOCK_CONFLICT: src/long/")


def test_own_locks_and_names_in_another_case(guard: Guard, root: Root) -> None:
    lock(root, "src", who="bob")
    assert guard.run(guard.event("src/a.py")) is None
    assert guard.run(guard.event("src/a.py"), AGENT_CHAT_NAME="BOB") is None
    assert guard.denies(guard.event("src/a.py"), AGENT_CHAT_NAME="bobby")


def test_the_name_of_the_plugins_options_is_second(guard: Guard, root: Root) -> None:
    lock(root, "src")
    assert guard.denies(guard.event(), AGENT_CHAT_NAME=None, CLAUDE_PLUGIN_OPTION_AGENT_CHAT_NAME="carol")
    option = {"CLAUDE_PLUGIN_OPTION_AGENT_CHAT_NAME": "alice"}
    assert guard.run(guard.event(), AGENT_CHAT_NAME=None, **option) is None
    assert guard.run(guard.event(), AGENT_CHAT_NAME="", **option) is None
    assert guard.denies(guard.event(), **option)


def test_without_a_name_it_is_silent(guard: Guard, root: Root) -> None:
    """Case H3."""
    lock(root, "src")
    write(root.folder() / "locks/x.json", "{")
    for event in (guard.event(), b"{", b""):
        assert guard.run(event, AGENT_CHAT_NAME=None) is None and not guard.errors


def test_the_channels_that_count(guard: Guard, root: Root) -> None:
    root.ok("init", "d")
    root.ok("lock", "d", "src", "--as", "carol", **QUICK)
    assert "in channel d" in guard.denies(guard.event())
    assert "in channel d" in guard.denies(guard.event(), AGENT_CHAT_CHANNELS="c, d,")
    assert guard.run(guard.event(), AGENT_CHAT_CHANNELS="c") is None
    assert guard.run(guard.event(), AGENT_CHAT_CHANNELS="nope") is None
    assert "CHANNEL_INVALID_NAME" in guard.doubts(guard.event("b.py"), AGENT_CHAT_CHANNELS="../d, d")


def test_where_the_workspace_comes_from(guard: Guard, root: Root, tmp_path: Path, work: Path) -> None:
    lock(root, "src/a.py")
    other = tmp_path / "other"
    other.mkdir()
    event = {**guard.event(other / "src/a.py"), "cwd": str(other)}
    assert "src/a.py" in guard.denies(event, AGENT_CHAT_WORKSPACE=str(other))
    assert guard.run(event) is None, "the channel's folder, and this is outside"
    assert guard.denies({**guard.event("a.py"), "cwd": str(work / "src")})
    assert guard.run({**guard.event("src/a.py"), "cwd": str(work / "src")}) is None
    root.ok("lock", "c", "notes.md", "--as", "alice", "--workspace", str(root.folder()), **QUICK)
    assert guard.denies({**guard.event(root.folder() / "notes.md"), "cwd": str(tmp_path)})


def test_a_root_without_a_name_is_in_the_home_folder(guard: Guard, root: Root, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    lock(root, "src")
    root.path.rename(home / "agent-chat")
    reason = guard.denies(guard.event(), AGENT_CHAT_ROOT=None, HOME=str(home), USERPROFILE=str(home))
    assert "--root" not in reason
    assert guard.denies(guard.event(), AGENT_CHAT_ROOT="~/agent-chat", HOME=str(home), USERPROFILE=str(home))


def test_the_bypass_variable(guard: Guard, root: Root) -> None:
    lock(root, "src")
    assert guard.run(guard.event(), AGENT_CHAT_GUARD="off") is None
    assert guard.denies(guard.event(), AGENT_CHAT_GUARD="on")


# ---- not sure ---------------------------------------------------------------------------------------------


def broken(root: Root, kind: str) -> str:
    """Break something; the code that is said."""
    if kind == "expired":
        lock_expired(root, "src")
        return "PATH_LOCK_RECOVERY_REQUIRED"
    record = lock(root, "src")
    path = root.folder() / f"locks/{record['lock_id']}.json"
    if kind == "damaged":
        path.write_text("{")
        return "PATH_LOCK_INVALID_RECORD"
    if kind == "link":
        path.rename(root.path / "elsewhere")
        path.symlink_to(root.path / "elsewhere")
        return "PATH_LOCK_STORAGE_INVALID"
    if kind == "pending":
        write(root.folder() / ".journal/path.json", "{")
        return "PATH_LOCK_TRANSACTION_INVALID"
    if kind == "pipe":
        path.unlink()
        os.mkfifo(path)
        return "PATH_LOCK_STORAGE_INVALID"
    write(root.folder() / "_meta.json", "<<<<<<< ours")
    return "CHANNEL_META_INVALID"


@posix_only
@pytest.mark.parametrize("kind", ["expired", "damaged", "link", "pending", "pipe", "channel"])
def test_whatever_is_not_sure_is_allowed_and_said_in_one_line(guard: Guard, root: Root, kind: str) -> None:
    code = broken(root, kind)
    text = guard.doubts(guard.event())
    assert text.startswith(f"agent-chat: path guard: {code}: allowed, but not sure: ") and "; next: " in text
    assert guard.run(guard.event(), AGENT_CHAT_NAME=None) is None


def test_a_denial_and_a_doubt_are_one_object(guard: Guard, root: Root) -> None:
    lock(root, "src")
    write(root.folder() / "locks/x.json", "{")
    assert set(guard.run(guard.event())) == {"hookSpecificOutput", "systemMessage"}


def test_a_name_that_is_none_is_said(guard: Guard, root: Root) -> None:
    lock(root, "src")
    assert "AGENT_INVALID_NAME" in guard.doubts(guard.event(), AGENT_CHAT_NAME="a b")


@pytest.mark.parametrize(
    "data",
    [
        *(b"{", b"nonsense", b"[]", b"null", b'"x"', b"{}", b"\xff\xfe", b"{" * 100_000, b"[" * 100_000, b"\0"),
        *(b'{"tool_name": "Write"}', b'{"tool_name": "Write", "tool_input": {"file_path": 7}}', b'{"tool_name": 1}'),
        *(b'{"tool_name": "apply_patch", "tool_input": {"input": "*** Begin Patch"}}',),
    ],
    ids=lambda data: ascii(data[:30]),
)
def test_what_is_no_event_is_allowed_and_said(guard: Guard, root: Root, data: bytes) -> None:
    lock(root, "src")
    assert guard.doubts(data).startswith("agent-chat: path guard: ")


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t"])
def test_nothing_on_standard_input_is_nothing_to_say(guard: Guard, data: bytes) -> None:
    assert guard.run(data) is None


def test_other_forms_of_one_event(guard: Guard, root: Root) -> None:
    lock(root, "src")
    text = json.dumps(guard.event())
    indented = json.dumps(guard.event(), indent=2)
    for data in (text, text + "\n", "\ufeff" + text, indented, text + "\n" + text, "\r\n" + text):
        assert guard.denies(data.encode())
    big = guard.event("src/a.py", file_path="src/a.py", content="x" * 3_000_000)
    assert guard.denies(big)


@pytest.mark.parametrize("cwd", [None, 7, "", "/nowhere/at/all"])
def test_an_event_without_a_folder(guard: Guard, root: Root, work: Path, cwd: object) -> None:
    lock(root, "src")
    assert guard.denies({**guard.event(work / "src/a.py"), "cwd": cwd}, AGENT_CHAT_WORKSPACE=str(work))


# ---- a host's process -------------------------------------------------------------------------------------


def start(guard: Guard, **options: Any) -> subprocess.Popen[bytes]:
    environment = clean_environment(**guard.environment)
    return subprocess.Popen([sys.executable, "-I", "-S", str(HOOK)], env=environment, cwd=guard.work, **options)


def test_a_pipe_that_stays_open_is_not_waited_for(guard: Guard, root: Root) -> None:
    """Case H2. The bounds are generous: a machine may be busy."""
    lock(root, "src")
    for data, is_denied in ((json.dumps(guard.event()).encode() + b"\n", True), (b"", False), (b"{", False)):
        process = start(guard, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(data)
        process.stdin.flush()
        started = time.monotonic()
        assert process.wait(timeout=20) == 0
        assert time.monotonic() - started < 8
        found = said(process.stdout.read())
        assert ("hookSpecificOutput" in found) == is_denied and process.stderr.read() == b""
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


@posix_only
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "| true"])
def test_streams_that_are_closed_or_full(guard: Guard, root: Root, closed: str) -> None:
    lock(root, "src")
    event = shlex.quote(json.dumps(guard.event()))
    hook = shlex.join([sys.executable, "-I", "-S", str(HOOK)])
    line = f"printf '%s\\n' {event} | ( {hook} {closed}; echo status $? >&3 )"
    environment = clean_environment(**guard.environment)
    command = ["sh", "-c", f"{{ {line} ; }} 3>&1 >/dev/null"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert done.stdout == b"status 0\n" and b"Traceback" not in done.stderr, done


@pytest.mark.parametrize(
    "environment",
    [
        *({"AGENT_CHAT_ROOT": path} for path in ("/dev/null", "/nowhere", "\udcff", "relative", "/proc/self/mem")),
        *({"AGENT_CHAT_WORKSPACE": path} for path in ("/nowhere", "/dev/null", "\udcff")),
        *({"AGENT_CHAT_CHANNELS": text} for text in (",,", "\udcff", "c" * 5000, "../../etc")),
        {"PYTHONWARNINGS": "error", "PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere", "PYTHONDEVMODE": "1"},
        {"AGENT_CHAT_NAME": "\udcff"},
        {"HOME": "/nowhere", "AGENT_CHAT_ROOT": "~/x"},
    ],
    ids=lambda found: ascii(found)[:60],
)
def test_whatever_the_environment_says(guard: Guard, root: Root, environment: dict[str, str]) -> None:
    """Case H7."""
    lock(root, "src")
    guard.run(guard.event(), **environment)
    assert "Traceback" not in guard.errors


@posix_only
@pytest.mark.parametrize("what", ["chmod", "loop", "file", "not json"])
def test_channels_that_cannot_be_read(guard: Guard, root: Root, what: str) -> None:
    lock(root, "src")
    path = root.folder()
    if what == "chmod":
        (path / "locks").chmod(0)  # root reads it all the same
    elif what == "loop":
        path.rename(root.path / "away")
        path.symlink_to(path)
    elif what == "file":
        shutil.rmtree(path / "locks")
        write(path / "locks", "x")
    else:
        write(path / "_meta.json", b"\xff")
    found = guard.run(guard.event())
    assert found and "Traceback" not in guard.errors


def test_a_lock_that_somebody_holds_is_not_waited_for(guard: Guard, root: Root) -> None:
    lock(root, "src")
    with open_channel(root) as channel, channel.exclusive("mallory"):
        started = time.monotonic()
        assert guard.denies(guard.event())
        assert time.monotonic() - started < 8, "ten seconds is what others wait"


def test_it_writes_nothing_into_the_channel(guard: Guard, root: Root) -> None:
    lock(root, "src")
    before = {path: path.stat().st_mtime_ns for path in [root.path, *root.path.rglob("*")]}
    guard.denies(guard.event())
    assert {path: path.stat().st_mtime_ns for path in [root.path, *root.path.rglob("*")]} == before


# ---- where its code is --------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A copy of the plugin below a path with spaces."""
    path = tmp_path / "my plugins" / "agent-chat's"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("agent_chat", "hooks"):
        shutil.copytree(REPOSITORY / name, path / name, ignore=ignore)
    shutil.copy(CHAT, path)
    return path


def test_code_is_found_by_the_hosts_variable_else_beside_the_script(guard: Guard, root: Root, plugin: Path) -> None:
    lock(root, "src")
    reason = guard.denies(guard.event(), CLAUDE_PLUGIN_ROOT=str(plugin))
    assert shlex.quote(str(plugin / "chat.py")) in reason
    assert str(plugin) not in guard.denies(guard.event(), CLAUDE_PLUGIN_ROOT="")
    found = guard.run(guard.event(), script=plugin / "hooks/path_guard.py")
    assert shlex.quote(str(plugin / "chat.py")) in found["hookSpecificOutput"]["permissionDecisionReason"]


def test_without_code_it_is_skipped_with_one_line(guard: Guard, root: Root, plugin: Path, tmp_path: Path) -> None:
    lock(root, "src")
    shutil.rmtree(plugin / "agent_chat")
    for script, place in ((plugin / "hooks/path_guard.py", None), (HOOK, str(tmp_path))):
        assert guard.run(guard.event(), script=script, CLAUDE_PLUGIN_ROOT=place) is None
        assert guard.errors.count("\n") == 1 and guard.errors.startswith("agent-chat: ")


def test_code_that_fails_stops_nobody(guard: Guard, root: Root, plugin: Path) -> None:
    write(plugin / "agent_chat/guard.py", "import nonsense")
    assert "it failed: ModuleNotFoundError" in guard.doubts(guard.event(), CLAUDE_PLUGIN_ROOT=str(plugin))
    write(plugin / "agent_chat/guard.py", "raise SystemExit(2)")
    assert "it failed: SystemExit" in guard.doubts(guard.event(), CLAUDE_PLUGIN_ROOT=str(plugin))


def test_nothing_of_the_working_folder_is_imported(guard: Guard, root: Root, work: Path) -> None:
    lock(root, "src")
    for name in ("json.py", "agent_chat/__init__.py"):
        write(work.parent / name, "raise SystemExit(2)")
        write(work / name, "raise SystemExit(2)")
    assert guard.denies(guard.event(), PYTHONPATH=str(work))


# ---- the registration ---------------------------------------------------------------------------------------


def registered() -> list[tuple[str, dict[str, Any]]]:
    """(matcher, handler) of every handler of PreToolUse."""
    groups = json.loads((REPOSITORY / "hooks/hooks.json").read_text("utf-8"))["hooks"]["PreToolUse"]
    return [(group["matcher"], handler) for group in groups for handler in group["hooks"]]


def test_every_writing_tool_is_registered_with_a_timeout() -> None:
    """Case H8."""
    ((matcher, handler),) = registered()
    assert set(matcher.split("|")) == {"Write", "Edit", "NotebookEdit", "apply_patch", "Bash"}
    assert set(handler) == {"type", "command", "timeout"}
    assert handler["type"] == "command" and 0 < handler["timeout"] <= 10
    assert handler["command"].startswith('python3 -I -S "${CLAUDE_PLUGIN_ROOT}/hooks/path_guard.py" || ')


@posix_only
@pytest.mark.parametrize("python", ["python3", "python", "py", ""])
def test_the_registered_command_works_through_a_shell(
    guard: Guard, root: Root, plugin: Path, tmp_path: Path, python: str
) -> None:
    """Case H5, with whatever name Python has; without any nobody is stopped."""
    lock(root, "src")
    names = tmp_path / "bin"
    names.mkdir()
    if python:
        script = f'#!/bin/sh\n[ "$1" != -3 ] || shift\nexec {shlex.quote(sys.executable)} "$@"\n'
        (names / python).write_text(script)
        (names / python).chmod(0o755)
    environment = clean_environment(**guard.environment, CLAUDE_PLUGIN_ROOT=str(plugin), PATH=str(names))
    command = registered()[0][1]["command"]
    data = json.dumps(guard.event()).encode() + b"\n"
    done = subprocess.run(["/bin/sh", "-c", command], input=data, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0 and bool(said(done.stdout)) == bool(python), done
    (plugin / "hooks/path_guard.py").unlink()  # Python itself exits with 2 for that, which would deny
    done = subprocess.run(["/bin/sh", "-c", command], input=data, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")


# ---- what it costs ------------------------------------------------------------------------------------------


def loaded(guard: Guard, event: object) -> set[str]:
    """The modules that the hook has loaded at its end."""
    code = (
        "import os, sys; before = set(sys.modules); end = os._exit; path = sys.argv[1]\n"
        "def told(status): os.write(2, ' '.join(set(sys.modules) - before).encode()); end(status)\n"
        "os._exit = told; exec(open(path).read(), {'__name__': '__main__', '__file__': path})"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(HOOK)],
        input=json.dumps(event).encode() + b"\n",
        env=clean_environment(**guard.environment),
        capture_output=True,
        check=True,
    )
    return set(done.stderr.decode().split())


def test_a_shell_command_costs_no_import(guard: Guard) -> None:
    found = loaded(guard, guard.event(tool="Bash", command="make test"))
    assert not {name for name in found if name.partition(".")[0] in ("agent_chat", "json")}, found


def test_an_allowed_write_loads_nothing_slow(guard: Guard, root: Root) -> None:
    lock(root, "src")
    found = loaded(guard, guard.event("b.py"))
    assert "agent_chat.guard" in found and not {name for name in found if name.startswith("agent_chat.cli")}
    slow = "argparse dataclasses datetime inspect logging pathlib shlex subprocess tempfile typing uuid"
    assert not found & set(slow.split())
