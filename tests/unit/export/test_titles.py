from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.export.graph import unique_titles


def titled(names: list[str], hints: list[str], ids: list[str]) -> list[str]:
    columns = (pa.chunked_array([pa.array(c, pa.string())]) for c in (names, hints, ids))
    titles: list[str] = unique_titles(*columns).to_pylist()
    return titles


def test_a_title_is_no_longer_than_it_takes() -> None:
    ids = ["0034e4" + "a" * 26, "0034e5" + "a" * 26, "0034e6" + "a" * 26, "0034e7" + "a" * 26]
    names, types = ["daily", "daily", "weekly", "daily"], ["dose", "dose", "dose", "rest"]
    assert titled(names, types, ids) == [
        "daily (dose) (0034e4)", "daily (dose) (0034e5)", "weekly", "daily (rest)",
    ]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "a (t)", "b", "a (t) (0)", "a (0)"]), st.sampled_from("tu")
        ),
        max_size=12,
    )
)
@settings(deadline=None)
def test_titles_are_unique_for_any_names(rows: list[tuple[str, str]]) -> None:
    names, types = ([row[n] for row in rows] for n in (0, 1))
    ids = [f"{n:032}" for n in range(len(rows))]
    titles = titled(names, types, ids)
    assert len(set(titles)) == len(rows)
    assert all(title.startswith(name) for title, name in zip(titles, names, strict=True))
