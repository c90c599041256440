"""Templates of channels, made once, and fresh copies of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faults import copier
from scene import TEMPLATES
from support import Root


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Root]:
    return {kind: make(tmp_path_factory.mktemp(kind)) for kind, make in TEMPLATES.items()}


@pytest.fixture
def copies(templates: dict[str, Root], kind: str, tmp_path: Path) -> Callable[[], Root]:
    """A function that makes a fresh copy of the template that the test's parameter `kind` names."""
    return copier(templates[kind], tmp_path)
