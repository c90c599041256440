"""The options `--whole` and `--every`, no setting of the caller's shell in any test, and hypothesis's settings."""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run tests marked slow over their whole matrix, not a sample")
    parser.addoption("--every", type=int, default=1, metavar="N", help="of crash/ and interleave/ every N-th test only")


def pytest_configure() -> None:
    for key in [key for key in os.environ if key.startswith("AGENT_CHAT_") and key != "AGENT_CHAT_TEST_SCALE"]:
        del os.environ[key]
    try:
        from hypothesis import settings
    except ImportError:
        return
    # No judgement by time on a loaded machine, and nothing left in the checkout.
    settings.register_profile("agent-chat", deadline=None, database=None, print_blob=True)
    settings.load_profile("agent-chat")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    every = config.getoption("every")
    skipped = [
        item
        for at, item in enumerate(items)
        if at % every and os.path.basename(os.path.dirname(item.path)) in ("crash", "interleave")
    ]
    if skipped:
        config.hook.pytest_deselected(items=skipped)
        gone = set(map(id, skipped))
        items[:] = [item for item in items if id(item) not in gone]


@pytest.fixture(scope="session")
def whole(pytestconfig: pytest.Config) -> bool:
    """Whether a test marked `slow` runs its whole matrix (else a sample of it).

    In `pytest_generate_tests` the same answer is `metafunc.config.getoption("whole")`.
    """
    return bool(pytestconfig.getoption("whole"))
