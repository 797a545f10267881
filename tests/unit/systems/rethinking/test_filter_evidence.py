from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.hits import FoundWindows
from srrag.core.schema import DOCUMENTS, UNITS, empty_value
from srrag.core.spec import build, spec
from srrag.core.step import Place
from srrag.index.units import BuildUnits
from srrag.lab.train.filter.judge import write_model
from srrag.model.cross_encoder import CrossEncoderModel
from srrag.model.filter import Base, Decision, load_filter
from srrag.rerank.cross_encoder import RerankCrossEncoder
from srrag.systems.rethinking.filter_evidence import FilterEvidence, JudgeEvidence
from tests.unit.index.tables import uid
from tests.unit.lab.train.filter_toys import tiny_encoder

TEXTS = [
    "Zinc helped.",
    "Insulin was given to nine.",
    "No trial was found.",
    "Heparin, 2 mg",
]
UIDS = [uid(n) for n in range(1, 5)]
ASKED = ["Does zinc help?", "Does heparin help?"]


@pytest.fixture
def at(tmp_path: Path) -> Place:
    """A units index of the windows, made by its own build."""

    def rows(schema: pa.Schema, given: list[dict[str, Any]]) -> pa.Table:
        blank = {f.name: None if f.nullable else empty_value(f.type) for f in schema}
        return pa.Table.from_pylist([{**blank, **row} for row in given], schema=schema)

    units = [{"unit_id": i, "doc_id": uid(9), "text": t} for i, t in zip(UIDS, TEXTS, strict=True)]
    pq.write_table(rows(UNITS, units), tmp_path / "windows.parquet")
    pq.write_table(rows(DOCUMENTS, [{"doc_id": uid(9)}]), tmp_path / "documents.parquet")
    inputs = {name: [tmp_path / f"{name}.parquet"] for name in ("windows", "documents")}
    BuildUnits().build(inputs, tmp_path, Place())
    return Place(artifacts={"units": tmp_path})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    base = Base(model=str(tiny_encoder(tmp_path / "encoder")), max_tokens=48)
    decision = Decision(bias=1.0, threshold=0.5)
    write_model(tmp_path / "model", base, {}, decision, {})
    return tmp_path / "model"


def asked() -> pa.Table:
    scores = np.array([3.0, 2.0, 1.0, 0.5], np.float32)
    ranked = [(pa.array(UIDS), scores), (pa.array(UIDS[::-1]), scores)]
    nothing = (pa.array([], pa.string()), np.zeros(0, np.float32))
    return pa.table(
        {"text": [*ASKED, "Nothing?"], "hits_ranked": FoundWindows.of([*ranked, nothing]).hits()}
    )


def expected(model: Path) -> dict[tuple[int, str], float]:
    """p(yes) of each question and window, as the filter itself says."""
    loaded = load_filter(model)
    return {
        (n, unit): float(np.float32(loaded.probabilities([question], [text])[0]))
        for n, question in enumerate(ASKED)
        for unit, text in zip(UIDS, TEXTS, strict=True)
    }


def judged(model: str, at: Place, depth: int = 32) -> pa.Table:
    return JudgeEvidence(model=model, depth=depth).open(at)(asked())


def found(step: FilterEvidence, at: Place) -> list[dict[str, Any]]:
    out = step.open(at)(judged(step.model, at))
    rows: list[dict[str, Any]] = out.select(step.writes.names).to_pylist()
    for item in step.writes:
        assert out.schema.field(item.name).type == item.type
    return rows


def test_each_hit_is_kept_or_rejected_by_its_probability(model: Path, at: Place) -> None:
    known = expected(model)
    middle = float(np.median(list(known.values())))
    rows = found(FilterEvidence(model=str(model), threshold=middle, depth=3), at)
    for n, order in enumerate([UIDS[:3], UIDS[::-1][:3]]):
        kept = [unit for unit in order if known[n, unit] >= middle]
        rejected = sorted(set(order) - set(kept), key=lambda unit, n=n: -known[n, unit])
        assert [hit["unit_id"] for hit in rows[n]["hits"]] == kept
        assert [hit["rank"] for hit in rows[n]["hits"]] == list(range(1, len(kept) + 1))
        assert [hit["unit_id"] for hit in rows[n]["hits_rejected"]] == rejected
        assert [hit["score"] for hit in rows[n]["hits_rejected"]] == [
            known[n, unit] for unit in rejected
        ]
    assert rows[0]["hits"] or rows[1]["hits"]
    assert rows[0]["hits_rejected"] or rows[1]["hits_rejected"]
    assert rows[2] == {"hits_rejected": [], "hits": []}
    first = rows[0]["hits"][0]
    assert first["score"] == 3.0 - UIDS.index(first["unit_id"]), "scores stay those that came"


