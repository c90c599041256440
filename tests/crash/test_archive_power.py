"""A power cut at any moment of an archive, with what was not synced dropped at random, loses and changes no message."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from faults import Trace, run
from powerloss import PowerLoss
from scene import message_bytes, read_to_end, shown
from support import Root, make_root

SEEDS, ALL_SEEDS = 3, 40


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--before", "4"], ["--before", "9"]], ids=["some", "all"])
def test_no_message_is_lost_or_shown_twice(tmp_path: Path, words: list[str], whole: bool) -> None:
    root = make_root(tmp_path / "first")
    for number in range(1, 6):
        root.put(number, f"<m{number}> ... </m{number}>")
    assert shown(root.ok("read", "c", "--as", "bob", "--limit", "1")) == {"m1": 1}
    before, loss, trace = message_bytes(root), PowerLoss(root.path), Trace()
    assert run(root, ["archive", "c", *words], trace=trace).status == 0
    events = trace.events()
    trace.close()
    for n in range(len(events) + 1):
        state = loss.after(events[:n])
        for seed in range(ALL_SEEDS if whole else SEEDS):
            found = Root(tmp_path / f"{n}-{seed}")
            state.write(found.path, random.Random(seed))
            assert message_bytes(found) == before, (n, seed)
            found.ok("archive", "c", *words)
            assert message_bytes(found) == before and f"{5:04d}" in found.names()[-1]
            assert shown(read_to_end(found)) == {f"m{number}": 1 for number in (2, 3, 4, 5)}, (n, seed)
