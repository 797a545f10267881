from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.schema import UNITS
from srrag.core.standing import GRADES, UNGRADED
from srrag.core.step import Place, PreviousVersion
from srrag.index.sparse import BuildSparseIndex, SparseIndex
from srrag.index.words import analyzer
from tests.unit.index.tables import REFUSED, documents, hashed, row, uid, windows, write

TEXTS = {
    uid(1): "Exercises strengthened the quadriceps after knee replacement.",
    uid(2): "Manual therapy of the cervical spine eased headaches.",
    uid(3): "Die Übung stärkt das naïve Knie.",
    uid(4): "AND OR NOT operators are words of a query language.",
    uid(5): "The shoulder was immobilised for six weeks.",
}


def built(out: Path, paths: list[Path]) -> SparseIndex:
    out.mkdir()
    BuildSparseIndex().build({"windows": paths}, out, Place())
    return SparseIndex(out)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> SparseIndex:
    folder = tmp_path_factory.mktemp("sparse")
    return built(folder / "index", [windows(TEXTS, folder / "p.parquet")])


def found(index: SparseIndex, question: str, k: int = 10) -> list[str]:
    ((ids, scores),) = index.search([question], k)
    assert len(ids) == len(scores)
    assert (scores > 0).all()
    assert (np.diff(scores) <= 0).all()
    return ids.to_pylist()  # type: ignore[no-any-return]


def test_an_index_that_cannot_be_written_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = found(built(tmp_path / "index", [windows(TEXTS, tmp_path / "p.parquet")]), "knee")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    index = SparseIndex(tmp_path / "index")
    assert index._view is not None
    assert found(index, "knee") == expected != []
    assert sorted(tmp_path.rglob("*")) == before


def titled(
    folder: Path, titles: dict[str, str], *, own_field: bool = True, weight: float = 0.5
) -> SparseIndex:
    """The index of TEXTS, each of a document of its own, with these titles by unit."""
    (folder / "of").mkdir(parents=True)
    rows = [row(UNITS, unit_id=key, doc_id=f"d{key}", text=text) for key, text in TEXTS.items()]
    named = [{"doc_id": f"d{key}", "title": titles.get(key, "")} for key in reversed(TEXTS)]
    inputs = {
        "windows": [write(rows, UNITS, folder / "p.parquet")],
        "documents": [documents(named, folder / "of" / "p.parquet")],
    }
    step = BuildSparseIndex(titles="documents", own_field=own_field)
    (folder / "index").mkdir()
    step.build(inputs, folder / "index", Place())
    return SparseIndex(folder / "index", weight)


TITLES = {uid(4): "Boolean retrieval", uid(5): "A sling after shoulder surgery"}


@pytest.mark.parametrize("own_field", [True, False])
def test_a_title_finds_the_windows_of_its_document(tmp_path: Path, own_field: bool) -> None:
    index = titled(tmp_path / "i", TITLES, own_field=own_field)
    assert found(index, "boolean retrieval") == [uid(4)]
    assert found(index, "sling shoulder") == [uid(5)]
    assert found(index, "knee")[0] in (uid(1), uid(3))


def test_a_title_counts_by_its_weight_and_leaves_the_text_s_score(tmp_path: Path) -> None:
    scores = {}
    for weight in (0.0, 0.5, 1.0):
        index = titled(tmp_path / str(weight), TITLES, weight=weight)
        ((_, found_scores),) = index.search(["shoulder"], 3)
        scores[weight] = float(found_scores[0])
    plain = built(tmp_path / "plain", [windows(TEXTS, tmp_path / "p.parquet")])
    ((_, (expected,)),) = plain.search(["shoulder"], 3)
    assert scores[0.0] == pytest.approx(float(expected))
    assert scores[1.0] - scores[0.0] == pytest.approx(2 * (scores[0.5] - scores[0.0]), rel=1e-3)
    assert scores[0.5] > scores[0.0]


@pytest.mark.parametrize(
    ("question", "unit"),
    [
        ("exercising", 1), ("STRENGTHENS", 1), ("headache", 2), ("therapies", 2),
        ("ubung", 3), ("naive", 3), ("shoulders immobilising", 5),
    ],
)  # fmt: skip
def test_words_meet_by_their_stem_case_and_accents_folded(
    index: SparseIndex, question: str, unit: int
) -> None:
    assert found(index, question) == [uid(unit)]


@pytest.mark.parametrize(
    "question", ["", "   ", "?!", "the", "and of for the", '"', ":", "*", "🦵"]
)
def test_a_question_without_words_finds_nothing(index: SparseIndex, question: str) -> None:
    assert found(index, question) == []


def test_stop_words_add_nothing(index: SparseIndex) -> None:
    ((_, plain),) = index.search(["shoulder"], 5)
    ((_, wordy),) = index.search(["was the shoulder for"], 5)
    assert plain.tolist() == wordy.tolist()


