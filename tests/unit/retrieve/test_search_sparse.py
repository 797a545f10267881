from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from srrag.core.spec import build, spec
from srrag.retrieve.search_sparse import SearchSparse
from tests.unit.retrieve.parts import corpus


def test_the_column_to_search_for_is_a_field(tmp_path: Path) -> None:
    place = corpus(tmp_path / "c", ["B"] * 30).place
    batch = pa.table({"text": ["knee", "the"], "asked_next": ["gait", "sprain"]})
    step = SearchSparse(text="asked_next", into="hits_next")
    assert step.reads == ("asked_next",)
    found = step.open(place)(batch)["hits_next"].to_pylist()
    plain = SearchSparse().open(place)(pa.table({"text": ["gait", "sprain"]}))
    assert found == plain["hits_sparse"].to_pylist()
    assert all(found)
    assert build(spec(step)) == step
