from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from srrag.algo.classification import question_fold
from srrag.core.hits import FoundWindows
from srrag.core.schema import HITS
from srrag.core.spec import fingerprint
from srrag.core.step import Function, Place, Step
from srrag.rerank.betr import RerankBETR, scorer, terms_of
from srrag.rerank.fuse_features import FuseFeatures
from srrag.rerank.maxsim import RerankMaxSim
from tests.unit.index.tables import uid

U = {"A": 0.0, "B": -0.5, "C": -0.5, "D": -1.0, "E": -2.0}
WINDOWS = {"w1": "E", "w2": "A", "w3": "C", "w4": ""}
UID = {name: uid(n) for n, name in enumerate(WINDOWS, start=1)}
NAMES = {unit_id: name for name, unit_id in UID.items()}


@dataclass(frozen=True, kw_only=True)
class Score(Step):
    """Hands on the scores of the column `given`, times `by`."""

    by: float = 1.0
    into: str = "hits"

    reads: ClassVar[tuple[str, ...]] = ("given",)

    @property
    def writes(self) -> pa.Schema:  # type: ignore[override]
        return pa.schema([pa.field(self.into, HITS)])

    def open(self, at: Place) -> Function:
        return lambda batch: batch.append_column(self.writes.field(0), batch["given"])


@pytest.fixture
def at(tmp_path: Path) -> Place:
    """A units index of the windows, made by its own build."""
    import pyarrow.parquet as pq

    from srrag.core.schema import DOCUMENTS, UNITS, empty_value
    from srrag.index.units import BuildUnits

    def rows(schema: pa.Schema, given: list[dict[str, Any]]) -> pa.Table:
        blank = {f.name: None if f.nullable else empty_value(f.type) for f in schema}
        return pa.Table.from_pylist([{**blank, **row} for row in given], schema=schema)

    units = [{"unit_id": UID[n], "doc_id": uid(9), "grade": g} for n, g in WINDOWS.items()]
    pq.write_table(rows(UNITS, units), tmp_path / "windows.parquet")
    pq.write_table(rows(DOCUMENTS, [{"doc_id": uid(9)}]), tmp_path / "documents.parquet")
    inputs = {name: [tmp_path / f"{name}.parquet"] for name in ("windows", "documents")}
    BuildUnits().build(inputs, tmp_path, Place())
    return Place(artifacts={"units": tmp_path})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "betr.json"
    stated = {"parameters": {"a": 2.0, "u": U}, "reranker": scorer(Score())}
    path.write_text(json.dumps(stated))
    return path


def asked(*rows: list[tuple[str, float]]) -> pa.Table:
    ranked = [
        (pa.array([UID[n] for n, _ in row], pa.string()), np.array([s for _, s in row]))
        for row in rows
    ]
    return pa.table({"given": FoundWindows.of(ranked).hits()})


def test_the_ranking_by_hand(model: Path, at: Place) -> None:
    """2·s + u: w1 (E) 2 − 2 = 0, w2 (A) 1, w3 (C) 1.6 − .5 = 1.1, w4 (ungraded, E) −2.4."""
    step = RerankBETR(reranker=Score(), model=str(model))
    out = step.open(at)(asked([("w1", 1.0), ("w3", 0.8), ("w2", 0.5), ("w4", -0.2)], [("w2", 0.1)]))
    first, second = out["hits"].to_pylist()
    assert [(NAMES[h["unit_id"]], h["rank"]) for h in first] == [
        ("w3", 1),
        ("w2", 2),
        ("w1", 3),
        ("w4", 4),
    ]
    assert [h["score"] for h in first] == pytest.approx([1.1, 1.0, 0.0, -2.4])
    assert [(NAMES[h["unit_id"]], h["score"]) for h in second] == [("w2", pytest.approx(0.2))]
    before = out["hits_uncalibrated"].to_pylist()[0]
    assert [NAMES[h["unit_id"]] for h in before] == ["w1", "w3", "w2", "w4"]


def test_questions_without_hits(model: Path, at: Place) -> None:
    step = RerankBETR(reranker=Score(), model=str(model))
    assert step.open(at)(asked([], []))["hits"].to_pylist() == [[], []]
    assert step.open(at)(asked())["hits"].to_pylist() == []


def test_scores_of_another_reranker_are_refused(model: Path, at: Place) -> None:
    step = RerankBETR(reranker=Score(by=2.0), model=str(model))
    with pytest.raises(ValueError, match=r"betr.json was fitted to the scores of Score@.*, not of"):
        step.open(at)
    with pytest.raises(ValueError, match="not of Score@"):
        step.identity()
    model.write_text(json.dumps({"parameters": {"a": 2.0, "u": U}, "reranker": None}))
    with pytest.raises(ValueError, match="a reranker that it does not name"):
        RerankBETR(reranker=Score(), model=str(model)).open(at)


