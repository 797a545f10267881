from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from srrag.core.hits import FoundWindows
from srrag.core.schema import REJECT, UNITS
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.index.units import BuildUnits
from srrag.lab.datasets.textbook import half_of, read_chapters, read_textbook
from srrag.lab.experiment.read_bench import gold_units, textbook_scores
from tests.unit.index.tables import documents, row, uid, write

CHAPTERS = [
    {"book": "B", "chapter_no": 1, "sections": [{"id": "s1"}, {"id": "s2"}]},
    {"book": "B", "chapter_no": 2, "sections": [{"id": "s3"}]},
]
OUTCOMES = [
    {"id": "o1", "text": "Define pain.", "sample": True},
    {"id": "o2", "text": "Define rest.", "sample": False},
]
KNOWN = [
    {"id": "k1", "text": "words of it", "sentence": "The  second\nsentence."},
    {"id": "k2", "text": "cut in two", "sentence": "Nowhere whole."},
]
TEXTS = {"s1": ["First.", "The second sentence. More."], "s2": ["Other."], "s3": ["Rest."]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels").mkdir()
    for name, rows in (("chapters", CHAPTERS), ("outcomes", OUTCOMES), ("known_items", KNOWN)):
        lines = "".join(json.dumps(each) + "\n" for each in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, "utf-8")
    head = "query-id\tcorpus-id\tscore\n"
    (tmp_path / "qrels/outcomes.tsv").write_text(f"{head}o1\ts1\t1\no2\ts3\t1\n", "utf-8")
    (tmp_path / "qrels/known_items.tsv").write_text(f"{head}k1\ts1\t1\nk2\ts2\t1\n", "utf-8")
    return tmp_path


@pytest.fixture
def units(tmp_path: Path) -> Units:
    """Units 0 and 1 of s1, 2 of s2, 3 of s3."""
    listed = [(name, text) for name, texts in TEXTS.items() for text in texts]
    names = list(TEXTS)
    rows = [
        row(UNITS, unit_id=uid(n), doc_id=uid(100 + names.index(name)), text=text)
        for n, (name, text) in enumerate(listed)
    ]
    papers = [{"doc_id": uid(100 + n), "source_id": name} for n, name in enumerate(names)]
    inputs = {
        "windows": [write(rows, UNITS, tmp_path / "w.parquet")],
        "documents": [documents(papers, tmp_path / "d.parquet")],
    }
    (tmp_path / "units").mkdir()
    BuildUnits().build(inputs, tmp_path / "units", Place())
    return Units(tmp_path / "units")


def ranked(**found: list[int]) -> pa.Table:
    lists = [(pa.array([uid(n) for n in each], pa.string()), [0.0] * len(each)) for each in
             found.values()]  # fmt: skip
    return pa.table(
        {
            "query_id": list(found),
            "hits": FoundWindows.of(lists).hits(),
            "pairs_scored": pa.array([10 * len(each) for each in found.values()], pa.int32()),
            "reject": pa.nulls(len(found), REJECT),
        }
    )


def test_gold_of_an_outcome_is_its_section_and_of_a_known_item_its_sentence(
    folder: Path, units: Units
) -> None:
    questions = read_textbook(folder)
    assert gold_units(questions, units) == {
        "o1": {uid(0): 1, uid(1): 1},
        "o2": {uid(3): 1},
        "k1": {uid(1): 1},
    }


def test_scores_by_hand(folder: Path, units: Units) -> None:
    """o1: 2 of its 3 units are right, the first is of its chapter; o2 found nothing."""
    questions = read_textbook(folder)
    gold = gold_units(questions, units)
    table = ranked(o1=[0, 3, 1], o2=[], k1=[2])
    found = textbook_scores(questions, gold, read_chapters(folder), table, units)
    values = {
        each.metric.name: dict(zip(each.questions, each.parts, strict=True)) for each in found
    }
    ideal = 1 + 1 / 1.5849625
    assert values["outcomes_nDCG@10"] == pytest.approx({"o1": 1.5 / ideal, "o2": 0}, abs=1e-4)
    assert values["outcomes_P@16"] == pytest.approx({"o1": 2 / 3, "o2": 0})
    assert values["outcomes_chapter@1"] == {"o1": 1, "o2": 0}
    assert values["known_items_nDCG@10"] == {"k1": 0}
    assert values["known_items_chapter@1"] == {"k1": 1}
    assert values["pairs_scored"] == {"o1": 30, "o2": 0, "k1": 10}
    left_out = {each.metric.name: each.left_out for each in found}
    assert left_out["known_items_nDCG@10"] == 1


def test_a_search_that_does_not_count_its_pairs_has_no_figure(folder: Path, units: Units) -> None:
    questions = read_textbook(folder)
    table = ranked(o1=[0], o2=[3], k1=[1]).drop_columns(["pairs_scored"])
    gold = gold_units(questions, units)
    *_, pairs = textbook_scores(questions, gold, read_chapters(folder), table, units)
    assert pairs.metric.name == "pairs_scored"
    assert not pairs.questions


def test_parts_of_the_questions(folder: Path) -> None:
    assert [each.query_id for each in read_textbook(folder, sample=True)] == ["o1", "k1", "k2"]
    assert [each.query_id for each in read_textbook(folder, sample=False)] == ["o2", "k1", "k2"]
    halves = {half: [] for half in ("develop", "blind")}  # type: dict[str, list[str]]
    for each in (f"q{n}" for n in range(100)):
        halves[half_of(each)].append(each)
    assert 30 < len(halves["blind"]) < 70


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("outcomes.jsonl", "{", "outcomes.jsonl:3: not a question"),
        ("outcomes.jsonl", '{"id": "x"}', "outcomes.jsonl:3: not a question"),
        ("outcomes.jsonl", '{"id": "x", "text": "t"}', "outcomes.jsonl:3: no section"),
        ("chapters.jsonl", '{"book": "B"}', "chapters.jsonl:3: not a chapter"),
        ("known_items.jsonl", "[]", "known_items.jsonl:3: not a question"),
        ("qrels/outcomes.tsv", "o9", "outcomes.tsv:4"),
    ],
)
def test_bad_lines_are_named(folder: Path, name: str, line: str, said: str) -> None:
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=said):
        read_textbook(folder)


def test_wrong_settings_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"bench\.known=all"):
        read_textbook(folder, known="all")
    with pytest.raises(ValueError, match=r"bench\.sample=maybe"):
        read_textbook(folder, sample="maybe")  # type: ignore[arg-type]
