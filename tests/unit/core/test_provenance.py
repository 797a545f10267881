from __future__ import annotations

import json

import pytest

from srrag.answer.gate.answerable import JudgeAnswerable
from srrag.answer.write.compose import ComposeAnswer
from srrag.core.provenance import (
    KEY,
    digest,
    fitted_on,
    learned_id,
    overlap,
    packaged_fit,
    read_fitted,
    unknown,
)
from srrag.reading.tagger import shipped_fitted
from srrag.rerank.bi_encoder import RerankBiEncoder


def test_a_block_finds_what_it_has_seen_and_nothing_else() -> None:
    block = fitted_on(
        name="filter",
        command="train",
        questions=["Does  exercise help?", "B"],
        documents=["PMID-1"],
    )
    fitted = read_fitted(json.loads(json.dumps({KEY: block})), "filter")
    found = overlap(fitted, ["does exercise help", "Does exercise harm?"], ["pmid-1", "PMID-2"])
    assert (found.questions, found.documents) == ((0,), (0,))


def test_a_question_is_told_apart_from_a_pair_of_its_words() -> None:
    block = fitted_on(name="judge", command="fit", pairs=[("a", "b")])
    fitted = read_fitted({KEY: block}, "judge")
    assert fitted.pairs == {digest("a", "b")} != {digest("a b")}
    assert not overlap(fitted, ["a", "b", "a b"]).questions


def test_equal_texts_count_once_and_the_block_is_the_same_in_any_order() -> None:
    one = fitted_on(name="x", command="", questions=["A", "b", "a."])
    assert one == fitted_on(name="x", command="", questions=["b", "a"])
    assert one["counts"] == {"questions": 2}


def test_without_a_block_nothing_is_known() -> None:
    assert not read_fitted({}, "old").known
    assert not read_fitted({KEY: unknown("older")}, "old").known


@pytest.mark.parametrize("block", ["develop half", {"name": "x"}, {"name": "x", "command": ""}])
def test_another_block_is_refused_with_the_file(block: object) -> None:
    with pytest.raises(ValueError, match=r"^fit\.json: fitted_on: not what it was fitted on"):
        read_fitted({KEY: block}, "x", "fit.json")


def test_a_block_that_was_cut_is_refused() -> None:
    block = fitted_on(name="x", command="", questions=["a", "b"])
    with pytest.raises(ValueError, match="counts"):
        read_fitted({KEY: {**block, "questions": block["questions"][:10]}}, "x")


@pytest.mark.parametrize(
    ("package", "file", "kind"),
    [
        ("srrag.answer.gate", "answerable.json", "questions"),
        ("srrag.answer.select", "sentence_weights.json", "questions"),
        ("srrag.rerank", "logits.json", "questions"),
    ],
)
def test_every_packaged_fit_says_what_it_saw(package: str, file: str, kind: str) -> None:
    assert len(getattr(packaged_fit(package, file, file), kind)) > 100


def test_the_lexicon_says_which_abstracts_it_saw() -> None:
    assert len(shipped_fitted().documents) == 658


def test_the_identity_of_a_fit_is_that_of_what_was_learned() -> None:
    block = fitted_on(name="x", command="", questions=["a"])
    assert learned_id('{"a": 1}', "f") == learned_id(json.dumps({"a": 1, KEY: block}), "f")
    with pytest.raises(ValueError, match="f: not a JSON object"):
        learned_id("[1]", "f")


def test_only_packaged_weights_of_the_logit_are_known() -> None:
    assert RerankBiEncoder().fitted()[0].known
    assert not RerankBiEncoder(scale=1.0).fitted()[0].known


def test_the_rules_weights_were_fitted_a_models_answers_were_not() -> None:
    assert ComposeAnswer().fitted()[0].name == "sentence weights"
    assert JudgeAnswerable().fitted()[0].questions