def test_one_judgement_serves_every_depth(model: Path, at: Place) -> None:
    known = expected(model)
    whole = judged(str(model), at, depth=3)
    assert whole["evidence_probability"].to_pylist() == [
        [known[n, unit] for unit in units] for n, units in enumerate([UIDS[:3], UIDS[::-1][:3]])
    ] + [[]]
    for depth in (1, 2, 3):
        step = FilterEvidence(model=str(model), depth=depth)
        again = step.open(at)(judged(str(model), at, depth=depth))
        assert step.open(at)(whole).select(step.writes.names) == again.select(step.writes.names)
    with pytest.raises(
        ValueError, match="depth is 4, but evidence_probability holds no more than 3"
    ):
        FilterEvidence(model=str(model), depth=4).open(at)(whole)


def test_a_filter_is_known_by_its_content(model: Path, tmp_path: Path) -> None:
    copied = str(shutil.copytree(model, tmp_path / "moved"))
    for kind in (JudgeEvidence, FilterEvidence):
        step, moved = kind(model=str(model)), kind(model=copied)
        assert spec(step) == spec(moved)
        assert step.identity() == moved.identity()
        assert build(spec(step)) == step
        assert pickle.loads(pickle.dumps(step)).model == str(model)
        with pytest.raises(ValueError, match="the folder of a filter is missing"):
            kind().identity()
    facts = tmp_path / "moved" / "filter.json"
    facts.write_text(facts.read_text().replace('"threshold": 0.5', '"threshold": 0.6'))
    with pytest.raises(ValueError, match=r"filter\.json is not what was written"):
        load_filter(tmp_path / "moved")


@pytest.mark.parametrize("fields", [{"threshold": 1.5}, {"threshold": -0.1}, {"depth": 0}])
def test_settings_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        FilterEvidence(model="m", **fields)


def test_a_filter_reranks_where_a_cross_encoder_does(model: Path, at: Place) -> None:
    named = CrossEncoderModel(model=str(model), max_tokens=48)
    step = RerankCrossEncoder(cross_encoder=named, titles=False, hits="hits_ranked")
    rows = step.open(at)(asked())["hits"].to_pylist()
    known = expected(model)
    for n in range(2):
        scores = {hit["unit_id"]: hit["score"] for hit in rows[n]}
        for unit, score in scores.items():
            assert 1 / (1 + np.exp(-score)) == pytest.approx(known[n, unit], abs=1e-4)
        assert list(scores) == sorted(scores, key=lambda unit, of=scores: -of[unit])
        assert set(scores) == set(UIDS)
    assert rows[2] == []
    assert load_filter(model).logits("Nothing?", []).shape == (0,)


def test_a_filter_that_reranks_is_known_by_its_content_and_says_what_it_saw(model: Path) -> None:
    step = RerankCrossEncoder(cross_encoder=CrossEncoderModel(model=str(model), max_tokens=48))
    assert step.identity() == {"filter": JudgeEvidence(model=str(model)).identity()["model"]}
    assert step.fitted() == JudgeEvidence(model=str(model)).fitted()
    other = RerankCrossEncoder(cross_encoder=CrossEncoderModel(model=str(model.parent)))
    assert (other.identity(), other.fitted()) == ({}, ())


def test_a_filter_that_reranks_reads_as_long_pairs_as_it_was_trained_on(
    model: Path, at: Place
) -> None:
    step = RerankCrossEncoder(cross_encoder=CrossEncoderModel(model=str(model), max_tokens=64))
    with pytest.raises(ValueError, match=r"max_tokens is 64, but the filter of .* reads 48"):
        step.open(at)
