"""The rules of the code's shape: layers, one door to the disk, a silent domain, sizes, names.

All of it is read from the syntax trees; nothing of agent_chat is imported.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A module imports only from lower ranks. A new module gets its line here.
RANKS = {
    "agent_chat": -1,  # __version__ only; imports nothing
    "agent_chat.errors": 0,
    "agent_chat.storage": 1,
    "agent_chat.storage.disk": 1,
    "agent_chat.storage.oslock": 1,
    "agent_chat.storage.records": 1,
    "agent_chat.storage.journal": 1,
    "agent_chat.storage.sweep": 1,
    "agent_chat.storage.digests": 1,
    "agent_chat.storage.watch": 1,
    "agent_chat.names": 2,
    "agent_chat.clock": 2,
    "agent_chat.jsonc": 2,  # a settings file, changed in one place
    "agent_chat.frontmatter": 2,
    "agent_chat.workspace": 2,
    "agent_chat.patterns": 2,
    "agent_chat.arrivals": 3,
    "agent_chat.audit": 3,  # whom an audit message concerns
    "agent_chat.archived": 3,
    "agent_chat.log": 3,
    "agent_chat.hosts": 3,  # which session of a host is which agent
    "agent_chat.policy": 3,
    "agent_chat.channel": 4,
    "agent_chat.change": 4,
    "agent_chat.recovery": 4,
    "agent_chat.legacy": 4,  # journals of agent-chat-plugin 0.7.5
    "agent_chat.presence": 5,
    "agent_chat.messages": 5,
    "agent_chat.cursors": 5,
    "agent_chat.conditions": 5,
    "agent_chat.markers": 5,
    "agent_chat.tasks": 5,
    "agent_chat.task_audit": 5,
    "agent_chat.claims": 5,
    "agent_chat.task_changes": 6,
    "agent_chat.leases": 6,
    "agent_chat.path_locks": 6,
    "agent_chat.locking": 7,
    "agent_chat.events": 6,
    "agent_chat.points": 6,
    "agent_chat.people": 6,
    "agent_chat.requests": 6,
    "agent_chat.turns": 6,
    "agent_chat.rings": 7,
    "agent_chat.archive": 7,
    "agent_chat.guards": 6,
    "agent_chat.ledger": 5,
    "agent_chat.decisions": 7,
    "agent_chat.conversations": 6,
    "agent_chat.receipts": 7,
    "agent_chat.agents": 7,
    "agent_chat.state": 7,
    "agent_chat.compaction": 7,
    "agent_chat.doctor": 7,
    "agent_chat.guard": 7,
    # agent_chat.cli and every module in it: 8
    "agent_chat.__main__": 9,
}
CLI_RANK = 8

# The imports within one rank that are allowed: importer -> imported.
SIDEWAYS = {
    "agent_chat.log": {"agent_chat.arrivals", "agent_chat.archived"},
    "agent_chat.archived": {"agent_chat.arrivals", "agent_chat.log"},
    "agent_chat.arrivals": {"agent_chat.audit"},
    "agent_chat.storage.oslock": {"agent_chat.storage.disk"},
    "agent_chat.storage.sweep": {"agent_chat.storage.disk"},
    "agent_chat.storage.digests": {"agent_chat.storage.disk"},
    "agent_chat.storage.watch": {"agent_chat.storage.disk"},
    "agent_chat.storage.journal": {
        "agent_chat.storage.disk",
        "agent_chat.storage.records",
        "agent_chat.storage.digests",  # the type
    },
    "agent_chat.frontmatter": {"agent_chat.names"},
    "agent_chat.workspace": {"agent_chat.names", "agent_chat.patterns"},
    # the methods of a channel that its other commands do not pay for
    "agent_chat.channel": {"agent_chat.change", "agent_chat.recovery"},
    "agent_chat.change": {"agent_chat.channel", "agent_chat.recovery"},
    "agent_chat.recovery": {"agent_chat.channel", "agent_chat.legacy"},
    "agent_chat.legacy": {"agent_chat.channel"},
    "agent_chat.task_audit": {"agent_chat.tasks"},
    "agent_chat.claims": {"agent_chat.tasks"},
    "agent_chat.messages": {"agent_chat.audit", "agent_chat.conditions"},
    "agent_chat.doctor": {"agent_chat.archive"},
    "agent_chat.conditions": {"agent_chat.cursors", "agent_chat.messages"},
    "agent_chat.cursors": {"agent_chat.audit", "agent_chat.messages"},
}
SIDEWAYS_IN_CLI = {
    "agent_chat.cli.output",
    "agent_chat.cli.table",
    "agent_chat.cli.options",
    "agent_chat.cli.parser",
    "agent_chat.cli.recovering",
    "agent_chat.cli.operator",
    "agent_chat.cli.admission",
    "agent_chat.cli.reading",  # its waiting, for watch and turns
    "agent_chat.cli.posting",  # its reading of a body, for turns
}

# The one place that imports a module by a computed name: the command's.
DYNAMIC_IMPORTS = {"agent_chat.cli"}

DOOR = "agent_chat/storage/disk.py"
# What changes the file system, by module; "open" of os is told by its flags.
CHANGES = {
    "os": set(
        "replace rename renames link symlink unlink remove mkdir makedirs rmdir removedirs truncate ftruncate chmod "
        "fchmod lchmod chown fchown lchown utime mkfifo mknod fsync fdatasync write writev pwrite pwritev sendfile "
        "copy_file_range posix_fallocate fdopen O_WRONLY O_RDWR O_CREAT O_APPEND O_TRUNC O_TMPFILE".split()
    ),
    "shutil": set("copy copy2 copyfile copyfileobj copymode copystat copytree move rmtree chown".split()),
    "tempfile": set("mkdtemp mkstemp NamedTemporaryFile TemporaryDirectory TemporaryFile SpooledTemporaryFile".split()),
    "io": {"open", "open_code", "FileIO"},
    "builtins": {"open"},
}
CHANGES_ALLOWED = {
    "agent_chat/cli/output.py": {"write", "fsync"},  # standard output, synced before a cursor moves
    "agent_chat/cli/posting.py": {"open"},  # reads --body-file, which lies outside every root
    "agent_chat/cli/demo.py": {"mkdir", "rmtree"},  # its own temporary root
}

# What only cli/ may use.
OUTSIDE_WORLD = {
    "sys": set("argv exit stdin stdout stderr __stdin__ __stdout__ __stderr__".split()),
    "os": set("environ environb getenv getenvb putenv unsetenv _exit abort".split()),
    "builtins": set("print input exit quit breakpoint".split()),
}

BAD_NAMES = {"utils", "util", "helpers", "helper", "manager", "managers", "base", "common", "misc"}
MODULE_LINES, MODULE_LIMIT = 400, 420
FUNCTION_LINES, FUNCTION_LIMIT = 60, 70


def files() -> list[str]:
    """The Python files below agent_chat/, relative to the checkout, with forward slashes."""
    found = []
    for folder, _, entries in os.walk(os.path.join(ROOT, "agent_chat")):
        found += [os.path.join(folder, entry) for entry in entries if entry.endswith(".py")]
    return sorted(os.path.relpath(path, ROOT).replace(os.sep, "/") for path in found)


def source(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def tree(path: str) -> ast.Module:
    return ast.parse(source(path), path)


def module_of(path: str) -> str:
    return path[: -len(".py")].replace("/", ".").replace(".__init__", "")


MODULES = {module_of(path) for path in files()}


def imports(code: ast.AST, importer: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and full name of every import at any depth; a name of a package that is a module counts as that module."""
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = importer.split(".")
            above = parts[: len(parts) - node.level + is_package] if node.level else []
            package = ".".join(above + ([node.module] if node.module else []))
            for alias in node.names:
                inner = f"{package}.{alias.name}"
                yield node.lineno, inner if inner in MODULES else package


