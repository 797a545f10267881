from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.core.provenance import KEY, digest, fitted_on, overlap, read_fitted
from srrag.core.step import Place
from srrag.lab.experiment.components import (
    agreement,
    check_unseen,
    evaluate_extraction,
    nli_cases,
    read_nli,
    verdicts,
)
from srrag.lab.experiment.running import Terms
from srrag.lab.judges.gold import JudgeByGold
from srrag.lab.judges.nuggets import MeasureNuggets
from tests.judged import answered

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


E, N, C = "Entailment", "Neutral", "Contradiction"


def pair(name: str, label: str = E, **values: Any) -> dict[str, Any]:
    said = {"question": "Q", "answer": "Bananas help.", "nugget": "Bananas help"}
    return {"id": name, **said, "label": label, "votes": [label] * 3, **values}


def measured(cases: pa.Table) -> pa.Table:
    return MeasureNuggets().open(Place())(cases)


def test_figures_by_hand() -> None:
    """Of two entailed pairs one is found, of two others one; one got no verdict, so it is wrong."""
    rows = [pair("a", E), pair("b", E), pair("c", N), pair("d", C), pair("e", N)]
    given = {"a": E, "b": N, "c": E, "d": C}
    found = agreement(rows, given, resamples=50, seed=0)
    assert (found["pairs"], found["failed"]) == (5, 1)
    values = {name: each["value"] for name, each in found["metrics"].items()}
    assert values["accuracy_3"] == 0.4
    assert (values["precision"], values["recall"], values["F1"]) == (0.3333, 0.5, 0.4)
    assert values["accuracy"] == 0.4
    assert values["alpha_physicians"] == 1.0
    assert found["metrics"]["F1"] == {"value": 0.4, "low": 0.4, "high": 0.4, "n": 1}, "one question"


def test_the_bootstrap_draws_questions() -> None:
    """Two of three questions are right: a share of 0 or 1 has (1/3)³ or (2/3)³ of the draws."""
    rows = [pair(str(n), E, question=f"Q{n}") for n in range(3)]
    found = agreement(rows, {"0": E, "1": E, "2": N}, resamples=2000, seed=0)["metrics"]
    assert found["accuracy_3"] == {"value": 0.6667, "low": 0.0, "high": 1.0, "n": 3}
    assert (found["precision"]["value"], found["recall"]["value"]) == (1.0, 0.6667)


def test_no_value_is_said() -> None:
    found = agreement([pair("a", E)], {"a": E}, resamples=10, seed=0)["metrics"]
    assert found["alpha"]["value"] is None
    assert "all ratings are equal" in found["alpha"]["reason"]
    nothing = agreement([pair("a", E), pair("b", N)], {}, resamples=10, seed=0)
    values = nothing["metrics"]
    assert (values["accuracy"]["value"], values["F1"]["value"]) == (0.0, 0.0)
    assert nothing["failed"] == 2
    assert "no item was rated twice" in values["alpha"]["reason"]


def test_verdicts_are_read_from_judgements() -> None:
    """Four pairs share an answer, and one call; the last answer's verdict is lost."""
    rows = [pair(name, nugget=name) for name in "abcd"] + [pair("e", answer="Apples help.")]
    words = ("full", "partial", "contradicted", "none")
    facts = [{"n": n, "reason": "", "verdict": word} for n, word in enumerate(words, 1)]
    said = {"facts": facts, "parts": [], "claims": []}
    judged = answered(JudgeByGold(), nli_cases(rows), said, "nonsense")
    assert verdicts(rows, measured(judged)) == {"a": E, "b": E, "c": C, "d": N}


def test_an_empty_answer_entails_nothing() -> None:
    rows = [pair("a", answer=" ")]
    assert verdicts(rows, measured(JudgeByGold().open(Place())(nli_cases(rows)))) == {"a": N}


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": "a"}', json.dumps(pair("a", "Maybe")), json.dumps(pair("a"))[:-9]]
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "nli.jsonl"
    path.write_text(json.dumps(pair("a")) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=r"nli\.jsonl:2: not a judged pair"):
        read_nli(path)


def test_no_pair(tmp_path: Path) -> None:
    (tmp_path / "nli.jsonl").write_text("")
    with pytest.raises(ValueError, match="there is no judged pair"):
        read_nli(tmp_path / "nli.jsonl")


def test_the_rules_agree_with_physicians_better_than_a_cosine_does(shared_data: Path) -> None:
    """.649 is the best F1 that any threshold on MiniLM's cosine reaches on these pairs."""
    rows = read_nli(shared_data / "kqa" / "nli.jsonl")
    given = verdicts(rows, measured(JudgeByGold(words=None).open(Place())(nli_cases(rows))))
    found = agreement(rows, given, resamples=20, seed=0)
    assert found["metrics"]["F1"]["value"] > 0.67
    (tuned,) = JudgeByGold().fitted()
    seen = overlap(tuned, [row["question"] for row in rows]).questions
    apart = [row for place, row in enumerate(rows) if place not in seen]
    assert all(
        (digest(row["answer"], row["nugget"]) in tuned.pairs) for row in map(rows.__getitem__, seen)
    )
    assert len(apart) == 149
    held = agreement(apart, given, resamples=20, seed=0)
    assert held["metrics"]["F1"]["value"] > 0.67
