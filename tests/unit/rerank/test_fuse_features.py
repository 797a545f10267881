from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.algo.classification import FOLDS, question_fold
from srrag.core.pipeline import Pipeline
from srrag.core.provenance import fitted_on
from srrag.core.schema import ROUNDS
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.index.tokens import TokenIndex
from srrag.model.encoder import Encoder
from srrag.rerank.betr import scorer
from srrag.rerank.fuse_features import FuseFeatures
from srrag.rerank.reranker import study_numbers
from srrag.retrieve.questions import EncodeQuestions, WeighTokens, question_table
from srrag.retrieve.search import SearchDense, SearchSparse
from srrag.storage.store import Store

GRADES = "ABCDE"
CHANNELS = (EncodeQuestions(), WeighTokens(), SearchSparse(k=40), SearchDense(k=40))
TEXTS = ["How long is a cast worn after an ankle sprain?", "tendon loading in runners", "zzz"]
HITS = ("hits_sparse", "hits_dense")


@pytest.fixture(scope="module")
def at(sample_root: Path) -> Place:
    return Place(artifacts=Store(sample_root).artifacts("default"), threads=1)


@pytest.fixture(scope="module")
def found(at: Place) -> pa.Table:
    """Three questions with what two channels found."""
    table = question_table([{"query_id": text, "text": text} for text in TEXTS])
    for step in CHANNELS:
        table = step.open(at)(table)
    return table


def weights_file(path: Path, u: float = 0.0, **weights: float) -> str:
    """A file of weights; `u` is the bias of every grade below A."""
    fit = {
        "features": {name: {"value": value} for name, value in weights.items()},
        "u": {grade: {"value": 0.0 if grade == "A" else u} for grade in GRADES},
    }
    told = {
        "embedder": {"model": "minilm", "late": False},
        "fits": {"+".join(sorted(weights)): fit},
    }
    path.write_text(json.dumps(told))
    return str(path)


def step(model: str, **fields: Any) -> FuseFeatures:
    return FuseFeatures(**{"hits": HITS, "model": model, **fields})


def rows(step: FuseFeatures, table: pa.Table, at: Place) -> list[dict[str, float]]:
    out = step.open(at)(table)["hits"].to_pylist()
    assert all([hit["rank"] for hit in row] == list(range(1, len(row) + 1)) for row in out)
    assert all(
        sorted(-hit["score"] for hit in row) == [-hit["score"] for hit in row] for row in out
    )
    return [{hit["unit_id"]: hit["score"] for hit in row} for row in out]


def listed(table: pa.Table, column: str) -> list[dict[str, float]]:
    return [{hit["unit_id"]: hit["score"] for hit in row} for row in table[column].to_pylist()]


def test_every_window_that_any_channel_found_is_ranked(
    found: pa.Table, at: Place, tmp_path: Path
) -> None:
    """By hand: 2 · BM25 (0 where it did not find the window) + 3 · the cosine of every window."""
    model = weights_file(tmp_path / "w.json", sparse=2, dense=3)
    ranked = rows(step(model, computed=("dense",), document=0.0), found, at)
    index = TokenIndex(at.artifact("tokens"))
    for n, row in enumerate(ranked):
        lexical, dense = listed(found, "hits_sparse")[n], listed(found, "hits_dense")[n]
        assert set(row) == set(lexical) | set(dense)
        vector = np.frombuffer(found["query_vector"][n].as_py(), np.float32)
        ids = list(row)
        cosines = dict(zip(ids, index.take_vectors(ids) @ vector, strict=True))
        wanted = {unit: 2 * lexical.get(unit, 0.0) + 3 * float(cosines[unit]) for unit in ids}
        assert row == pytest.approx(wanted, abs=1e-4)


