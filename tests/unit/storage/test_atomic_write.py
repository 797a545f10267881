from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from srrag.config.compose import configure
from srrag.engine.log.completion_log import CompletionLog
from srrag.storage.atomic_write import commit, keep_private, naming_a_full_disk, read_json
from srrag.storage.store import Store
from tests.conftest import run_build
from tests.toys import number_parts


def test_a_failed_commit_leaves_nothing(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        commit(tmp_path / "x", write)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: flushed.append(str(Path(f"/proc/self/fd/{file}").readlink()))
    )
    replace = Path.replace

    def named(temporary: Path, to: Path) -> Path:
        assert flushed == [str(temporary)]
        return replace(temporary, to)

    monkeypatch.setattr(Path, "replace", named)
    commit(tmp_path / "x", lambda path: print(path.write_text("x")))
    assert (tmp_path / "x").read_text() == "x"


def test_broken_json_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ValueError, match=r"x\.json"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError("4608 requested and 2016 written"),
        OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"),
    ],
)
def test_a_full_disk_is_told_with_the_file_that_did_not_fit(error: OSError, tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises(OSError, match=r"no space left on the disk at /") as caught:
        commit(tmp_path / "x", write)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "x"))
    with pytest.raises(OSError, match="no space") as caught, naming_a_full_disk(tmp_path):
        (tmp_path / "index.npy").write_text("half")
        raise error
    assert caught.value.filename == str(tmp_path / "index.npy")


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_holds_questions_and_answers_is_for_its_owner_alone(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o755)
    keep_private(open_to_all)
    assert _mode(open_to_all) == 0o700
    root, papers = tmp_path / "root", tmp_path / "papers"
    papers.mkdir()
    (papers / "one.md").write_text("# Bracing\n\nBracing reduced knee pain in adults.\n", "utf-8")
    corpus = ("corpus=folder", f"corpus.path={papers}", "stages.vectors=null")
    run_build(configure("build", [f"root={root}", *corpus]))
    store = Store(root)
    number_parts(store, [2])
    read = store.read_part("numbers", "f0", "p0")
    for stage in ("questions", "answers-CheckAnswer-1"):
        store.write_part(stage, "f0", "p0", read)
    with CompletionLog(root / "completions").locked():
        private = ("jobs", "completions", "stages/questions", "stages/answers-CheckAnswer-1")
        assert {name: _mode(root / name) for name in private} == dict.fromkeys(private, 0o700)
        files = [each for name in private for each in (root / name).rglob("*.*") if each.is_file()]
        told = [file for file in files if file.parent.name != "completions"]  # a lock tells nothing
        assert len(told) == 4 and {_mode(file) for file in told} == {0o600}
    assert _mode(root / "stages" / "numbers") == _mode(root / "stages"), "papers are no secret"


def test_what_is_committed_into_a_private_folder_is_private(tmp_path: Path) -> None:
    for name, open_to, reads in (("open", 0o755, 0o644), ("shut", 0o700, 0o600)):
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(open_to)
        file = folder / "below" / "it" / "part.json"
        before = os.umask(0o022)
        try:
            commit(file, lambda path: path.touch())
        finally:
            os.umask(before)
        assert (_mode(file), _mode(file.parent), _mode(file.parent.parent)) == (
            reads,
            open_to,
            open_to,
        )
    keep_private(tmp_path / "open")
    assert _mode(tmp_path / "open" / "below") == 0o700
    assert _mode(tmp_path / "open" / "below" / "it" / "part.json") == 0o600
