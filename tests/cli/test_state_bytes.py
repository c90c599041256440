"""Equal sources give equal bytes: on every Python found, in every time zone, locale and hash order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tour
from support import CHAT, Root, clean_environment

WORLDS: dict[str, dict[str, str]] = {
    "as it is": {},
    "far east": {"TZ": "Asia/Kolkata", "PYTHONHASHSEED": "1"},
    "far west": {"TZ": "America/Anchorage", "PYTHONHASHSEED": "2"},
    "a rule as zone": {"TZ": "XXX-13:45YYY,M1.1.0,M7.1.0", "PYTHONHASHSEED": "3"},
    "plain C": {"LC_ALL": "C", "PYTHONHASHSEED": "4"},
    "plain C, no coercion": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "another encoding": {"PYTHONIOENCODING": "cp1252"},
    "another folder": {"HOME": "/", "AGENT_CHAT_NAME": "zoe", "AGENT_CHAT_FORMAT": "json"},
}


def pythons() -> list[str]:
    """One interpreter of each minor version from 3.9 that starts; this one first."""
    found = {sys.version_info[:2]: sys.executable}
    places = [shutil.which(f"python3.{minor}") for minor in range(9, 16)]
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places += map(str, sorted(home.glob("versions/3.*/bin/python")))
    probe = "import sys; print(*sys.version_info[:2], sys.executable)"
    for place in filter(None, places):
        done = subprocess.run([place, "-I", "-c", probe], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            major, minor, path = done.stdout.strip().split(" ", 2)
            if (int(major), int(minor)) >= (3, 9):
                found.setdefault((int(major), int(minor)), path)
    return list(found.values())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """What every command leaves, with texts of many scripts, an unfinished change and damage."""
    path = tmp_path_factory.mktemp("bytes")
    tour.run(path)
    root = Root(path / "root")
    odd = "Zoë → 日本語 \u202e\x1b[0m İstanbul ſ 🙂 \u2028 ½"
    for status in ("decision", "blocker", "verification"):
        root.ok(
            "post", "c", "--from", "alice", "--title", odd, "--status", status, "--body", f"{odd}\n# Decision {odd}"
        )
    root.ok("task", "create", "c", "T-77", "--from", "bob", "--title", odd, "--acceptance", odd, "--depends-on", "T-2")
    tour.interrupted("task create c T-78 --from bob --title t", is_published=False)(root)  # type: ignore[operator]
    (root.folder() / f"locks/{'0' * 32}.json").write_text("[]")
    return root


def answers(python: str, root: Root, **environment: str) -> Iterator[object]:
    """What `state` says in text and JSON, but for the one value that tells the time, and what `compact` writes."""
    env = clean_environment(**environment)
    for words in (["state", "c"], ["state", "c", "--json"], ["compact", "c", "--no-audit"]):
        command = [python, CHAT, "--root", str(root.path), *words]
        done = subprocess.run(command, env=env, capture_output=True, check=False)
        assert done.returncode == 0 and not done.stderr, done
        if words[-1] == "--json":
            found = json.loads(done.stdout)
            del found["generated_at"]
            yield json.dumps(found)  # in the order in which it came
        elif words[0] == "state" and "PYTHONIOENCODING" not in environment and "PYTHONUTF8" not in environment:
            yield done.stdout  # else it is shown as well as the stream can
    yield (root.folder() / "state.md").read_bytes()


@pytest.fixture(scope="module")
def expected(root: Root) -> set[object]:
    found = set(answers(sys.executable, root))
    shown = (root.folder() / "state.md").read_text("utf-8")
    assert "日本語" in shown and "Unfinished task transaction" in shown and "PATH_LOCK_INVALID_RECORD" in shown
    return found


@pytest.mark.parametrize("world", WORLDS)
def test_the_surroundings_change_no_byte(root: Root, expected: set[object], world: str) -> None:
    assert set(answers(sys.executable, root, **WORLDS[world])) <= expected


def test_the_python_changes_no_byte(root: Root, expected: set[object]) -> None:
    others = pythons()[1:]
    if not others:
        pytest.skip("only one Python is here")
    for python in others:
        assert set(answers(python, root)) == expected, python


def test_the_order_in_which_files_lie_changes_no_byte(root: Root, expected: set[object], tmp_path: Path) -> None:
    """A copy, made backwards: another order of the folder, other times, other inodes."""
    copy = Root(tmp_path / "root")
    for path in sorted(root.folder().rglob("*"), reverse=True):
        target = copy.folder() / path.relative_to(root.folder())
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    shutil.rmtree(copy.folder() / ".index")
    assert set(answers(sys.executable, copy)) == expected
