from __future__ import annotations

from pathlib import Path

import pytest

from srrag.storage.atomic_write import commit, read_json


def test_a_failed_commit_leaves_nothing(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        commit(tmp_path / "x", write)
    assert list(tmp_path.iterdir()) == []


def test_broken_json_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ValueError, match=r"x\.json"):
        read_json(tmp_path / "x.json")