def test_the_best_window_of_a_document_lifts_the_others(
    found: pa.Table, at: Place, tmp_path: Path
) -> None:
    model = weights_file(tmp_path / "w.json", dense=1)
    fields = {"scores": {}, "computed": ("dense",)}
    units = Units(at.artifact("units"))
    alone = rows(step(model, **fields, document=0.0), found, at)
    lifted = rows(step(model, **fields, document=2.0), found, at)
    for before, after in zip(alone, lifted, strict=True):
        ids = list(before)
        document = dict(zip(ids, study_numbers(units, pa.array(ids)).tolist(), strict=True))
        best: dict[int, float] = {}
        for unit, score in before.items():
            best.setdefault(document[unit], score)
        wanted = {unit: score + 2 * best[document[unit]] for unit, score in before.items()}
        assert after == pytest.approx(wanted, abs=1e-4)


def test_grades_count_where_they_are_asked_for(found: pa.Table, at: Place, tmp_path: Path) -> None:
    model = weights_file(tmp_path / "w.json", u=-50.0, dense=1)
    fields = {"scores": {}, "computed": ("dense",), "document": 0.0}
    units = Units(at.artifact("units"))
    (first, *_) = rows(step(model, **fields, grades=True), found, at)
    grades = units.take(list(first), ("grade",))["grade"].to_pylist()
    assert "A" in grades and set(grades) != {"A"}
    assert grades.index("A") == 0 and "A" not in grades[grades.count("A") :]
    assert rows(step(model, **fields), found, at)[0] != first


def test_evidence_of_a_later_round_may_rise(found: pa.Table, at: Place, tmp_path: Path) -> None:
    """A window has its best cosine and MaxSim over the questions that were searched for."""
    model = weights_file(tmp_path / "w.json", dense=1, maxsim=1)
    note = {"round": 1, "new_windows": 1, "reflection": "", "sufficient": False, "fault": ""}
    asked = [[TEXTS[0], TEXTS[1]], [TEXTS[1]], [TEXTS[2], "knee pain", TEXTS[1]]]
    notes = pa.array([[{**note, "question": text} for text in row] for row in asked], ROUNDS)
    plain = step(model, scores={}, document=0.0)
    later = step(model, scores={}, document=0.0, rounds="rounds")
    before = rows(plain, found, at)
    after = rows(later, found.append_column("rounds", notes), at)
    # The second question alone, over the candidates of the first.
    swapped = {name: found[name].take(pa.array([1])) for name in found.column_names}
    swapped |= {name: found[name].take(pa.array([0])) for name in HITS}
    (other,) = rows(plain, pa.table(swapped), at)
    assert after[1] == before[1]
    assert all(after[0][unit] >= before[0][unit] - 1e-4 for unit in before[0])
    assert all(after[0][unit] >= other[unit] - 1e-4 for unit in other)
    assert after[2] != before[2]
    # With an encoder that puts words before a question, each of its tokens has a weight too.
    prefixed = replace(later.encoder, query_prefix="query: ")
    (encoded,) = replace(later, encoder=prefixed)._later(at)(
        found.append_column("rounds", notes).slice(0, 1)
    )
    weights = encoded.weights[0]
    assert weights is not None and len(weights) == len(encoded.tokens[0].values)


def test_finds_of_a_channel_count_once(at: Place, found: pa.Table, tmp_path: Path) -> None:
    """The best score of a window over tracks and rounds; other channels do not count."""
    ids = [hit["unit_id"] for hit in found["hits_dense"].to_pylist()[0][:2]]
    finds = [[("sparse", ids[0], 2.0), ("dense", ids[0], 9.0), ("sparse", ids[0], 5.0)], []]
    item = pa.struct([("unit_id", pa.string()), ("channel", pa.string()), ("score", pa.float32())])
    column = pa.array(
        [[{"unit_id": u, "channel": c, "score": s} for c, u, s in row] for row in finds],
        pa.list_(item),
    )
    table = found.slice(0, 2).append_column("found", column)
    model = weights_file(tmp_path / "w.json", sparse=1)
    fused = step(model, scores={"sparse": "found.sparse"}, computed=(), document=0.0)
    first, second = rows(fused, table, at)
    assert first[ids[0]] == 5.0 and sum(first.values()) == 5.0
    assert set(second.values()) == {0.0}


