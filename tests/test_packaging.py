"""A wheel in a fresh environment, and a copied folder: both are the whole program, without schemas/ or hooks/."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from support import REPOSITORY, clean_environment

PIECES = ("SKILL.md", "chat.py", "agent_chat")


def run(command: list[str], folder: Path, home: Path) -> str:
    environment = clean_environment(HOME=str(home), USERPROFILE=str(home))
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, (command, done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode()


def session(program: list[str], folder: Path, home: Path) -> None:
    """The demo, then a short session by hand."""
    assert "task-1.md went to" in run([*program, "demo"], folder, home)
    run([*program, "init", "review", "--members", "alice,bob"], folder, home)
    run([*program, "post", "review", "--from", "alice", "--title", "Hi", "--body", "hello"], folder, home)
    assert "hello" in run([*program, "read", "review", "--as", "bob"], folder, home)
    run([*program, "task", "create", "review", "T-1", "--from", "alice", "--title", "t"], folder, home)
    run([*program, "task", "claim", "review", "T-1", "--as", "bob"], folder, home)
    run([*program, "lock", "review", "src/", "--as", "bob"], folder, home)
    assert "T-1" in run([*program, "state", "review"], folder, home)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def copied(names: tuple[str, ...], target: Path) -> Path:
    target.mkdir()
    for name in names:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / name)
    return target


def test_a_folder_with_just_the_three_pieces_runs(tmp_path: Path, home: Path) -> None:
    skill = copied(PIECES, tmp_path / "a skill")
    (tmp_path / "work").mkdir()
    session([sys.executable, str(skill / "chat.py")], tmp_path / "work", home)


def test_the_wheel_holds_the_program_alone_and_runs_where_it_is_installed(tmp_path: Path, home: Path) -> None:
    pytest.importorskip("build")
    source = copied((*PIECES, "pyproject.toml", "README.md", "LICENSE"), tmp_path / "source")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist")]
    run([*build, str(source)], source, home)
    (wheel,) = (tmp_path / "dist").glob("agent_chat_plugin-*.whl")
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"agent_chat"}

    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    scripts = environment / ("Scripts" if sys.platform == "win32" else "bin")
    install = [str(scripts / "python"), "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", str(wheel)]
    run(install, tmp_path, home)
    session([str(scripts / "agent-chat")], home, home)