def test_the_parameters_are_part_of_the_identity(model: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.json"
    moved.write_text(model.read_text())
    steps = [RerankBETR(reranker=Score(), model=str(path)) for path in (model, moved)]
    here, there = (fingerprint(step.identity()) for step in steps)
    assert here == there
    moved.write_text(model.read_text().replace("-0.5", "-0.6"))
    assert fingerprint(steps[1].identity()) != here


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (None, "there is no such file; `srrag fit_betr pipeline=…` writes it"),
        ("{", "not valid JSON"),
        ("[]", "not the parameters of BETR"),
        ('{"parameters": {"a": 1.0, "u": {"A": 0}}, "reranker": "R"}', "not the parameters"),
        (json.dumps({"parameters": {"a": -1.0, "u": U}, "reranker": "R"}), "a > 0"),
        (json.dumps({"parameters": {"a": 1.0, "u": {**U, "B": 0.5}}, "reranker": "R"}), "u_A"),
        (json.dumps({"parameters": {"a": 1.0, "u": {**U, "E": "-inf"}}, "reranker": "R"}), "u_A"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, stated: str | None, message: str) -> None:
    path = tmp_path / "wrong.json"
    if stated is not None:
        path.write_text(stated)
    with pytest.raises(ValueError, match=message) as caught:
        RerankBETR(reranker=Score(), model=str(path)).open(Place())
    assert str(path) in str(caught.value)


def test_what_may_stand_inside() -> None:
    inner = RerankBETR(reranker=Score(), model="x")
    with pytest.raises(ValueError, match="not itself"):
        RerankBETR(reranker=inner, model="x")
    with pytest.raises(ValueError, match="has to write the column 'hits'"):
        RerankBETR(reranker=Score(into="other"), model="x")


def test_the_terms_of_a_pipeline_are_those_that_it_ranks_by(model: Path) -> None:
    step = RerankBETR(reranker=Score(), model=str(model))
    known = step.calibration()
    assert terms_of(step) == {"a": known.a, "u": U}
    assert terms_of(Score()) is None


def test_a_root_without_parameters_takes_those_fitted_with_the_weights(tmp_path: Path) -> None:
    fused = FuseFeatures(hits=("hits_whole",), scores={"sparse": "found.sparse"})
    step = RerankBETR(reranker=fused, own=str(tmp_path / "betr.json"))
    found = step.calibration()
    assert found.a == 1 and found.u.tolist() == list(fused.weights().u)
    assert step.fitted() == (fused.weights().fitted,) and len(found.fitted.questions) > 1000
    with pytest.raises(ValueError, match=r"mistyped\.json: there is no such file"):
        replace(step, model=str(tmp_path / "mistyped.json")).calibration()
    with pytest.raises(ValueError, match="RerankMaxSim has no packaged biases"):
        RerankBETR(reranker=RerankMaxSim(), own=str(tmp_path / "x")).calibration()


def test_cross_fitted_weights_come_with_the_biases_of_their_folds(
    tmp_path: Path, at: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = FuseFeatures(hits=("hits_whole",), scores={"sparse": "found.sparse"})
    fused = replace(plain, cross_fitted=True)
    step = RerankBETR(reranker=fused, own=str(tmp_path / "betr.json"))
    assert step.fitted() == (), "no question was seen by what ranks it"
    folds = fused.weights().folds
    stated = step.identity()
    assert stated["u"] == [list(fold.u) for fold in folds]
    assert replace(step, reranker=plain).identity()["u"] == list(plain.weights().u)
    monkeypatch.setattr(FuseFeatures, "open", lambda self, at: Score().open(at))
    texts = ["Is it so?", "Does zinc help?", "Who runs?"]
    assert len({question_fold(text) for text in texts}) > 1
    batch = asked(*([("w1", 0.0)] for _ in texts)).append_column("text", pa.array(texts))
    for text, (hit,) in zip(texts, step.open(at)(batch)["hits"].to_pylist(), strict=True):
        assert hit["score"] == pytest.approx(folds[question_fold(text)].u[-1], abs=1e-4)
    # A file that was fitted to a root's own questions has seen these.
    own = {"parameters": {"a": 2.0, "u": U}, "reranker": scorer(fused)}
    (tmp_path / "betr.json").write_text(json.dumps(own))
    assert len(step.fitted()) == 1 and step.identity()["u"] == list(U.values())
