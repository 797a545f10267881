from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srrag.lab.experiment.benchmark_files import (
    LEFT_OUT,
    TRAIN,
    VALIDATION,
    shared_documents,
    split_questions,
)


def test_the_papers_proportion_where_nothing_is_shared() -> None:
    split = split_questions({f"q{n}": [f"d{n}"] for n in range(1637)}, 0.2, seed=42)
    assert split.sizes() == {TRAIN: 1310, VALIDATION: 327, LEFT_OUT: 0}
    assert (split.moved, split.left_out) == (0, 0)


def test_questions_with_a_common_document_stay_together_and_moves_are_counted() -> None:
    documents = {f"q{n}": [f"d{n // 4}"] for n in range(100)}
    split = split_questions(documents, 0.2)
    assert split.sizes() == {TRAIN: 80, VALIDATION: 20, LEFT_OUT: 0}
    assert split.moved > 0
    assert all(len({split.sides[f"q{g * 4 + i}"] for i in range(4)}) == 1 for g in range(25))


def test_a_chain_is_cut_and_what_hangs_on_both_sides_is_left_out() -> None:
    chain = {f"q{n:03}": [f"d{n}", f"d{n + 1}"] for n in range(100)}
    split = split_questions(chain, 0.2)
    assert split.sizes()[VALIDATION] == 20
    assert split.left_out == split.sizes()[LEFT_OUT] <= 2
    assert shared_documents(chain, split.sides) == []


def test_one_document_in_all_questions_leaves_no_validation() -> None:
    split = split_questions({f"q{n}": ["d", f"e{n}"] for n in range(9)}, 0.2)
    assert split.sizes() == {TRAIN: 9, VALIDATION: 0, LEFT_OUT: 0}


DOCUMENTS = st.dictionaries(
    st.integers(0, 200).map(str), st.lists(st.sampled_from("abcdefghijkl"), max_size=4), max_size=40
)


@given(DOCUMENTS, st.floats(0, 0.9), st.integers(0, 9))
def test_no_document_is_on_both_sides_whatever_is_shared(
    documents: dict[str, list[str]], share: float, seed: int
) -> None:
    split = split_questions(documents, share, seed)
    assert split.sides.keys() == documents.keys()
    assert shared_documents(documents, split.sides) == []
    assert split.sizes()[VALIDATION] <= round(share * len(documents))
    backwards = dict(reversed(documents.items()))
    assert split_questions(backwards, share, seed) == split