@pytest.mark.parametrize(
    "question",
    [
        'knee "', '"knee', "knee:", "text:knee", "knee AND", "AND knee", "knee*", "(knee", "knee)",
        "+knee", "-knee", "knee~2", "knee^3", "[knee TO", "knee\\", "NOT knee", "knee\x00",
    ],
)  # fmt: skip
def test_operators_are_just_text(index: SparseIndex, question: str) -> None:
    assert uid(1) in found(index, question)


def test_a_word_said_twice_counts_once(index: SparseIndex) -> None:
    ((_, once),) = index.search(["knee"], 5)
    ((_, twice),) = index.search(["knee Knee knees"], 5)
    assert once.tolist() == twice.tolist()


def test_scores_are_bm25(tmp_path: Path) -> None:
    """k1 = 1.2, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)), worked by hand.

    Three windows of 2, 1 and 3 words (a length that Tantivy stores exactly): mean 2. "knee" is
    in two of them: idf = ln(1 + 1.5 / 2.5) = ln 1.6.
    """
    texts = {uid(1): "knee knee", uid(2): "hip", uid(3): "knee ankle elbow"}
    index = built(tmp_path / "i", [windows(texts, tmp_path / "p.parquet")])
    ((ids, scores),) = index.search(["knee"], 3)
    idf = np.log(1.6)
    first = idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 2 / 2))
    third = idf * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert ids.to_pylist() == [uid(1), uid(3)]
    np.testing.assert_allclose(scores, [first, third], rtol=1e-5)


def test_equal_scores_go_by_id(tmp_path: Path) -> None:
    texts = {uid(n): "knee pain" for n in (7, 3, 9, 1)}
    index = built(tmp_path / "i", [windows(texts, tmp_path / "p.parquet")])
    assert found(index, "knee") == [uid(1), uid(3), uid(7), uid(9)]


def test_equal_scores_go_by_id_where_the_list_is_cut(tmp_path: Path) -> None:
    texts = {uid(n): "knee pain" for n in (7, 3, 9, 1)}
    index = built(tmp_path / "i", [windows(texts, tmp_path / "p.parquet")])
    assert found(index, "knee", k=2) == [uid(1), uid(3)]


def test_two_builds_and_two_partings_rank_alike(tmp_path: Path) -> None:
    words = ["knee", "hip", "pain", "gait", "load", "rest", "sprain", "tear"]
    random = np.random.default_rng(0)
    texts = {
        hashed(n): " ".join(random.choice(words, size=random.integers(2, 12))) for n in range(200)
    }
    rows = list(texts.items())
    one = [windows(texts, tmp_path / "all.parquet")]
    three = [
        windows(dict(rows[start : start + 80]), tmp_path / f"{start}.parquet")
        for start in range(0, 200, 80)
    ]
    indexes = [
        built(tmp_path / name, paths) for name, paths in (("a", one), ("b", one), ("c", three))
    ]
    for question in ("knee pain", "gait hip tear", "sprain"):
        results = [index.search([question], 200)[0] for index in indexes]
        for ids, scores in results[1:]:
            assert ids.equals(results[0][0])
            assert scores.tolist() == results[0][1].tolist()


WORDS = ("knee", "hip", "pain", "gait", "load", "rest", "sprain", "tear")


def random_parts(folder: Path, sizes: list[int]) -> list[Path]:
    """Parts of windows of random words, whose names are not in the order in which they came."""
    random = np.random.default_rng(1)
    folder.mkdir()
    paths, start = [], 0
    for number, size in enumerate(sizes):
        texts = {
            hashed(n): " ".join(random.choice(WORDS, size=random.integers(2, 12)))
            for n in range(start, start + size)
        }
        paths.append(windows(texts, folder / f"part-{(7 * number) % 10}.parquet"))
        start += size
    return paths


def grown(out: Path, before: Path, paths: list[Path], kept: list[Path]) -> SparseIndex:
    out.mkdir()
    former = PreviousVersion(before, frozenset(kept))
    BuildSparseIndex().update({"windows": paths}, out, Place(), former)
    return SparseIndex(out)


def assert_same(one: SparseIndex, other: SparseIndex) -> None:
    for question in ("knee pain", "gait hip tear", "sprain"):
        (ids, scores), (other_ids, other_scores) = (
            index.search([question], 300)[0] for index in (one, other)
        )
        assert ids.equals(other_ids)
        assert scores.tolist() == other_scores.tolist()


def test_an_index_that_grew_ranks_as_one_built_at_once(tmp_path: Path) -> None:
    parts = random_parts(tmp_path / "parts", [150, 20, 3])
    built(tmp_path / "first", parts[:1])
    grown(tmp_path / "second", tmp_path / "first", sorted(parts[:2]), parts[:1])
    third = grown(tmp_path / "third", tmp_path / "second", sorted(parts), parts[:2])
    assert_same(third, built(tmp_path / "once", sorted(parts)))
    assert len(third) == 173


