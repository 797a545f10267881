"""A vocabulary's terms against the headings that indexers gave."""

from pathlib import Path

import pytest

from srrag.lab.experiment.texts import link_scores, linking_figures
from srrag.reading.vocabulary import Vocabulary
from tests.unit.reading.vocabularies import vocabulary_folder

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
