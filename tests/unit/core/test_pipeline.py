from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.hits import FoundWindows
from srrag.core.pipeline import Pipeline
from srrag.core.schema import HITS, REJECT
from srrag.core.spec import build, spec
from srrag.core.step import Function, LLMStep, Place, Step
from srrag.retrieve.questions import question_table
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.runner import LocalRunner
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store
from tests.engines import ToyModel


@dataclass(frozen=True, kw_only=True)
class CountLetters(Step):
    """Adds the length of the text; raises on `bad`."""

    bad: str = "bad"
    into: str = "letters"

    reads: ClassVar[tuple[str, ...]] = ("text",)

    @property
    def writes(self) -> pa.Schema:  # type: ignore[override]
        return pa.schema([pa.field(self.into, pa.int64(), nullable=False)])

    def open(self, at: Place) -> Function:
        def run(batch: pa.Table) -> pa.Table:
            texts = batch["text"].to_pylist()
            if self.bad in texts:
                raise ArithmeticError(f"cannot\n count {self.bad}")
            lengths = pa.array([len(text) for text in texts], pa.int64())
            return batch.append_column(self.writes.field(0), lengths)

        return run


@dataclass(frozen=True, kw_only=True)
class HitOneself(Step):
    """The one hit is the question's text, scored by its letters; "refused" is rejected."""

    reads: ClassVar[tuple[str, ...]] = ("text", "letters")
    writes: ClassVar[pa.Schema] = pa.schema([pa.field("reject", REJECT), pa.field("hits", HITS)])

    def needs(self) -> tuple[str, ...]:
        return ("units",)

    def open(self, at: Place) -> Function:
        def run(batch: pa.Table) -> pa.Table:
            texts = batch["text"].to_pylist()
            scores = batch["letters"].to_pylist()
            rows = [
                (pa.array([text]), np.array([score], np.float32))
                for text, score in zip(texts, scores, strict=True)
            ]
            rejects = [
                {"stage": "HitOneself", "reason": "refused", "detail": ""}
                if t == "refused"
                else None
                for t in texts
            ]
            place = batch.column_names.index("reject")
            batch = batch.set_column(place, pa.field("reject", REJECT), pa.array(rejects, REJECT))
            return batch.append_column(self.writes.field("hits"), FoundWindows.of(rows).hits())

        return run


@dataclass(frozen=True, kw_only=True)
class HitOneselfRejectLast(HitOneself):
    """The same, its columns named in the order of the relations."""

    writes: ClassVar[pa.Schema] = pa.schema([pa.field("hits", HITS), pa.field("reject", REJECT)])


@dataclass(frozen=True, kw_only=True)
class Shout(Step):
    """Adds the text in capitals; needs the hits."""

    reads: ClassVar[tuple[str, ...]] = ("text", "hits")
    writes: ClassVar[pa.Schema] = pa.schema([pa.field("loud", pa.string())])

    def needs(self) -> tuple[str, ...]:
        return ("units", "tokens")

    def open(self, at: Place) -> Function:
        def run(batch: pa.Table) -> pa.Table:
            texts = [text.upper() for text in batch["text"].to_pylist()]
            return batch.append_column("loud", pa.array(texts, pa.string()))

        return run


@dataclass(frozen=True, kw_only=True)
class Forget(Step):
    """Says that it writes a column, and does not."""

    writes: ClassVar[pa.Schema] = pa.schema([pa.field("promised", pa.string())])

    def open(self, at: Place) -> Function:
        return lambda batch: batch


@dataclass(frozen=True, kw_only=True)
class CountLoosely(CountLetters):
    """The same letters, in a column that may be null, and `reject` moved to the end."""

    def open(self, at: Place) -> Function:
        count = super().open(at)

        def run(batch: pa.Table) -> pa.Table:
            counted = count(batch)
            rejects = counted["reject"]
            return (
                counted.drop_columns(["letters", "reject"])
                .append_column("letters", counted["letters"])
                .append_column(pa.field("reject", REJECT), rejects)
            )

        return run


