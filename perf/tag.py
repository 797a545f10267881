"""Passages a CPU-second that rules and tagger turn into facts, on one thread, in one run.

    python -m perf.tag CORPUS.jsonl MODEL [--passages 1000] [--backends torch torch-int8]

The rounds of all are interleaved, so that other work on the machine slows them alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch

from srrag.config.compose import configure
from srrag.extract.find_mentions import FindByRules, FindByTagger, FindMentions
from srrag.extract.rule_facts import extract_facts
from srrag.spec import build

BATCH = 500


def main() -> None:
    """Measure and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("model")
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--backends", nargs="+", default=["torch", "torch-int8"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    with args.corpus.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in islice(lines, args.passages)]
    finders: dict[str, FindMentions] = {"rules": FindByRules()}
    for backend in args.backends:
        finders[backend] = FindByTagger(model=args.model, backend=backend)
    seconds, facts = dict.fromkeys(finders, 0.0), dict.fromkeys(finders, 0)
    for finder in finders.values():
        finder.open(1)
        extract(finder)(texts[:20])
    for start in range(0, len(texts), BATCH):
        for name, finder in finders.items():
            began = time.process_time()
            facts[name] += extract(finder)(texts[start : start + BATCH])
            seconds[name] += time.process_time() - began
    words = sum(len(text.split()) for text in texts)
    print(f"{len(texts)} passages, {words / len(texts):.0f} words each")
    for name in finders:
        rate = len(texts) / seconds[name]
        share = seconds[name] / seconds["rules"]
        print(f"{name:<12}{rate:9.0f} passages/CPU-s {share:6.1f} x rules {facts[name]:8} facts")


def extract(finder: FindMentions) -> Callable[[list[str]], int]:
    """A function from texts to the number of their facts."""
    ontology = build(configure("build", ["root=R"])["schema"])

    def run(texts: list[str]) -> int:
        size = len(texts)
        found = extract_facts(
            texts, [""] * size, [True] * size, ["document"] * size, ontology, finder.find
        )
        return sum(len(facts) for facts, _ in found)

    return run


if __name__ == "__main__":
    main()
