from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from srrag.storage import trash


def full(folder: Path, text: str = "x") -> Path:
    (folder / "inner").mkdir(parents=True)
    for name in ("a", "b", "inner/c"):
        (folder / name).write_text(text)
    return folder


def test_a_folder_loses_its_name_before_anything_in_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = full(tmp_path / "stages" / "s" / "f")

    def killed(*args: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            trash.discard(folder)
    assert not folder.exists()
    (left,) = trash.trash_below(tmp_path)
    assert sorted(path.name for path in left.rglob("*") if path.is_file()) == ["a", "b", "c"]
    assert trash.finish(tmp_path) == 1
    assert [*folder.parent.iterdir()] == []
    trash.discard(folder)


def test_a_folder_takes_anothers_place(tmp_path: Path) -> None:
    old, new = full(tmp_path / "old", "old"), full(tmp_path / "new", "new")
    trash.swap(new, old)
    assert (old / "inner" / "c").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    trash.swap(old, tmp_path / "free")
    assert [path.name for path in tmp_path.iterdir()] == ["free"]
