"""The one spelling of a workspace path, and when two of them meet (protocol, section 10; cases L11 to L17).

The rules of Windows and macOS are tested by injection: a `Workspace` takes the platform and whether
case is folded. Its paths are then text only; links are tested on a real folder of this system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest

from agent_chat.errors import AgentChatError
from agent_chat.patterns import overlaps
from agent_chat.workspace import Workspace, find

INVALID = "PATH_LOCK_INVALID_PATH"
OUTSIDE = "PATH_LOCK_PATH_OUTSIDE_WORKSPACE"
NFC = unicodedata.normalize("NFC", "café.py")
NFD = unicodedata.normalize("NFD", "café.py")

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs links without privileges and POSIX paths")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A workspace with `src/main.py` and `app/[id]/page.tsx`."""
    root = tmp_path / "repo"
    for path in ("src/main.py", "app/[id]/page.tsx"):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("")
    return root


@pytest.fixture
def work(top: Path) -> Workspace:
    return Workspace(str(top), str(top), "linux", folds_case=False)


def inside(top: Path, cwd: str) -> Workspace:
    return Workspace(str(top), str(top / cwd), "linux", folds_case=False)


def windows(cwd: str = "C:\\work") -> Workspace:
    return Workspace("C:\\work", cwd, "win32", folds_case=True)


def spelled(work: Workspace, typed: str) -> str:
    return work.entry(typed).normalized_path


def kind(work: Workspace, typed: str) -> str:
    return work.entry(typed).kind


def refusal(work: Workspace, typed: str) -> AgentChatError:
    with pytest.raises(AgentChatError) as caught:
        work.entry(typed)
    assert caught.value.next == ("check", "--help")
    assert len(caught.value.message.splitlines()) == 1
    return caught.value


def refused(work: Workspace, typed: str) -> str:
    return refusal(work, typed).code


def meet(work: Workspace, one: str, two: str) -> bool:
    a, b = work.entry(one), work.entry(two)
    forth = overlaps((a.kind, a.normalized_path), (b.kind, b.normalized_path))
    assert forth is overlaps((b.kind, b.normalized_path), (a.kind, a.normalized_path))
    return forth


# ---- which folder is the workspace -----------------------------------------------------------------


def test_the_option_comes_before_the_environment_and_both_before_git(top: Path) -> None:
    (top / ".git").mkdir()
    src, app, cwd = str(top / "src"), str(top / "app"), str(top)
    assert find(src, app, cwd, "/c").root == os.path.realpath(src)
    assert find(None, app, cwd, "/c").root == os.path.realpath(app)
    assert find(None, None, cwd, "/c").root == os.path.realpath(cwd)


def test_a_relative_workspace_is_relative_to_the_working_directory(top: Path) -> None:
    assert find("src", None, str(top), "/c").root == os.path.realpath(top / "src")


def test_an_empty_environment_variable_is_none(top: Path) -> None:
    (top / ".git").mkdir()
    assert find(None, "", str(top / "src"), "/c").root == os.path.realpath(top)


@pytest.mark.parametrize("given", ["", "nope", "src/main.py", "a\0b"])
def test_a_given_workspace_that_is_no_directory_is_refused(top: Path, given: str) -> None:
    with pytest.raises(AgentChatError) as caught:
        find(given, None, str(top), str(top))
    assert caught.value.code == INVALID and repr(given) in caught.value.message


def test_the_environments_workspace_that_is_no_directory_is_refused(top: Path) -> None:
    with pytest.raises(AgentChatError) as caught:
        find(None, str(top / "nope"), str(top), str(top))
    assert caught.value.code == INVALID


def test_git_is_found_above_the_working_directory(top: Path) -> None:
    (top / ".git").mkdir()
    assert find(None, None, str(top / "app" / "[id]"), "/c").root == os.path.realpath(top)


def test_without_git_the_channel_folder_is_the_workspace(top: Path) -> None:
    assert find(None, None, str(top / "src"), str(top / "app")).root == os.path.realpath(top / "app")


def test_a_relative_channel_folder_is_relative_to_the_working_directory(top: Path) -> None:
    assert find(None, None, str(top), "app").root == os.path.realpath(top / "app")


