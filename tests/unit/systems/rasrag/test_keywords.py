from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.step import Place
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.systems.rasrag.keywords import FindKeywords, candidates


def found(*texts: str, most: int = 5) -> pa.Table:
    vectors = load(Encoder()).encode(list(texts), "query")
    table = pa.table(
        {
            "text": list(texts),
            "query_vector": pa.array([each.tobytes() for each in vectors], pa.binary()),
        }
    )
    return FindKeywords(most=most).open(Place())(table)


def test_candidates_are_words_without_stop_words() -> None:
    assert candidates("Describe the 2 Loop-diuretics, and describe IV use.") == [
        "describe", "loop", "diuretics", "iv",
    ]  # fmt: skip


def test_keywords_are_those_nearest_to_the_question() -> None:
    text = "How does positioning in towel slings help a bilateral mastectomy?"
    (words,) = found(text, most=3)["keywords"].to_pylist()
    model = load(Encoder())
    listed = candidates(text)
    cosines = model.encode(listed, "query") @ model.encode([text], "query")[0]
    assert words == [listed[n] for n in np.argsort(-cosines)[:3]]
    assert "mastectomy" in words


def test_the_vector_is_that_of_the_words_and_of_the_question_where_there_are_none() -> None:
    table = found("Opioid overdose", "What is it?")
    first, second = table["keywords"].to_pylist()
    assert second == []
    assert table["keyword_vector"][1].as_py() == table["query_vector"][1].as_py()
    own = np.frombuffer(table["keyword_vector"][0].as_py(), np.float32)
    assert np.allclose(own, load(Encoder()).encode([" ".join(first)], "query")[0], atol=1e-5)


def test_no_word_is_refused() -> None:
    with pytest.raises(ValueError, match="most is 0"):
        FindKeywords(most=0)
