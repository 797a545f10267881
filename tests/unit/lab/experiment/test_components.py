from __future__ import annotations

import json
from pathlib import Path

import pytest

from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.core.provenance import KEY, fitted_on, read_fitted
from srrag.lab.experiment.components import check_unseen, evaluate_extraction
from srrag.lab.experiment.running import Terms

TEXT = "Aspirin for pain in adults"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    spans = [{"label": "I", "tok": [0, 1]}]
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps({"text": TEXT, "spans": spans}) + "\n", "utf-8")
    return path


def terms(path: Path) -> Terms:
    return Terms.of(configure("evaluate", ["bench=ebmnlp", f"bench.path={path}", "resamples=10"]))


def test_a_bad_line_is_called_what_it_should_be(path: Path) -> None:
    path.write_text(path.read_text("utf-8") + "[]\n", "utf-8")
    with pytest.raises(UsageError, match=r"gold\.jsonl:2: not an abstract of EBM-NLP"):
        evaluate_extraction(terms(path))


def test_what_was_learned_from_is_refused_unless_told(path: Path) -> None:
    fitted = read_fitted({KEY: fitted_on(name="tagger", command="c", documents=[TEXT])}, "tagger")
    with pytest.raises(UsageError, match="tagger was fitted on 1 of 1 texts; in_sample=allow"):
        check_unseen(path, fitted)


def test_figures_and_the_model(path: Path) -> None:
    found = evaluate_extraction(terms(path))
    assert found["documents"] == found["metrics"]["token_macro_F1"]["n"] == 1
    assert found["model"]