@dataclass(frozen=True, kw_only=True)
class LoseRows(CountLetters):
    """Keeps half of its rows."""

    def open(self, at: Place) -> Function:
        count = super().open(at)
        return lambda batch: count(batch).slice(0, batch.num_rows // 2)


@dataclass(frozen=True, kw_only=True)
class Ask(LLMStep):
    """Asks nothing."""

    writes: ClassVar[pa.Schema] = pa.schema([pa.field("asked", pa.string())])

    def prompts(self, batch: pa.Table) -> list[Any]:
        return []

    def baseline(self, batch: pa.Table, prompts: Any) -> list[str]:
        return []

    def parse(self, batch: pa.Table, prompts: Any, completions: Any) -> pa.Table:
        return batch.append_column("asked", pa.array([""] * batch.num_rows, pa.string()))


TOY = Pipeline(rank=(CountLetters(), HitOneself()), answer=(Shout(),))


def run(texts: list[str], pipeline: Pipeline = TOY) -> list[dict[str, Any]]:
    rows = [{"query_id": str(n), "text": text} for n, text in enumerate(texts)]
    out = pipeline.open(Place())(question_table(rows))
    assert out.schema.equals(pipeline.writes)
    return out.to_pylist()  # type: ignore[no-any-return]


def test_every_step_adds_its_columns() -> None:
    first, second = run(["knee", "hip"])
    assert first["letters"] == 4
    assert first["hits"] == [{"unit_id": "knee", "score": 4.0, "rank": 1}]
    assert first["loud"] == "KNEE"
    assert second["query_id"] == "1"
    assert first["reject"] is second["reject"] is None


def test_the_trace_has_a_row_a_step() -> None:
    for row in run(["knee", "bad", "refused"]):
        assert [entry["step"] for entry in row["trace"]] == ["CountLetters", "HitOneself", "Shout"]
        assert all(entry["seconds"] >= 0 for entry in row["trace"])


def test_a_step_that_reads_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="HitOneself reads column 'letters'"):
        Pipeline(rank=(HitOneself(),))
    with pytest.raises(ValueError, match="Shout reads column 'hits'"):
        Pipeline(rank=(), answer=(Shout(),))


def test_a_step_that_would_overwrite() -> None:
    with pytest.raises(ValueError, match="CountLetters would overwrite column 'letters'"):
        Pipeline(rank=(CountLetters(), HitOneself()), answer=(CountLetters(),))
    with pytest.raises(ValueError, match="overwrite column 'topic'"):
        Pipeline(rank=(CountLetters(into="topic"),))


def test_a_ranking_ends_in_hits() -> None:
    with pytest.raises(ValueError, match="write the column 'hits'"):
        Pipeline(rank=(CountLetters(),))
    with pytest.raises(ValueError, match="has to be a list of hits"):
        Pipeline(rank=(CountLetters(into="hits"),))


def test_a_ranking_may_reject_where_it_ends() -> None:
    """`hits` is the last column that the step adds; `reject` was there."""
    Pipeline(rank=(CountLetters(), HitOneselfRejectLast()))


def test_a_row_that_fails_is_rejected_alone_in_its_place() -> None:
    rows = run(["knee", "hip", "bad", "ankle", "wrist"])
    assert [row["query_id"] for row in rows] == list("01234")
    assert [row["reject"] is None for row in rows] == [True, True, False, True, True]
    assert rows[2]["reject"] == {
        "stage": "CountLetters", "reason": "ArithmeticError", "detail": "cannot count bad",
    }  # fmt: skip
    assert (rows[2]["letters"], rows[2]["hits"], rows[2]["loud"]) == (0, [], "")
    assert rows[3]["loud"] == "ANKLE"


