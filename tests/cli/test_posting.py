"""cli/posting.py: where a body comes from, in real processes (cases M12, M20 to M22)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import CHAT, Result, Root, clean_environment, make_root

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX descriptors")
POST = ["post", "c", "--from", "alice", "--title", "t"]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make_root(tmp_path)


def shell(root: Root, line: str, **environment: str) -> Result:
    """Run a line of sh; `$chat` is the program with its root."""
    chat = f"'{sys.executable}' '{CHAT}' --root '{root.path}'"
    done = subprocess.run(
        ["sh", "-c", line.replace("$chat", chat)],
        env=clean_environment(**environment),
        capture_output=True,
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def stored(root: Root) -> bytes:
    (name,) = root.names()
    return (root.folder() / name).read_bytes().split(b"\n---\n", 1)[1]


# ---- files and stdin -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, body",
    [
        (b"one\ntwo", b"one\ntwo\n"),
        (b"\xef\xbb\xbfone\r\ntwo\r\n\r\n", b"one\ntwo\n"),
        ("ünï 世界\n".encode(), "ünï 世界\n".encode()),
        (b"nul \0 and \x1b\n", b"nul \0 and \x1b\n"),
    ],
)
@pytest.mark.parametrize("how", ["file", "stdin", "dash"])
def test_a_body_comes_from_a_file_or_stdin(root: Root, tmp_path: Path, data: bytes, body: bytes, how: str) -> None:
    """M12."""
    if how == "file":
        (tmp_path / "f").write_bytes(data)
        root.ok(*POST, "--body-file", tmp_path / "f")
    else:
        root.ok(*POST, *(["--body-file", "-"] if how == "dash" else []), stdin=data)
    assert stored(root) == body


@pytest.mark.parametrize("kind", ["missing", "folder", "not UTF-8", "half a letter"])
def test_a_body_that_cannot_be_read_is_refused(root: Root, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "f"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"\xff\xfea\x00" if kind == "not UTF-8" else "é".encode()[:1])
    result = root.refused("MESSAGE_BODY_UNREADABLE", *POST, "--body-file", path)
    assert str(path) in result.err and root.names() == []


def test_stdin_that_is_not_utf8_is_refused(root: Root) -> None:
    assert "stdin" in root.refused("MESSAGE_BODY_UNREADABLE", *POST, stdin=b"caf\xe9\n").err


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_stdin_is_refused(root: Root, data: bytes) -> None:
    assert "--body" in root.refused("MESSAGE_EMPTY_BODY", *POST, stdin=data).err


def test_a_body_of_its_own_goes_before_stdin(root: Root) -> None:
    root.ok(*POST, "--body", "typed", stdin=b"piped")
    assert stored(root) == b"typed\n"


@posix
def test_a_closed_stdin_asks_for_a_body(root: Root) -> None:
    """M21."""
    result = shell(root, "$chat post c --from alice --title t <&-")
    assert (result.status, result.code, result.out) == (2, "MESSAGE_EMPTY_BODY", "")
    assert "--body" in result.err and root.names() == []
    assert shell(root, "$chat post c --from alice --title t --body x <&-").status == 0


@posix
def test_with_a_body_stdin_is_not_read(root: Root) -> None:
    """M21: `sleep 60 | post … --body x`."""
    reading, writing = os.pipe()
    try:
        started = time.monotonic()
        root.real(*POST, "--body", "x", stdin=reading)
        assert time.monotonic() - started < 30 and stored(root) == b"x\n"
    finally:
        os.close(reading)
        os.close(writing)


@posix
def test_waiting_for_a_silent_pipe_says_so(root: Root) -> None:
    process = root.spawn(*POST, stdin=subprocess.PIPE)
    assert process.stdin and process.stderr
    assert b"waiting for the body on stdin" in process.stderr.readline()
    process.stdin.write(b"at last\n")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == b"" and stored(root) == b"at last\n"


@posix
def test_a_pipe_that_somebody_made_non_blocking_is_read_to_its_end(root: Root) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    process = root.spawn(*POST, stdin=reading)
    os.close(reading)
    for part in (b"one\n", b"two\n", b"three\n"):
        os.write(writing, part)
        time.sleep(0.3)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"") and stored(root) == b"one\ntwo\nthree\n"


@posix
def test_an_interrupt_while_waiting_for_a_body_posts_nothing(root: Root) -> None:
    process = root.spawn(*POST, stdin=subprocess.PIPE)
    assert process.stderr
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"") and b"Traceback" not in err and root.names() == []


@posix
def test_a_post_whose_answer_nobody_took_says_that_it_is_posted(root: Root) -> None:
    """Or an agent would post it again."""
    for line in (
        "$chat post c --from alice --title t --body b >&-",
        "$chat post c --from alice --title t --body b >/dev/full",
    ):
        if "full" in line and not os.path.exists("/dev/full"):
            continue
        result = shell(root, line)
        assert (result.status, result.code) == (1, "OUTPUT_FAILED") and "do not repeat" in result.err
        assert f"posted as #{len(root.names())}" in result.err and len(result.err.splitlines()) == 1


# ---- large ones (M22) ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_a_body_of_20_mb_is_stored_whole_and_shown_in_part(root: Root, tmp_path: Path, how: str) -> None:
    body = b"0123456789abcde\n" * (20 * 1024 * 1024 // 16)
    if how == "file":
        (tmp_path / "f").write_bytes(body)
        root.ok(*POST, "--body-file", tmp_path / "f")
    else:
        root.ok(*POST, stdin=body)
    assert stored(root) == body
    shown = root.ok("read", "c", "--as", "bob", AGENT_CHAT_FORMAT="envelope").out
    assert len(shown) < 21_000 and "show c 1" in shown and root.cursor("bob") == 1
    assert len(root.ok("show", "c", "1", AGENT_CHAT_FORMAT="envelope").out) > len(body)


def test_a_body_beyond_what_is_read_is_refused_before_it_is_stored(root: Root, tmp_path: Path) -> None:
    with open(tmp_path / "f", "wb") as file:
        file.truncate(65 * 1024 * 1024)
    root.refused("MESSAGE_TOO_LARGE", *POST, "--body-file", tmp_path / "f")
    assert root.names() == []


# ---- words that are not in the locale's encoding (M20) ------------------------------------------------------


LOCALES = {
    "utf-8": {"PYTHONUTF8": "1"},
    "C": {"LC_ALL": "C"},
    "C, strictly": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "POSIX": {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"},
}


@posix
@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("place", ["title", "body", "status", "to", "from", "channel", "root"])
def test_a_byte_that_is_no_text_is_refused_in_one_line(root: Root, locale: str, place: str) -> None:
    words: dict[str, bytes] = {"title": b"t", "body": b"b", "status": b"s", "to": b"bob", "from": b"alice"}
    where = [b"--root", os.fsencode(root.path), b"post", b"c"]
    if place == "channel":
        where[3] = b"caf\xe9"
    elif place == "root":
        where[1] = os.fsencode(root.path) + b"/caf\xe9"
    else:
        words[place] = b"caf\xe9"
    options = [b"--" + name.encode() + b"=" + value for name, value in words.items()]
    done = subprocess.run(
        [os.fsencode(sys.executable), os.fsencode(CHAT), *where, *options],
        env=clean_environment(**LOCALES[locale]),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b""), done
    assert done.stderr.startswith(b"agent-chat: ") and done.stderr.count(b"\n") == 1 and b"Traceback" not in done.stderr
    assert b"INTERNAL" not in done.stderr
    assert root.names() == [] and os.listdir(root.path) == ["c"]


@posix
@pytest.mark.parametrize("locale", LOCALES)
def test_letters_are_stored_right_or_refused_and_shown_as_well_as_the_terminal_can(root: Root, locale: str) -> None:
    done = root.real(*POST[:-1], "é→", "--body", "ünï 世界", environment=LOCALES[locale])
    if done.status == 0:
        message = root.messages()[0]
        assert (message.title, message.body) == ("é→", "ünï 世界\n")
    else:
        assert (done.status, done.code, root.names()) == (2, "MESSAGE_INVALID_TEXT", [])
    root.put(9, "é→ 世界")
    shown = root.real("read", "c", "--as", "bob", environment=LOCALES[locale])
    assert shown.status == 0 and ("é→ 世界" in shown.out or "\\xe9\\u2192" in shown.out), shown
    assert root.cursor("bob") == 9


@posix
def test_a_file_of_a_body_may_have_any_name(root: Root, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        Path(os.fsdecode(path)).write_bytes(b"body\n")
    except OSError:
        pytest.skip("this file system takes Unicode names only")
    root.ok(*POST, "--body-file", os.fsdecode(path))
    assert stored(root) == b"body\n"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
def test_a_file_whose_name_is_no_text_stops_nobody(root: Root) -> None:
    with open(os.fsencode(root.folder()) + b"/0006-\xff.md", "wb") as file:
        file.write(b"x")
    assert root.post().out.startswith("posted #7 ")
    assert root.post().out.startswith("posted #8 ")
    assert "posted" not in root.ok("read", "c", "--as", "bob").err
