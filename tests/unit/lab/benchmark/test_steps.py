"""What the asking steps keep of an answer, what they refuse, and why."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.step import LLMStep, Place
from srrag.lab.benchmark.grade_support import GradeSupport
from srrag.lab.benchmark.sample import GOLD, POOL, POOLED, REFERENCED, SEEDS, SUPPORTED
from srrag.lab.benchmark.split_nuggets import SplitNuggets
from srrag.lab.benchmark.write_question import WriteQuestion
from srrag.lab.benchmark.write_reference import WriteReference
from srrag.lab.experiment.make_benchmark import Counted, rounds
from srrag.llm.read_answer import read
from tests.engines import AskNumbers, EchoModel
from tests.golden.bench_cases import PASSAGE, QUESTION, item, row

PICOT = {"P": "adults", "I": "strength training", "C": "", "O": "index", "T": "3 months"}
GOOD: dict[str, Any] = {
    "conclusion": PASSAGE,
    "question": "In adults with heel pain, does strength training lower the Foot Function Index?",
    "picot": PICOT,
    "certainty": "sufficient",
    "reason": "one trial",
}


def parsed(step: LLMStep, table: pa.Table, *answers: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The row that comes of answers, and the kind of fault that the last one would be told."""
    prompts = step.prompts(table)
    completions = [
        read(json.dumps(answer), prompt.schema)
        for answer, prompt in zip(answers, prompts, strict=True)
    ]
    fault = step.check(table, prompts[-1], completions[-1].value)
    (made,) = step.parse(table, prompts, completions).to_pylist()
    return made, fault.kind if fault else ""


def seed() -> pa.Table:
    title = "Type 2 diabetes and heel pain"
    return row(SEEDS, window=PASSAGE, title=title, section="Results", grade="C")


def test_the_prompt_shows_what_was_asked_before_of_the_document() -> None:
    before = "Does stretching help?"
    (prompt,) = WriteQuestion().prompts(row(SEEDS, window=PASSAGE, asked=[before]))
    assert f'asked: ["{before}"]' in prompt.user and "question of `asked`" in prompt.system


def test_windows_of_a_document_are_asked_about_one_after_the_other() -> None:
    """Documents a, b, a, a: three rounds, of which the second knows the first's question."""
    ids = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")]
    seeds = pa.concat_tables([row(SEEDS, doc_id=d, query_id=q) for d, q in ids])
    assert [each["query_id"].to_pylist() for each in rounds(seeds)] == [["1", "2"], ["3"], ["4"]]
    assert [*rounds(seeds.slice(0, 0))] == []


def test_a_question_is_taken_over_with_the_stretch_that_answers_it() -> None:
    made, fault = parsed(WriteQuestion(), seed(), GOOD | {"conclusion": PASSAGE.upper()})
    assert (made["reject"], fault) == (None, "")
    assert made["conclusion"] == PASSAGE, "as the window spells it"
    assert made["picot"] == PICOT
    assert (made["text"], made["certainty"]) == (GOOD["question"], "sufficient")


@pytest.mark.parametrize(
    "question",
    [
        "In type II diabetes, does training lower the index at three months?",
        "Do the text message reminders of a coach lower the index?",
        "Does the guideline-based care of adults lower the index?",
    ],
)
def test_title_number_words_and_names_of_things_are_no_fault(question: str) -> None:
    made, fault = parsed(WriteQuestion(), seed(), GOOD | {"question": question})
    assert (made["reject"], fault) == (None, "")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"conclusion": "The index doubled."}, "ungrounded"),
        ({"question": "Does training lower the index by 30 points?"}, "invented"),
        ({"picot": PICOT | {"T": "12 weeks"}}, "invented"),
        ({"question": "What did the authors of this study conclude here?"}, "not_self_contained"),
        ({"question": "Strength training lowers the index."}, "not_a_question"),
        ({"question": ""}, "not_a_question"),
    ],
)
def test_what_the_window_does_not_hold_never_becomes_a_question(
    changed: dict[str, Any], reason: str
) -> None:
    made, fault = parsed(WriteQuestion(), seed(), GOOD | changed)
    assert (made["reject"]["reason"], fault) == (reason, reason)
    assert made["text"] == ""