def test_a_linked_worktree_spells_its_files_like_the_repository(tmp_path: Path) -> None:
    names = set()
    for place, git in (("main", None), ("elsewhere/tree", "gitdir: ../../main/.git/worktrees/tree\n")):
        folder = tmp_path / place / "src"
        folder.mkdir(parents=True)
        if git is None:
            (folder.parent / ".git").mkdir()
        else:
            (folder.parent / ".git").write_text(git)
        found = find(None, None, str(folder), str(tmp_path))
        assert found.root == os.path.realpath(folder.parent)
        names |= {spelled(found, "src/new.py"), spelled(found, "./new.py"), spelled(found, str(folder / "new.py"))}
    assert names == {"src/new.py"}


@posix_only
def test_a_workspace_reached_by_a_link_is_its_real_folder(top: Path, tmp_path: Path) -> None:
    os.symlink(top, tmp_path / "link")
    found = find(str(tmp_path / "link"), None, str(tmp_path / "link" / "src"), "/c")
    assert found.root == os.path.realpath(top)
    assert {spelled(found, "./main.py"), spelled(found, str(tmp_path / "link/src/main.py"))} == {"src/main.py"}


# ---- spelling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", ["src/main.py", "src//main.py", "src/./main.py", "./src/main.py", "././src/main.py"])
def test_empty_and_dot_parts_are_dropped(work: Workspace, typed: str) -> None:
    assert (spelled(work, typed), kind(work, typed)) == ("src/main.py", "file")


@pytest.mark.parametrize("typed", [".", "./", "./.", ".//."])
def test_dot_is_the_whole_workspace(work: Workspace, typed: str) -> None:
    entry = work.entry(typed)
    assert (entry.kind, entry.normalized_path, entry.display_path) == ("directory", ".", ".")


def test_the_root_itself_by_its_absolute_path(work: Workspace) -> None:
    assert spelled(work, work.root) == spelled(work, work.root + os.sep) == "."


@pytest.mark.parametrize("typed", ["src", "src/", "new/", "./new/"])
def test_a_slash_at_the_end_or_an_existing_folder_is_a_directory(work: Workspace, typed: str) -> None:
    assert kind(work, typed) == "directory" and not spelled(work, typed).endswith("/")


def test_a_new_path_is_a_file(work: Workspace) -> None:
    assert (kind(work, "new/a.py"), spelled(work, "new/a.py")) == ("file", "new/a.py")


def test_a_plain_path_is_relative_to_the_workspace_wherever_the_command_runs(top: Path) -> None:
    assert spelled(inside(top, "src"), "src/main.py") == "src/main.py"
    assert spelled(inside(top, "src"), "new.py") == "new.py"


@pytest.mark.parametrize(
    "cwd, typed, expected",
    [
        ("src", "./main.py", "src/main.py"),
        ("src", "../app/x", "app/x"),
        ("src", "./../app/x", "app/x"),
        ("app/[id]", "../../src/main.py", "src/main.py"),
        ("app/[id]", "./", "app/[id]"),
        ("app/[id]", "../", "app"),
        ("src", "../", "."),
    ],
)
def test_a_leading_dot_is_relative_to_the_working_directory(top: Path, cwd: str, typed: str, expected: str) -> None:
    assert spelled(inside(top, cwd), typed) == expected


@pytest.mark.parametrize("typed", ["..", "a/../b", "a/../../b", "./a/../b", "../src/..", "a/.."])
def test_dots_that_do_not_lead_are_refused(top: Path, typed: str) -> None:
    assert refused(inside(top, "src"), typed) == INVALID


@pytest.mark.parametrize("typed", ["../../x", "../../repo/src/main.py", "../../../../../../../../etc/passwd"])
def test_dots_that_leave_the_workspace_are_refused(top: Path, typed: str) -> None:
    assert refused(inside(top, "src"), typed) == OUTSIDE


@pytest.mark.parametrize("typed", ["./x", "../x", "../repo/src/main.py"])
def test_a_leading_dot_needs_a_working_directory_inside(top: Path, tmp_path: Path, typed: str) -> None:
    work = Workspace(str(top), str(tmp_path), "linux", folds_case=False)
    assert refused(work, typed) == OUTSIDE
    assert spelled(work, "src/main.py") == "src/main.py"


