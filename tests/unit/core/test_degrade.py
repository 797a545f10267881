from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from srrag.answer.record import AnswerRecord, FailedStep, degraded
from srrag.config.factory import named, step_keys
from srrag.core.pipeline import PipelineSlice, why
from srrag.core.step import LLMStep, Place, Step
from srrag.expand.hyde import WriteHyde
from srrag.expand.picot_anchors import FindAnchors
from srrag.lab.experiment.answers import answer_counts, lost_steps, support_counts
from srrag.retrieve.questions import question_table
from srrag.systems.rethinking.rationale import WriteRationale
from tests.unit.core.test_pipeline import CountLetters


@dataclass(frozen=True, kw_only=True)
class Blank(FindAnchors):
    """Anchors whose answer to "bad" is a fault."""

    auxiliary: ClassVar[bool] = True
    reason: str = "truncated"

    def open(self, at: Place) -> Any:
        function = super().open(at)

        def run(batch: pa.Table) -> pa.Table:
            out = function(batch)
            reject = {"stage": "anchors", "reason": self.reason, "detail": "It was cut off."}
            rejects = [reject if text == "bad" else None for text in batch["text"].to_pylist()]
            place = out.column_names.index("reject")
            field = out.schema.field("reject")
            return out.set_column(place, field, pa.array(rejects, field.type))

        return run


@dataclass(frozen=True, kw_only=True)
class Essential(Blank):
    """The same, of a step that an answer cannot do without."""

    auxiliary: ClassVar[bool] = False


def run(*steps: Step, texts: tuple[str, ...] = ("good", "bad", "fair")) -> list[dict[str, Any]]:
    table = question_table([{"query_id": text, "text": text} for text in texts])
    rows: list[dict[str, Any]] = PipelineSlice(steps=steps).open(Place())(table).to_pylist()
    return rows


def test_a_question_goes_on_without_an_auxiliary_step_and_says_so() -> None:
    rows = run(CountLetters(bad="?"), Blank(), CountLetters(bad="?", into="again"))
    assert [row["reject"] for row in rows] == [None] * 3
    assert [row["again"] for row in rows] == [4, 3, 4], "steps behind it do their work"
    faults = [[each["fault"] for each in row["trace"]] for row in rows]
    said = "truncated: It was cut off. Raise max_tokens of Blank (now 512)."
    assert faults == [["", "", ""], ["", said, ""], ["", "", ""]]
    assert degraded(rows[1]) == [FailedStep(step="Blank", fault=said)]


def test_an_essential_step_rejects() -> None:
    rows = run(Essential(), CountLetters(bad="?"))
    assert [row["reject"] and row["reject"]["reason"] for row in rows] == [None, "truncated", None]
    assert degraded(rows[0]) == []


def test_rows_rejected_before_stay_so() -> None:
    rows = run(CountLetters(bad="bad"), Blank())
    assert rows[1]["reject"]["stage"] == "CountLetters"


def test_every_row_may_be_spared_alone() -> None:
    together = run(Blank(), texts=("bad", "good"))
    for row in together:
        (alone,) = run(Blank(), texts=(row["text"],))
        assert degraded(alone) == degraded(row)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("truncated", "Raise max_tokens of WriteHyde (now 704)."),
        ("whitespace", "Raise max_tokens of WriteHyde (now 704)."),
        ("invalid_json", "Raise again of WriteHyde (now 1)."),
        ("timeout", "Raise engine.timeout_s of WriteHyde."),
    ],
)
def test_the_key_follows_from_the_fault(kind: str, said: str) -> None:
    assert why(WriteHyde(), {"reason": kind, "detail": "No."}) == f"{kind}: No. {said}"


def test_only_steps_that_help_are_auxiliary() -> None:
    from srrag.answer.write.compose import ComposeAnswer
    from srrag.answer.write.unaided import AnswerUnaided

    assert WriteRationale.auxiliary and not ComposeAnswer.auxiliary
    assert not AnswerUnaided.auxiliary and not LLMStep.auxiliary


CONFIG = {
    "_target_": "srrag.core.pipeline.Pipeline",
    "rank": {
        "search": {
            "_target_": "srrag.retrieve.iterate.IterateRetrieval",
            "search": {"rank": {"hyde": {"_target_": "srrag.expand.hyde.WriteHyde"}}},
        }
    },
}


def test_keys_are_those_of_the_command_line() -> None:
    keys = step_keys(CONFIG)
    assert keys["WriteHyde"] == "pipeline.rank.search.search.rank.hyde"
    lost = {"step": "WriteHyde", "fault": "truncated: Cut. Raise max_tokens of WriteHyde (now 9)."}
    (told,) = named({"trace": [lost]}, keys)["trace"]
    key = "pipeline.rank.search.search.rank.hyde.max_tokens"
    assert told["fault"] == f"truncated: Cut. Raise {key} (now 9)."
    engine = {"step": "X", "fault": "timeout: No. Raise engine.timeout_s of X (now 1.0)."}
    assert (
        named({"rounds": [engine]}, {})["rounds"][0]["fault"]
        == "timeout: No. Raise engine.timeout_s (now 1.0)."
    )


def test_summaries_count_questions_and_drops() -> None:
    lost = {"step": "Blank", "fault": "empty: No. Raise again of Blank (now 1)."}
    rows = [
        {
            "trace": [lost],
            "support": {"sentences": 3, "kept_sentences": 1},
            "unsupported": [{"fault": "none"}, {"fault": "partial"}],
        },
        {
            "trace": [{"step": "Blank", "fault": ""}],
            "rounds": [{"fault": "empty: No."}],
            "support": {"sentences": 2, "kept_sentences": 2},
            "unsupported": [],
        },
    ]
    counted = lost_steps(rows, {"Blank": "pipeline.rank.blank"})
    assert counted["Blank"]["questions"] == 1
    assert counted["Blank"]["first"].endswith("Raise pipeline.rank.blank.again (now 1).")
    assert counted["Reflect"] == {"questions": 1, "first": "empty: No."}
    assert support_counts(rows) == {
        "support": {
            "sentences": 5, "kept_sentences": 3, "faults": {"none": 1, "partial": 1},
        }
    }  # fmt: skip
    assert support_counts([{"trace": []}]) == {}
    assert answer_counts(pa.table({"answer": ["Stored."]}), {}) == {}
    (row,) = (
        PipelineSlice(steps=(Blank(),))
        .open(Place())(question_table([{"query_id": "1", "text": "bad"}]))
        .select(["trace", "reject"])
        .to_pylist()
    )
    table = pa.Table.from_pylist([row])
    assert answer_counts(table, {})["degraded"]["Blank"]["questions"] == 1


def test_an_answer_names_what_was_lost() -> None:
    from tests.unit.answer.test_record import ROW

    assert AnswerRecord.of(ROW).degraded == ()
    step = {**ROW["trace"][0], "fault": "empty: No."}
    told = AnswerRecord.of({**ROW, "trace": [step]})
    assert told.degraded == (FailedStep(step="SearchSparse", fault="empty: No."),)
    assert told.trace[0].fault == "empty: No."
    assert [note.kind for note in told.notes] == ["degraded"]
