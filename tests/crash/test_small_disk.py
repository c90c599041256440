"""A real disk that is full (case M23): a mounted file system of 64 KB, where mounting is permitted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scene import message_bytes
from support import Root, make_root


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Root]:
    path = tmp_path / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"M23: no mount here: {error}")
    if mounted.returncode:
        pytest.skip(f"M23: mounting is not permitted here: {mounted.stderr.strip()}")
    try:
        yield make_root(path)
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_message_larger_than_the_disk_leaves_nothing_behind(small: Root, tmp_path: Path) -> None:
    small.post("alice", "first", "fits")
    before = message_bytes(small)
    large = tmp_path / "body"
    large.write_text("x" * 200_000)
    small.refused(
        "STORAGE_IO_ERROR", "post", "c", "--from", "alice", "--title", "large", f"--body-file={large}", status=1
    )
    assert message_bytes(small) == before
    assert os.listdir(small.folder() / ".tmp") == []
    assert "0002" not in os.listdir(small.folder() / ".numbers")
    assert small.post("alice", "second", "fits, too").out.startswith("posted #2 ")


def test_a_full_disk_can_still_be_looked_at_and_is_well_again_after_space_was_made(small: Root) -> None:
    small.post("alice", "first", "fits")
    filler = small.path / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass  # now it is full
    refused = small.run("post", "c", "--from", "alice", "--title", "t", "--body", "b")
    assert (refused.status, refused.code, len(small.names())) == (1, "STORAGE_IO_ERROR", 1), refused
    unread = small.run("read", "c", "--as", "bob")
    assert (unread.status, unread.code, unread.out) == (1, "STORAGE_IO_ERROR", ""), (
        "nothing is shown that is not counted"
    )
    assert "fits" in small.ok("peek", "c").out
    assert "fits" in small.ok("read", "c", "--as", "bob", "--peek").out
    filler.unlink()
    assert small.post().out.startswith("posted #2 ")
    assert "fits" in small.ok("read", "c", "--as", "bob").out