def test_segments_are_shared_with_the_version_before_which_stays_as_it_was(tmp_path: Path) -> None:
    parts = random_parts(tmp_path / "parts", [50, 5])
    built(tmp_path / "first", parts[:1])
    held = {path.name: path.read_bytes() for path in (tmp_path / "first" / "index").iterdir()}
    grown(tmp_path / "second", tmp_path / "first", parts, parts[:1])
    now = {path.name: path.read_bytes() for path in (tmp_path / "first" / "index").iterdir()}
    assert now == held
    for name in held:
        if not name.endswith((".json", ".lock")):
            mine, before = (tmp_path / each / "index" / name for each in ("second", "first"))
            assert mine.samefile(before)


def test_an_index_that_lost_a_part_holds_none_of_its_words(tmp_path: Path) -> None:
    (first,) = random_parts(tmp_path / "parts", [50])
    second = windows({hashed("a"): "xylophonic"}, tmp_path / "parts" / "part-9.parquet")
    built(tmp_path / "first", [first])
    with_it = grown(tmp_path / "second", tmp_path / "first", [first, second], [first])
    assert found(with_it, "xylophonic") == [hashed("a")]
    after = grown(tmp_path / "after", tmp_path / "second", [first], [first])
    assert_same(after, built(tmp_path / "once", [first]))
    # Tantivy counts the documents of a word as written: a deleted one's would still be there.
    assert with_it._searcher.doc_freq("text", "xylophon") == 1
    assert after._searcher.doc_freq("text", "xylophon") == 0


def test_a_part_made_again_under_its_name_is_indexed_anew(tmp_path: Path) -> None:
    (first,) = random_parts(tmp_path / "parts", [50])
    second = windows({hashed("a"): "xylophonic"}, tmp_path / "parts" / "part-9.parquet")
    built(tmp_path / "first", [first, second])
    windows({hashed("b"): "knee"}, second)
    after = grown(tmp_path / "after", tmp_path / "first", [first, second], [first])
    assert_same(after, built(tmp_path / "once", [first, second]))
    assert found(after, "xylophonic") == []


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([*GRADES, ""]),
            st.lists(st.sampled_from(["knee", "hip", "pain", "gait"]), max_size=6),
        ),
        max_size=30,
    ),
    wanted=st.sets(st.sampled_from(GRADES), min_size=1),
    k=st.integers(1, 8),
)
def test_a_partition_is_scored_as_in_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, list[str]]],
    wanted: set[str],
    k: int,
) -> None:
    """The hits are those of the unlimited search that are of these grades, scores and all."""
    folder = tmp_path_factory.mktemp("partition")
    parts = [
        row(UNITS, unit_id=uid(n), grade=grade, text=" ".join(words))
        for n, (grade, words) in enumerate(rows)
    ]
    index = built(folder / "i", [write(parts, UNITS, folder / "p.parquet")])
    grade = {uid(n): grade or UNGRADED for n, (grade, _) in enumerate(rows)}
    for question in ("knee pain", "gait", "hip knee gait pain"):
        ((ids, scores),) = index.search([question], k, sorted(wanted))
        ((every, all_scores),) = index.search([question], 100)
        inside = [n for n, key in enumerate(every.to_pylist()) if grade[key] in wanted][:k]
        assert ids.to_pylist() == [every.to_pylist()[n] for n in inside]
        assert scores.tolist() == all_scores[inside].tolist()


def test_a_grade_without_a_window_finds_nothing(index: SparseIndex) -> None:
    ((ids, scores),) = index.search(["knee"], 5, ("A",))
    assert (len(ids), len(scores)) == (0, 0)
    assert index.search(["knee"], 5, ("E",))[0][0].to_pylist() == found(index, "knee")


def test_what_was_rejected_is_not_found(tmp_path: Path) -> None:
    rows = [
        row(UNITS, unit_id=uid(1), text="knee", reject=REFUSED),
        row(UNITS, unit_id=uid(2), text="knee"),
    ]
    index = built(tmp_path / "i", [write(rows, UNITS, tmp_path / "p.parquet")])
    assert found(index, "knee") == [uid(2)]


def test_an_index_of_other_fields_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    other = tantivy.SchemaBuilder().add_text_field("text").build()
    tantivy.Index(other, path=str(tmp_path / "index"))
    with pytest.raises(ValueError, match="another version"):
        SparseIndex(tmp_path)


def test_an_index_of_nothing_finds_nothing(tmp_path: Path) -> None:
    index = built(tmp_path / "i", [write([], UNITS, tmp_path / "p.parquet")])
    assert found(index, "knee") == []


def test_a_build_leaves_no_lock_behind(tmp_path: Path) -> None:
    path = windows(TEXTS, tmp_path / "p.parquet")
    BuildSparseIndex().build({"windows": [path]}, tmp_path, Place())
    assert list((tmp_path / "index").glob("**/*.lock")) == []


def test_a_word_too_long_to_be_one_is_left_out(index: SparseIndex) -> None:
    assert analyzer().analyze("knee " + "x" * 70) == ["knee"]
    assert found(index, "x" * 5000) == []


@settings(max_examples=60, deadline=None)
@given(question=st.text(max_size=60))
def test_any_text_can_be_asked(index: SparseIndex, question: str) -> None:
    assert set(found(index, question)) <= set(TEXTS)