@pytest.mark.parametrize("bad", ["", " ", "a\nb", "a\x01b", "a\0b", "a\x7fb", "a\x85b", "a\x9fb", "\udce9", "a\ud800b"])
def test_empty_control_characters_and_lone_surrogates_are_refused(work: Workspace, bad: str) -> None:
    assert refused(work, bad) == INVALID


@pytest.mark.parametrize("bad", ["C:/x", "c:x", "a:b", "src/a:b", "a\\b", "\\x", "C:\\x", "..\\x"])
def test_colons_and_backslashes_are_refused_outside_windows(work: Workspace, bad: str) -> None:
    assert refused(work, bad) == INVALID


@pytest.mark.parametrize("bad", ["con", "src/CON.txt", "nul", "a/lpt1.log/b", "x.", "x ", "a /b", "a./b", "..."])
@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_names_that_windows_cannot_hold_are_refused_everywhere(top: Path, bad: str, platform: str) -> None:
    assert refused(Workspace(str(top), str(top), platform, folds_case=False), bad) == INVALID


@pytest.mark.parametrize("good", [".git", ".a", "a b", " a", "console", "a..b", "-x", "~", "ünï", "日本語.md", "👩‍💻"])
def test_ordinary_names_are_kept(work: Workspace, good: str) -> None:
    assert spelled(work, good) == unicodedata.normalize("NFC", good)


def test_both_forms_of_unicode_are_one_path(work: Workspace) -> None:
    assert NFC != NFD and spelled(work, NFD) == spelled(work, NFC) == NFC
    assert spelled(work, "src/*-" + NFD) == "src/*-" + NFC
    assert meet(work, NFC, NFD)


def test_display_path_is_canonical_but_keeps_the_case(top: Path) -> None:
    entry = Workspace(str(top), str(top), "darwin", folds_case=True).entry("Docs//" + NFD.upper() + "/")
    assert (entry.display_path, entry.normalized_path) == ("Docs/" + NFC.upper(), "docs/" + NFC)


def test_a_refusal_names_the_path_and_stays_short(work: Workspace) -> None:
    assert "'a:b'" in refusal(work, "a:b").message
    assert len(refusal(work, "x:" * 2000).message) < 400
    assert refused(work, "x" * 5000) == INVALID


@posix_only
def test_absolute_paths_are_accepted_inside_and_refused_outside(top: Path) -> None:
    work = inside(top, "src")
    assert spelled(work, str(top / "src" / "main.py")) == "src/main.py"
    assert (spelled(work, f"/{top}//src/./x/"), kind(work, f"{top}/x/")) == ("src/x", "directory")
    for typed in ("/", "/etc/passwd", str(top.parent), str(top) + "2/x", str(top)[:-1]):
        assert refused(work, typed) == OUTSIDE
    assert refused(work, f"{top}/src/../x") == INVALID
    assert refused(work, f"{top}/con") == INVALID


@posix_only
def test_the_workspaces_own_path_may_hold_what_a_path_in_it_may_not(tmp_path: Path) -> None:
    root = tmp_path / "odd: [x] \\ *" / "con" / NFD.upper()
    root.mkdir(parents=True)
    work = Workspace(str(root), str(root), "linux", folds_case=False)
    assert {spelled(work, f"{root}/a.py"), spelled(work, "./a.py"), spelled(work, "a.py")} == {"a.py"}
    assert (kind(work, f"{root}/*.py"), spelled(work, f"{root}/*.py")) == ("pattern", "*.py")


@posix_only
def test_the_root_of_the_file_system_as_workspace(top: Path) -> None:
    work = Workspace("/", str(top / "src"), "linux", folds_case=False)
    assert spelled(work, "/new.py") == "new.py"
    assert spelled(work, "./new.py") == str(top.resolve() / "src" / "new.py")[1:]
    assert spelled(work, "/main.py") == "main.py"  # absolute: nobody meant ./main.py


# ---- L17: relative to the wrong folder -------------------------------------------------------------


def test_a_path_that_exists_only_under_the_working_directory_is_refused_naming_both(top: Path) -> None:
    error = refusal(inside(top, "src"), "main.py")
    assert error.code == INVALID
    assert all(repr(name) in error.message for name in ("main.py", "./main.py", "src/main.py"))


