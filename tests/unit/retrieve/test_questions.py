from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.core.schema import QUESTIONS, SUBQUESTIONS
from srrag.core.spec import build, spec
from srrag.core.step import Place
from srrag.index.sparse import SparseIndex
from srrag.index.words import token_weights
from srrag.model.embed import load
from srrag.model.encoder import Encoder, load_tokenizer
from srrag.retrieve.questions import (
    MAX_EXAM_CHARS,
    MAX_QUESTION_CHARS,
    EncodeQuestions,
    EncodeSubQuestions,
    EncodeTexts,
    WeighTokens,
    question_fault,
    question_table,
)
from srrag.storage.store import Store

ODD = "a value of another type makes the whole table fail, not its row"


def one(**row: Any) -> dict[str, Any]:
    (read,) = question_table([row]).to_pylist()
    return read  # type: ignore[no-any-return]


def test_a_question_with_all_else_blank() -> None:
    row = one(query_id="1", text="Does it help?", unknown="dropped")
    assert row == {
        "query_id": "1", "text": "Does it help?", "topic": "", "narrative": "", "task_kind": "",
        "options": [], "gold_option": "", "picot": dict.fromkeys("PICOT", ""), "reject": None,
        "conversation": {"asked": "", "turns": [], "papers": []},
    }  # fmt: skip


def test_what_is_known_is_kept_in_order() -> None:
    table = question_table(
        [
            {"query_id": "1", "text": "Which?", "options": ["yes", "no"], "gold_option": "no"},
            {
                "query_id": "2",
                "text": "What?",
                "picot": {**dict.fromkeys("PICOT", ""), "P": "adults"},
            },
        ]
    )
    assert table.schema.equals(QUESTIONS)
    assert table["options"].to_pylist() == [["yes", "no"], []]
    assert table["picot"].to_pylist()[1]["P"] == "adults"


def test_no_question() -> None:
    assert question_table([]).schema.equals(QUESTIONS)


@pytest.mark.parametrize("text", ["", "  \n", "?!…", "🦵"])
def test_a_question_without_a_word_is_rejected(text: str) -> None:
    row = one(query_id="1", text=text)
    assert row["reject"]["stage"] == "questions"
    assert row["reject"]["reason"] == "empty_question"


def test_a_question_may_be_as_long_as_the_limit() -> None:
    assert one(query_id="1", text="x" * MAX_QUESTION_CHARS)["reject"] is None
    reject = one(query_id="1", text="x" * (MAX_QUESTION_CHARS + 1))["reject"]
    assert reject["reason"] == "long_question"
    assert str(MAX_QUESTION_CHARS + 1) in reject["detail"]


def test_a_question_with_options_may_tell_a_case() -> None:
    asked = {"query_id": "1", "options": ["a", "b"]}
    assert one(**asked, text="x" * MAX_EXAM_CHARS)["reject"] is None
    reject = one(**asked, text="x" * (MAX_EXAM_CHARS + 1))["reject"]
    assert (reject["reason"], "8000" in reject["detail"]) == ("long_question", True)


def test_the_others_are_not_touched() -> None:
    rows = [{"query_id": str(n), "text": text} for n, text in enumerate(["knee", "", "hip"])]
    table = question_table(rows)
    assert table["query_id"].to_pylist() == ["0", "1", "2"]
    assert [reject is None for reject in table["reject"].to_pylist()] == [True, False, True]


@pytest.mark.parametrize(
    "text",
    [pytest.param(value) for value in (5, ["knee"], {"a": 1}, "knee\ud800", True)],
)
def test_a_text_that_is_none_is_a_reject_row(text: Any) -> None:
    row = one(query_id="1", text=text)
    assert row["reject"]["stage"] == "questions"
    assert row["text"] == ""


def test_null_is_a_blank() -> None:
    table = question_table([{"query_id": "1", "text": None, "topic": None, "options": None}])
    assert [table[name].null_count for name in ("text", "topic", "options")] == [0, 0, 0]


