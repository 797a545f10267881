"""`python -m perf.slice BENCH TYPE OUT`: the questions of one type that need several papers.

BENCH is the BEIR folder of BioASQ, whose questions name their type (`metadata.type`). OUT gets the
`queries.jsonl` and `qrels/test.tsv` of those of TYPE with 4 relevant papers or more, as a bench for
any command; the corpus is the same. Prints their number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from perf.graph_parts import of_type


def main(argv: Sequence[str]) -> None:
    """Write the two files."""
    bench, kind, out = Path(argv[0]), argv[1], Path(argv[2])
    kept = of_type(bench, kind)
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    lines = (bench / "queries.jsonl").read_text("utf-8").splitlines(keepends=True)
    asked = [line for line in lines if json.loads(line)["_id"] in kept]
    (out / "queries.jsonl").write_text("".join(asked), "utf-8")
    head, *judged = (bench / "qrels" / "test.tsv").read_text("utf-8").splitlines(keepends=True)
    gold = [line for line in judged if line.partition("\t")[0] in kept]
    (out / "qrels" / "test.tsv").write_text("".join([head, *gold]), "utf-8")
    print(len(asked))


if __name__ == "__main__":
    main(sys.argv[1:])