def test_a_row_that_a_step_rejects_keeps_what_it_has() -> None:
    row = run(["knee", "refused"])[1]
    assert row["reject"]["reason"] == "refused"
    assert (row["letters"], row["loud"]) == (7, "")
    assert row["hits"][0]["unit_id"] == "refused"


def test_all_rows_may_fail() -> None:
    rows = run(["bad", "bad", "bad"])
    assert [row["reject"]["reason"] for row in rows] == ["ArithmeticError"] * 3


def test_no_question() -> None:
    assert run([]) == []


def test_questions_rejected_at_the_start_stay() -> None:
    first, second = run(["", "knee"])
    assert first["reject"]["reason"] == "empty_question"
    assert first["loud"] == ""
    assert second["loud"] == "KNEE"


def test_questions_rejected_at_the_start_are_not_run() -> None:
    """The first step fails on an empty text: that must not hide why the question was refused."""
    pipeline = Pipeline(rank=(CountLetters(bad=""), HitOneself()), answer=(Shout(),))
    first, second = run(["", "knee"], pipeline)
    assert first["reject"]["reason"] == "empty_question"
    assert second["loud"] == "KNEE"


def test_a_step_that_breaks_its_word_fails_its_rows() -> None:
    (row,) = run(["knee"], Pipeline(rank=(), answer=(Forget(),)))
    assert row["reject"]["detail"] == "Forget did not write column 'promised'"


def test_a_row_that_fails_is_rejected_alone_wherever_columns_are_put() -> None:
    """ComposeAnswer puts `reject` behind its columns, as the relations do."""
    first, second = run(["knee", "bad"], Pipeline(rank=(), answer=(CountLoosely(),)))
    assert first["letters"] == 4
    assert second["reject"]["reason"] == "ArithmeticError"


def test_a_step_that_loses_rows_fails_them() -> None:
    rows = run(["knee", "hip"], Pipeline(rank=(), answer=(LoseRows(),)))
    assert len(rows) == 2
    assert all(row["reject"] for row in rows)


def test_all_questions_come_back_from_a_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    commit_json(store.pointer_path("default"), {"stages": {}})
    pipeline = Pipeline(rank=(), answer=(CountLetters(),))
    texts = {"1": "knee", "2": "", "3": "bad", "4": "hip"}
    questions = question_table({"query_id": n, "text": text} for n, text in texts.items())
    out = PipelineRun(store, "default", pipeline, LocalRunner()).run(questions, Place()).to_pylist()
    assert [row["query_id"] for row in out] == list(texts)
    reasons = [row["reject"] and row["reject"]["reason"] for row in out]
    assert reasons == [None, "empty_question", "ArithmeticError", None]


def test_what_it_needs_and_whom_it_asks() -> None:
    assert TOY.needs() == ("units", "tokens")
    assert TOY.engines == ()
    asking = Pipeline(rank=(), answer=(Ask(),))
    assert asking.engines == ("rules",)
    with pytest.raises(ValueError, match="engine 'toy: toy' is not up"):
        Pipeline(rank=(), answer=(Ask(engine=ToyModel()),)).open(Place())


def test_the_ranking_alone() -> None:
    whole = Pipeline(rank=(), answer=(CountLetters(),))
    assert whole.ranking() == Pipeline(rank=())
    assert "letters" not in whole.ranking().writes.names


def test_a_pipeline_is_a_step() -> None:
    assert pickle.loads(pickle.dumps(TOY)) == TOY
    assert spec(TOY)["rank"][0] == {"_target_": f"{__name__}.CountLetters", "_version_": 1}
    packaged = {"_target_": "Pipeline", "rank": []}
    assert build(packaged) == Pipeline(rank=())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["knee", "hip", "bad", "refused", ""]), max_size=9), st.integers(0, 9)
)
def test_rows_do_not_know_their_neighbours(texts: list[str], cut: int) -> None:
    def bare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k not in ("trace", "query_id")} for r in rows]

    assert bare(run(texts)) == bare([*run(texts[:cut]), *run(texts[cut:])])
