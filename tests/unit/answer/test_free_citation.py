from __future__ import annotations

import json
from typing import Any

import pytest

from srrag.answer.compose import ComposeAnswer
from srrag.answer.free_citation import HEADING, ComposeFreely, FreeAnswer, freed
from srrag.config import factory
from srrag.config.compose import configure
from srrag.errors import UsageError
from srrag.llm.completion import read
from srrag.pipeline import Pipeline
from srrag.step import Place
from tests.unit.answer.test_compose import FINDING, OTHER, QUESTION, evidence, questions

STEP = ComposeFreely(evaluation_only=True)
BATCH = questions((QUESTION, evidence(FINDING, OTHER)))


def said(*cites: list[int], references: tuple[str, ...] = ()) -> str:
    sentences = [{"text": f"Sentence {n}.", "cites": each} for n, each in enumerate(cites, 1)]
    return json.dumps(
        {
            "answer": sentences, "evidence": [], "limits": [], "insufficient": False,
            "missing": "", "references": references,
        }
    )  # fmt: skip


def answered(text: str) -> dict[str, Any]:
    rows = STEP.parse(BATCH, STEP.prompts(BATCH), [read(text, FreeAnswer)]).to_pylist()
    row: dict[str, Any] = rows[0]
    return row


def test_a_source_of_its_own_is_numbered_on_behind_the_evidence() -> None:
    row = answered(said([1, 3], [4], references=("Smith. Ankles. 2019.", "Jones [7]. 2020.")))
    assert [each["evidence_ids"] for each in row["sentences"]] == [["e1", "own-1"], ["own-2"]]
    assert row["answer"] == (
        f"Sentence 1. [1][3] Sentence 2. [4]\n\n{HEADING}\n"
        "[3] Smith. Ankles. 2019.\n[4] Jones (7). 2020."
    )
    assert row["invalid_citations"] == 0


def test_a_number_without_a_source_is_no_citation() -> None:
    text = said([1], [4], references=("Smith. 2019.",))
    (prompt,) = STEP.prompts(BATCH)
    fault = STEP.check(BATCH, prompt, read(text, FreeAnswer).value)
    assert fault is not None and "Cite only numbers from 1 to 3" in fault.detail
    row = answered(text)
    assert (row["invalid_citations"], row["dropped_sentences"]) == (1, 1)
    assert HEADING not in row["answer"]


def test_rules_name_no_source_of_their_own() -> None:
    free, bound = (step.open(Place())(BATCH).to_pylist() for step in (STEP, ComposeAnswer()))
    assert free == bound


def test_only_an_evaluation_frees_citations() -> None:
    with pytest.raises(ValueError, match=r"srrag evaluate bench=stages bench\.free_citations=true"):
        ComposeFreely()
    pipeline: Pipeline = factory.make(configure("ask", ["root=R", "question=x"])["pipeline"], "p")
    (before,) = [step for step in pipeline.answer if isinstance(step, ComposeAnswer)]
    (after,) = [step for step in freed(pipeline).answer if isinstance(step, ComposeFreely)]
    assert (after.uncited, after.snippets, after.rule) == (
        before.uncited, before.snippets, before.rule,
    )  # fmt: skip
    with pytest.raises(ValueError, match="none of its steps"):
        freed(pipeline.ranking())


@pytest.mark.parametrize("job", ["ask", "serve"])
def test_no_setting_of_service_frees_citations(job: str) -> None:
    """Naming the step is refused; nothing but an evaluation has the setting."""
    argv = ["root=R", "question=x"] if job == "ask" else ["root=R"]
    with pytest.raises(UsageError, match="free_citations"):
        configure(job, [*argv, "free_citations=true"])
    config = configure(job, [*argv, "pipeline=srrag"])
    config["pipeline"]["answer"]["compose"]["_target_"] = "srrag.answer.free_citation.ComposeFreely"
    with pytest.raises(UsageError, match="alone"):
        factory.make(config["pipeline"], "pipeline")
    config["pipeline"]["answer"]["compose"]["evaluation_only"] = True
    forced = factory.make(config["pipeline"], "pipeline")
    with pytest.raises(UsageError, match="for `srrag evaluate` alone"):
        factory.pipeline_run(config, forced)
