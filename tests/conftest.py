"""The option `--whole`, and no setting of the caller's shell in any test."""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run tests marked slow over their whole matrix, not a sample")


def pytest_configure() -> None:
    for key in [key for key in os.environ if key.startswith("AGENT_CHAT_")]:
        del os.environ[key]


@pytest.fixture(scope="session")
def whole(pytestconfig: pytest.Config) -> bool:
    """Whether a test marked `slow` runs its whole matrix (else a sample of it).

    In `pytest_generate_tests` the same answer is `metafunc.config.getoption("whole")`.
    """
    return bool(pytestconfig.getoption("whole"))