def test_a_window_without_a_conclusion_is_no_fault_and_no_question() -> None:
    made, fault = parsed(WriteQuestion(), seed(), GOOD | {"conclusion": "", "question": ""})
    assert fault == ""
    assert made["reject"]["reason"] == "no_conclusion"
    assert made["reject"]["detail"] == GOOD["reason"]


def pool(**windows: str) -> pa.Table:
    """A question whose seed is u1, with candidates of each grade."""
    candidates = [
        item(POOL, unit_id=name, doc_id=f"d-{name}", source_id=name, grade=grade, char_start=100,
             text=text)
        for (name, text), grade in zip(windows.items(), "CAB", strict=False)
    ]  # fmt: skip
    return row(
        POOLED, query_id="q", unit_id="u1", text=QUESTION, conclusion=PASSAGE, track="main",
        seed_rank=3, pool=candidates,
    )  # fmt: skip


def graded(*verdicts: tuple[str, str]) -> dict[str, Any]:
    return {"passages": [
        {"n": n, "quote": quote, "reason": "so", "support": support}
        for n, (support, quote) in enumerate(verdicts, start=1)
    ]}  # fmt: skip


def test_gold_is_ordered_by_grade_with_spans_of_the_document() -> None:
    table = pool(u1=PASSAGE, u2="Offer training. It helps.", u3="Soup is warm.")
    answer = graded(("strong", PASSAGE), ("supportive", "It helps."), ("unrelated", ""))
    made, fault = parsed(GradeSupport(), table, answer)
    assert fault == ""
    assert [(g["unit_id"], g["grade"], g["support"]) for g in made["gold"]] == [
        ("u2", "A", "supportive"), ("u1", "C", "strong"),
    ]  # fmt: skip
    first = made["gold"][0]
    assert (first["quote"], first["char_start"], first["char_end"]) == ("It helps.", 116, 125)
    assert (made["unrelated"], made["weak"], made["track"], made["seed_rank"]) == (1, 0, "main", 3)


def test_an_ungraded_window_comes_behind_all_grades() -> None:
    candidates = [
        item(POOL, unit_id=name, doc_id=name, grade=grade, text=PASSAGE)
        for name, grade in (("u1", ""), ("u2", "C"), ("u3", "E"))
    ]
    table = row(POOLED, query_id="q", unit_id="u1", text=QUESTION, pool=candidates)
    made, _ = parsed(GradeSupport(), table, graded(*[("strong", PASSAGE)] * 3))
    assert [g["grade"] for g in made["gold"]] == ["C", "E", ""]


def test_a_pool_is_graded_by_tens() -> None:
    names = [f"u{n}" for n in range(1, 12)]
    candidates = [item(POOL, unit_id=name, doc_id=name, grade="B", text=PASSAGE) for name in names]
    table = row(POOLED, query_id="q", unit_id="u11", text=QUESTION, pool=candidates)
    assert [prompt.slot for prompt in GradeSupport().prompts(table)] == ["0", "10"]
    lost = graded(*[("strong", PASSAGE)] * 9)
    made, fault = parsed(GradeSupport(), table, lost, graded(("strong", PASSAGE)))
    assert (len(made["gold"]), made["not_graded"], fault) == (10, 1, "")
    (prompt, _) = GradeSupport().prompts(table)
    said = GradeSupport().check(table, prompt, prompt.schema.model_validate(lost))
    assert said is not None and "passage 10 of 10" in said.detail


def test_a_quote_that_is_nowhere_leaves_the_window_and_is_counted() -> None:
    made, fault = parsed(GradeSupport(), pool(u1=PASSAGE), graded(("strong", "Soup.")))
    assert fault == "ungrounded"
    assert made["whole_windows"] == 1
    assert made["gold"][0]["quote"] == PASSAGE


def test_a_question_that_its_seed_does_not_support_is_rejected() -> None:
    table = pool(u1=PASSAGE, u2="It helps.")
    made, _ = parsed(GradeSupport(), table, graded(("weak", ""), ("strong", "It helps.")))
    assert made["reject"]["reason"] == "seed_unsupported"


def test_a_lost_grade_is_counted_and_a_lost_seed_rejects() -> None:
    made, _ = parsed(GradeSupport(), pool(u1=PASSAGE, u2="It helps."), graded(("strong", PASSAGE)))
    assert (made["not_graded"], len(made["gold"]), made["reject"]) == (1, 1, None)
    table, step = pool(u1=PASSAGE), GradeSupport()
    prompts = step.prompts(table)
    (made,) = step.parse(table, prompts, [read("x", prompts[0].schema)]).to_pylist()
    assert made["reject"]["reason"] == "invalid_json"


