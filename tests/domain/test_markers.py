"""markers.py: marker files, claimed by renaming them (protocol, section 6)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from support import Result, Root, make_root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = make_root(tmp_path)
    (root.folder() / "task-7.md").write_text("do it\n")
    return root


def markers(root: Root) -> list[str]:
    return sorted(name for name in os.listdir(root.folder()) if name.startswith("task-"))


def test_a_claim_renames_the_marker(root: Root) -> None:
    assert "task-7.CLAIMED-bob.md" in root.ok("claim", "c", "task-7.md", "--as", "Bob").out
    assert markers(root) == ["task-7.CLAIMED-bob.md"]
    assert (root.folder() / "task-7.CLAIMED-bob.md").read_text() == "do it\n"


def test_a_second_claim_is_lost_and_names_the_holder(root: Root) -> None:
    root.ok("claim", "c", "task-7.md", "--as", "bob")
    assert "bob" in root.refused("CLAIM_LOST", "claim", "c", "task-7.md", "--as", "carol", status=3).err
    root.refused("CLAIM_LOST", "claim", "c", "task-7.md", "--as", "bob", status=3)
    root.refused("CLAIM_LOST", "claim", "c", "task-8.md", "--as", "bob", status=3)


@pytest.mark.parametrize(
    "marker", ["other.md", "task-.md", "task-7", "../task-7.md", "task-7.CLAIMED-bob.md", "T-1", ""]
)
def test_what_is_no_marker_is_refused(root: Root, marker: str) -> None:
    result = root.refused("CLAIM_INVALID_MARKER", "claim", "c", marker, "--as", "bob")
    root.refused("CLAIM_INVALID_MARKER", "unclaim", "c", marker, "--as", "bob")
    assert ("task claim c T-1 --as bob" in result.err) == (marker == "T-1")
    assert markers(root) == ["task-7.md"]


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_marker_that_is_a_link_or_a_folder_is_refused(root: Root, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("theirs")
    (root.folder() / "task-8.md").symlink_to(tmp_path / "outside")
    (root.folder() / "task-9.md").mkdir()
    root.refused("STORAGE_LINK_REFUSED", "claim", "c", "task-8.md", "--as", "bob")
    root.refused("STORAGE_NOT_A_FILE", "claim", "c", "task-9.md", "--as", "bob")


def test_the_holder_gives_it_back(root: Root) -> None:
    root.ok("claim", "c", "task-7.md", "--as", "bob")
    root.ok("unclaim", "c", "task-7.md", "--as", "BOB")
    assert markers(root) == ["task-7.md"]
    root.ok("claim", "c", "task-7.md", "--as", "carol")


def test_another_gives_it_back_only_with_a_reason(root: Root) -> None:
    root.ok("claim", "c", "task-7.md", "--as", "bob")
    for reason in ([], ["--reason", ""], ["--reason", "  "]):
        root.refused("CLAIM_OWNER_MISMATCH", "unclaim", "c", "task-7.md", "--as", "carol", *reason)
    assert "bob" in root.ok("unclaim", "c", "task-7.md", "--as", "carol", "--reason", "bob is gone").out
    assert markers(root) == ["task-7.md"]


def test_what_is_not_claimed_cannot_be_given_back(root: Root) -> None:
    root.refused("CLAIM_NOT_FOUND", "unclaim", "c", "task-7.md", "--as", "bob")
    root.refused("CLAIM_NOT_FOUND", "unclaim", "c", "task-8.md", "--as", "bob")


def test_a_free_marker_beside_the_claimed_one_is_not_overwritten(root: Root) -> None:
    root.ok("claim", "c", "task-7.md", "--as", "bob")
    (root.folder() / "task-7.md").write_text("new work\n")
    root.refused("CLAIM_INVALID_MARKER", "unclaim", "c", "task-7.md", "--as", "bob")
    assert (root.folder() / "task-7.md").read_text() == "new work\n"


def test_exactly_one_of_several_that_claim_at_once_wins(root: Root) -> None:
    results: list[Result] = []
    agents = [f"agent{at}" for at in range(6)]
    claimers = [
        threading.Thread(target=lambda who=who: results.append(root.real("claim", "c", "task-7.md", "--as", who)))
        for who in agents
    ]
    for claimer in claimers:
        claimer.start()
    for claimer in claimers:
        claimer.join()
    assert sorted(result.status for result in results) == [0, 3, 3, 3, 3, 3]
    assert len(markers(root)) == 1


def test_a_claimed_marker_of_another_program_is_respected(root: Root) -> None:
    (root.folder() / "task-7.md").rename(root.folder() / "task-7.CLAIMED-Zoë.md")
    assert "Zoë" in root.refused("CLAIM_LOST", "claim", "c", "task-7.md", "--as", "bob", status=3).err


def test_markers_are_no_messages(root: Root) -> None:
    assert "no new messages" in root.ok("read", "c", "--as", "bob").out
