"""What a page says of a whole library."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from srrag.serve.library_facts import library_facts


class Papers:
    """The two copies of one paper, and another; only the first copy has a grade."""

    documents = pa.table({
        "doc_id": ["a", "b", "c"], "pmid": ["1", "1", "2"], "year": [2020, 2020, 2021],
        "title": ["Aspirin: a review", "Aspirin: a review", "Rest"], "grade": ["B", "", ""],
    })  # fmt: skip
    units = pa.table({"text": ["x", "y"]})

    def __len__(self) -> int:
        return 2


def test_a_paper_has_the_best_grade_of_its_copies() -> None:
    papers: Any = Papers()
    assert library_facts(papers, 0, "v").grades == {"B": 1, "": 1}
