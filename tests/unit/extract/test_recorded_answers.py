"""Ten abstracts (CC BY) as a capable model extracted them, told by its recorded answers.

They were asked for when relations that now follow from types were still to be stated.
"""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from srrag.core.step import Place
from srrag.extract.extract_documents import Extraction
from srrag.extract.list_extracts import ListFindings, ListTriples
from srrag.llm.read_answer import read
from tests.unit.extract.test_extract_documents import PICO, documents, reason

ANSWERS = Path(__file__).parent / "recorded" / "ten_abstracts.jsonl"
ARTICLES = Path(__file__).parents[4] / "shared/data/evidence_inference/articles.jsonl"

pytestmark = pytest.mark.skipif(not ARTICLES.is_file(), reason="the shared data is not here")


def test_nothing_that_it_said_is_refused_and_each_quote_stands_in_its_abstract() -> None:
    answers = {each["pmcid"]: each["answer"] for each in map(json.loads, ANSWERS.open())}
    papers = [each for each in map(json.loads, ARTICLES.open()) if each["id"] in answers]
    assert len(papers) == len(answers) == 10
    facts = findings = 0
    refused: Counter[str] = Counter()
    for paper in papers:
        text = "\n\n".join(f"## {s['heading']}\n\n{s['text']}" for s in paper["sections"])
        table = documents(text, title=paper["title"])
        given = read(json.dumps(answers[paper["id"]]), Extraction)
        told: pa.Table = PICO.parse(table, PICO.prompts(table), [given])
        rows = ListTriples().open(Place())(told).to_pylist()
        refused.update(row["reject"]["detail"] for row in rows if reason(row) == "type_mismatch")
        assert {reason(row) for row in rows} <= {"None", "proposed", "type_mismatch"}, paper["id"]
        for row in rows:
            assert text[row["char_start"] : row["char_end"]] in ("", row["quote"])
        facts += sum(row["reject"] is None for row in rows)
        findings += len(ListFindings().open(Place())(told))
    assert (facts, findings) == (540, 143)
    assert refused == {
        "Intervention uses_device Device": 1,
        "Comparator uses_device Device": 1,
        "Recommendation has_population Population": 1,
    }
