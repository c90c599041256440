from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from model import Model
from support import REPOSITORY


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout as somebody gets it: hosts copy a plugin with everything that lies in its folder."""
    copy = tmp_path_factory.mktemp("plugin") / "agent chat"
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(words, cwd=REPOSITORY, capture_output=True, check=True).stdout.decode()
    for name in filter(None, found.split("\0")):
        if (REPOSITORY / name).exists():  # not yet taken out of the index
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, copy / name)
    return copy


@pytest.fixture
def model() -> Iterator[Model]:
    found = Model()
    yield found
    found.close()
