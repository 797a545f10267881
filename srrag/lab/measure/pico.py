"""Scores of PICO extraction against expert labels: EBM-NLP spans, Evidence Inference phrases.

The caller passes the extractor as a function from a text to mentions (type, start, end), so this
module does not depend on any extractor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srrag.algo.classification import CLASSES, Labels, figure_intervals, token_counts
from srrag.algo.significance import Interval, ratio_interval
from srrag.core.figures import measured
from srrag.lab.datasets import json_lines

Mentions = Sequence[tuple[str, int, int]]
Extract = Callable[[str], Mentions]

CLASS_OF = {
    "Population": "P",
    "Condition": "P",
    "Intervention": "I",
    "Comparator": "I",
    "Arm": "I",
    "Device": "I",
    "Outcome": "O",
    "AdverseEvent": "O",
}
"""EBM-NLP class of each entity type: its P takes in the condition, its I the comparator."""

FIELD_TYPES: dict[str, tuple[str, ...]] = {
    "intervention": ("Intervention", "Device", "Arm"),
    "comparator": ("Comparator", "Arm"),
    "comparator_or_intervention": ("Comparator", "Arm", "Intervention", "Device"),
    "outcome": ("Outcome", "AdverseEvent"),
}
"""Types that count for each field; an active comparator may well be found as an intervention."""


def token_labels(text: str, mentions: Mentions) -> Labels:
    """Label each blank-separated token: 0 none, else 1 + index in CLASSES; shape (tokens,).

    A token belongs to a mention that overlaps it; if mentions of two classes overlap it, the
    first in the list wins.
    """
    starts, ends, at = [], [], 0
    for token in text.split(" "):
        starts.append(at)
        ends.append(at + len(token))
        at += len(token) + 1
    first, last = np.asarray(starts), np.asarray(ends)
    labels = np.zeros(len(starts), np.int8)
    for kind, start, end in mentions:
        if kind in CLASS_OF:
            low, high = np.searchsorted(last, start, "right"), np.searchsorted(first, end, "left")
            part = labels[low:high]
            part[part == 0] = 1 + CLASSES.index(CLASS_OF[kind])
    return labels


def gold_labels(num_tokens: int, spans: Sequence[Mapping[str, Any]]) -> Labels:
    """Label each token from EBM-NLP `spans[{label, tok: [first, end)}]`; shape (num_tokens,).

    Raises ValueError for a span that lacks a key, has another class, or lies outside the text.
    """
    labels = np.zeros(num_tokens, np.int8)
    for span in spans:
        try:
            label, (low, high) = span["label"], span["tok"]
        except (KeyError, TypeError, ValueError):
            raise ValueError("a span without its 'label' and two numbers 'tok'") from None
        if label not in CLASSES:
            raise ValueError(f"label {label!r} is not one of {', '.join(CLASSES)}")
        if not 0 <= low < high <= num_tokens:
            raise ValueError(f"tokens [{low}, {high}) lie outside the text of {num_tokens}")
        labels[low:high] = 1 + CLASSES.index(label)
    return labels


def score_ebmnlp(path: Path, extract: Extract, *, resamples: int, seed: int) -> dict[str, Any]:
    """Token F1 over all abstracts of an EBM-NLP file; the headline is `token_macro_F1`.

    Returns `metrics`, with intervals over abstracts, and `documents`. Raises ValueError naming the
    file and line if a line is not an EBM-NLP record.
    """
    counts = []
    for place, row in json_lines.rows(path, "an abstract of EBM-NLP", ("text", "spans")):
        try:
            gold = gold_labels(len(row["text"].split(" ")), row["spans"])
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        counts.append(token_counts(gold, token_labels(row["text"], extract(row["text"]))))
    if not counts:
        raise ValueError(f"{path}: no abstracts")
    found = figure_intervals(np.stack(counts), resamples=resamples, seed=seed)
    metrics = {name: measured(each, len(counts)) for name, each in found.items()}
    return {"metrics": metrics, "documents": len(counts)}


_WORD = re.compile(r"[^\W_]+")
_EMPTY = (
    "a an the of in on at to for by with and or as from after before than per vs versus was were "
    "is are be group groups patients"
)
_EMPTY_WORDS = frozenset(_EMPTY.split())


def content_words(text: str) -> frozenset[str]:
    """Lower-case words of a phrase that carry meaning."""
    return frozenset(_WORD.findall(text.lower())) - _EMPTY_WORDS


def phrase_scores(phrase: frozenset[str], mentions: Sequence[frozenset[str]]) -> tuple[float, ...]:
    """(token recall, overlap, match) of an expert's phrase against an article's mentions.

    Token recall is the share of the phrase's content words found in any mention; overlap is 1
    if any word is found; match is 1 if a single mention has word F1 >= .5 with the phrase.
    """
    union: frozenset[str] = frozenset().union(*mentions) if mentions else frozenset()
    shared = len(phrase & union)
    best = max((2 * len(phrase & m) / (len(phrase) + len(m)) for m in mentions if m), default=0.0)
    return shared / len(phrase), float(shared > 0), float(best >= 0.5)


def score_evidence_inference(
    folder: Path, extract: Extract, *, resamples: int, seed: int
) -> dict[str, Any]:
    """Score how much of the experts' intervention, comparator and outcome phrases was extracted.

    Compares the phrase of each prompt of `prompts.jsonl` with the mentions in title and abstract of
    its article: `<field>_token_recall`, `<field>_overlap`, `<field>_match`, means over prompts (see
    `phrase_scores`). `<field>_token_recall_chance` is the same recall against the mentions of the
    next article in the file: the score of an arbitrary medical text. Some phrases come from the
    full text, which the data lacks, so the maximum is below 1. Returns `metrics`, with intervals
    over articles, and the counts of `prompts` and `articles`.
    """
    found = {
        row["id"]: _by_field(_article_text(row), extract)
        for _, row in json_lines.rows(
            folder / "articles.jsonl", "an article", ("id", "title", "sections")
        )
    }
    ids = list(found)
    other = dict(zip(ids, [*ids[1:], *ids[:1]], strict=True))
    values: dict[str, dict[str, list[float]]] = {}
    asked: set[str] = set()
    prompts = 0
    keys = ("article_id", *dict.fromkeys(field.split("_")[0] for field in FIELD_TYPES))
    for _, row in json_lines.rows(folder / "prompts.jsonl", "a prompt", keys):
        article = row["article_id"]
        if article not in found:
            continue
        prompts += 1
        asked.add(article)
        for field in FIELD_TYPES:
            phrase = content_words(row[field.split("_")[0]])
            if not phrase:
                continue
            recall, overlap, match = phrase_scores(phrase, found[article][field])
            chance = phrase_scores(phrase, found[other[article]][field])[0]
            named = {"token_recall": recall, "overlap": overlap, "match": match}
            for name, value in {**named, "token_recall_chance": chance}.items():
                by_article = values.setdefault(f"{field}_{name}", {})
                by_article.setdefault(article, []).append(value)
    if not prompts:
        raise ValueError(f"{folder}: no prompt refers to an article")
    metrics = {
        name: measured(_mean(given, resamples, seed), len(given)) for name, given in values.items()
    }
    return {"metrics": metrics, "prompts": prompts, "articles": len(asked)}


def _mean(values: Mapping[str, Sequence[float]], resamples: int, seed: int) -> Interval:
    """The mean over the prompts of all articles, with its interval over articles."""
    sums, counts = (np.array([each(v) for v in values.values()], float) for each in (sum, len))
    return ratio_interval(sums, counts, resamples=resamples, seed=seed)


def _by_field(text: str, extract: Extract) -> dict[str, list[frozenset[str]]]:
    mentions = [(kind, content_words(text[start:end])) for kind, start, end in extract(text)]
    return {
        field: [words for kind, words in mentions if kind in types]
        for field, types in FIELD_TYPES.items()
    }


def _article_text(row: Mapping[str, Any]) -> str:
    parts = [f"{part['heading']}: {part['text']}" for part in row["sections"]]
    return "\n".join([f"{row['title']}.", *parts])
