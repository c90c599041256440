"""A power cut at any moment, with what was not synced dropped at random: acknowledged messages are there."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import Call, Child, Fault, Outcome, Trace, die, pause, run
from powerloss import PowerLoss
from scene import QUICK, assert_sound, message_bytes, read_to_end, shown
from support import Result, Root

SEEDS, ALL_SEEDS = 2, 25
TEXT = {word: f"<{word}> ... </{word}>" for word in ("one", "two", "three", "four", "late", "after")}


def post(sender: str, word: str, *more: str) -> list[str]:
    return ["post", "c", "--from", sender, "--title", word, "--body", TEXT[word], *more]


READ = ["read", "c", "--as", "bob"]


def die_at_output(call: Call) -> Any:
    return die(call) if call.where == ["<stdout>"] else call.go()


class Story:
    """What happened in an empty folder, from `init` on: messages, readings, one of them amid a post, a late one."""

    def __init__(self, top: Path) -> None:
        top.mkdir()
        self.loss = PowerLoss(top)
        self.root = Root(top / "home" / "root")
        self._trace = Trace()
        self._outcomes: list[Outcome] = []
        self._run(["init", "c", "--members", "alice,bob,carol"], post("alice", "one"), READ, READ)
        amid = Fault(pause, 2, ["fsync"])  # between the link and the sync of the folder
        self._run(READ, amid=(post("carol", "two", "--to", "bob"), amid))
        before_link = Fault(pause, 1, ["link"])  # it has a number already, and no lock: it comes late
        self._run(post("alice", "three", "--reply", "1"), READ, amid=(post("alice", "late"), before_link))
        assert run(self.root, READ, Fault(die_at_output, 1, ["write"], forever=True), trace=self._trace).died
        self.late_is_noted = len(self._trace.events())  # before that, losing the index may hide it
        self._run(READ, post("alice", "four"), [*READ, "--peek"])
        assert all(outcome.status == 0 for outcome in self._outcomes), self._outcomes
        self.events = self._trace.events()
        self.messages = message_bytes(self.root)
        self._trace.close()

    def _run(self, *commands: list[str], amid: tuple[list[str], Fault] | None = None) -> None:
        """Run these commands, if asked while another one pauses."""
        if amid:
            with Child(self.root, *amid, locks="nothing", trace=self._trace) as child:
                assert child.is_paused()
                self._run(*commands)
                self._outcomes.append(child.end())
        else:
            self._outcomes += [run(self.root, words, trace=self._trace) for words in commands]

    def said(self, end: int) -> str:
        """All standard output before the cut."""
        return "".join(event[4] for event in self.events[:end] if event[1:3] == ["write", "<stdout>"])

    def states(self, top: Path, seeds: int) -> Iterator[tuple[int, Root]]:
        """The cut after 0, 1, 2 ... events, and what may be found then."""
        for end in range(len(self.events) + 1):
            for seed in range(seeds):
                found = top / f"{end}-{seed}"
                self.loss.after(self.events[:end]).write(found, random.Random(f"{end}-{seed}"))
                yield end, Root(found / "home" / "root")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("power") / "top")


@pytest.mark.slow
def test_an_acknowledged_message_outlives_a_power_cut(story: Story, tmp_path: Path, whole: bool) -> None:
    for end, root in story.states(tmp_path, ALL_SEEDS if whole else SEEDS):
        said = story.said(end)
        acknowledged = set(re.findall(r"posted #\d+ -> c/(\S+)\n", said))
        if "made channel c" not in said and not (root.folder() / "_meta.json").exists():
            continue
        root.ok("roster", "c")
        assert_sound(root, {name: story.messages[name] for name in acknowledged})
        for name, data in message_bytes(root).items():
            assert data == story.messages[name], (end, name)


@pytest.mark.slow
def test_nothing_acknowledged_is_passed_over_after_a_power_cut(story: Story, tmp_path: Path, whole: bool) -> None:
    for end, root in story.states(tmp_path, ALL_SEEDS if whole else SEEDS):
        said = story.said(end)
        acknowledged = set(re.findall(r"posted #\d+ -> c/\d+-\w+-(\w+).md\n", said))
        if not acknowledged and not (root.folder() / "_meta.json").exists():
            continue
        root.ok(*post("carol", "after"), **QUICK)
        if end < story.late_is_noted:
            acknowledged.discard("late")
        later = shown(read_to_end(root))
        assert later["after"] == 1, (end, "a message posted after the cut")
        assert {*shown(Result(0, said, "")), *later} >= acknowledged, end


def test_without_any_sync_the_model_does_lose_messages(tmp_path: Path) -> None:
    top = tmp_path / "top"
    root = Root(top / "root")
    root.ok("init", "c")
    loss, trace = PowerLoss(top), Trace()
    run(root, post("alice", "one"), trace=trace, environment=QUICK)
    found: set[Any] = set()
    for seed in range(30):
        loss.after(trace.events()).write(tmp_path / str(seed), random.Random(seed))
        path = tmp_path / str(seed) / "root" / "c" / "0001-alice-one.md"
        found.add(len(path.read_bytes()) if path.exists() else None)
    whole = len(message_bytes(root)["0001-alice-one.md"])
    assert {None, 0, whole} < found, "it is away, empty, cut or whole"


def test_the_model_of_everything_that_happened_is_the_real_folder(story: Story, tmp_path: Path) -> None:
    story.loss.after(story.events).write(tmp_path / "model")
    real, model = (
        {path.relative_to(top): path.is_dir() or path.read_bytes() for path in sorted(top.rglob("*"))}
        for top in (story.loss.path, tmp_path / "model")
    )
    assert model == real
