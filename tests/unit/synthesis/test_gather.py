"""The findings of a root are gathered without work that its build has done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.storage.store import Store
from srrag.synthesis import gather
from tests.findings_root import PREVENTS, with_findings


def test_names_that_the_build_encoded_are_not_encoded_again(
    sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    encode = load(Encoder()).encode

    def counted(names: Sequence[str]) -> np.ndarray:
        asked.extend(names)
        return np.asarray(encode(names))

    monkeypatch.setattr(gather, "load", lambda encoder: SimpleNamespace(encode=counted))
    root = with_findings(sample_root, tmp_path / "root")
    made = gather.StudyFindings(Store(root), "default").synthesise(PREVENTS)
    assert made.comparisons
    assert "running exercise" in asked, "no entity has this name"
    assert not {"exercise", "recurrence"} & {*asked}
