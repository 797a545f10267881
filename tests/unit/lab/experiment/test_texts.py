from __future__ import annotations

import json
from pathlib import Path

import pytest

from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.core.provenance import KEY, fitted_on, read_fitted
from srrag.lab.experiment.terms import Terms
from srrag.lab.experiment.texts import (
    check_unseen,
    evaluate_extraction,
    link_scores,
    linking_figures,
)
from srrag.reading.vocabulary import Vocabulary
from tests.unit.reading.vocabularies import vocabulary_folder

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


RESAMPLING = {"resamples": 50, "seed": 0}


def test_precision_recall_and_f1_are_of_all_pairs_and_silly_links_pay(tmp_path: Path) -> None:
    matcher = Vocabulary(folder=str(vocabulary_folder(tmp_path))).open()
    names = sorted({term.name for term in matcher.names.values() if term.mesh})
    right, wrong = names[0], names[1]
    documents = [
        {"title": f"{right} in adults", "sections": [], "mesh": [right, "Humans"]},
        {"title": "Nothing of the kind", "sections": [], "mesh": [wrong]},
    ]
    found = link_scores(documents, matcher, **RESAMPLING)
    assert found["precision"]["value"] == 1.0 and found["precision"]["n"] == 1
    assert found["recall"]["value"] == 0.5 and found["F1"]["value"] == pytest.approx(
        2 / 3, abs=1e-4
    )
    everything = [{**each, "title": ". ".join(names)} for each in documents]
    dumped = link_scores(everything, matcher, **RESAMPLING)
    assert dumped["recall"]["value"] == 1.0 and dumped["precision"]["value"] < 1.0


def test_a_group_without_a_term_has_no_figure(tmp_path: Path) -> None:
    matcher = Vocabulary(folder=str(vocabulary_folder(tmp_path))).open()
    nothing = [{"title": "Nothing of the kind", "sections": [], "mesh": []}]
    figures = linking_figures(nothing, {"names": matcher}, **RESAMPLING)
    assert figures["all_names_F1"]["value"] is None and figures["all_names_F1"]["reason"]
