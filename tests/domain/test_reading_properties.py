"""Reading in pieces, against a model: whatever comes, is excluded or archived meanwhile, each message once, in order.

The model knows which messages are relevant for bob and not shown yet, and where his cursor is. `has_more`,
`latest_seq` and the cursor of every answer must agree with it, and the numbers with the folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st
from support import Root, make_root

QUICK = {"AGENT_CHAT_FSYNC": "0"}
SENDERS, TOPICS = ["alice", "bob", "carol"], ["general", "docs", "noise"]
POST = st.tuples(
    st.just("post"), st.sampled_from(SENDERS), st.sampled_from(["all", "bob", "carol"]), st.sampled_from(TOPICS)
)
PUT = st.tuples(st.just("put"), st.sampled_from(SENDERS), st.integers(0, 30), st.sampled_from(TOPICS))
READ = st.tuples(st.just("read"), st.integers(0, 3), st.sampled_from(["", "noise", "docs"]), st.booleans())
AFTER = st.tuples(st.just("after"), st.integers(0, 12), st.integers(1, 3))
OTHER = st.sampled_from([("forget",), ("restart",)])
ARCHIVE = st.tuples(st.just("archive"), st.integers(1, 12))
STEPS = st.lists(st.one_of(POST, POST, PUT, READ, READ, AFTER, ARCHIVE, OTHER), max_size=25)


class Model:
    def __init__(self, root: Root) -> None:
        self.root = root
        self.cursor = self.latest = 0
        self.relevant: dict[int, str] = {}  # number -> topic
        self.unread: set[int] = set()
        self.known: set[int] = set()
        root.ok("read", "c", "--as", "bob", **QUICK)

    def add(self, number: int, sender: str, to: str, topic: str) -> None:
        self.known.add(number)
        self.latest = max(self.latest, number)
        if sender != "bob" and to != "carol":
            self.relevant[number] = topic
            self.unread.add(number)

    def post(self, sender: str, to: str, topic: str) -> None:
        words = ["post", "c", "--from", sender, "--to", to, "--title=t", "--body=b", "--topic", topic, "--json"]
        number = self.root.ok(*words, **QUICK).json["seq"]
        assert number > max(self.known, default=0)
        self.add(number, sender, to, topic)

    def put(self, sender: str, number: int, topic: str) -> None:
        """Another program's message: late when the number is a lower one, with gaps when it is a higher one."""
        number = number or self.latest + 3
        if number in self.known or number > self.latest + 9:
            return
        path = self.root.put(number, sender=sender)
        path.write_text(path.read_text().replace("title: t", f"title: t\ntopic: {topic}"))
        self.add(number, sender, "all", topic)

    def read(self, limit: int, excluded: str, is_peek: bool) -> None:
        wanted = sorted(number for number in self.unread if self.relevant[number] != excluded)
        shown = wanted[:limit] if limit else wanted
        words = [*(["--limit", limit] if limit else []), *(["--exclude-topic", excluded] if excluded else [])]
        answer = self.root.ok("read", "c", "--as", "bob", "--json", *words, *["--peek"] * is_peek, **QUICK).json
        if not is_peek:
            is_all = len(shown) == len(wanted)
            self.cursor = self.latest if is_all else max(self.cursor, shown[-1])
            self.unread -= {
                number for number in self.unread if number <= self.cursor and self.relevant[number] == excluded
            }
            self.unread -= set(shown)
            assert self.root.cursor("bob") == self.cursor
        self.check(answer, shown, len(wanted) > len(shown))

    def after(self, number: int, limit: int) -> None:
        wanted = sorted(one for one in self.relevant if one > number)
        answer = self.root.ok("read", "c", "--as", "bob", "--json", "--after", number, "--limit", limit, **QUICK).json
        self.check(answer, wanted[:limit], len(wanted) > limit)

    def check(self, answer: dict[str, object], shown: list[int], has_more: bool) -> None:
        assert isinstance(answer["messages"], list)
        assert [message["seq"] for message in answer["messages"]] == shown
        assert (answer["cursor"], answer["latest_seq"], answer["has_more"]) == (self.cursor, self.latest, has_more)

    def archive(self, before: int) -> None:
        self.root.ok("archive", "c", "--before", before, **QUICK)
        numbers = {int(name.partition("-")[0]) for name in self.root.names()}
        assert not self.known or max(self.known) in numbers, "the newest stays"
        there = {int(path.name.partition("-")[0]) for path in self.root.folder().glob("archive/*/*.md")}
        assert numbers | there == self.known and not numbers & there

    def forget(self) -> None:
        """The index is derived; only what is late and was looked at by nobody could be hidden by this."""
        self.root.ok("read", "c", "--as", "carol", **QUICK)
        for path in (self.root.folder() / ".index").iterdir():
            path.unlink()

    def restart(self) -> None:
        everything = self.root.ok("read", "c", "--as", "bob", "--all", "--json", **QUICK).json["messages"]
        assert [message["seq"] for message in everything] == sorted(self.known)


@settings(max_examples=60)
@given(STEPS)
def test_reading_in_pieces_shows_each_message_once_and_in_order(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(make_root(Path(folder), "--members", "alice,bob,carol"))
        for name, *arguments in steps:
            getattr(model, str(name))(*arguments)
        model.read(0, "", False)
        assert not model.unread
        model.read(1, "", False)
