"""`python -m perf.mismatch FOLDER`: what the rules notice of other people and interventions.

FOLDER is in BEIR's format. Each question's block is its twelve best windows by BM25. Prints one
JSON object: questions, those with a notice, mismatches, processor milliseconds a question, and
how many windows of the blocks are relevant by the qrels, and are called a mismatch all the same
(by experts' judgement most of these are wrong, but for studies in animals). `--show` prints
notices, drawn with a seed, for reading.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import tantivy

from srrag.answer.mismatch import NoticeMismatch
from srrag.expand.picot_anchors import FindAnchors
from srrag.schema import EVIDENCE, REJECT, empty_value
from srrag.step import Place

BLOCK = 12


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def blocks(corpus: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[list[int]]:
    """Return the row numbers of each question's best windows."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="en_stem")
    builder.add_integer_field("n", stored=True)
    index = tantivy.Index(builder.build())
    writer = index.writer()
    for number, window in enumerate(corpus):
        text = f"{window['title']} {window['text']}"
        writer.add_document(tantivy.Document(text=text, n=number))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    found = []
    for question in questions:
        words = " ".join(re.findall(r"\w+", question["text"]))
        hits = searcher.search(index.parse_query(words.lower(), ["text"]), BLOCK).hits
        found.append([searcher.doc(address)["n"][0] for _, address in hits])
    return found


def table(folder: Path) -> pa.Table:
    """Questions with their evidence."""
    corpus, questions = (read_jsonl(folder / f"{name}.jsonl") for name in ("corpus", "queries"))
    blank = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}
    evidence = [
        [
            blank
            | {"evidence_id": corpus[n]["_id"], "title": corpus[n]["title"]}
            | {"text": corpus[n]["text"], "doc_id": corpus[n]["_id"].rpartition("-")[0]}
            for n in block
        ]
        for block in blocks(corpus, questions)
    ]
    columns = {
        "query_id": [question["_id"] for question in questions],
        "text": [question["text"] for question in questions],
        "evidence": pa.array(evidence, EVIDENCE),
        "reject": pa.nulls(len(questions), REJECT),
    }
    return pa.table(columns)


def main() -> None:
    """Measure, print notices to stderr and the figures to stdout."""
    parser = argparse.ArgumentParser(prog="python -m perf.mismatch")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", type=int, default=0)
    options = parser.parse_args()
    with (options.folder / "qrels" / "test.tsv").open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t")
        relevant = {(row["query-id"], row["corpus-id"]) for row in rows if int(row["score"]) > 0}
    asked = FindAnchors().open(Place())(table(options.folder))
    notice = NoticeMismatch().open(Place())
    notice(asked.slice(0, 1))
    started = time.process_time()
    answered = notice(asked).to_pylist()
    seconds = time.process_time() - started
    gold = [(r["query_id"], e["evidence_id"]) for r in answered for e in r["evidence"]]
    wrong = [(r["query_id"], m["evidence_id"]) for r in answered for m in r["mismatches"]]
    noticed = [row for row in answered if row["notice"]]
    random.seed(0)
    for row in random.sample(noticed, min(options.show, len(noticed))):
        print(f"{row['text']}\n    {row['notice']}", file=sys.stderr)
        for number, item in enumerate(row["evidence"][:6], 1):
            print(f"    {number} {item['title'][:120]}", file=sys.stderr)
    figures = {
        "questions": len(answered),
        "notices": len(noticed),
        "mismatches": len(wrong),
        "ms_per_question": round(1000 * seconds / len(answered), 1),
        "relevant_windows": sum(pair in relevant for pair in gold),
        "relevant_mismatches": sum(pair in relevant for pair in wrong),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
