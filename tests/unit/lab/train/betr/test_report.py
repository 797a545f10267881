from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.ids import file_sha256
from srrag.lab.experiment.fit_betr import table_1, write_report
from srrag.lab.train.betr.fit import BetrSettings, Certainty, Fit, certainty, fit
from srrag.storage.atomic_write import read_json
from tests.simulated_pairs import TABLE_1, simulate_pairs


@pytest.fixture(scope="module")
def learned() -> tuple[Fit, Certainty]:
    pairs = simulate_pairs(TABLE_1, num_queries=100)
    keep = np.arange(100) < 80
    found = fit(pairs.select(keep), pairs.select(~keep), BetrSettings(), 80)
    return found, certainty(pairs, BetrSettings(), 100, level=0.9, num_draws=300, seed=0)


def test_the_files_agree(tmp_path: Path, learned: tuple[Fit, Certainty]) -> None:
    found, certain = learned
    split = pa.table({"query_id": ["a"], "part": ["training"]})
    stated = write_report(
        tmp_path, found, certain, BetrSettings(), {"reranker": "R@1"}, split, found.curve
    )
    assert read_json(tmp_path / "betr.json") == stated
    assert stated["parameters"]["u"] == found.u
    assert stated["reranker"] == "R@1"
    assert stated["draws"]["sha256"] == file_sha256(tmp_path / "draws.parquet")
    draws = pq.read_table(tmp_path / "draws.parquet").to_pandas()
    assert list(draws) == ["a", "u_A", "u_B", "u_C", "u_D", "u_E"]
    assert (draws["a"] > 0).all()
    assert (np.diff(draws.to_numpy()[:, 1:], axis=1) <= 0).all()
    assert len(draws) == stated["intervals"]["num_draws"] == 300
    assert read_json(tmp_path / "curve.json") == found.curve


def test_table_1_by_hand() -> None:
    found = Fit([0.0, 0.5, 0.0, 0.25, 0.25], -1.0, 0.0, [], None)
    bounds = np.log([[1, 1], [0.5, 0.75], [0.5, 0.75], [0.25, 0.75], [0.125, 1.0]])
    certain = Certainty(found, None, 0.9, (0.5, 1.5), bounds)  # type: ignore[arg-type]
    rows = [line.split(" | ") for line in table_1(found, certain).splitlines()[2:7]]
    assert rows[0] == ["| A", "0.0000", "1.0000", "1.0000 – 1.0000", "— |"]
    assert rows[1] == ["| B", "-0.5000", "0.6065", "0.5000 – 0.7500", "0.5000 |"]
    assert rows[4] == ["| E", "-1.0000", "0.3679", "0.1250 – 1.0000", "0.2500 |"]
    assert "a = 1.0000, 90 % interval (posterior) 0.5000 – 1.5000" in table_1(found, certain)
