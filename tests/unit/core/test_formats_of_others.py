"""Files of other programs: queries with a byte order mark, names with blanks in a run."""

from pathlib import Path

from srrag.core.formats import read_queries, write_run


def test_queries_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text('{"id": "q1", "text": "Does rest help?"}\n', encoding="utf-8-sig")
    assert [query["query_id"] for query in read_queries(path)] == ["q1"]


def test_a_run_has_six_columns_whatever_a_document_is_called(tmp_path: Path) -> None:
    rows = [{"query_id": "q1", "hits": [{"unit_id": "u", "score": 2.0}]}]
    write_run(tmp_path / "run.trec", rows, {"u": "Smith 2019 knee.md"}, "srrag")
    assert (tmp_path / "run.trec").read_text() == "q1 Q0 Smith_2019_knee.md 1 2.000000 srrag\n"