@pytest.mark.parametrize("values", [{"topic": 3}, {"options": 5}, {"picot": "adults"}])
def test_other_columns_of_an_odd_type_reject_their_row_alone(values: dict[str, Any]) -> None:
    good = {"query_id": "2", "text": "hip"}
    table = question_table([{"query_id": "1", "text": "knee", **values}, good])
    assert [row is None for row in table["reject"].to_pylist()] == [False, True]


@given(st.text(max_size=30))
def test_a_fault_is_a_lack_of_words(text: str) -> None:
    fault = question_fault(text)
    assert (fault is None) == any(char.isalnum() for char in text)


HYDE = [["Tape helps.", "Rest helps."], [], ["Rest helps."]]


def close(packed: bytes, texts: list[str], role: Any) -> bool:
    """Whether these are the encoder's own vectors of the texts."""
    model = load(Encoder())
    found = np.frombuffer(packed, np.float32).reshape(-1, model.dim)
    return found.shape[0] == len(texts) and np.allclose(
        found, model.encode(texts, role) if texts else found, atol=1e-5
    )


def passages() -> pa.Table:
    return pa.table({"hyde_passages": pa.array(HYDE, pa.list_(pa.string()))})


def test_lists_of_texts_become_their_vectors() -> None:
    made = EncodeTexts().open(Place())(passages())["hyde_vectors"].to_pylist()
    assert all(close(packed, texts, "passage") for packed, texts in zip(made, HYDE, strict=True))
    assert made[1] == b""
    assert made[0].endswith(made[2])


def test_texts_are_encoded_once_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = load(Encoder()), []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda *a: calls.append(list(a[0])) or encode(*a))
    EncodeTexts().open(Place())(passages())
    assert calls == [["Tape helps.", "Rest helps."]]
    EncodeTexts().open(Place())(passages().slice(1, 1))
    assert len(calls) == 1


@pytest.mark.parametrize("rows", [0, 1])
def test_no_text_has_no_vector(rows: int) -> None:
    made = EncodeTexts().open(Place())(passages().slice(1, rows))
    assert made["hyde_vectors"].to_pylist() == [b""] * rows


def test_roles_and_columns_are_named() -> None:
    encoder = Encoder(query_prefix="query: ")
    step = EncodeTexts(texts="reformulations", into="more_vectors", role="query", encoder=encoder)
    assert (step.reads, step.writes.names) == (("reformulations",), ["more_vectors"])
    assert dict(step.packed) == {"more_vectors": ("float32", 1e-5)}
    assert build(spec(step)) == pickle.loads(pickle.dumps(step)) == step
    table = passages().rename_columns(["reformulations"]).slice(2)
    (packed,) = step.open(Place())(table)["more_vectors"].to_pylist()
    prefixed = load(Encoder()).encode(["query: Rest helps."], "passage")
    assert np.allclose(np.frombuffer(packed, np.float32), prefixed[0], atol=1e-5)
    with pytest.raises(ValueError, match="role is 'both'"):
        EncodeTexts(role="both")  # type: ignore[arg-type]


def test_smaller_questions_become_vectors_by_kind() -> None:
    asked = [
        [("node", "What is tape?"), ("community", "Does tape help?"), ("node", "Who runs?")],
        [("triple", "What does tape change?"), ("community", "Does tape help?")],
        [],
    ]
    rows = [[{"kind": k, "text": t, "types": []} for k, t in row] for row in asked]
    table = pa.table({"subquestions": pa.array(rows, SUBQUESTIONS)})
    made = EncodeSubQuestions().open(Place())(table)
    for kind in ("node", "triple", "community"):
        column = made[f"{kind}_vectors"].to_pylist()
        for packed, row in zip(column, asked, strict=True):
            texts = [text for its, text in row if its == kind]
            assert close(packed, texts, "query")
            assert bool(packed) == bool(texts)


def test_another_column_may_stand_for_the_question() -> None:
    step = EncodeQuestions(text="rationale")
    assert (step.reads, EncodeQuestions().reads) == (("rationale",), ("text",))
    table = pa.table({"text": ["Why?"], "rationale": ["Because tape helps."]})
    (packed,) = step.open(Place())(table)["query_vector"].to_pylist()
    assert close(packed, ["Because tape helps."], "query")
    assert not close(packed, ["Why?"], "query")


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
