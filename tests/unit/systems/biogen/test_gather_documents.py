from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from srrag.core.ids import evidence_id
from srrag.core.schema import FOUND, HITS, empty_value
from srrag.core.step import Place
from srrag.systems.biogen.gather_documents import GatherDocuments

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
    first, second = gathered(monkeypatch, ["u3", "u2", "u1", "u4"])
    assert first["text"] == "Zinc helps.\nIt is dear."
    assert (first["char_start"], first["char_end"]) == (-1, -1)
    assert first["evidence_id"] == evidence_id("document", "u1", first["text"])
    assert (first["kind"], first["unit_id"], first["pmid"]) == ("document", "u1", "11")
    assert (second["text"], second["char_start"], second["char_end"]) == ("Rest helps.", 0, 5)


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(gathered(monkeypatch, ["u2"], k=1)) == 1
    (first, _) = gathered(monkeypatch, ["u2"], windows=1, into="evidence")
    assert first["text"] == "Zinc helps."
    assert gathered(monkeypatch, [], found="")[0]["text"] == "Zinc helps."
    with pytest.raises(ValueError, match="at least 1"):
        GatherDocuments(windows=0)


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
    (kept,) = gathered(monkeypatch, [], k=1, found="")
    assert (kept["unit_id"], kept["standing"]) == ("u3", "ok")
    first, _ = gathered(monkeypatch, [], found="", status="show")
    assert (first["standing"], first["standing_link"]) == ("retracted", "pmid:9")
    with pytest.raises(ValueError, match="status is 'maybe'"):
        GatherDocuments(status="maybe")