def test_the_rules_tell_the_seed_from_what_is_unrelated() -> None:
    table = pool(u1=f"First. {PASSAGE}", u2="Wash your hands before every meal at home.")
    (made,) = GradeSupport().open(Place())(table).to_pylist()
    assert [g["quote"] for g in made["gold"]] == [PASSAGE]
    assert made["unrelated"] == 1


def gold() -> pa.Table:
    windows = [
        item(GOLD, unit_id="g", grade="A", quote="Offer training.", text="Offer training."),
        item(GOLD, unit_id="t", grade="C", quote=PASSAGE, text=PASSAGE),
    ]
    return row(SUPPORTED, query_id="q", text=QUESTION, conclusion=PASSAGE, gold=windows)


def said(text: str, *cites: int) -> dict[str, Any]:
    return {"text": text, "cites": list(cites)}


def test_every_statement_keeps_its_sources_and_the_ideal_answer_its_order() -> None:
    answer = {
        "exact": [said("Yes, by 29 points.", 2)],
        "ideal": [said("It fell by 29 points.", 2), said("Offer it.", 1, 2), said("Or 30.", 1)],
    }
    made, fault = parsed(WriteReference(), gold(), answer)
    assert fault == "invented"
    assert made["exact"] == [{"text": "Yes, by 29 points.", "unit_ids": ["t"]}]
    assert [each["text"] for each in made["ideal"]] == ["Offer it.", "It fell by 29 points."]
    assert made["dropped_statements"] == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"exact": [said("Yes.", 3)], "ideal": []}, "invalid_citation"),
        ({"exact": [said("By 7 points.", 1, 2)], "ideal": []}, "invented"),
    ],
)
def test_an_exact_answer_without_a_source_is_rejected(answer: dict[str, Any], kind: str) -> None:
    made, fault = parsed(WriteReference(), gold(), answer)
    assert (made["reject"]["reason"], fault) == ("no_answer", kind)


def test_an_ideal_answer_is_sorted_and_numbers_of_title_and_year_are_known() -> None:
    answer = {"exact": [said("Yes.", 1)], "ideal": [said("Trial of 2015.", 2), said("Advice.", 1)]}
    table = gold()
    windows = table["gold"].to_pylist()[0]
    windows[1]["year"] = 2015
    made, fault = parsed(WriteReference(), row(SUPPORTED, text=QUESTION, gold=windows), answer)
    assert (fault, [each["text"] for each in made["ideal"]]) == ("", ["Advice.", "Trial of 2015."])


def exact(text: str) -> pa.Table:
    return row(REFERENCED, text=QUESTION, exact=[{"text": text, "unit_ids": ["u1"]}])


def nuggets(*facts: tuple[str, str]) -> dict[str, Any]:
    return {"nuggets": [{"text": text, "importance": importance} for text, importance in facts]}


def test_nuggets_hold_nothing_that_the_answer_lacks() -> None:
    answer = nuggets(
        ("It fell by 29 points", "okay"), ("At 12 weeks", "vital"), ("It fell by 29 points", "okay")
    )
    made, fault = parsed(SplitNuggets(), exact("It fell by 29 points at 3 months."), answer)
    assert fault == "invented"
    assert made["nuggets"] == [{"text": "It fell by 29 points", "importance": "vital"}]


def test_an_answer_without_a_nugget_is_rejected() -> None:
    made, fault = parsed(SplitNuggets(), exact("Yes."), nuggets(("9 points", "vital")))
    assert (made["reject"]["reason"], fault) == ("no_nuggets", "invented")


def test_an_estimate_counts_what_rankings_ask(tmp_path: Path) -> None:
    asking = AskNumbers(engine=EchoModel(tokenizer="utf8"))
    ranking: Any = SimpleNamespace(pipeline=asking, place=lambda at: at)
    numbers = pa.table({"raw_id": ["a", "b"], "value": [1, 2]})
    counted = Counted(Place(root=tmp_path))
    (table,) = counted.rank({"srrag": ranking}, numbers)
    assert table["word"].to_pylist() == ["rules", "rules"]
    assert counted.told({"sampled": 2})["stages"]["ranking"]["calls"] == 2
