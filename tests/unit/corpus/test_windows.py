import pickle

import pyarrow as pa
import pytest

from srrag.core.ids import content_id
from srrag.core.schema import UNITS, empty_value
from srrag.core.step import Place
from srrag.corpus.windows import CutWindows
from srrag.model.encoder import Encoder

LONG = "Quadriceps strength rose by 12.5% in both groups (p < 0.05). " * 60


def chunks(*texts: str) -> pa.Table:
    rows = [
        {field.name: empty_value(field.type) for field in UNITS}
        | {"unit_id": f"c{i}", "doc_id": "d", "view": "chunk", "order": i, "section": "Results"}
        | {"char_start": 10_000 * i, "char_end": 10_000 * i + len(text), "text": text}
        | {"grade": "C", "repairs": 2, "reject": None}
        for i, text in enumerate(texts)
    ]
    return pa.Table.from_pylist(rows, schema=UNITS)


def test_windows_keep_what_their_chunk_says() -> None:
    table = CutWindows(encoder=Encoder()).open(Place())(chunks(" short text ", LONG))
    assert table.schema == UNITS
    first, *others = table.to_pylist()
    assert (first["text"], first["char_start"], first["char_end"]) == ("short text", 1, 11)
    assert first["unit_id"] == content_id("d", "window", "1", "11")
    assert (first["view"], first["parent_id"], first["num_tokens"]) == ("window", "c0", 2)
    assert (first["section"], first["grade"], first["repairs"]) == ("Results", "C", 0)
    assert len(others) > 1
    orders = [window["order"] for window in others]
    assert orders == sorted(set(orders))
    for window in others:
        start, end = window["char_start"] - 10_000, window["char_end"] - 10_000
        assert window["text"] == LONG[start:end]
        assert 64 < window["num_tokens"] <= 320
        assert window["parent_id"] == "c1"


def test_batches_split_and_empty_and_rejected_rows() -> None:
    run = pickle.loads(pickle.dumps(CutWindows(encoder=Encoder()))).open(Place())
    both = chunks("one", LONG)
    assert run(both).equals(pa.concat_tables([run(both.slice(0, 1)), run(both.slice(1))]))
    assert run(both.slice(0, 0)).equals(UNITS.empty_table())
    reject = pa.array([{"stage": "s", "reason": "r", "detail": ""}, None], UNITS.field(-1).type)
    rejected = both.set_column(both.num_columns - 1, UNITS.field(-1), reject)
    assert run(rejected).equals(run(both.slice(1)))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="size_tokens is 8"):
        CutWindows(encoder=Encoder(), size_tokens=8)
    with pytest.raises(ValueError, match="overlap_tokens is 160"):
        CutWindows(encoder=Encoder(), overlap_tokens=160)
