#!/usr/bin/env python3
"""Run the tests on a machine that has only Python >= 3.9.

    python3 tests/run.py [--python PATH] [--dev] [arguments of pytest ...]
    python3 tests/run.py [--python PATH] --dev --tool NAME [arguments of NAME ...]

Makes a virtual environment beside the checkout's files when it is missing, broken, or made by
another Python or for another list of packages: `.venv-test/` with the extra `test` of
pyproject.toml, or with `--dev` `.venv-dev-X.Y/` with the extra `dev`. Then runs pytest, or the tool,
from it in the checkout's folder: paths in the arguments are relative to that. Its exit status is the
tool's; 1 and one line on stderr when the environment cannot be made.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from typing import NoReturn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ASK = "import sys; print(*sys.version_info[:3], sys.implementation.name, sys.base_prefix)"


def main(arguments: list[str]) -> int:
    python, dev, tool = sys.executable, False, "pytest"
    while arguments and arguments[0] in ("--python", "--dev", "--tool", "--help", "-h"):
        option = arguments.pop(0)
        if option == "--dev":
            dev = True
        elif option in ("--help", "-h"):
            print(__doc__)
            return 0
        elif not arguments:
            stop(f"{option} needs a value")
        elif option == "--python":
            python = arguments.pop(0)
        else:
            tool = arguments.pop(0)
    made_by = identity(python)
    major, minor = made_by.split()[:2]
    folder = os.path.join(ROOT, f".venv-dev-{major}.{minor}" if dev else ".venv-test")
    inside = ready(folder, python, made_by, extra("dev" if dev else "test"))
    return status(subprocess.run([inside, "-m", tool, *arguments], cwd=ROOT, env=environment(), check=False).returncode)


def identity(python: str) -> str:
    """What distinguishes an interpreter: its version and where it lives."""
    try:
        found = subprocess.run([python, "-I", "-c", ASK], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        stop(f"{python} does not start")
    if tuple(map(int, found.split()[:2])) < (3, 9):
        stop(f"{python} is Python {'.'.join(found.split()[:3])}; 3.9 or newer is needed")
    return found


def extra(name: str) -> list[str]:
    """The packages of an extra of pyproject.toml: one line there, and as Python the same literal."""
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition("=")
            if key.strip() == name:
                return list(ast.literal_eval(value.strip()))
    stop(f"pyproject.toml has no extra {name}")


def ready(folder: str, python: str, made_by: str, packages: list[str]) -> str:
    """The interpreter of an environment made by this Python with these packages; made anew unless it is there."""
    inside = os.path.join(folder, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))
    note = os.path.join(folder, "made-by-tests-run.txt")  # written last: an environment without it is unfinished
    wanted = "\n".join([made_by, *packages, ""])
    if os.path.lexists(folder):
        if contents(note) == wanted and starts(inside):
            return inside
        try:
            shutil.rmtree(folder)
        except OSError as error:
            stop(f"cannot remove the old {folder}: {error}")
    name, version = os.path.basename(folder), ".".join(made_by.split()[:3])
    print(f"tests/run.py: making {name} (Python {version}; {', '.join(packages)})", file=sys.stderr, flush=True)
    make(folder, python, version)
    install(inside, packages)
    with open(note, "w", encoding="utf-8") as file:
        file.write(wanted)
    return inside


def make(folder: str, python: str, version: str) -> None:
    text = output_unless_done([python, "-m", "venv", folder])
    if text is None:
        return
    if "ensurepip" in text or "No module named venv" in text:  # Debian and Ubuntu split both off
        package = f"python{'.'.join(version.split('.')[:2])}-venv"
        stop(f"{python} cannot make virtual environments; on Debian and Ubuntu: apt-get install {package}")
    stop(f"{python} -m venv failed: {last_line(text)}")


def install(inside: str, packages: list[str]) -> None:
    text = output_unless_done([inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    if text is None:
        return
    wanted = ", ".join(packages)
    # What pip says when no index answered; a refused version lists the versions that there are.
    if "Retrying (" in text or "from versions: none" in text:
        stop(f"pip could not reach a package index for {wanted}; check the network, a proxy, PIP_INDEX_URL")
    stop(f"pip could not install {wanted}: {last_line(text)}")


def output_unless_done(command: list[str]) -> str | None:
    """None when the command succeeded, else all that it said."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return None if done.returncode == 0 else done.stdout


def environment() -> dict[str, str]:
    """The caller's, less what would let another Python's packages in or keep pip out of the environment."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET")}
    return {**kept, "PIP_USER": "0"}


def starts(inside: str) -> bool:
    try:
        return subprocess.run([inside, "-I", "-c", "import pytest"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def contents(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def status(returncode: int) -> int:
    """A shell's number for a child that a signal ended."""
    return returncode if returncode >= 0 else 128 - returncode


def stop(reason: str) -> NoReturn:
    raise SystemExit(f"tests/run.py: {reason}")


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
