"""How often the rule on treatments that all groups got fires where it should, and elsewhere.

    python -m perf.both_arms DATA/evidence_inference

Of the prompts of Evidence Inference whose comparator stands within the intervention, so that
something was added to it, the question is on the comparator alone (the rule should fire), then on
what was added (it should not); all other prompts are asked for their intervention (it should not).
One third of the articles, by hash, is what the rule was written on.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perf.quotes import lines
from srrag.algo.terms import terms
from srrag.answer.both_arms import given_to_all, telling_words

SEEN_ONE_IN = 3


def asked(prompt: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is asked of a prompt: the kind and the question."""
    base, whole = telling_words(prompt["comparator"]), telling_words(prompt["intervention"])
    if base and base < whole:
        words = prompt["intervention"].split()
        added = " ".join(word for word in words if not {*terms(word)} & base)
        yield "comparator", f"What is the effect of {prompt['comparator']} on {prompt['outcome']}?"
        yield "added", f"What is the effect of {added} on {prompt['outcome']}?"
    else:
        yield "other", f"Does {prompt['intervention']} affect {prompt['outcome']}?"


def main(folder: str) -> None:
    """Print, by half and kind, in how many of the prompts and articles the rule fires."""
    articles = {row["id"]: row for row in lines(Path(folder, "articles.jsonl"))}
    fired: Counter[str] = Counter()
    found: dict[str, set[str]] = {}
    for prompt in lines(Path(folder, "prompts.jsonl")):
        if prompt["label"] is None:
            continue
        article = articles[prompt["article_id"]]
        texts = [article["title"], *(part["text"] for part in article["sections"])]
        number = int(hashlib.sha256(prompt["article_id"].encode()).hexdigest(), 16)
        half = "held out" if number % SEEN_ONE_IN else "tuned"
        for kind, question in asked(prompt):
            key = f"{half}, {kind}"
            fires = any(given_to_all(question, text) for text in texts)
            fired.update({f"{key}, prompts": 1, f"{key}, fired": fires})
            found.setdefault(f"{key}, articles", set()).add(article["id"])
            if fires:
                found.setdefault(f"{key}, articles fired", set()).add(article["id"])
    print(json.dumps({**fired, **{key: len(each) for key, each in found.items()}}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
