"""`srrag fit_abstain`: learn from questions that a corpus cannot answer when to abstain."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srrag.answer.gate.coverage import count_texts
from srrag.answer.select.evidence import SelectEvidence
from srrag.config import factory
from srrag.core.errors import UsageError, check_numbers, reading
from srrag.core.figures import printed
from srrag.core.pipeline import Pipeline
from srrag.core.provenance import KEY, fitted_on
from srrag.core.spec import file_sha256
from srrag.lab.experiment.abstain import evidence_of, fit, make_examples, read_texts, stated
from srrag.lab.measure.near_topic import read_near_topic
from srrag.lab.measure.references import read_qrels
from srrag.runner.progress import say
from srrag.storage.atomic_write import commit_json


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Find evidence for every question, fit, and write `answerable.json`."""
    started = time.perf_counter()
    bench, train = config["bench"], config["train"]
    check_numbers(train, least=1, k=1, depth=1)
    if config["root"] is None or not bench["answerable"]:
        raise UsageError("root= and bench.answerable= are needed: a build of that corpus")
    given = [train["texts"]] if isinstance(train["texts"], str) else train["texts"]
    texts = [Path(each) for each in given]
    near, answerable = Path(bench["path"]), Path(bench["answerable"])
    with reading(near), reading(answerable):
        questions = read_near_topic(near, answerable, bench["side"])
        qrels = read_qrels(answerable / "qrels" / "test.tsv")
        frequencies = count_texts(read_texts(texts), train["least"])
    own = {query: frozenset(documents) for query, documents in qrels.items()}
    made: Pipeline = factory.make(config["pipeline"], "pipeline")
    first = Pipeline(rank=made.rank, answer=(SelectEvidence(k=train["depth"]),))
    bound = factory.pipeline_run(config, first)
    evidence = evidence_of(bound, questions, factory.place(config))
    examples = make_examples(questions, evidence, own, frequencies, train["k"])
    fitted = fit(examples, train["answer_share"], train["ridge"])
    origin = {
        "near_topic": file_sha256(near / "queries.jsonl"),
        "answerable": file_sha256(answerable / "queries.jsonl"),
        "texts": {f"{path.parent.name}/{path.name}": file_sha256(path) for path in texts},
        "side": bench["side"],
        "pipeline": [str(each) for each in config["overrides"] if each.startswith("pipeline")],
        "settings": {k: v for k, v in train.items() if k != "texts"},
        "examples": {kind: examples.kinds.count(kind) for kind in sorted(set(examples.kinds))},
    }
    out = Path(config["out"]) / "answerable.json"
    asked = [each.text for each in questions]
    block = fitted_on(name="answerable", command=config["command"], questions=asked)
    commit_json(out, {**stated(fitted, frequencies, origin), KEY: block}, sealed=True)
    for name, each in fitted.metrics.items():
        say(f"  {name:<24}{printed(each)}   (cross-fitted)")
    return {
        "questions": len(questions),
        "examples": origin["examples"],
        "threshold": round(fitted.threshold, 6),
        "metrics": fitted.metrics,
        "word": "cross-fitted",
        "words": len(frequencies.counts),
        "file": str(out),
        "seconds": round(time.perf_counter() - started, 3),
    }