def test_a_question_is_ranked_by_weights_that_did_not_see_it(
    found: pa.Table, at: Place, tmp_path: Path
) -> None:
    """Each fold has a weight of its own: scores are cosines times it."""
    model = tmp_path / "w.json"
    told = json.loads(Path(weights_file(model, dense=1)).read_text())
    u = dict.fromkeys(GRADES, 0.0)
    folds = [{"features": {"dense": fold + 2.0}, "u": u} for fold in range(FOLDS)]
    model.write_text(json.dumps(told))
    fields = {"scores": {}, "computed": ("dense",), "document": 0.0}
    with pytest.raises(ValueError, match=r"w\.json: it holds no weights of folds"):
        step(str(model), **fields, cross_fitted=True).open(at)
    told["fits"]["dense"]["folds"] = folds
    told["fitted_on"] = fitted_on(name="features", command="c", questions=TEXTS)
    model.write_text(json.dumps(told))
    plain, crossed = step(str(model), **fields), step(str(model), **fields, cross_fitted=True)
    before, after = rows(plain, found, at), rows(crossed, found, at)
    assert len({question_fold(text) for text in TEXTS}) > 1
    for text, one, other in zip(TEXTS, before, after, strict=True):
        weight = question_fold(text) + 2
        assert other == pytest.approx({unit: weight * x for unit, x in one.items()}, abs=1e-4)
    (seen,) = plain.fitted()
    assert seen.questions and crossed.fitted() == ()
    assert plain.identity() != crossed.identity() and scorer(plain) == scorer(crossed)
    told["fits"]["dense"]["folds"] = folds[:2]
    model.write_text(json.dumps(told))
    with pytest.raises(ValueError, match="weights for 2 folds of 5"):
        crossed.weights()


def test_a_file_that_does_not_fit_is_refused_in_one_line(tmp_path: Path, at: Place) -> None:
    model = weights_file(tmp_path / "w.json", dense=1)
    one = {"scores": {}, "computed": ("dense",)}
    for fields, message in (
        ({"encoder": Encoder(model="other")}, "fitted to the scores of minilm, not of other"),
        ({"computed": ("dense", "maxsim")}, "no fit to the features dense.maxsim, only to dense"),
        ({"model": str(tmp_path / "none.json")}, "there is no such file"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            FuseFeatures(**{"hits": HITS, "model": model, **one, **fields}).open(at)
        assert "\n" not in str(caught.value)
    same = step(model, **one, encoder=Encoder(backend="torch-int8"))
    assert same.weights() == step(model, **one).weights(), "arithmetic makes no other embedder"
    (tmp_path / "bad.json").write_text('{"fits": {}}')
    with pytest.raises(ValueError, match=r"bad\.json: not what"):
        step(str(tmp_path / "bad.json"), **one).weights()
    for value in (-1.0, 0.0):
        with pytest.raises(ValueError, match="at least 0, one of them above it"):
            step(weights_file(tmp_path / "w2.json", dense=value), **one).weights()
    with pytest.raises(ValueError, match="fall from u_A"):
        step(weights_file(tmp_path / "w3.json", u=1.0, dense=1), **one).weights()


def test_fields_that_make_no_ranking() -> None:
    for fields, message in (
        ({"computed": ("cosine",)}, "'cosine' is not one of dense, maxsim"),
        ({"hits": ()}, "at least one of each"),
        ({"scores": {}, "computed": ()}, "at least one of each"),
        ({"document": -1.0}, "document is -1"),
    ):
        with pytest.raises(ValueError, match=message):
            FuseFeatures(**fields)


def test_the_packaged_weights_rank(found: pa.Table, at: Place) -> None:
    """Their content is part of the identity."""
    pipeline = Pipeline(rank=(*CHANNELS, step("")))
    assert "dense" in str(pipeline.identity())
    assert all(len(row) > 40 for row in rows(step(""), found, at)[:2])
