"""What a crash leaves of a task or lease change: closed, shown and settled as protocol.md, section 7 says."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board import (
    Interrupted,
    assert_agree,
    assert_audited,
    audits,
    claims,
    do,
    edit,
    everything,
    following,
    journals,
    last,
    lease_expired,
    make,
    records,
    refused,
    task,
    write,
)
from support import Root, make_root, open_channel

from agent_chat import change, leases, log, recovery
from agent_chat.storage import disk, journal, oslock

RECOVER = ["task", "recover-pending", "c", "--as", "carol"]
AUTO = {"AGENT_CHAT_RECOVERY": "auto"}
COMMANDS: dict[str, tuple[Callable[[Root], object], list[str]]] = {
    "create": (lambda root: None, ["task", "create", "c", "T-9", "--from", "bob", "--title", "t"]),
    "update": (lambda root: None, ["task", "update", "c", "T-1", "--as", "bob", "--title", "x"]),
    "claim": (lambda root: None, ["task", "claim", "c", "T-1", "--as", "bob"]),
    "renew": (lambda root: do(root, "claim", "T-1", "bob"), ["task", "renew", "c", "T-1", "--as", "bob", "--ttl", "9"]),
    "done": (lambda root: do(root, "claim", "T-1", "bob"), ["task", "done", "c", "T-1", "--as", "bob"]),
    "recover": (lease_expired, ["task", "recover", "c", "T-1", "--as", "dave", "--reason", "r"]),
}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    make(root, "T-1")
    make(root, "T-2")
    return root


def interrupted(root: Root, name: str = "claim") -> Interrupted:
    prepare, words = COMMANDS[name]
    prepare(root)
    return Interrupted(root, *words)


# ---- the family is closed, the rest is not ------------------------------------------------------------------


@pytest.mark.parametrize("phase", Interrupted.PHASES)
def test_changes_are_refused_naming_what_was_interrupted(root: Root, phase: str) -> None:
    interrupted(root).leave(phase)
    for words in (
        ["task", "claim", "c", "T-2", "--as", "dave"],
        ["task", "next", "c", "--as", "dave"],
        ["task", "create", "c", "T-3", "--from", "dave", "--title", "t"],
        ["task", "update", "c", "T-2", "--as", "dave", "--title", "x"],
        ["task", "block", "c", "T-2", "--as", "dave"],
    ):
        found = refused(root, "LEASE_TRANSACTION_PENDING", *words)
        said = {"half": "prepared"}.get(phase, phase)
        assert all(word in found.err for word in ("lease.claimed", "T-1", "by bob", f"({said})")), found
        assert following(found) == ["task", "recover-pending", "c", "--as", "dave"]


@pytest.mark.parametrize("phase", Interrupted.PHASES)
def test_messages_and_path_locks_go_on(root: Root, phase: str) -> None:
    interrupted(root).leave(phase)
    root.post("alice", "talk", "goes on")
    assert "goes on" in root.ok("read", "c", "--as", "bob").out
    root.ok("lock", "c", "x", "--as", "alice", "--workspace", str(root.folder()))
    root.ok("peek", "c")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("phase", Interrupted.PHASES)
def test_readers_see_before_or_after_and_one_line_about_it(root: Root, name: str, phase: str) -> None:
    crashed = interrupted(root, name)
    after = root.ok("task", "list", "c").out
    crashed.leave("applied")
    (root.folder() / ".journal/task.json").unlink()
    for path, data in crashed.before.items():
        write(root.folder() / path, data)
    for path in set(crashed.after) - set(crashed.before):
        (root.folder() / path).unlink()
    before = root.ok("task", "list", "c").out
    found = crashed.leave(phase).ok("task", "list", "c")
    assert found.out == (after if phase == "published" else before)
    assert len(found.err.splitlines()) == 1 and "LEASE_TRANSACTION_PENDING" in found.err, found
    if name != "create":
        shown = root.ok("task", "show", "c", "T-1")
        assert "LEASE_TRANSACTION_PENDING" in shown.err and len(shown.err.splitlines()) == 1
    assert "LEASE_TRANSACTION_PENDING" in root.ok("state", "c").out or "transaction" in root.ok("state", "c").out
    with open_channel(root) as channel:
        shown_claims = channel.look(
            "task", lambda view: {path: view.read(f"claims/{path}") for path in view.names("claims")}
        )
    wanted = crashed.after if phase == "published" else crashed.before
    assert shown_claims == {path[7:]: data for path, data in wanted.items() if path.startswith("claims/")}


# ---- recover-pending ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("phase", Interrupted.PHASES)
def test_it_goes_back_unless_it_was_published(root: Root, name: str, phase: str) -> None:
    crashed = interrupted(root, name)
    crashed.leave(phase)
    event = f"lease.transaction.{'cleaned' if phase == 'published' else 'recovered'}"
    assert root.ok(*RECOVER).out == f"settled: {event}\n"
    assert records(root) == (crashed.after if phase == "published" else crashed.before)
    assert (crashed.message in root.names()) == (phase == "published")
    assert (last(root).event, last(root).sender, journals(root)) == (event, "carol", [])
    body, entry = last(root).body, json.loads(crashed.journal)
    assert (body["transaction_id"], body["interrupted_event"]) == (entry["id"], entry["event"])
    assert body["task_id"] == entry["subject"]["task_id"] and last(root).concerns == {entry["actor"]}
    assert_agree(root)
    assert_audited(root)
    refused(root, "LEASE_TRANSACTION_NOT_FOUND", *RECOVER)


def test_it_never_steals_or_reassigns(root: Root) -> None:
    interrupted(root).leave("published")
    root.ok(*RECOVER)
    assert task(root)["owner"] == "bob" and claims(root) == ["T-1.bob"]


def test_as_an_object_and_as_a_library(root: Root) -> None:
    crashed = interrupted(root)
    crashed.leave("applied")
    assert root.ok(*RECOVER, "--json").json == {"channel": "c", "event": "lease.transaction.recovered"}
    crashed.leave("applied")
    with open_channel(root) as channel:
        assert leases.LeaseStore(channel).recover_pending("carol") == "lease.transaction.recovered"
    crashed.leave("applied")
    with open_channel(root) as channel:
        assert leases.LeaseStore(channel).recover_pending("carol", "published") == "lease.transaction.cleaned"


def test_one_that_was_settled_when_it_died_is_only_finished(root: Root) -> None:
    crashed = interrupted(root)
    crashed.leave("prepared")
    root.ok(*RECOVER)
    name = root.names()[-1]
    text = (root.folder() / name).read_bytes()
    message = {"name": name, "text": base64.b64encode(text).decode()}
    for is_there in (True, False):
        crashed.changed_journal(recovery=message)
        if not is_there:
            (root.folder() / name).unlink()
        edit(root, "tasks/T-2.json", title="changed since")
        before, count = records(root), len(root.names()) + (not is_there)
        assert root.ok(*RECOVER).out == "settled: lease.transaction.recovered\n"
        assert records(root) == before and len(root.names()) == count and journals(root) == []
        assert (root.folder() / name).read_bytes() == text


def test_a_name_that_was_taken_meanwhile_is_passed_by(root: Root) -> None:
    crashed = interrupted(root)
    crashed.leave("prepared")
    root.ok(*RECOVER)
    name = root.names()[-1]
    text = (root.folder() / name).read_bytes()
    (root.folder() / name).write_bytes(b"of another program\n")
    crashed.changed_journal(recovery={"name": name, "text": base64.b64encode(text).decode()})
    root.ok(*RECOVER)
    number = int(name[:4]) + 1
    renamed = root.folder() / f"{number:04d}{name[4:]}"
    assert renamed.read_bytes() == text.replace(b"seq: %d\n" % (number - 1), b"seq: %d\n" % number)


def test_settling_syncs_a_message_that_may_not_be_durable_yet(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed = interrupted(root)
    crashed.leave("prepared")
    root.ok(*RECOVER)
    name = root.names()[-1]
    text = base64.b64encode((root.folder() / name).read_bytes()).decode()
    crashed.changed_journal(recovery={"name": name, "text": text})
    synced: list[str] = []
    sync = disk.Folder.sync
    monkeypatch.setattr(disk.Folder, "sync", lambda folder: [synced.append(folder.path), sync(folder)])
    root.ok(*RECOVER)
    assert str(root.folder()) in synced


# ---- what cannot be proved ------------------------------------------------------------------------------------


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("phase", Interrupted.PHASES)
@pytest.mark.parametrize("how", ["changed", "gone", "new"])
def test_a_record_that_is_neither_fails_closed(root: Root, phase: str, how: str, auto: bool) -> None:
    crashed = interrupted(root, "done" if how == "gone" else "claim")
    crashed.leave(phase)
    if how == "changed":
        edit(root, "tasks/T-1.json", title="edited")
    elif how == "gone":
        (root.folder() / "tasks/T-1.json").unlink()
    else:
        write(root.folder() / "claims/T-1.bob.json", "mine")
    found = refused(root, "LEASE_TRANSACTION_RECOVERY_FAILED", *RECOVER)
    word = "published" if phase == "published" else "rollback"
    assert following(found) == [*RECOVER, "--resolve-publication", word]
    code = "LEASE_TRANSACTION_RECOVERY_FAILED" if auto else "LEASE_TRANSACTION_PENDING"
    refused(root, code, "task", "claim", "c", "T-2", "--as", "dave", **(AUTO if auto else {}))


@pytest.mark.parametrize("phase", Interrupted.PHASES)
@pytest.mark.parametrize("word", ["rollback", "published"])
def test_the_operators_word_settles_it_and_keeps_a_copy(root: Root, phase: str, word: str) -> None:
    crashed = interrupted(root)
    crashed.leave(phase)
    edit(root, "tasks/T-1.json", title="edited")
    edited = (root.folder() / "tasks/T-1.json").read_bytes()
    event = f"lease.transaction.{'cleaned' if word == 'published' else 'recovered'}"
    assert root.ok(*RECOVER, "--resolve-publication", word).out == f"settled: {event}\n"
    assert records(root) == (crashed.after if word == "published" else crashed.before)
    (copy,) = (root.folder() / ".journal").glob("*.conflict-*")
    assert copy.read_bytes() == edited and copy.name.startswith("tasks.T-1.json.conflict-20") and ":" not in copy.name
    assert [audit.event for audit in audits(root)].count("lease.claimed") == (
        phase == "published" or word == "published"
    )
    assert last(root).event == event and journals(root) == []


def test_published_with_the_message_absent_publishes_the_stored_one(root: Root) -> None:
    crashed = interrupted(root)
    crashed.leave("applied")
    root.ok(*RECOVER, "--resolve-publication", "published")
    assert (root.folder() / crashed.message).read_bytes() == crashed.text
    assert_audited(root)


def test_its_number_is_another_one_when_it_is_used_by_now(root: Root) -> None:
    crashed = interrupted(root)
    crashed.leave("applied")
    number = int(crashed.message[:4])
    root.put(number, sender="zoe")
    root.ok(*RECOVER, "--resolve-publication", "published")
    assert crashed.message not in root.names()
    (found,) = [message for message in root.messages() if message.status == "lease.claimed"]
    assert found.number == number + 1 and found.header["seq"] == str(number + 1)
    assert [message.number for message in root.messages()] == list(range(1, number + 3))


# ---- damaged journals -----------------------------------------------------------------------------------------

FORGED: dict[str, dict[str, Any]] = {
    "other channel": {"channel": "d"},
    "unknown version": {"version": 2},
    "extra key": {"x": 1},
    "a path out of the channel": {"records": [{"path": "../x.json", "before": None, "after": "YQ=="}]},
    "a path in a folder": {"records": [{"path": "tasks/a/../../x.json", "before": None, "after": "YQ=="}]},
    "a hidden path": {"records": [{"path": "tasks/.x.json", "before": None, "after": "YQ=="}]},
    "no record": {"records": [{"path": "_policy.json", "before": None, "after": "YQ=="}]},
    "another family's": {"records": [{"path": f"locks/{'0' * 32}.json", "before": None, "after": "YQ=="}]},
    "another ending": {"records": [{"path": "tasks/x.py", "before": None, "after": "YQ=="}]},
    "no base64": {"records": [{"path": "tasks/x.json", "before": None, "after": "*"}]},
    "a message elsewhere": {"message": {"name": "0009-../../x.md", "text": "YQ=="}},
    "a message of no name": {"message": {"name": "x.md", "text": "YQ=="}},
    "a message that is no message": {"message": {"name": "0009-a-x.md", "text": "YQ=="}},
    "a message of another ending": {"message": {"name": "0009-a-x.sh", "text": "YQ=="}},
    "a recovery that is no message": {"recovery": {"name": "0009-a-x.md", "text": "YQ=="}},
    "an older journal elsewhere": {"replaces": "_meta.json"},
    "no message": {"message": None},
}


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED)
def test_a_forged_journal_is_refused_and_nothing_changes(root: Root, changes: dict[str, Any]) -> None:
    crashed = interrupted(root)
    crashed.leave("applied")
    crashed.changed_journal(**changes)
    for words in (
        RECOVER,
        ["task", "claim", "c", "T-2", "--as", "dave"],
        [*RECOVER, "--resolve-publication", "published"],
    ):
        found = refused(root, "LEASE_TRANSACTION_INVALID", *words, **AUTO)
        assert following(found)[:2] == ["task", "recover-pending"] and "--discard-journal" in found.err
    assert "LEASE_TRANSACTION_INVALID" in root.ok("task", "list", "c").err
    root.ok("task", "show", "c", "T-2")
    root.ok("state", "c")


def test_a_damaged_journal_is_put_aside_on_demand(root: Root) -> None:
    crashed = interrupted(root)
    crashed.leave("applied")
    data = b"{torn"
    write(root.folder() / ".journal/task.json", data)
    refused(root, "TASK_INVALID_ARGUMENT", *RECOVER, "--discard-journal")
    before = records(root)
    found = root.ok(*RECOVER, "--discard-journal", "--reason", "torn by a tool", "--json").json
    path = root.folder() / found["discarded"]
    assert path.read_bytes() == data and path.parent.name == ".damaged"
    assert path.with_name(path.name + ".why").read_text() == "carol: torn by a tool\n"
    assert records(root) == before
    do(root, "done", "T-1", "bob")


def test_a_sound_journal_is_not_discarded(root: Root) -> None:
    interrupted(root).leave("applied")
    found = refused(root, "LEASE_TRANSACTION_PENDING", *RECOVER, "--discard-journal", "--reason", "r")
    assert following(found) == RECOVER


@pytest.mark.parametrize("what", [".journal", ".journal/task.json"])
def test_a_link_in_its_place_is_not_followed(root: Root, tmp_path: Path, what: str) -> None:
    crashed = interrupted(root)
    crashed.leave("applied")
    path, away = root.folder() / what, tmp_path / "away"
    shutil.move(str(path), str(away))
    path.symlink_to(away)
    for words in (RECOVER, ["task", "claim", "c", "T-2", "--as", "dave"]):
        assert "link" in refused(root, "LEASE_TRANSACTION_INVALID", *words).err
    root.ok("task", "list", "c")
    assert away.exists()


# ---- by itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("phase", Interrupted.PHASES)
def test_with_auto_the_next_change_settles_it_and_says_so(root: Root, name: str, phase: str) -> None:
    crashed = interrupted(root, name)
    crashed.leave(phase)
    found = root.ok("task", "create", "c", "T-3", "--from", "dave", "--title", "t", **AUTO)
    assert found.out == "created task T-3 [open]\n" and len(found.err.splitlines()) == 1
    event = f"lease.transaction.{'cleaned' if phase == 'published' else 'recovered'}"
    assert f"settled {json.loads(crashed.journal)['event']} " in found.err and event in found.err
    assert [audit.event for audit in audits(root)][-2:] == [event, "task.created"]
    assert audits(root)[-2].sender == "dave" and journals(root) == []
    kept = {path: data for path, data in records(root).items() if path != "tasks/T-3.json"}
    assert kept == (crashed.after if phase == "published" else crashed.before)
    assert_audited(root)


def test_a_refusal_after_settling_says_both(root: Root) -> None:
    interrupted(root).leave("published")
    found = root.run("task", "claim", "c", "T-1", "--as", "dave", **AUTO)
    assert (found.code, found.status, found.out) == ("LEASE_CONFLICT", 2, "")
    assert len(found.err.splitlines()) == 2 and "settled lease.claimed T-1" in found.err


@pytest.mark.parametrize(
    "policy, environment, is_settled",
    [
        (None, "", False),
        (None, "auto", True),
        (None, "explicit", False),
        ("auto", "", True),
        ("auto", "explicit", True),
        ("explicit", "auto", False),
        (..., "auto", True),
    ],
)
def test_the_policy_goes_before_the_environment(root: Root, policy: Any, environment: str, is_settled: bool) -> None:
    crashed = interrupted(root)
    if policy is not None:
        text = json.dumps({} if policy is ... else {"recovery": policy})
        write(root.folder() / "_policy.json", text)
    crashed.leave("applied")
    words = ["task", "claim", "c", "T-2", "--as", "dave"]
    if is_settled:
        root.ok(*words, AGENT_CHAT_RECOVERY=environment)
    else:
        refused(root, "LEASE_TRANSACTION_PENDING", *words, AGENT_CHAT_RECOVERY=environment)


def test_init_writes_the_policy(tmp_path: Path) -> None:
    root = make_root(tmp_path, "--recovery", "auto")
    assert json.loads((root.folder() / "_policy.json").read_text()) == {"recovery": "auto"}
    make(root, "T-1")
    make(root, "T-2")
    interrupted(root).leave("applied")
    do(root, "claim", "T-2", "dave")
    refused(root, "USAGE_ERROR", "init", "d", "--recovery", "perhaps")


@pytest.mark.parametrize("text", ["{", "[]", "\0", '{"recovery": "nonsense"}'])
def test_a_policy_that_cannot_be_read_closes(root: Root, text: str) -> None:
    interrupted(root).leave("applied")
    write(root.folder() / "_policy.json", text)
    refused(root, "POLICY_INVALID", "task", "claim", "c", "T-2", "--as", "dave", **AUTO)
    root.ok(*RECOVER)


# ---- looking without the lock -----------------------------------------------------------------------------------


def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*args: object, **options: object) -> None:
        raise change.oslock.Busy("a stopped holder")

    monkeypatch.setattr(change.oslock, "hold", busy)


@pytest.mark.parametrize("phase", Interrupted.PHASES)
def test_without_the_lock_a_journal_is_a_live_writers_and_lends_its_images(
    root: Root, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    crashed = interrupted(root)
    crashed.leave(phase)
    unlocked(monkeypatch)
    found = root.ok("task", "show", "c", "T-1")
    assert ("owner: bob" in found.out) == (phase == "published") and not found.err


def test_without_the_lock_a_look_is_repeated_until_nothing_moved(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed = interrupted(root)
    crashed.leave("prepared")
    (root.folder() / ".journal/task.json").unlink()
    looks = []

    def reader(view: change.View) -> bytes | None:
        found = view.read("tasks/T-1.json")
        looks.append(found)
        if len(looks) == 1:
            crashed.leave("half")
        elif len(looks) == 2:
            crashed.leave("published")
            (root.folder() / ".journal/task.json").unlink()
        return found

    unlocked(monkeypatch)
    with open_channel(root) as channel:
        assert channel.look("task", reader) == crashed.after["tasks/T-1.json"]
    assert looks == [crashed.before["tasks/T-1.json"]] * 2 + [crashed.after["tasks/T-1.json"]]


def test_without_the_lock_a_change_that_was_undone_meanwhile_is_noticed(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = interrupted(root)
    crashed.leave("prepared")
    (root.folder() / ".journal/task.json").unlink()
    looks = []

    def reader(view: change.View) -> bytes | None:
        if not looks:
            write(root.folder() / "tasks/T-1.json", crashed.after["tasks/T-1.json"])
        found = view.read("tasks/T-1.json")
        if not looks:
            write(root.folder() / ".journal/task.json", crashed.journal)
            write(root.folder() / "tasks/T-1.json", crashed.before["tasks/T-1.json"])
            (root.folder() / ".journal/task.json").unlink()
        looks.append(found)
        return found

    unlocked(monkeypatch)
    with open_channel(root) as channel:
        assert channel.look("task", reader) == crashed.before["tasks/T-1.json"]
    assert len(looks) == 2


def test_a_look_that_never_comes_to_rest_ends_all_the_same(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    unlocked(monkeypatch)
    looks: list[int] = []

    def reader(view: change.View) -> int:
        looks.append(1)
        root.put(100 + len(looks))
        return len(looks)

    with open_channel(root) as channel:
        assert channel.look("task", reader) == 5


def test_a_reader_waits_for_so_long_however_many_take_turns(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oslock, "_try", lambda fd, shared: False)
    monkeypatch.setattr(oslock, "_note", lambda fd: str(time.monotonic()))
    began = time.monotonic()
    with open_channel(root) as channel:
        assert change.look(channel, recovery.TASK, lambda view: view.names("tasks"), patience=0.1)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_reading_does_not_fail_for_want_of_a_lock(root: Root, kind: str) -> None:
    lock = root.folder() / ".lock"
    lock.unlink()
    lock.mkdir() if kind == "folder" else lock.symlink_to("_meta.json")
    assert "T-1" in root.ok("task", "list", "c").out
    assert root.run("task", "claim", "c", "T-1", "--as", "bob").code == (
        "STORAGE_NOT_A_FILE" if kind == "folder" else "STORAGE_LINK_REFUSED"
    )


def test_where_there_are_no_locks_records_are_not_changed_and_messages_are(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*args: object, **options: object) -> None:
        raise change.oslock.NoLocks

    monkeypatch.setattr(change.oslock, "hold", none)
    before = everything(root)
    for words in (RECOVER, ["task", "claim", "c", "T-1", "--as", "bob"]):
        assert root.run(*words).code == "STORAGE_NO_LOCKS"
    assert everything(root) == before and "T-1" in root.ok("task", "list", "c").out
    root.post()


def test_an_exception_in_the_block_writes_nothing(root: Root) -> None:
    before = everything(root)
    with open_channel(root) as channel, pytest.raises(KeyError), channel.change("task.updated", "bob") as made:
        made.put("tasks/T-1.json", b"x")
        raise KeyError
    assert everything(root) == before
    do(root, "claim", "T-1", "bob")


def test_an_interrupt_during_the_steps_undoes_them_or_lets_them_stand(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = log.Log.publish
    before = everything(root)

    def stopped(messages: log.Log, name: str, data: bytes) -> None:
        if is_published:
            publish(messages, name, data)
        raise KeyboardInterrupt

    for is_published in (False, True):
        monkeypatch.setattr(log.Log, "publish", stopped)
        assert root.run("task", "claim", "c", "T-1", "--as", "bob").status == 130
        monkeypatch.undo()
        assert journals(root) == []
        if not is_published:
            assert everything(root) == before
    assert_agree(root)
    assert_audited(root)
    assert claims(root) == ["T-1.bob"]


def test_a_message_that_is_there_in_spite_of_an_error_is_made_durable(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, sync, synced = log.Log.publish, disk.Folder.sync, []

    def lying(messages: log.Log, name: str, data: bytes) -> None:
        publish(messages, name, data)
        synced.clear()
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(log.Log, "publish", lying)
    monkeypatch.setattr(disk.Folder, "sync", lambda folder: [synced.append(folder.path), sync(folder)])
    do(root, "claim", "T-1", "bob")
    assert str(root.folder()) in synced and journals(root) == []
    assert_audited(root)


def test_families_know_their_own_records() -> None:
    assert recovery.TASK.fits("tasks/a.json") and recovery.TASK.fits("claims/a.b.c.json")
    for path in (
        "locks/a.json",
        "tasks/a",
        "tasks/.json",
        "tasks/a/b.json",
        "a.json",
        "tasks/..json",
        "tasks/a\\b.json",
    ):
        assert not recovery.TASK.fits(path), path
    assert journal.FOLDER == ".journal"
