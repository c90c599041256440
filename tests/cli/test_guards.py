"""Guards against runaway conversations, as agents and people meet them (extensions, section 8)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import CHAT, FrozenClock, Result, Root, clean_environment, make_root, open_channel
from terminal import at_terminal, decide

from agent_chat import clock, guards

QUICK = {"AGENT_CHAT_FSYNC": "0"}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> FrozenClock:
    frozen = FrozenClock()
    monkeypatch.setattr(clock, "now", frozen)
    return frozen


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path, "--members", "alice,bob,carol", "--guards")


def only(root: Root, **limits: str) -> None:
    """These limits and no others."""
    (root.folder() / "_policy.json").write_text(json.dumps(limits))


_said = iter(range(10**9))


def post(root: Root, sender: str = "alice", *more: str, body: str = "", **environment: str) -> Result:
    body = body or f"text {next(_said)}"
    return root.run("post", "c", "--from", sender, "--title", "t", "--body", body, *more, **QUICK, **environment)


def read(root: Root, agent: str) -> Result:
    return root.ok("read", "c", "--as", agent, **QUICK)


def person(root: Root, *more: str, body: str = "go on") -> Result:
    result = at_terminal(root, "post", "c", "--from", "carol", "--title", "t", "--body", body, *more, environment=QUICK)
    assert result.status == 0, result
    return result


# ---- off and on -------------------------------------------------------------------------------------------------


def test_an_ordinary_channel_has_no_limits_and_no_trace_of_them(tmp_path: Path, now: FrozenClock) -> None:
    root = make_root(tmp_path)
    for _ in range(40):
        assert post(root, body="the same").status == 0
    person(root)
    assert not {"hop", "operator"} & {key for message in root.messages() for key in message.header}
    assert not (root.folder() / "_policy.json").exists() and not (root.folder() / ".index/cuts").exists()
    assert "no limit is set; next: " in root.ok("guards", "show", "c").out


def test_init_sets_all_of_them(root: Root) -> None:
    assert json.loads((root.folder() / "_policy.json").read_text()) == {"guards": "on"}
    found = root.ok("guards", "show", "c", "--json").json
    assert found["limits"] == {
        **{"guard_size": "8192", "guard_rate": "30/2", "guard_duplicate": "30"},
        **{"guard_hops": "24", "guard_pingpong": "12/300"},
    }
    assert (found["near"], found["cut"]) == ([], [])
    assert root.ok("policy", "show", "c", "--json").json["policy"]["ledger"] == "on"


def test_a_person_sets_them_all_or_each_alone(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    decide(root, "policy", "set", "c", "guard_size", "10")
    assert post(root, body="x" * 11).code == "GUARD_SIZE" and post(root, body="x" * 10).status == 2  # with its newline
    assert post(root, body="x" * 9).status == 0
    decide(root, "policy", "set", "c", "guards", "on")
    assert root.ok("guards", "show", "c", "--json").json["limits"]["guard_size"] == "10"
    decide(root, "policy", "set", "c", "guard_size", "off")
    assert post(root, body="x" * 20000).status == 0


@pytest.mark.parametrize(
    "key, value", [("guard_hops", "0"), ("guard_hops", "1/2"), ("guard_rate", "30"), ("guard_rate", "x/2")]
)
def test_a_limit_is_numbers(root: Root, key: str, value: str) -> None:
    found = root.refused("POLICY_INVALID_VALUE", "policy", "set", "c", key, value)
    assert "numbers such as " in found.err


# ---- size, and what becomes of a refused post -------------------------------------------------------------------


def test_a_long_body_is_refused_and_can_be_kept(root: Root, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    body = "x" * 9000
    result = post(root, "alice", "--save-refused", str(kept), body=body)
    assert (result.code, result.status) == ("GUARD_SIZE", 2) and f"its text is kept in {kept}" in result.err
    assert kept.read_text() == body and root.names() == []
    assert "is kept in" in post(root, "alice", "--save-refused", str(kept), body=body).err, "the same once more"
    other = post(root, "alice", "--save-refused", str(kept), body=body + "y")
    assert other.code == "GUARD_SIZE" and "was not kept" in other.err and kept.read_text() == body


def test_any_refusal_keeps_the_text(root: Root, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    refused = post(root, "alice", "--to", "nobody", "--save-refused", str(kept), body="b")
    assert refused.code == "MESSAGE_UNKNOWN_RECIPIENT"
    assert kept.read_text() == "b"
    kept.unlink()
    assert post(root, "alice", "--save-refused", str(kept)).status == 0 and not kept.exists()


# ---- the same once more -----------------------------------------------------------------------------------------


def test_the_same_text_within_30_seconds_is_answered_with_the_first(root: Root, now: FrozenClock) -> None:
    words = ["alice", "--to", "bob", "--json"]
    first = post(root, *words, body="b").json
    assert "code" not in first and not first["repeated"]
    now.pass_seconds(30)
    again = post(root, *words, body="b")
    assert again.status == 0 and (again.json["seq"], again.json["repeated"]) == (1, True)
    assert again.json["code"] == "GUARD_DUPLICATE" and len(root.names()) == 1
    assert post(root, "alice", "--to", "carol", body="b").status == 0, "to somebody else"
    assert post(root, "bob", "--to", "carol", body="b").status == 0, "from somebody else"
    now.pass_seconds(1)
    assert post(root, *words, body="b").json["seq"] == 4


# ---- how fast ---------------------------------------------------------------------------------------------------


def test_a_bucket_takes_30_at_once_and_then_one_each_2_seconds(root: Root, now: FrozenClock) -> None:
    assert [post(root).status for _ in range(30)] == [0] * 30
    for _ in range(3):
        refused = post(root)
        assert refused.code == "GUARD_RATE" and "wait 2 s; next: " in refused.err
        assert post(root, "bob", "--to", "carol").status == 0, "each sender has a bucket"
        now.pass_seconds(1)
        assert "wait 1 s" in post(root).err
        now.pass_seconds(1)
        assert post(root).status == 0
    now.pass_seconds(20)
    assert [post(root).status for _ in range(11)] == [0] * 10 + [2]
    now.pass_seconds(60)
    assert [post(root).status for _ in range(31)] == [0] * 30 + [2]


def test_a_bucket_that_stays_empty_for_long_takes_no_more(root: Root, now: FrozenClock) -> None:
    only(root, guard_rate="5/2")
    assert [post(root).status for _ in range(6)] == [0] * 5 + [2]
    for _ in range(120):
        now.pass_seconds(2)
        assert post(root).status == 0
    assert post(root).code == "GUARD_RATE"


def test_a_clock_that_jumps_back_closes_no_bucket_for_ever(root: Root, now: FrozenClock) -> None:
    for _ in range(30):
        post(root)
    now.pass_seconds(-120)
    assert post(root).code == "GUARD_RATE", "what is dated later than now counts as now"
    now.pass_seconds(125)
    assert post(root).status == 0
    now.pass_seconds(-24 * 3600)
    assert [post(root).status for _ in range(31)] == [0] * 30 + [2], "a day ahead: a clock was wrong, and it opens once"
    now.pass_seconds(2)
    assert [post(root).status for _ in range(2)] == [0, 2]


def test_the_clock_of_another_that_is_ahead_opens_no_bucket(root: Root, now: FrozenClock) -> None:
    only(root, guard_rate="20/60")
    assert [post(root).status for _ in range(20)] == [0] * 20
    now.pass_seconds(600)
    assert [post(root, "bob").status for _ in range(16)] == [0] * 16
    now.pass_seconds(-600)
    assert post(root).code == "GUARD_RATE"


def test_many_processes_of_a_sender_share_its_bucket(root: Root) -> None:
    only(root, guard_rate="3/1000")
    words = ["post", "c", "--from", "alice", "--title", "t", "--body"]
    processes = [root.spawn(*words, f"text {number}", environment=QUICK) for number in range(6)]
    for process in processes:
        process.communicate(timeout=60)
    assert sorted(process.returncode for process in processes) == [0, 0, 0, 2, 2, 2]
    assert len(root.names()) == 3


# ---- how far ----------------------------------------------------------------------------------------------------


def hops(root: Root) -> list[str]:
    return [message.header.get("hop", "-") for message in root.messages()]


def test_a_chain_of_answers_ends_after_24_messages(root: Root, now: FrozenClock) -> None:
    for number in range(24):
        sender = ("alice", "bob")[number % 2]
        reply = ("--reply", str(number)) if number else ()
        assert post(root, sender, *reply).status == 0, number
        now.pass_seconds(100)
    assert hops(root) == [str(number) for number in range(1, 25)]
    assert "\nhop: 24\n" in root.messages()[-1].text, "a number, as YAML has it"
    refused = post(root, "alice", "--reply", "24")
    assert refused.code == "GUARD_HOPS" and "next: " in refused.err
    assert post(root, "alice").status == 0, "what answers nothing, and was read by nobody, is no part of it"
    person(root, "--reply", "24")
    assert post(root, "alice", "--reply", "26").status == 0
    assert hops(root)[-2:] == ["-", "1"]


def test_a_chain_goes_on_from_what_was_read_last(root: Root, now: FrozenClock) -> None:
    only(root, guard_hops="4")
    assert post(root, "alice").status == 0
    assert post(root, "carol").status == 0 and hops(root) == ["1", "1"], "carol has not read"
    for sender in ("bob", "alice", "bob"):
        read(root, sender)
        assert post(root, sender).status == 0
    assert hops(root) == ["1", "1", "2", "3", "4"]
    read(root, "alice")
    assert post(root, "alice").code == "GUARD_HOPS"
    assert post(root, "alice", "--reply", "2").status == 0, "what is answered counts, where something is"
    person(root)
    read(root, "alice")
    assert post(root, "alice").status == 0 and hops(root)[-1] == "1"


def test_a_number_of_a_header_is_not_trusted(root: Root) -> None:
    path = root.put(1)
    path.write_text(path.read_text().replace("status:", "hop: 99999999999999999999\nstatus:"))
    assert post(root, "bob", "--reply", "1").status == 0 and hops(root)[-1] == "1"


# ---- pairs ------------------------------------------------------------------------------------------------------


def talk(root: Root, count: int = 12, everyone: bool = False) -> None:
    for number in range(count):
        one, other = (("alice", "bob"), ("bob", "alice"))[number % 2]
        assert post(root, one, *(() if everyone else ("--to", other))).status == 0, number


@pytest.mark.parametrize("everyone", [False, True])
def test_a_pair_is_cut_off_after_12_messages_until_a_person_posts(root: Root, now: FrozenClock, everyone: bool) -> None:
    to = {"alice": () if everyone else ("--to", "bob"), "bob": () if everyone else ("--to", "alice")}
    talk(root, everyone=everyone)
    refused = post(root, "alice", *to["alice"])
    assert refused.code == "GUARD_PINGPONG" and "tell your user" in refused.err
    assert " guards reset c alice,bob" in refused.err
    notice = root.messages()[-1]
    assert (notice.status, notice.sender, notice.header["concerns"]) == ("guard.cut", "system", "alice,bob")
    assert "guard.cut alice,bob" in read(root, "bob").out, "the other one is told, too"
    now.pass_seconds(3600)
    for sender in ("bob", "alice"):
        assert post(root, sender, *to[sender]).code == "GUARD_PINGPONG", "an hour later, too"
    assert [message.status for message in root.messages()].count("guard.cut") == 1
    assert post(root, "alice", "--to", "carol").status == 0, "others can be talked to"
    person(root)
    assert post(root, "alice", *to["alice"]).status == 0 and post(root, "bob", *to["bob"]).status == 0
    assert root.ok("guards", "show", "c", "--json").json["cut"] == []


def test_what_takes_longer_or_has_a_person_in_it_is_not_cut(root: Root, now: FrozenClock) -> None:
    for number in range(20):
        sender, to = ("bob", "alice") if number % 5 == 4 else ("alice", "bob")
        assert post(root, sender, "--to", to).status == 0, "one that talks to another is no ping-pong"
    now.pass_seconds(301)
    talk(root, 11)
    person(root)
    talk(root, 11)
    for number in range(8):
        now.pass_seconds(301 if not number else 30)
        talk(root, 1)
    assert [message.status for message in root.messages()].count("guard.cut") == 0


def test_a_person_resets_one_pair(root: Root, now: FrozenClock) -> None:
    root.refused("OPERATOR_REQUIRED", "guards", "reset", "c", "alice,bob")
    assert "were not cut off" in decide(root, "guards", "reset", "c", "alice,bob").out
    talk(root)
    assert post(root, "alice", "--to", "bob").code == "GUARD_PINGPONG"
    for one, other in (("carol", "bob"), ("bob", "carol")) * 6:
        assert post(root, one, "--to", other).status == 0
    assert post(root, "carol", "--to", "bob").code == "GUARD_PINGPONG"
    found = root.ok("guards", "show", "c", "--json").json
    assert [cut["pair"] for cut in found["cut"]] == [["alice", "bob"], ["bob", "carol"]]
    decide(root, "guards", "reset", "c", "Bob,alice")
    message = root.messages()[-1]
    assert (message.status, message.header["operator"]) == ("guard.reset", "yes")
    assert message.header["concerns"] == "alice,bob"
    assert post(root, "alice", "--to", "bob").status == 0, "what was said before counts no more"
    assert post(root, "carol", "--to", "bob").code == "GUARD_PINGPONG"


def test_a_cut_is_known_without_the_index_and_far_back(root: Root, now: FrozenClock) -> None:
    talk(root)
    assert post(root, "alice", "--to", "bob").code == "GUARD_PINGPONG"
    for number in range(100, 500):
        root.put(number, sender="carol")
    for _ in range(2):
        assert post(root, "bob", "--to", "alice").code == "GUARD_PINGPONG"
        assert int((root.folder() / ".index/cuts").read_text().split()[1]) > 400, "it is not looked for again"
        (root.folder() / ".index/cuts").unlink()
    (root.folder() / ".index/cuts").write_text("1\t77777\nend\n")
    assert post(root, "bob", "--to", "alice").code == "GUARD_PINGPONG"
    with open_channel(root) as channel:
        assert [cut.pair for cut in guards.cut_off(channel)] == ["alice,bob"]


# One that answers whatever comes, at once. How its last command was refused is its last word.
ANSWERING = """
import subprocess, sys
command, me, other = sys.argv[3:], sys.argv[1], sys.argv[2]
for number in range(40):
    if number or me == "bob":
        waited = subprocess.run([*command, "wait", "c", "--as", me, "--timeout", "30"], stdout=subprocess.DEVNULL)
        if waited.returncode:
            sys.exit(f"wait ended with {waited.returncode}")
    words = ["post", "c", "--from", me, "--to", other, "--title", "t", "--body", f"{me} {number}"]
    done = subprocess.run([*command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(done.stderr.decode())
"""


def test_two_processes_that_answer_as_fast_as_they_can_are_cut(root: Root) -> None:
    command, environment = [sys.executable, CHAT, "--root", str(root.path)], clean_environment(**QUICK)
    both = [
        subprocess.Popen([sys.executable, "-c", ANSWERING, *names, *command], stderr=subprocess.PIPE, env=environment)
        for names in (("alice", "bob"), ("bob", "alice"))
    ]
    said = [process.communicate(timeout=120)[1].decode() for process in both]
    assert all("GUARD_PINGPONG" in one and "guards reset c alice,bob" in one for one in said), said
    talk = [message for message in root.messages() if message.status == "discussion"]
    assert len(talk) == 12
    assert [message.status for message in root.messages()][12:] == ["guard.cut"]
    told = "alice and bob are cut off from each other"
    assert told in root.ok("agents", "c").out and told in root.ok("state", "c").out
    assert root.ok("agents", "c", "--json").json["cut"][0]["pair"] == ["alice", "bob"]
    found = root.run("doctor", "c")
    assert found.status == 3 and f"GUARD_PAIR_CUT: {told}" in found.out and "guards reset c alice,bob" in found.out
    person(root)
    assert post(root, "alice", "--to", "bob").status == 0
    assert told not in root.ok("agents", "c").out + root.ok("state", "c").out + root.ok("doctor", "c").out


# ---- what comes first, who is near ------------------------------------------------------------------------------


def test_a_known_request_id_answers_before_any_guard(root: Root, now: FrozenClock) -> None:
    only(root, guard_rate="1/1000")
    words = ["alice", "--request-id", "r-1", "--json"]
    assert post(root, *words, body="b").json["seq"] == 1
    assert post(root, "alice").code == "GUARD_RATE"
    again = post(root, *words, body="b").json
    assert (again["seq"], again["repeated"]) == (1, True) and "code" not in again


def test_a_ring_is_guarded_as_a_post_is(root: Root, now: FrozenClock) -> None:
    only(root, guard_rate="1/1000")
    assert post(root).status == 0
    root.refused("GUARD_RATE", "ring", "c", "--from", "alice", "--to", "bob", "--ref", "seq:1", "look")


def test_a_person_is_under_no_limit(root: Root) -> None:
    only(root, guard_rate="1/1000", guard_duplicate="30", guard_size="5", guard_hops="1")
    for _ in range(3):
        person(root, body="the same long text")
    assert [message.header["operator"] for message in root.messages()] == ["yes"] * 3


def test_show_tells_who_is_near_a_limit(root: Root, now: FrozenClock) -> None:
    for number in range(16):
        post(root, "alice", "--to", "bob", *(("--reply", str(number)) if number else ()))
    for _ in range(6):
        post(root, "bob", "--to", "alice")
    near = root.ok("guards", "show", "c", "--json").json["near"]
    assert {"guard": "guard_rate", "who": ["alice"], "used": 16, "limit": 30} in near
    assert {"guard": "guard_hops", "who": ["alice"], "used": 16, "limit": 24} in near
    assert {"guard": "guard_pingpong", "who": ["alice", "bob"], "used": 22, "limit": 12} in near
    assert "near guard_rate: alice, 16 of 30" in root.ok("guards", "show", "c").out
