from __future__ import annotations

from srrag.serve.api.rerank import slices


def test_slices_hold_all_texts_in_order_and_each_at_least_one() -> None:
    texts = ["a" * 500, "b" * 400, "c" * 20_000, "d", "e" * 999, "f"]
    assert [list(part) for part in slices(texts)] == [
        texts[:2], texts[2:3], texts[3:5], texts[5:]
    ]  # fmt: skip
    assert [list(part) for part in slices(["x"])] == [["x"]]
