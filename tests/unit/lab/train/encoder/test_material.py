from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from srrag.lab.train.encoder.task import make_material, mine, read_material

ANGLES = np.deg2rad([0, 20, 21, 40, 60, 80, 180])
PASSAGES = np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1).astype(np.float32)
QUERY = PASSAGES[:1]


def test_negatives_are_the_nearest_that_are_no_gold_and_not_as_near_as_gold() -> None:
    """The best gold at 20° has cosine .940, 95 % of it is .893: 0° and 21° may be gold too."""
    assert mine(QUERY, PASSAGES, [[0, 1]])[0] == [2, 3, 4, 5, 6]
    assert mine(QUERY, PASSAGES, [[1, 4]])[0] == [3, 5, 6]


def test_only_what_is_learned_from_is_kept(tmp_path: Path) -> None:
    texts = [f"passage {n}" for n in range(7)]
    found = make_material(["a question"], texts, [{4: 2, 1: 1}], (QUERY, PASSAGES))
    assert found.passages == [texts[n] for n in (1, 3, 4, 5, 6)]
    assert (found.best, found.gold, found.mined) == ([[2]], [[0, 2]], [[1, 3, 4]])
    found.write(tmp_path / "material.json")
    assert read_material(tmp_path / "material.json", found.fingerprint) == found
    with pytest.raises(ValueError, match=r"material\.json has changed since the run began"):
        read_material(tmp_path / "material.json", "another")
