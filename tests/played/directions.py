"""Count labelled comparisons whose finding in a root has the right direction.

    python -m tests.played.directions ROOT DATA

ROOT holds abstracts of Evidence Inference as a model extracted them, DATA is the folder of that set
(`articles.jsonl`, `prompts.jsonl`). Of the findings of an article, the one counts whose outcome,
then sides, share most words with the labelled comparison; its direction is turned where the sides
are. Better and worse are read as a rise or fall from two sizes ("46% vs. 3%"), else from the
outcome's name. Beside it stand the commonest label, and `read_statement` of the sentence that
experts marked. Each comparison is printed, for reading.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.reading.lexicon import named_terms
from srrag.reading.statement import polarity, read_statement

Row = dict[str, Any]
LABELS = {
    "significantly increased": "increased",
    "significantly decreased": "decreased",
    "no significant difference": "no difference",
}
_TURNED = {"increased": "decreased", "decreased": "increased"}
_SIZE = r"([-+−]? ?\d+(?:\.\d+)?)"
_TWO_SIZES = re.compile(_SIZE + r"[^;,]*? (?:vs\.?|versus) [^;,\d+−-]*" + _SIZE)
_P = re.compile(r"^[=>≥ ]*(0?\.\d+)$")


def read_stage(root: Path, stage: str) -> list[Row]:
    """The rows of a stage that stand."""
    paths = sorted((root / "stages" / stage).glob("*/part-*.parquet"))
    rows = pa.concat_tables([pq.read_table(path) for path in paths]).to_pylist()
    return [row for row in rows if row["reject"] is None]


def shared(one: str, other: str) -> float:
    """The share of words that two names have in common (Dice)."""
    a, b = {*named_terms(one)}, {*named_terms(other)}
    return 2 * len(a & b) / max(1, len(a) + len(b))


def moved(finding: Row) -> str:
    """Whether the outcome of a finding rose, fell or did not differ; "" where it does not tell."""
    direction = finding["direction"]
    if (p := _P.match(finding["p"])) and float(p[1]) >= 0.05:  # a trend: the labels are of tests
        return "no difference"
    if direction in ("no difference", "not inferior"):
        return "no difference"
    if direction in ("more", "less"):
        return "increased" if direction == "more" else "decreased"
    if direction not in ("better", "worse"):
        return ""
    if sizes := _TWO_SIZES.search(finding["effect"]):
        one, other = (float(each.replace("−", "-").replace(" ", "")) for each in sizes.groups())
        if one != other:
            return "increased" if one > other else "decreased"
    good = {"good": "better", "bad": "worse"}.get(polarity(finding["outcome"]))
    return "" if good is None else "increased" if direction == good else "decreased"


def best(asked: Row, findings: Iterable[Row], names: Mapping[str, str]) -> tuple[Row, bool] | None:
    """The finding that tells most nearly of a comparison, and whether its sides are turned."""

    def side(told: Iterable[str], wanted: str) -> float:
        return max((shared(wanted, f"{name} {names.get(name, '')}") for name in told), default=0.0)

    found = []
    for number, each in enumerate(findings):
        outcome = shared(asked["outcome"], f"{each['outcome']} {names.get(each['outcome'], '')}")
        sides = each["interventions"], each["comparators"]
        straight, turned = (
            side(one, asked["intervention"]) + side(other, asked["comparator"])
            for one, other in (sides, sides[::-1])
        )
        if outcome and max(straight, turned):
            near = (round(outcome, 1), bool(each["comparators"]), max(straight, turned))
            found.append((near, -number, each, turned > straight))
    return max(found)[2:] if found else None


def main(root: str, data: str) -> None:
    """Print each labelled comparison with what is told of it, and the shares."""
    folder = Path(data)
    articles = [json.loads(line) for line in (folder / "articles.jsonl").open(encoding="utf-8")]
    titles = {each["title"].casefold(): each["id"] for each in articles}
    documents = {
        each["doc_id"]: titles.get(each["title"].casefold())
        for each in read_stage(Path(root), "documents")
    }
    findings: defaultdict[str, list[Row]] = defaultdict(list)
    for each in read_stage(Path(root), "findings"):
        if each["kind"] in ("found", "concluded") and (article := documents[each["doc_id"]]):
            findings[article].append(each)
    names: defaultdict[str, str] = defaultdict(str)
    for each in read_stage(Path(root), "triples"):
        if each["tail_type"] == "other_name":
            names[each["head"]] += f" {each['tail']}"
    counts: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    held = {article for article in documents.values() if article}
    for asked in map(json.loads, (folder / "prompts.jsonl").open(encoding="utf-8")):
        if asked["article_id"] not in held or not asked["label"]:
            continue
        if not asked["evidence_in_abstract"]:
            continue
        right = LABELS[asked["label"]]
        parts = asked["outcome"], asked["intervention"], asked["comparator"]
        sentence = max((each["text"] for each in asked["evidence"]), key=len)
        counts["read_statement"] += read_statement(sentence, *parts).direction == right
        labels[right] += 1
        match = best(asked, findings[asked["article_id"]], names)
        says = ""
        if match:
            says = moved(match[0])
            says = _TURNED.get(says, says) if match[1] else says
        verdict = "right" if says == right else "untold" if not says else "wrong"
        counts[verdict] += 1
        print(f"{verdict:6} {asked['article_id']} {right}: {' | '.join(parts)}")
        if match:
            row = match[0]
            told = " + ".join(row["interventions"]), " + ".join(row["comparators"]), row["outcome"]
            print(f"       {row['direction']} {row['effect']} {row['p']}: {' | '.join(told)}")
    total = labels.total()
    (label, most), *_ = labels.most_common(1)
    print(f"{total} comparisons of {len(held)} articles whose abstract holds the evidence")
    for name in ("right", "wrong", "untold", "read_statement"):
        print(f"{name} {counts[name] / total:.3f}")
    print(f"the commonest label ({label}) {most / total:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
