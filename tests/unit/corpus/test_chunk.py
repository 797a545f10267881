import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.ids import content_id
from srrag.core.schema import DOCUMENTS, empty_value
from srrag.core.step import Place
from srrag.corpus.chunk import MAX_BLOCKS, ChunkBySections, estimate_tokens, join_blocks, pack_units

REHAB = Path(__file__).parents[4] / "shared/data/rehab/documents_md.jsonl"
TEXT = "# T\n\n## Results\n\nFirst.\n\nSecond.\n\nDoses:\n\n- one\n- two\n\n## Conclusion\n\nLast."
STEP = ChunkBySections()


def documents(*texts: str, **columns: Any) -> pa.Table:
    rows = [
        {field.name: empty_value(field.type) for field in DOCUMENTS}
        | {"doc_id": f"d{i}", "title": "T", "text": text, "grade": "B", "reject": None}
        | columns
        for i, text in enumerate(texts)
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def assert_partition(text: str, chunks: pa.Table) -> None:
    position = 0
    for order, chunk in enumerate(chunks.to_pylist()):
        start, end = chunk["char_start"], chunk["char_end"]
        assert chunk["order"] == order
        assert position <= start < end
        assert not text[position:start].strip()
        assert chunk["text"] == text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()


def test_sections_are_packed_and_copy_document_columns() -> None:
    chunks = STEP.open(Place())(documents(TEXT)).to_pylist()
    assert [(c["section"], c["text"]) for c in chunks] == [
        ("Results", TEXT[: TEXT.index("## Conclusion")].strip()),
        ("Conclusion", "## Conclusion\n\nLast."),
    ]
    first = chunks[0]
    assert first["unit_id"] == content_id("d0", "chunk", "0", str(first["char_end"]))
    assert (first["view"], first["parent_id"], first["grade"]) == ("chunk", "", "B")


def test_a_long_section_is_packed_in_runs() -> None:
    text = "\n\n".join(f"p{i}" for i in range(MAX_BLOCKS + 1))
    chunks = STEP.open(Place())(documents(text))
    assert_partition(text, chunks)
    assert chunks["text"].to_pylist()[1:] == [f"p{MAX_BLOCKS}"]


def packed(sizes: list[int], kinds: list[str]) -> list[list[int]]:
    return pack_units(join_blocks(sizes, kinds, 10), 10)


def test_lists_and_tables_stay_with_their_lead_where_both_fit() -> None:
    kinds = ["paragraph", "paragraph", "list", "table"]
    assert packed([6, 3, 4, 9], kinds) == [[1], [2, 3], [4]]
    assert packed([6, 3, 8, 1], kinds) == [[1, 2], [3, 4]]
    assert packed([99, 1], kinds[:2]) == [[1], [2]]


def test_a_table_its_caption_and_its_notes_stay_together_whatever_their_length() -> None:
    kinds = ["paragraph", "caption", "table", "paragraph", "paragraph", "paragraph"]
    assert packed([6, 3, 900, 4, 60, 61], kinds) == [[1], [2, 3, 4, 5], [6]]
    table = "Table 1. Doses\n\n| a |\n| - |\n| 1 |\n\na, dose."
    text = f"See Table 1.\n\n{table}\n\n{'w ' * 200}"
    chunks = ChunkBySections(target_tokens=5).open(Place())(documents(text))["text"].to_pylist()
    assert chunks[:2] == ["See Table 1.", table]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["# a", "b.", "- c", "|d|", "\n\n", "\n", "é\u3000", "w" * 99])),
)
def test_chunks_partition_any_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert_partition(text, ChunkBySections(target_tokens=30).open(Place())(documents(text)))


def test_rejected_rows() -> None:
    run, b = STEP.open(Place()), documents("x\n\ny", doc_id="other")
    rejected = documents(TEXT, reject={"stage": "s", "reason": "r", "detail": ""})
    assert run(pa.concat_tables([rejected, b])).equals(run(b))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="target_tokens is 0"):
        ChunkBySections(target_tokens=0)


def test_estimate_is_at_least_one_and_counts_bytes() -> None:
    assert estimate_tokens("") == 1
    assert estimate_tokens("x" * 45) == 10


@pytest.mark.skipif(not REHAB.exists(), reason="the rehab documents are not on this machine")
def test_real_documents_are_partitioned() -> None:
    texts = [json.loads(line)["markdown"] for line in REHAB.read_text("utf-8").splitlines()]
    chunks = STEP.open(Place())(documents(*texts))
    doc_ids = chunks["doc_id"].to_pylist()
    for i in range(0, len(texts), 10):
        mine = chunks.filter(pa.array([doc_id == f"d{i}" for doc_id in doc_ids]))
        assert_partition(texts[i], mine)