def rank(module: str) -> int | None:
    return CLI_RANK if (module + ".").startswith("agent_chat.cli.") else RANKS.get(module)


def may_import(importer: str, imported: str) -> bool:
    upper, lower = rank(importer), rank(imported)
    if upper is None or lower is None:
        return False
    if lower != upper:
        return lower < upper
    return imported in (SIDEWAYS_IN_CLI if upper == CLI_RANK else SIDEWAYS.get(importer, set()))


def uses(code: ast.AST, wanted: dict[str, set[str]]) -> Iterator[tuple[int, str]]:
    """Line and name of every use of a wanted member of a module, under whatever name it was imported."""
    aliases = {}
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            aliases.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module in wanted:
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in wanted[node.module])
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in wanted.get(aliases.get(node.value.id, ""), ()):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in wanted["builtins"]:
            yield node.lineno, node.id


def functions(code: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and lines of every function, without its decorators."""
    for node in ast.walk(code):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_module_has_a_rank() -> None:
    assert [module for module in sorted(MODULES) if rank(module) is None] == []


@pytest.mark.parametrize("path", files())
def test_imports_go_down(path: str) -> None:
    importer = module_of(path)
    wrong = [
        f"{path}:{line}: {importer} (rank {rank(importer)}) imports {name} (rank {rank(name)})"
        for line, name in imports(tree(path), importer, path.endswith("/__init__.py"))
        if name.split(".")[0] == "agent_chat" and not may_import(importer, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_chat_py_imports_main_and_nothing_else() -> None:
    assert [name for _, name in imports(tree("chat.py"), "chat", False)] == ["agent_chat.cli"]


@pytest.mark.skipif(sys.version_info < (3, 10), reason="sys.stdlib_module_names is new in Python 3.10")
@pytest.mark.parametrize("path", files())
def test_only_the_standard_library(path: str) -> None:
    known = set(sys.stdlib_module_names) | {"agent_chat"}
    found = imports(tree(path), module_of(path), path.endswith("/__init__.py"))
    assert [f"{path}:{line}: {name}" for line, name in found if name.split(".")[0] not in known] == []


def test_only_the_command_line_imports_by_computed_names() -> None:
    dynamic = {"builtins": {"__import__", "exec", "eval"}, "importlib": {"import_module", "__import__"}}
    found = {module_of(path) for path in files() if list(uses(tree(path), dynamic))}
    assert found <= DYNAMIC_IMPORTS


@pytest.mark.parametrize("path", [path for path in files() if path != DOOR])
def test_one_door_to_the_disk(path: str) -> None:
    allowed = CHANGES_ALLOWED.get(path, set())
    wrong = [f"{path}:{line}: {name}" for line, name in uses(tree(path), CHANGES) if name not in allowed]
    assert not wrong, "only storage/disk.py changes the file system:\n" + "\n".join(wrong)


@pytest.mark.parametrize("path", [path for path in files() if not path.startswith("agent_chat/cli/")])
def test_the_domain_never_prints_exits_or_reads_the_environment(path: str) -> None:
    wrong = [f"{path}:{line}: {name}" for line, name in uses(tree(path), OUTSIDE_WORLD)]
    assert not wrong, "only cli/ meets the outside world:\n" + "\n".join(wrong)


def test_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = []  # name, lines, what is the aim, what fails
    for path in files():
        sizes.append((path, len(source(path).splitlines()), MODULE_LINES, MODULE_LIMIT))
        for name, lines in functions(tree(path)):
            sizes.append((f"{path}: {name}()", lines, FUNCTION_LINES, FUNCTION_LIMIT))
    large = [f"{name}: {lines} lines, {aim} is the aim" for name, lines, aim, _ in sizes if lines > aim]
    if large:
        with capsys.disabled():  # seen in a passing run, too
            print("\n" + "\n".join(large))
    assert [f"{name}: {lines} lines" for name, lines, _, limit in sizes if lines > limit] == []


def test_module_names_say_something() -> None:
    assert [module for module in sorted(MODULES) if BAD_NAMES & set(module.split("."))] == []


# ---- the readers above, on samples: a rule that sees nothing would pass everything ----------------


@pytest.mark.parametrize(
    "line, importer, package, expected",
    [
        ("import agent_chat.cli", "agent_chat.log", False, "agent_chat.cli"),
        ("from agent_chat import errors", "agent_chat.log", False, "agent_chat.errors"),
        ("from agent_chat.errors import OK", "agent_chat.log", False, "agent_chat.errors"),
        ("from agent_chat import __version__", "agent_chat.log", False, "agent_chat"),
        ("from . import errors", "agent_chat.log", False, "agent_chat.errors"),
        ("from .errors import OK", "agent_chat", True, "agent_chat.errors"),
        ("from ..errors import OK", "agent_chat.storage.disk", False, "agent_chat.errors"),
        ("def late():\n    import agent_chat.state", "agent_chat.log", False, "agent_chat.state"),
    ],
)
def test_the_reader_of_imports(line: str, importer: str, package: bool, expected: str) -> None:
    assert [name for _, name in imports(ast.parse(line), importer, package)] == [expected]


@pytest.mark.parametrize(
    "importer, imported, allowed",
    [
        ("agent_chat.log", "agent_chat.names", True),
        ("agent_chat.names", "agent_chat.log", False),
        ("agent_chat.cursors", "agent_chat.messages", True),
        ("agent_chat.messages", "agent_chat.cursors", False),
        ("agent_chat.storage.oslock", "agent_chat.storage.disk", True),
        ("agent_chat.storage.disk", "agent_chat.storage.oslock", False),
        ("agent_chat.cli.messages", "agent_chat.cli.output", True),
        ("agent_chat.cli.messages", "agent_chat.cli.channels", False),
        ("agent_chat.cli", "agent_chat.cli.table", True),
        ("agent_chat.state", "agent_chat.cli.output", False),
        ("agent_chat.errors", "agent_chat", True),
        ("agent_chat.log", "agent_chat.unheard_of", False),
    ],
)
def test_the_judge_of_imports(importer: str, imported: str, allowed: bool) -> None:
    assert may_import(importer, imported) is allowed


@pytest.mark.parametrize(
    "code, expected",
    [
        ("import os\nos.replace(a, b)", ["replace"]),
        ("import os as system\nsystem.unlink(a)", ["unlink"]),
        ("from os import rename, getpid", ["rename"]),
        ("import os\nos.open(a, os.O_WRONLY)", ["O_WRONLY"]),
        ("open(a)", ["open"]),
        ("import os\ntext.replace(a, b)\nos.open(a, os.O_RDONLY)\ndisk.remove(a)", []),
        ("import shutil\nshutil.rmtree(a)", ["rmtree"]),
    ],
)
def test_the_reader_of_uses(code: str, expected: list[str]) -> None:
    assert [name for _, name in uses(ast.parse(code), CHANGES)] == expected