def test_what_exists_in_both_or_neither_is_the_workspaces(top: Path) -> None:
    (top / "main.py").write_text("")
    assert spelled(inside(top, "src"), "main.py") == "main.py"
    assert spelled(inside(top, "src"), "neither.py") == "neither.py"


@pytest.mark.parametrize("typed", ["[id]/page.tsx", "[id]/", "[id]"])
def test_a_literal_name_with_brackets_below_the_working_directory_is_refused_too(top: Path, typed: str) -> None:
    assert refused(inside(top, "app"), typed) == INVALID


def test_a_pattern_whose_fixed_start_is_only_under_the_working_directory_is_refused(top: Path) -> None:
    (top / "src" / "pkg").mkdir()
    assert refused(inside(top, "src"), "pkg/*.py") == INVALID
    assert spelled(inside(top, "src"), "./pkg/*.py") == "src/pkg/*.py"
    assert spelled(inside(top, "src"), "*.py") == "*.py"


def test_a_working_directory_outside_offers_no_other_spelling(top: Path, tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("")
    assert spelled(Workspace(str(top), str(tmp_path), "linux", folds_case=False), "here.py") == "here.py"


# ---- links -----------------------------------------------------------------------------------------


@posix_only
def test_a_link_inside_the_workspace_is_the_place_it_leads_to(top: Path, work: Workspace) -> None:
    os.symlink("src", top / "link")
    os.symlink(top / "src" / "main.py", top / "app" / "main.py")
    assert (spelled(work, "link/main.py"), spelled(work, "app/main.py")) == ("src/main.py", "src/main.py")
    assert (spelled(work, "link"), kind(work, "link")) == ("src", "directory")
    assert spelled(work, "link/new/deep.py") == "src/new/deep.py"  # the tail need not exist
    assert meet(work, "link/x.py", "src/x.py") and meet(work, "link", "src/x.py")


@posix_only
def test_links_are_followed_one_after_another(top: Path, work: Workspace) -> None:
    os.symlink("../src", top / "app" / "up")
    os.symlink("app/up", top / "twice")
    os.symlink("not/yet", top / "dangling")
    assert spelled(work, "twice/main.py") == "src/main.py"
    assert spelled(work, "dangling/x") == "not/yet/x"


@posix_only
def test_a_link_that_leaves_the_workspace_is_refused(top: Path, tmp_path: Path, work: Workspace) -> None:
    os.symlink(tmp_path, top / "out")
    os.symlink("../..", top / "src" / "up")
    os.symlink("/nowhere/at/all", top / "gone")
    for typed in ("out", "out/x", "src/up/x", "gone/x", "out/*.py", "./out/x", str(top / "out" / "x")):
        assert refused(work, typed) == OUTSIDE


@posix_only
def test_a_link_that_goes_out_and_comes_back_is_the_place_it_leads_to(top: Path, tmp_path: Path) -> None:
    os.symlink(top / "src", tmp_path / "back")
    os.symlink(tmp_path / "back", top / "out")
    assert spelled(inside(top, "."), "out/main.py") == "src/main.py"
    assert spelled(inside(top, "."), str(tmp_path / "back" / "main.py")) == "src/main.py"


@posix_only
def test_links_in_a_circle_end(top: Path, work: Workspace) -> None:
    os.symlink("b", top / "a")
    os.symlink("a", top / "b")
    assert spelled(work, "a/x") in ("a/x", "b/x")


@posix_only
def test_the_fixed_start_of_a_pattern_goes_through_links(top: Path, work: Workspace) -> None:
    os.symlink("src", top / "link")
    os.symlink("app", top / "link[1]")
    assert spelled(work, "link/**/*.py") == "src/**/*.py"
    assert spelled(work, "link[1]/*.tsx") == "app/*.tsx"
    assert meet(work, "link/*.py", "src/main.py")


@posix_only
def test_a_link_with_a_decomposed_name_is_found_as_it_was_typed(top: Path, work: Workspace) -> None:
    os.symlink("src", top / NFD)
    assert spelled(work, NFD + "/main.py") == "src/main.py"


@posix_only
def test_a_link_to_a_name_that_windows_cannot_hold_is_refused(top: Path, work: Workspace) -> None:
    (top / "odd.").mkdir()
    os.symlink("odd.", top / "fine")
    assert refused(work, "fine/x") == INVALID


# ---- Windows and macOS, injected -------------------------------------------------------------------


@pytest.mark.parametrize(
    "typed",
    [
        "Src\\Main.py",
        "src/main.py",
        ".\\src\\main.py",
        "C:\\Work\\src\\main.py",
        "c:/WORK//src/main.py",
        "\\work\\src\\main.py",
        "/work/src/main.py",
    ],
)
def test_windows_spellings_of_one_file(typed: str) -> None:
    assert spelled(windows(), typed) == "src/main.py"


def test_windows_working_directory() -> None:
    assert spelled(windows("C:\\work\\src"), "..\\app\\X") == spelled(windows("c:\\Work\\src"), "../app/x") == "app/x"
    assert refused(windows("C:\\work\\src"), "..\\..\\x") == refused(windows("D:\\work"), ".\\x") == OUTSIDE


@pytest.mark.parametrize(
    "typed", ["C:\\x", "D:\\work\\x", "C:\\work2\\x", "\\x", "\\\\srv\\share\\work\\x", "//srv/share"]
)
def test_windows_absolute_paths_outside(typed: str) -> None:
    assert refused(windows(), typed) == OUTSIDE


@pytest.mark.parametrize("typed", ["C:x", "a:b", "src\\f.txt:stream", "C:\\work\\f:s", "C:\\work\\..\\x", "a\\..\\b"])
def test_windows_drives_streams_and_dots(typed: str) -> None:
    assert refused(windows(), typed) == INVALID


def test_a_windows_share_as_workspace() -> None:
    work = Workspace("\\\\srv\\share\\work", "\\\\srv\\share\\work\\src", "win32", folds_case=True)
    assert spelled(work, "\\\\SRV\\share\\Work\\src\\A.py") == spelled(work, ".\\a.py") == "src/a.py"
    assert refused(work, "C:\\srv\\share\\work\\x") == OUTSIDE


def test_a_windows_pattern() -> None:
    assert (kind(windows(), "Src\\**\\*.PY"), spelled(windows(), "Src\\**\\*.PY")) == ("pattern", "src/**/*.py")


def test_case_is_folded_where_the_file_system_folds_it(top: Path) -> None:
    mac = Workspace(str(top), str(top), "darwin", folds_case=True)
    linux = Workspace(str(top), str(top), "linux", folds_case=False)
    for one, two in (("Foo.py", "foo.py"), ("ÉTÉ", "été"), ("Straße", "STRASSE"), ("Σ", "ς")):
        assert spelled(mac, one) == spelled(mac, two) and meet(mac, one, two)
        assert spelled(linux, one) == one and not meet(linux, one, two)


@posix_only
def test_absolute_paths_are_compared_without_case_where_it_is_folded(top: Path) -> None:
    typed = str(top).replace("repo", "REPO") + "/new.py"
    assert spelled(Workspace(str(top), str(top), "darwin", folds_case=True), typed) == "new.py"
    assert refused(Workspace(str(top), str(top), "linux", folds_case=False), typed) == OUTSIDE


def test_classes_of_a_pattern_are_folded_or_widened_but_never_narrowed(top: Path) -> None:
    mac = Workspace(str(top), str(top), "darwin", folds_case=True)
    assert spelled(mac, "X[A-C0-9]") == "x[a-c0-9]" and spelled(mac, "x[!A-C]") == "x[!a-c]"
    assert spelled(mac, "X[\u00e9/B]*") == "x[\u00e9/b]*"  # no class: it is not closed in its part
    assert meet(mac, "x[A-C]", "XB") and not meet(mac, "x[!A-C]", "XB")
    for pattern, name in (("x[A-z]", "x_"), ("x[ -_]", "xa"), ("x[Z-a]", "xz"), ("x[ß]", "xß"), ("x[É-Ý]", "xé")):
        assert meet(mac, pattern, name), pattern


def test_a_record_of_another_system_is_compared_in_the_case_of_this_one(top: Path) -> None:
    mac = Workspace(str(top), str(top), "darwin", folds_case=True)
    assert overlaps(("file", mac.fold("file", "Src/Main.py")), ("file", spelled(mac, "src/main.py")))
    assert mac.fold("pattern", "Src/[A-z].py") == "src/*.py"
    assert Workspace(str(top), str(top), "linux", folds_case=False).fold("file", "Src") == "Src"


def test_case_is_asked_of_the_file_system_and_nothing_is_written(top: Path) -> None:
    work = find(str(top), None, str(top), "/c")
    before = sorted(os.listdir(top))
    assert work.folds_case is os.path.exists(top / "SRC")
    assert sorted(os.listdir(top)) == before


@posix_only
@pytest.mark.skipif(sys.platform == "darwin", reason="the two names are one there")
@pytest.mark.parametrize("names", [["name"], ["name", "NAME"]])
def test_case_is_told_apart_where_the_names_are_two(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    assert Workspace(str(tmp_path), str(tmp_path), "darwin").folds_case is False


@posix_only
@pytest.mark.skipif(sys.platform == "darwin", reason="the two names are one there")
def test_case_is_folded_when_the_other_name_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("")
    os.link(tmp_path / "name", tmp_path / "NAME")  # what a folding file system looks like from here
    assert Workspace(str(tmp_path), str(tmp_path), "linux").folds_case is True


def test_case_is_asked_once(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("")
    work = Workspace(str(tmp_path), str(tmp_path))
    first = work.folds_case
    os.remove(tmp_path / "name")
    assert work.folds_case is first


@pytest.mark.parametrize("platform, folds", [("linux", False), ("darwin", True), ("win32", True)])
def test_an_empty_or_unreadable_workspace_is_taken_as_its_system_usually_is(platform: str, folds: bool) -> None:
    root = "C:\\no\\such" if platform == "win32" else "/no/such"
    assert Workspace(root, root, platform).folds_case is folds


# ---- patterns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "typed", ["src/**", "*.py", "a?c", "src/[ab].py", "**/x", "src/*/", "./*.py", "a[!b]", "[]]", "a**b"]
)
def test_wildcards_make_a_pattern(work: Workspace, typed: str) -> None:
    assert kind(work, typed) == "pattern"


@pytest.mark.parametrize("typed", ["a[b", "a]b", "[", "[]", "[!]", "a[b/c]d", "x/[!"])
def test_a_bracket_that_nothing_closes_is_a_name(work: Workspace, typed: str) -> None:
    assert (kind(work, typed), spelled(work, typed)) == ("file", typed)


def test_a_name_that_exists_literally_is_that_name(top: Path, work: Workspace) -> None:
    assert (kind(work, "app/[id]/page.tsx"), spelled(work, "app/[id]/page.tsx")) == ("file", "app/[id]/page.tsx")
    assert kind(work, "app/[id]") == "directory"
    assert kind(inside(top, "app/[id]"), "./page.tsx") == "file"
    assert not meet(work, "app/[id]/page.tsx", "app/i/page.tsx")


def test_a_new_file_in_a_folder_with_brackets_is_that_file(work: Workspace) -> None:
    assert kind(work, "app/[id]/new.tsx") == "file"
    assert kind(work, "app/[id]/*.tsx") == "pattern"


def test_brackets_locked_before_the_file_was_made_still_hold_afterwards(top: Path, work: Workspace) -> None:
    before = work.entry("new/[slug]/page.tsx")
    assert before.kind == "pattern"
    (top / "new" / "[slug]").mkdir(parents=True)
    (top / "new" / "[slug]" / "page.tsx").write_text("")
    after = work.entry("new/[slug]/page.tsx")
    assert (after.kind, after.normalized_path) == ("file", before.normalized_path)
    assert overlaps(("pattern", before.normalized_path), ("file", after.normalized_path))


def test_a_star_that_exists_literally_is_a_name(top: Path, work: Workspace) -> None:
    if sys.platform == "win32":
        pytest.skip("no such names on Windows")
    (top / "src" / "a*").write_text("")
    assert kind(work, "src/a*") == "file" and not meet(work, "src/a*", "src/ab")


def test_hostile_patterns_are_refused(work: Workspace) -> None:
    assert refused(work, "*" * 65) == refused(work, "*/" * 65) == refused(work, "a" * 1024 + "*") == INVALID
    assert kind(work, "*/" * 63 + "*") == kind(work, "a" * 1023 + "*") == "pattern"


# ---- overlap ---------------------------------------------------------------------------------------

MEET = [
    ("src/main.py", "src/main.py"),
    ("src", "src/main.py"),
    ("docs/", "docs/deep/page.md"),
    ("docs/", "docs"),
    (".", "src/main.py"),
    (".", "."),
    (".", "*.py"),
    ("y", "y/z"),
    # a pattern and a path
    ("src/**", "src/a/b.py"),
    ("src/**", "src/a"),
    ("src/**", "src"),
    ("*.py", "x.py"),
    ("*.py", "x.py/below"),
    ("src/*.py", "src"),
    ("src/*.py", "src/a.py"),
    ("**", "anything/at/all"),
    ("**/x.py", "x.py"),
    ("x[!a]y", "x[!a-c]y"),
    ("**/x.py", "a/b/x.py"),
    ("a/**/b", "a/b"),
    ("a/**/b", "a/x/y/b"),
    ("a?c", "abc"),
    ("[a-c]x", "bx"),
    ("[!a-c]x", "dx"),
    ("[]a]x", "]x"),
    ("[!]a]x", "bx"),
    ("[a-]x", "-x"),
    ("[-a]x", "-x"),
    ("[*]x", "*x"),
    ("a**b", "axxb"),
    ("a*", "a"),
    # two patterns
    ("*.py", "a*"),
    ("src/*.py", "src/test_*"),
    ("**/*.py", "src/*"),
    ("**/a/**", "b/**/c"),
    ("a*c", "*b*"),
    ("?", "[!a]"),
    ("[a-m]", "[m-z]"),
    ("[!a]", "[!b]"),
    ("x/[ab]", "x/[ab]"),
    ("[z-a]", "[z-a]"),  # an empty class: still its own name
    ("*/b", "a/*/c"),
]
APART = [
    ("src/main.py", "src/main.py2"),
    ("src/main.py", "src/main"),
    ("src", "src2/x"),
    ("docs/", "doc"),
    ("src/**", "docs/a.md"),
    ("src/**", "src2"),
    ("*.py", "src/x.py"),
    ("*.py", "x.pyc"),
    ("src/*.py", "docs/a.md"),
    ("src/*.py", "src/sub/a.py"),
    ("a?c", "ac"),
    ("a?c", "a/c"),
    ("a*c", "a/c"),
    ("a**c", "a/b/c"),
    ("[a-c]x", "dx"),
    ("[!a-c]x", "bx"),
    ("[!a]x", "x"),
    ("[^a]x", "bx"),  # only `!` negates
    ("*.py", "*.md"),
    ("a*", "b*"),
    ("src/a*", "src/b*/c"),
    ("[a-l]", "[m-z]"),
    ("[a-c]", "[!a-d]"),
    ("?", "??"),
    ("[!a-bc-d]x", "[a-d]x"),
    ("[!a-db]x", "cx"),
    ("[m-b]x", "[a-z]x"),
    ("ab*ab", "ab"),
]


@pytest.mark.parametrize("one, two", MEET)
def test_these_meet(work: Workspace, one: str, two: str) -> None:
    assert meet(work, one, two)


@pytest.mark.parametrize("one, two", APART)
def test_these_stay_apart(work: Workspace, one: str, two: str) -> None:
    assert not meet(work, one, two)


def test_what_lies_below_counts_for_two_patterns(work: Workspace) -> None:
    assert meet(work, "*/b", "a") and meet(work, "a/*", "*/b/c/d")
    assert not meet(work, "a/*/c", "a/b/d")


def test_a_file_that_is_there_has_nothing_below_it(work: Workspace) -> None:
    """Else `**/*.md` would meet every file. What is not there yet may become a folder."""
    for pattern in ("**/*.md", "*/*/*", "src/main.py/*"):
        for one, two in ((pattern, "src/main.py"), ("src/main.py", pattern)):
            held = work.entry(one)
            assert not work.meet(held.kind, held.normalized_path, work.entry(two))
    for there in ("new.py", "src", "src/new.py"):
        held = work.entry(there)
        assert work.meet(held.kind, held.normalized_path, work.entry("**/*.md"))
    assert work.meet("pattern", "*/*.py", work.entry("src/main.py"))
    assert work.meet("file", "src/main.py", work.entry("src/*")) and work.meet("file", "src/main.py", work.entry("s*"))


def test_a_file_of_a_record_is_a_name_whatever_it_looks_like() -> None:
    assert not overlaps(("file", "src/*.py"), ("file", "src/a.py"))  # the older program took patterns as names
    assert not overlaps(("file", "a/**"), ("pattern", "a/b?"))
    assert overlaps(("file", "a/**"), ("pattern", "a/*"))


def test_a_record_too_large_to_compare_might_meet_anything() -> None:
    assert overlaps(("pattern", "x" * 5000), ("file", "y"))
    assert overlaps(("file", "x" * 5000), ("pattern", "y*")) and overlaps(("pattern", "y*"), ("file", "x" * 5000))
    assert overlaps(("pattern", "y*"), ("pattern", "*" * 65)) and overlaps(("pattern", "*" * 65), ("pattern", "y*"))
    assert not overlaps(("file", "x" * 5000), ("file", "y"))


@pytest.mark.parametrize(
    "one, two",
    [
        ("/".join(["**", "?a"] * 30), "/".join(["**", "b?"] * 30)),
        ("a*" * 60 + "b", "a*" * 60 + "c"),
        ("**/" + "/".join("?" + chr(97 + i % 26) for i in range(300)), "**/" + "/".join("?x" for _ in range(300))),
        ("*a" * 60, "".join(f"[!{chr(97 + i % 26)}]" for i in range(200))),
    ],
)
def test_hostile_patterns_are_compared_in_bounded_time(one: str, two: str) -> None:
    begin = time.process_time()
    overlaps(("pattern", one), ("pattern", two))
    overlaps(("pattern", two), ("pattern", one))
    assert time.process_time() - begin < 5  # an exponential walk would take years


# ---- hints of tasks --------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["linux", "win32"])
@pytest.mark.parametrize("hint", ["../x", "/etc/x", "C:/x", "C:x", "a/../b", "..", "\\x", "a\\..\\b", "\\\\srv\\x"])
def test_a_hint_that_leaves_the_workspace_is_refused(top: Path, platform: str, hint: str) -> None:
    root = "C:\\work" if platform == "win32" else str(top)
    with pytest.raises(AgentChatError) as caught:
        Workspace(root, root, platform, folds_case=False).check_hint(hint, "TASK_PATH_OUTSIDE_WORKSPACE")
    assert caught.value.code == "TASK_PATH_OUTSIDE_WORKSPACE" and repr(hint) in caught.value.message


@pytest.mark.parametrize("hint", ["./src//a.py", "src/**", "a..b", "", "x.", "con", "ünï", "ab:c", "a\0b", "\ud800"])
def test_other_hints_pass_whatever_their_spelling(work: Workspace, hint: str) -> None:
    work.check_hint(hint, "TASK_PATH_OUTSIDE_WORKSPACE")


@posix_only
def test_a_hint_through_a_link_is_refused_only_when_the_link_leaves(top: Path, tmp_path: Path, work: Workspace) -> None:
    os.symlink(tmp_path, top / "out")
    os.symlink("src", top / "link")
    work.check_hint("link/a.py", "TASK_PATH_OUTSIDE_WORKSPACE")
    with pytest.raises(AgentChatError):
        work.check_hint("out/a.py", "TASK_PATH_OUTSIDE_WORKSPACE")


# ---- start-up --------------------------------------------------------------------------------------


def test_a_lock_loads_nothing_slow(top: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); import agent_chat.workspace as w; "
        "e = w.find(None, None, sys.argv[2], sys.argv[2]).entry('A/*.py'); w.overlaps((e.kind, e.normalized_path), "
        "('file', 'a')); print(*set(sys.modules) - before)"
    )
    root = str(Path(__file__).resolve().parents[2])
    child = subprocess.run(
        [sys.executable, "-I", "-c", code, root, str(top)], capture_output=True, encoding="utf-8", check=True
    )
    loaded = {name for name in child.stdout.split() if name.partition(".")[0] != "agent_chat"}
    assert loaded <= {"__future__", "gc"}
