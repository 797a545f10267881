from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.step import Place
from srrag.index.sparse import SparseIndex
from srrag.index.words import token_weights
from srrag.model.embed import load
from srrag.model.encoder import Encoder, load_tokenizer
from srrag.retrieve.questions import EncodeQuestions, question_table
from srrag.retrieve.weigh_tokens import WeighTokens
from srrag.storage.store import Store

ASKED = ["What does tendinopathy-specific loading do?", "", "the of and", "é 12% ACL"]


@pytest.fixture(scope="module")
def at(sample_root: Path) -> Place:
    return Place(artifacts=Store(sample_root).artifacts("default"), threads=1)


def idf(index: SparseIndex, word: str) -> float:
    """The IDF of BM25, by searching for the word alone."""
    ((ids, _),) = index.search([word], 10**6)
    held, size = len(ids), len(index)
    return float(np.log(1 + (size - held + 0.5) / (held + 0.5)))


def test_each_piece_weighs_what_its_word_does(at: Place) -> None:
    index, tokenizer = SparseIndex(at.artifact("sparse"), 0.0), load_tokenizer(Encoder())
    (weights,) = token_weights(ASKED[:1], tokenizer, index)
    spans = tokenizer.content_spans(ASKED[:1])[0]
    word = {start: ASKED[0][start:].split("-")[0].split()[0] for start, _ in spans}
    rare = [n for n, (start, _) in enumerate(spans) if 10 <= start < 22]
    assert len(rare) > 1, "the tokenizer cuts the word"
    assert weights[rare].tolist() == pytest.approx([idf(index, "tendinopathy")] * len(rare))
    (common,) = (n for n, (start, _) in enumerate(spans) if word[start] == "loading")
    assert weights[common] == pytest.approx(idf(index, "loading"))
    assert weights[rare[0]] > weights[common] > 0


def test_a_word_that_the_index_leaves_out_weighs_1(at: Place) -> None:
    index, tokenizer = SparseIndex(at.artifact("sparse")), load_tokenizer(Encoder())
    (weights,) = token_weights(["the of and"], tokenizer, index)
    assert weights.tolist() == [1.0, 1.0, 1.0]


def test_there_are_as_many_weights_as_tokens(at: Place) -> None:
    table = question_table({"query_id": str(n), "text": text} for n, text in enumerate(ASKED))
    table = WeighTokens().open(at)(EncodeQuestions().open(at)(table))
    sizes = [len(each.as_py()) // 2 for each in table["query_token_scales"]]
    weights = [np.frombuffer(each.as_py(), np.float32) for each in table["query_token_weights"]]
    assert [len(each) for each in weights] == sizes
    assert all((each > 0).all() for each in weights)


def test_a_prefix_is_weighed_too_and_long_questions_are_cut(at: Place) -> None:
    encoder = Encoder(query_prefix="query: ", max_tokens=6)
    table = pa.table({"text": ["tendon loading tendon loading tendon loading"]})
    (found,) = WeighTokens(encoder=encoder).open(at)(table)["query_token_weights"]
    _, tokens = load(encoder).encode_tokens(table["text"].to_pylist(), "query")
    assert len(found.as_py()) // 4 == len(tokens.scale)


def test_a_colbert_has_no_weights(at: Place) -> None:
    step = WeighTokens(encoder=Encoder(model="colbert", backend="colbert"))
    out = step.open(at)(pa.table({"text": ["tendon", "loading"]}))
    assert out["query_token_weights"].to_pylist() == [b"", b""]
