from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.answer.select.papers import EVIDENCE_TOKENS, room_of
from srrag.core.schema import FOUND, HITS, empty_value
from srrag.core.spec import evidence_id
from srrag.core.step import Place
from srrag.systems.biogen.gather_documents import GatherDocuments
from tests.unit.answer.select.test_papers import ABSTRACT, D, index_of_papers
from tests.unit.index.tables import uid

WINDOWS = {  # unit: article, span, text
    "u1": ("11", (0, 9), "Zinc helps."),
    "u2": ("11", (20, 30), "It is dear."),
    "u3": ("12", (0, 5), "Rest helps."),
    "u4": ("11", (0, 9), "Zinc helps."),
}


class Index:
    """Windows with what their documents say of them."""

    def take_evidence(self, ids: list[str]) -> pa.Table:
        blank = dict.fromkeys(("doc_id", "grade", "title", "section"), "") | {"year": 0}
        return pa.Table.from_pylist(
            [
                {"unit_id": name, "parent_id": "", "source_id": name, "pmid": WINDOWS[name][0]}
                | blank
                | {"char_start": WINDOWS[name][1][0], "char_end": WINDOWS[name][1][1]}
                | {"text": WINDOWS[name][2]}
                for name in ids
            ]
        )

    def article_keys(self, ids: list[str]) -> pa.Array:
        return pa.array([WINDOWS[name][0] for name in ids], pa.string())


STEP = "srrag.systems.biogen.gather_documents"


def gathered(monkeypatch: pytest.MonkeyPatch, finds: list[str], **fields: Any) -> list[Any]:
    monkeypatch.setattr(
        "srrag.systems.biogen.gather_documents.open_units", lambda at, name: Index()
    )
    hits = [
        {"unit_id": name, "score": 2.0 - n, "rank": n + 1} for n, name in enumerate(("u1", "u3"))
    ]
    blank = {item.name: empty_value(item.type) for item in FOUND.value_type}
    found = [blank | {"unit_id": name} for name in finds]
    table = pa.table({"hits": pa.array([hits], HITS), "found": pa.array([found], FOUND)})
    (row,) = GatherDocuments(**fields).open(Place())(table)[fields.get("into", "documents")]
    return list(row.as_py())


def test_a_document_has_its_hit_first_and_then_what_else_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = gathered(monkeypatch, ["u3", "u2", "u1", "u4"], windows=4)
    assert first["text"] == "Zinc helps.\nIt is dear."
    assert (first["char_start"], first["char_end"]) == (-1, -1)
    assert first["evidence_id"] == evidence_id("document", "u1", first["text"])
    assert (first["kind"], first["unit_id"], first["pmid"]) == ("document", "u1", "11")
    assert (second["text"], second["char_start"], second["char_end"]) == ("Rest helps.", 0, 5)


def test_an_abstract_is_whole_whichever_window_was_found(tmp_path: Path) -> None:
    """Window 2 is the last of three of paper a; 6 is of a paper of 570 tokens, 4 its other text."""
    hits = [{"unit_id": uid(n), "score": 2.0 - k, "rank": k + 1} for k, n in enumerate((2, 6))]
    table = pa.table({"hits": pa.array([hits], HITS)})
    at = index_of_papers(tmp_path)
    ((whole, long),) = GatherDocuments(found="").open(at)(table)["documents"].to_pylist()
    assert [line for line in whole["text"].splitlines() if line and line[0] != "#"] == [*ABSTRACT]
    assert (whole["unit_id"], whole["char_start"], whole["score"]) == (uid(2), -1, 2.0)
    assert "Introduction told." in long["text"] and "Casts in short." in long["text"]
    assert room_of(2, EVIDENCE_TOKENS) == (1500, 1500) and room_of(3, EVIDENCE_TOKENS)[1] == 600


def test_what_must_not_be_cited_is_not_read_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paper 12 has two documents, of which the one that was found is in order."""

    class Said:
        def find(self, doc_ids: list[str]) -> tuple[list[str], list[str]]:
            return ["deleted" if name == D else "ok" for name in doc_ids], [""] * len(doc_ids)

    monkeypatch.setattr(f"{STEP}.Standings.of", lambda at, stage: Said())
    table = pa.table({"hits": pa.array([[{"unit_id": uid(6), "score": 1.0, "rank": 1}]], HITS)})
    at = index_of_papers(tmp_path)
    ((long,),) = GatherDocuments(found="").open(at)(table)["documents"].to_pylist()
    assert "Introduction told." in long["text"] and "Casts in short." not in long["text"]


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(gathered(monkeypatch, ["u2"], k=1, windows=4)) == 1
    (first, _) = gathered(monkeypatch, ["u2"], windows=1, into="evidence")
    assert first["text"] == "Zinc helps."
    assert gathered(monkeypatch, [], found="", windows=1)[0]["text"] == "Zinc helps."
    with pytest.raises(ValueError, match="0 for all"):
        GatherDocuments(windows=-1)


def test_a_retracted_paper_is_left_out_by_name_and_the_next_one_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {"u1": ("retracted", "pmid:9"), "u3": ("ok", "")}

    class Said:
        def find(self, documents: list[str]) -> tuple[list[str], list[str]]:
            some = [told[name] for name, _ in zip(told, documents, strict=True)]
            return [each for each, _ in some], [link for _, link in some]

    monkeypatch.setattr(
        "srrag.systems.biogen.gather_documents.Standings.of", lambda at, stage: Said()
    )
    (kept,) = gathered(monkeypatch, [], k=1, found="", windows=1)
    assert (kept["unit_id"], kept["standing"]) == ("u3", "ok")
    first, _ = gathered(monkeypatch, [], found="", windows=1, status="show")
    assert (first["standing"], first["standing_link"]) == ("retracted", "pmid:9")
    with pytest.raises(ValueError, match="status is 'maybe'"):
        GatherDocuments(status="maybe")
