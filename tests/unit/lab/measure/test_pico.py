import json
from pathlib import Path

import numpy as np
import pytest

from srrag.algo.classification import token_counts, token_figures
from srrag.lab.measure.pico import (
    content_words,
    gold_labels,
    phrase_scores,
    score_ebmnlp,
    score_evidence_inference,
    token_labels,
)
from srrag.reading.mentions import read_mentions

DATA = Path(__file__).parents[3] / ".." / "shared" / "data"
EXPERT = DATA / "pico" / "ebmnlp_expert_test.jsonl"
PROMPTS = DATA / "evidence_inference"

FEW = {"resamples": 50, "seed": 0}


def test_token_labels_mark_tokens_that_a_mention_overlaps() -> None:
    text = "Aspirin in adults with acute pain ."
    mentions = [("Intervention", 0, 7), ("Population", 11, 33), ("Timepoint", 34, 35)]
    assert token_labels(text, mentions).tolist() == [2, 0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"label": "X", "tok": [0, 1]}, ":2: label 'X' is not one of P, I, O"),
        ({"label": "P", "tok": [1, 3]}, r":2: tokens \[1, 3\) lie outside the text of 2"),
        ({"label": "P"}, ":2: a span without its 'label' and two numbers 'tok'"),
    ],
)
def test_a_wrong_span_is_named(tmp_path: Path, span: object, message: str) -> None:
    path = tmp_path / "expert.jsonl"
    rows = [{"text": "a b", "spans": spans} for spans in ([], [span])]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match=message):
        score_ebmnlp(path, lambda text: [], **FEW)


def test_the_first_mention_wins_and_half_a_token_counts() -> None:
    assert token_labels("low-dose drug", [("Outcome", 4, 8), ("Device", 0, 13)]).tolist() == [3, 2]


def test_token_figures_by_hand() -> None:
    gold = gold_labels(6, [{"label": "P", "tok": [0, 2]}, {"label": "I", "tok": [3, 5]}])
    assert gold.tolist() == [1, 1, 0, 2, 2, 0]
    figures = token_figures(token_counts(gold, np.array([1, 0, 1, 2, 2, 0], np.int8)))
    assert figures["P_precision"] == 0.5
    assert figures["P_recall"] == 0.5
    assert figures["I_F1"] == 1.0
    assert figures["O_F1"] == 0.0
    assert figures["token_macro_F1"] == pytest.approx((0.5 + 1.0 + 0.0) / 3)


def test_phrase_scores_by_hand() -> None:
    phrase = content_words("the Berg Balance Scale score")
    assert phrase == {"berg", "balance", "scale", "score"}
    mentions = [content_words("balance of patients"), content_words("Berg scale")]
    assert phrase_scores(phrase, mentions) == (0.75, 1.0, 1.0)
    assert phrase_scores(phrase, [content_words("balance")]) == (0.25, 1.0, 0.0)
    assert phrase_scores(phrase, []) == (0.0, 0.0, 0.0)


def test_perfect_extraction_scores_one(tmp_path: Path) -> None:
    text = "Aspirin for pain in adults"
    spans = [
        {"label": "I", "tok": [0, 1]},
        {"label": "O", "tok": [2, 3]},
        {"label": "P", "tok": [4, 5]},
    ]
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps({"text": text, "spans": spans}) + "\n")
    mentions = [("Intervention", 0, 7), ("Outcome", 12, 16), ("Condition", 20, 26)]
    assert score_ebmnlp(path, lambda _: mentions, **FEW)["metrics"]["token_macro_F1"] == {
        "value": 1.0, "low": 1.0, "high": 1.0, "n": 1,
    }  # fmt: skip
    assert score_ebmnlp(path, lambda _: [], **FEW)["metrics"]["token_macro_F1"]["value"] == 0.0


def test_evidence_inference_on_two_articles(tmp_path: Path) -> None:
    articles = [
        {"id": "a", "title": "Aspirin against placebo", "sections": []},
        {"id": "b", "title": "Yoga", "sections": [{"heading": "Aim", "text": "Back pain."}]},
    ]
    prompt = {"article_id": "a", "intervention": "aspirin", "comparator": "placebo pill"}
    (tmp_path / "articles.jsonl").write_text("\n".join(map(json.dumps, articles)) + "\n")
    (tmp_path / "prompts.jsonl").write_text(json.dumps({**prompt, "outcome": "pain"}) + "\n")

    def extract(text: str) -> list[tuple[str, int, int]]:
        named = (("Intervention", "Aspirin"), ("Comparator", "placebo"), ("Outcome", "pain"))
        return [(k, text.find(w), text.find(w) + len(w)) for k, w in named if w in text]

    found = score_evidence_inference(tmp_path, extract, **FEW)
    assert (found["prompts"], found["articles"]) == (1, 1), "one article is asked about"
    figures = {name: each["value"] for name, each in found["metrics"].items()}
    assert figures["intervention_token_recall"] == 1.0
    assert figures["comparator_token_recall"] == 0.5
    assert figures["comparator_match"] == 1.0
    assert figures["outcome_overlap"] == 0.0
    assert figures["outcome_token_recall_chance"] == 1.0


@pytest.mark.parametrize("line", ["{", "[]", '{"text": "a"}'])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl:1"):
        score_ebmnlp(path, lambda _: [], **FEW)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(ValueError, match="no abstracts"):
        score_ebmnlp(tmp_path / "none.jsonl", lambda _: [], **FEW)


@pytest.mark.skipif(not EXPERT.exists(), reason="the EBM-NLP expert file is not on this machine")
def test_the_rules_reach_the_floor_on_expert_labels() -> None:
    assert score_ebmnlp(EXPERT, read_mentions, **FEW)["metrics"]["token_macro_F1"]["value"] >= 0.50


@pytest.mark.skipif(not PROMPTS.exists(), reason="Evidence Inference is not on this machine")
def test_the_rules_find_what_experts_asked_about(tmp_path: Path) -> None:
    """Every tenth article: far above what another article's mentions would score."""
    lines = (PROMPTS / "articles.jsonl").read_text("utf-8").splitlines()[::10]
    (tmp_path / "articles.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "prompts.jsonl").write_bytes((PROMPTS / "prompts.jsonl").read_bytes())
    found = score_evidence_inference(tmp_path, read_mentions, **FEW)
    figures = {name: each["value"] for name, each in found["metrics"].items()}
    for field, floor in (("intervention", 0.6), ("comparator", 0.3), ("outcome", 0.45)):
        assert figures[f"{field}_token_recall"] >= floor
        assert figures[f"{field}_token_recall"] > 3 * figures[f"{field}_token_recall_chance"]
