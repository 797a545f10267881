from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srrag.answer.write.choose import ChooseOption
from srrag.core.errors import UsageError
from srrag.core.step import LLMStep
from srrag.engine.base import Call, Reply
from srrag.engine.recorded import RecordedEngine, sha256_of
from srrag.lab.experiment.table import paired
from srrag.lab.judges.accuracy import CHOICE_ACCURACY
from srrag.lab.measure.cases import read_gold_answers, read_ids
from srrag.lab.measure.scores import Scores
from srrag.llm.completion import Completion
from srrag.llm.read_answer import read
from srrag.retrieve.questions import question_table
from srrag.systems.rethinking.rationale import WriteRationale

ASKED = {"id": "q", "question": "Does it help?", "options": {"A": "yes", "B": "no"}}
ROW = {"id": "q", "model": "m", "setting": "cot", "rationale": "It does. " * 60, "choice": "B"}


def lines(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def engine(tmp_path: Path, *rows: Any, **given: Any) -> RecordedEngine:
    questions = lines(tmp_path / "questions.jsonl", ASKED)
    path = lines(tmp_path / "recorded.jsonl", *rows)
    return RecordedEngine(**{"model": "m", "path": path, "questions": questions, **given})


def replies(made: RecordedEngine, step: LLMStep, rows: list[dict[str, Any]]) -> Iterator[Reply]:
    async def ask() -> list[Reply]:
        session = await made.open()
        prompts = step.prompts(question_table(rows))
        return [await session.complete(Call(b"", prompt)) for prompt in prompts]

    return iter(asyncio.run(ask()))


def question(text: str = "Does it help?") -> dict[str, Any]:
    return {"query_id": "1", "text": text, "options": ["yes", "no"]}


def test_a_prediction_answers_two_tasks(tmp_path: Path) -> None:
    made = engine(tmp_path, ROW, setting="cot")
    assert made.name == "m (recorded)"
    (chose,) = replies(made, ChooseOption(evidence=""), [question()])
    said = json.loads(chose.text)
    assert (said["choice"], " ".join(said["steps"])) == ("B", str(ROW["rationale"]).strip())
    (reasoned,) = replies(made, WriteRationale(), [question()])
    assert json.loads(reasoned.text)["answer"] == "B"


def test_a_row_may_name_its_task_and_question(tmp_path: Path) -> None:
    answer = {"steps": [], "choice": "A", "citations": []}
    named = {"task": "choose", "question_sha256": sha256_of("Does it help?"), "answer": answer}
    (reply,) = replies(engine(tmp_path, named), ChooseOption(evidence=""), [question()])
    assert json.loads(reply.text) == answer
    raw = {"task": "choose", "question": "Does it help?", "answer": "not JSON"}
    (reply,) = replies(engine(tmp_path, raw), ChooseOption(evidence=""), [question()])
    assert reply.text == "not JSON"


def test_a_miss_and_a_fault_belong_to_their_rows(tmp_path: Path) -> None:
    faulty = {**ROW, "rationale": "", "choice": None, "fault": "content_filter"}
    made = engine(tmp_path, faulty, setting="cot")
    asked = [question(), question("Another?")]
    fault, miss = replies(made, ChooseOption(evidence=""), asked)
    assert (fault.fault.kind, fault.fault.detail) == ("recorded_fault", "content_filter")  # type: ignore[union-attr]
    assert miss.fault.kind == "not_recorded"  # type: ignore[union-attr]
    assert "'choose'" in miss.fault.detail  # type: ignore[union-attr]


def test_a_question_without_options_is_found_by_its_text(tmp_path: Path) -> None:
    made = engine(tmp_path, ROW, setting="cot")
    bare = {"query_id": "1", "text": "Does it help?"}
    (reply,) = replies(made, WriteRationale(), [bare])
    assert json.loads(reply.text)["answer"] == "B"


def test_the_same_question_with_other_options_is_another(tmp_path: Path) -> None:
    made = engine(tmp_path, ROW, setting="cot")
    other = {**question(), "options": ["yes", "no", "maybe"]}
    (reply,) = replies(made, ChooseOption(evidence=""), [other])
    assert reply.fault is not None and reply.fault.kind == "not_recorded"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (({**ROW, "id": "x"},), r"recorded\.jsonl:1: no recorded answer .*no question 'x'"),
        (({"model": "m", "id": "q"},), r"recorded\.jsonl:1: no recorded answer"),
        (({**ROW, "choice": "C"},), r"recorded\.jsonl:1: no recorded answer"),
        ((ROW, {**ROW, "choice": "A"}), r"recorded\.jsonl:2: this question has another answer"),
        (({**ROW, "model": "n"},), r"no answer of m cot; there is n cot"),
        ((3,), r"recorded\.jsonl:1: not an object"),
    ],
)
def test_a_bad_file_is_named_with_its_line(
    tmp_path: Path, rows: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        engine(tmp_path, *rows, setting="cot").answers()


def test_a_second_wording_of_the_same_choice_is_passed_over(tmp_path: Path) -> None:
    made = engine(tmp_path, ROW, {**ROW, "rationale": "Other words."}, setting="cot")
    (reply,) = replies(made, ChooseOption(evidence=""), [question()])
    assert "It does." in reply.text


def test_the_identity_is_the_content(tmp_path: Path) -> None:
    one = engine(tmp_path, ROW)
    assert one.revision == engine(tmp_path, ROW).revision != engine(tmp_path, ROW, ROW).revision
    with pytest.raises(ValueError, match="is not revision 000"):
        engine(tmp_path, ROW, revision="0" * 64)
    with pytest.raises(ValueError, match="there is no such file"):
        RecordedEngine(model="m", path=str(tmp_path / "none"))
    with pytest.raises(ValueError, match="path is missing"):
        RecordedEngine(model="m")
    with pytest.raises(UsageError, match=r"engine\.path is missing"):
        RecordedEngine(model="m", revision="c0ffee").answers()


TABLE = {
    "bioasq_yn": (("gpt-3.5-turbo-16k", 442, 17, 96, 0.740, 0.919),
                  ("gpt-4-32k", 442, 13, 47, 0.848, 0.925)),
    "pubmedqa": (("gpt-3.5-turbo-16k", 360, 25, 144, 0.342, 0.672),
                 ("gpt-4-32k", 360, 21, 132, 0.389, 0.697)),
    "medqa": (("gpt-3.5-turbo-16k", 644, 70, 83, 0.638, 0.658),
              ("gpt-4-32k", 644, 38, 33, 0.831, 0.823)),
    "mmlu_med": (("gpt-3.5-turbo-16k", 350, 41, 50, 0.714, 0.740),
                 ("gpt-4-32k", 350, 30, 10, 0.897, 0.840)),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_the_published_answers_give_their_published_table(shared_data: Path, name: str) -> None:
    """Exact counts of McNemar's test: no retrieval against MedRAG's 32 passages."""
    recorded = shared_data / "recorded" / f"{name}.jsonl"
    known = read_ids(recorded)
    gold = [r for r in read_gold_answers(shared_data / "mcq", name) if r["query_id"] in known]
    for model, questions, only_without, only_with, without, with_ in TABLE[name]:
        scores = {
            setting: [right(shared_data, recorded, gold, model, setting)]
            for setting in ("cot", "medrag32")
        }
        (pair,) = paired(scores, [("medrag32", "cot")], {})
        assert (pair.questions, pair.only_other, pair.only) == (questions, only_without, only_with)
        assert (pair.other, pair.value) == pytest.approx((without, with_), abs=0.0005)


def right(
    data: Path, recorded: Path, gold: list[dict[str, Any]], model: str, setting: str
) -> Scores:
    """Which questions the recorded answers have right; no choice and a fault are wrong."""
    step = ChooseOption(evidence="")
    made = RecordedEngine(
        model=model, setting=setting, path=str(recorded),
        questions=str(data / "mcq" / recorded.name),
    )  # fmt: skip
    batch = question_table(gold)
    prompts = step.prompts(batch)
    completions = [
        Completion(fault=reply.fault) if reply.fault else read(reply.text, prompt.schema)
        for prompt, reply in zip(prompts, replies(made, step, gold), strict=True)
    ]
    rows = step.parse(batch, prompts, completions).to_pylist()
    values = [
        row["choice"] >= 0 and row["options"][row["choice"]] == row["gold_option"] for row in rows
    ]
    names = tuple(row["query_id"] for row in rows)
    counts = len(rows), 0, 0
    return Scores(CHOICE_ACCURACY, names, np.array(values, float), np.ones(len(rows)), *counts)
