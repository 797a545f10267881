from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.schema import EVIDENCE, HITS, REJECT, SENTENCES, empty_value
from srrag.export.submission import faults_of, submission, tags, write_submissions, write_trec_runs

PIECE = {item.name: empty_value(item.type) for item in EVIDENCE.value_type}
SCHEMA = pa.schema(
    [
        ("query_id", pa.string()), ("hits", HITS), ("sentences", SENTENCES),
        ("evidence", EVIDENCE), ("reject", REJECT),
    ]
)  # fmt: skip


class Articles:
    """Units of which only the articles are asked."""

    def article_keys(self, ids: list[str]) -> pa.Array:
        return pa.array([{"u1": "11", "u2": "11", "u3": "own"}[each] for each in ids], pa.string())


def answered(*rows: dict[str, Any]) -> pa.Table:
    blank = {"hits": [], "sentences": [], "evidence": [], "reject": None}
    return pa.Table.from_pylist([{**blank, **row} for row in rows], schema=SCHEMA)


def cited(text: str, *pmids: str) -> dict[str, Any]:
    """An answer of one sentence that cites documents of these PMIDs."""
    evidence = [PIECE | {"evidence_id": f"e{n}", "pmid": pmid} for n, pmid in enumerate(pmids)]
    ids = [each["evidence_id"] for each in evidence]
    return {
        "query_id": "q1",
        "sentences": [{"text": text, "evidence_ids": ids}],
        "evidence": evidence,
    }


def test_a_run_a_row_by_article(tmp_path: Path) -> None:
    hits = [{"unit_id": f"u{n}", "score": 4.0 - n, "rank": n} for n in (1, 2, 3)]
    lost = {"query_id": "q2", "reject": {"stage": "s", "reason": "r", "detail": ""}}
    table = answered({"query_id": "q1", "hits": hits}, lost)
    counts = write_trec_runs({"b, wide": table}, Articles(), tmp_path)  # type: ignore[arg-type]
    assert counts == {"runs": 1, "lines": 2}
    assert (tmp_path / "b-wide.trec").read_text().splitlines() == [
        "q1 Q0 11 1 3.000000 b-wide",
        "q1 Q0 own 2 1.000000 b-wide",
    ]
    with pytest.raises(ValueError, match=r"'b'.*hits"):
        write_trec_runs({"b": table.drop_columns(["hits"])}, Articles(), tmp_path)  # type: ignore[arg-type]


def test_a_submission_a_row(tmp_path: Path) -> None:
    table = answered(cited("It helps.", "11", "11", "", "12"), {"query_id": "q2"})
    counts = write_submissions({"b": table}, "team", tmp_path)
    entries = json.loads((tmp_path / "b.json").read_text())
    assert entries[0] == {
        "metadata": {"team_id": "team", "run_id": "b", "topic_id": "q1"},
        "responses": [{"text": "It helps.", "citations": ["11", "12"]}],
    }
    assert entries[1]["responses"] == []
    assert counts["citations_without_pmid"] == 1
    assert faults_of(entries) == []


def test_a_sentence_without_pmid_is_left_out_and_counted() -> None:
    made = submission([cited("It helps.", "doc-1")], "t", "r")
    assert made.entries[0]["responses"] == []
    assert (made.citations_without_pmid, made.sentences_without_pmid) == (1, 1)


def test_an_answer_beyond_the_caps_is_not_written(tmp_path: Path) -> None:
    for row, hint in (
        (cited("word " * 251, "11"), "251 words"),
        (cited("It helps.", "1", "2", "3", "4"), "4 citations"),
        (cited("It helps [3].", "1"), "marker"),
    ):
        with pytest.raises(ValueError, match=f"row 'b': topic q1: .*{hint}"):
            write_submissions({"b": answered(row)}, "t", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_topic_answered_twice_is_a_fault() -> None:
    made = submission([cited("It helps.", "11"), cited("It harms.", "12")], "t", "r")
    assert faults_of(made.entries) == ["topic q1: stands twice"]


def test_tags_stay_apart() -> None:
    assert tags(["b", "e, k=4"]) == {"b": "b", "e, k=4": "e-k-4"}
    with pytest.raises(ValueError, match="same run tag"):
        tags(["b 1", "b-1"])
