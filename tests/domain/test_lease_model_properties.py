"""Random work of several agents on tasks against a small model that knows nothing of the code."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is for developers")

from board import QUICK, assert_agree, assert_audited, records
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support import FrozenClock, Result, make_root

from agent_chat import clock

AGENTS = st.sampled_from(["alice", "bob", "Bob", "carol"])
TASKS = st.sampled_from(["T-1", "T-2", "T-3", "T-4"])
STATUS = st.sampled_from(["open", "in_progress", "blocked", "done", "cancelled"])
SKEW = 300  # seconds that a claim may be ahead of now
MOVES = {
    "open": "in_progress blocked cancelled",
    "in_progress": "open blocked done cancelled",
    "blocked": "open in_progress cancelled",
    "done": "",
    "cancelled": "",
}


class Model:
    """A task as the protocol describes it. A lease is (owner, end, when it was last written)."""

    def __init__(self, owner: str | None, needs: list[str]) -> None:
        self.status, self.owner, self.needs = "open", owner, needs
        self.lease: tuple[str, float, float] | None = None


def same(one: str | None, other: str) -> bool:
    return one is not None and one.lower() == other.lower()


class Work(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.frozen, self.real = FrozenClock(), clock.now
        self.start = self.frozen()
        clock.now = self.frozen
        self.root = make_root(self.path)
        self.tasks: dict[str, Model] = {}
        self.count = 0

    def teardown(self) -> None:
        clock.now = self.real
        assert_audited(self.root)
        shutil.rmtree(self.path)

    # ---- asking -----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return (self.frozen() - self.start) / clock.SECOND

    def is_over(self, task: Model) -> bool:
        assert task.lease
        return self.now >= task.lease[1] or task.lease[2] > self.now + SKEW

    def is_ready(self, task: Model) -> bool:
        return all(self.tasks[name].status == "done" for name in task.needs)

    def run(self, verb: str, task_id: str, who: str, *more: object) -> Result:
        return self.root.run("task", verb, "c", task_id, "--as", who, *more, **QUICK)

    def expect(self, found: Result, code: str, is_change: bool = True) -> None:
        """The answer, and one more message exactly if something changed."""
        assert (found.code, found.status) == (code, 2 if code else 0), found
        self.count += is_change and not code
        assert len(self.root.names()) == self.count, found

    def held_by(self, task: Model, who: str) -> str:
        """The refusal of what only the owner of an unexpired lease may do."""
        assert task.lease
        if not same(task.lease[0], who):
            return "LEASE_OWNER_MISMATCH"
        return "LEASE_RECOVERY_REQUIRED" if self.is_over(task) else ""

    def move(self, task: Model, status: str) -> str:
        if status != task.status and status not in MOVES[task.status].split():
            return "TASK_INVALID_TRANSITION"
        if status != task.status and status in ("in_progress", "done") and not self.is_ready(task):
            return "TASK_DEPENDENCY_NOT_READY"
        return ""

    # ---- what agents do -----------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 59, 60, 299, 301, 3600, -10, -299, -86400]))
    def time_passes(self, seconds: int) -> None:
        self.frozen.pass_seconds(seconds)

    @rule(task_id=TASKS, who=AGENTS, owner=st.none() | AGENTS, needs=st.lists(TASKS, unique=True, max_size=2))
    def create(self, task_id: str, who: str, owner: str | None, needs: list[str]) -> None:
        more = [*(["--owner", owner] if owner else []), "--depends-on", ",".join(needs)]
        found = self.run("create", task_id, who, "--title", "t", *more)
        if task_id in self.tasks:
            return self.expect(found, "TASK_ALREADY_EXISTS")
        if task_id in needs:
            return self.expect(found, "TASK_DEPENDENCY_CYCLE")
        if not set(needs) <= set(self.tasks):
            return self.expect(found, "TASK_UNKNOWN_DEPENDENCY")
        self.expect(found, "")
        self.tasks[task_id] = Model(owner, needs)
        return None

    @precondition(lambda self: self.tasks)
    @rule(task_id=TASKS, who=AGENTS, seconds=st.sampled_from([60, 300, 7200]), verb=st.sampled_from(["claim", "renew"]))
    def claim_or_renew(self, task_id: str, who: str, seconds: int, verb: str) -> None:
        before = records(self.root)
        found = self.run(verb, task_id, who, "--ttl", seconds)
        task = self.tasks.get(task_id)
        if task is None:
            return self.expect(found, "TASK_NOT_FOUND")
        if verb == "renew":
            code = self.held_by(task, who) if task.lease else "LEASE_NOT_FOUND"
            owner = task.lease[0] if task.lease else ""
        else:
            code, owner = self.claimable(task, who), who
        self.expect(found, code, records(self.root) != before)
        if not code:
            task.status, task.owner, task.lease = "in_progress", owner, (owner, self.now + seconds, self.now)
        return None

    def claimable(self, task: Model, who: str) -> str:
        if task.lease:
            return "LEASE_RECOVERY_REQUIRED" if self.is_over(task) else "LEASE_CONFLICT"
        if task.status in ("done", "cancelled"):
            return "TASK_INVALID_TRANSITION"
        if task.owner and not same(task.owner, who):
            return "LEASE_CONFLICT"
        return "" if self.is_ready(task) else "TASK_DEPENDENCY_NOT_READY"

    @precondition(lambda self: self.tasks)
    @rule(who=AGENTS)
    def next(self, who: str) -> None:
        free = [name for name, task in self.tasks.items() if task.status == "open" and not self.claimable(task, who)]
        own = [name for name in free if same(self.tasks[name].owner, who)]
        found = self.root.run("task", "next", "c", "--as", who, **QUICK)
        self.expect(found, "" if free else "TASK_NOT_FOUND")
        if free:
            name = min(own or free)
            assert found.out == f"claimed task {name} [in_progress]\n"
            task = self.tasks[name]
            task.status, task.owner, task.lease = "in_progress", who, (who, self.now + 300, self.now)

    @precondition(lambda self: self.tasks)
    @rule(task_id=TASKS, who=AGENTS, status=st.sampled_from(["done", "open"]))
    def finish(self, task_id: str, who: str, status: str) -> None:
        found = self.run("done" if status == "done" else "release", task_id, who)
        task = self.tasks.get(task_id)
        if task is None:
            return self.expect(found, "TASK_NOT_FOUND")
        code = (self.held_by(task, who) if task.lease else "") or self.move(task, status)
        self.expect(found, code, task.status != status)
        if not code:
            task.owner = None if task.lease else task.owner
            task.status, task.lease = status, None
        return None

    @precondition(lambda self: self.tasks)
    @rule(task_id=TASKS, who=AGENTS)
    def recover(self, task_id: str, who: str) -> None:
        found = self.run("recover", task_id, who, "--reason", "r", "--ttl", "90")
        task = self.tasks.get(task_id)
        if task is None:
            return self.expect(found, "TASK_NOT_FOUND")
        code = "LEASE_NOT_FOUND" if not task.lease else "" if self.is_over(task) else "LEASE_NOT_EXPIRED"
        self.expect(found, code)
        if not code:
            task.owner, task.lease = who, (who, self.now + 90, self.now)
        return None

    @precondition(lambda self: self.tasks)
    @rule(task_id=TASKS, who=AGENTS, status=STATUS)
    def update_status(self, task_id: str, who: str, status: str) -> None:
        verb = ["block"] if status == "blocked" and who == "carol" else ["update", "--status", status]
        found = self.run(verb[0], task_id, who, *verb[1:])
        task = self.tasks.get(task_id)
        if task is None:
            return self.expect(found, "TASK_NOT_FOUND")
        if task.lease:
            return self.expect(found, "LEASE_RECOVERY_REQUIRED" if self.is_over(task) else "LEASE_MUTATION_REQUIRED")
        code = self.move(task, status)
        self.expect(found, code, task.status != status)
        if not code:
            task.status = status
        return None

    @precondition(lambda self: self.tasks)
    @rule(task_id=TASKS, who=AGENTS, owner=st.sampled_from(["", "bob", "carol"]))
    def update_owner(self, task_id: str, who: str, owner: str) -> None:
        found = self.run("update", task_id, who, *(["--owner", owner] if owner else ["--clear-owner"]))
        task = self.tasks.get(task_id)
        if task is None:
            return self.expect(found, "TASK_NOT_FOUND")
        if task.lease:
            return self.expect(found, "LEASE_RECOVERY_REQUIRED" if self.is_over(task) else "LEASE_MUTATION_REQUIRED")
        self.expect(found, "", (owner or None) != task.owner)
        task.owner = owner or None
        return None

    # ---- what always holds ----------------------------------------------------------------------------------

    @invariant()
    def records_are_as_the_model_says(self) -> None:
        assert_agree(self.root)
        found: dict[str, Any] = {}
        for path, data in records(self.root).items():
            if path.startswith("tasks/"):
                record = json.loads(data)
                end = record["lease_expires_at"]
                seconds = None if end is None else (clock.parse_stamp(end) - self.start) / clock.SECOND
                found[record["id"]] = (record["status"], record["owner"], seconds, record["depends_on"])
        wanted = {
            name: (task.status, task.owner, task.lease[1] if task.lease else None, task.needs)
            for name, task in self.tasks.items()
        }
        assert found == wanted

    @invariant()
    def nothing_is_under_way_before_what_it_needs(self) -> None:
        for task in self.tasks.values():
            assert task.status not in ("in_progress", "done") or self.is_ready(task)


TestWork = Work.TestCase
TestWork.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
