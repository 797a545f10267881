from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from srrag.config.compose import configure
from srrag.core.pipeline import Pipeline
from srrag.core.step import Place
from srrag.rerank.maxsim import RerankMaxSim
from srrag.rerank.reranker import Reranker
from srrag.retrieve.branches import SearchBranches
from srrag.retrieve.questions import question_table
from srrag.retrieve.search import SearchSparse
from srrag.storage.store import Store
from tests.conftest import run_build

PAPERS = [
    ("7", "Taping of sprained ankles prevents a second sprain in young athletes."),
    ("7", "Bracing of the ankle was as good as taping in this trial of athletes."),
    ("8", "Early exercise heals sprained ankles sooner than a plaster cast."),
    ("", "Plaster casts of the ankle caused stiffness in many of the patients."),
    ("9", "Zinc shortens the common cold by a day or two in healthy adults."),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A build of five passages, two of one article and one without a PMID."""
    folder = tmp_path_factory.mktemp("branches")
    (folder / "corpus").mkdir()
    lines = [
        f'{{"_id": "d{n}", "title": "", "text": "{text}", "metadata": {{"pmid": "{pmid}"}}}}'
        for n, (pmid, text) in enumerate(PAPERS)
    ]
    (folder / "corpus" / "corpus.jsonl").write_text("\n".join(lines))
    overrides = ["corpus=beir", f"corpus.path={folder / 'corpus'}", f"root={folder / 'root'}"]
    run_build(configure("build", [*overrides, "stages.vectors=null", "stages.extracts=null"]))
    return Place(artifacts=Store(folder / "root").artifacts("default"))


def step(**fields: Any) -> SearchBranches:
    search = Pipeline(rank=(SearchSparse(k=3, into="hits"),))
    return SearchBranches(**{"search": search, **fields})


def asked(*questions: tuple[str, Sequence[str]]) -> pa.Table:
    table = question_table(
        {"query_id": str(n), "text": text} for n, (text, _) in enumerate(questions)
    )
    versions = [list(each) for _, each in questions]
    return table.append_column("reformulations", pa.array(versions, pa.list_(pa.string())))


def rows(made: SearchBranches, place: Place, *questions: tuple[str, Sequence[str]]) -> list[Any]:
    found: list[Any] = made.open(place)(asked(*questions)).to_pylist()
    return found


def documents(place: Place, row: Any) -> list[str]:
    from srrag.core.units import open_units

    ids = [hit["unit_id"] for hit in row["hits_pooled"]]
    found: list[str] = open_units(place).document_keys(ids).to_pylist()
    return found


def test_branches_add_what_the_question_does_not_find(place: Place) -> None:
    alone, more = rows(
        step(), place, ("taping of ankles", []), ("taping of ankles", ["zinc for a cold"])
    )
    assert "d4" not in documents(place, alone)
    assert "d4" in documents(place, more)
    assert {each["channel"] for each in more["found"]} == {"question", "version 1"}


def test_an_article_stands_once_as_its_best_window(place: Place) -> None:
    (row,) = rows(step(), place, ("taping of ankles of athletes", []))
    names = documents(place, row)
    assert sum(name in ("d0", "d1") for name in names) == 1
    (by_document,) = rows(step(key="document"), place, ("taping of ankles of athletes", []))
    assert {"d0", "d1"} <= set(documents(place, by_document))
    assert row["hits_pooled"][0]["rank"] == 1
    scores = [hit["score"] for hit in row["hits_pooled"]]
    assert scores == sorted(scores, reverse=True)


def test_an_article_without_pmid_counts_by_its_own_id(place: Place) -> None:
    (row,) = rows(step(), place, ("plaster casts of the ankle", []))
    assert documents(place, row)[0] == "d3"


@pytest.mark.parametrize(
    "versions", [[], ["  ", ""], ["Taping of  ANKLES"], ["zinc " * 800], ["?!"]], ids=len
)
def test_odd_versions(place: Place, versions: list[str]) -> None:
    (row,) = rows(step(), place, ("taping of ankles", versions))
    assert row["reject"] is None
    assert documents(place, row)
    channels = [each["channel"] for each in row["found"]]
    assert set(channels) <= {"question", "version 1"}
    if versions and "zinc" not in versions[0]:
        assert set(channels) == {"question"}


def test_nothing_found_in_any_branch(place: Place) -> None:
    (row,) = rows(step(), place, ("quarks", ["gluons"]))
    assert (row["hits_pooled"], row["found"], row["reject"]) == ([], [], None)


def test_a_rejected_branch_rejects_its_question(place: Place) -> None:
    class Broken(SearchSparse):
        def searcher(self, at: Place) -> Any:
            def search(batch: pa.Table, tracks: Any) -> Any:
                if "zinc" in batch["text"].to_pylist()[-1]:
                    raise ZeroDivisionError("no zinc")
                return super(Broken, self).searcher(at)(batch, tracks)

            return search

    made = step(search=Pipeline(rank=(Broken(k=3, into="hits"),)))
    good, bad = rows(made, place, ("taping of ankles", []), ("taping of ankles", ["zinc"]))
    assert good["reject"] is None
    assert bad["reject"]["reason"] == "ZeroDivisionError"


class Length(Reranker):
    """Scores by the length of what is asked, so that a test sees what that was."""

    def scorer(self, at: Place) -> Any:
        def score(batch: pa.Table, ids: pa.Array, offsets: Any) -> Any:
            import numpy as np

            sizes = [float(len(text)) for text in batch["text"].to_pylist()]
            return np.repeat(sizes, np.diff(offsets))

        return score


def test_a_branch_is_reranked_against_itself_or_the_question(place: Place) -> None:
    asks = ("ankles", ["sprained ankles of athletes"])
    scored = Length(hits="hits", into="scored", keep=2)
    (own,) = rows(step(rerank=(scored,)), place, asks)
    (same,) = rows(step(rerank=(scored,), against="question"), place, asks)
    assert {each["score"] for each in own["found"]} == {6.0, 27.0}
    assert {each["score"] for each in same["found"]} == {6.0}
    (both,) = rows(step(rerank=(scored,), against="both"), place, asks)
    assert {each["score"] for each in both["found"]} == {6.0}
    windows = [(each["channel"], each["unit_id"]) for each in both["found"]]
    assert windows == [(each["channel"], each["unit_id"]) for each in own["found"]]
    assert max(each["rank"] for each in own["found"]) == 2


def test_a_question_alone(place: Place) -> None:
    (row,) = rows(step(branches=""), place, ("taping of ankles", ["zinc for a cold"]))
    assert {each["channel"] for each in row["found"]} == {"question"}


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"against": "answer"}, "against"),
        ({"key": "journal"}, "key"),
        ({"reduce": "mean"}, "reduce"),
        ({"keep": -1}, "keep"),
        ({"search": Pipeline(rank=())}, "search"),
        ({"rerank": (RerankMaxSim(into="late"),)}, "hits_fused"),
        ({"rerank": (SearchSparse(into="hits"),)}, "overwrite"),
    ],
)
def test_settings_that_do_not_work(fields: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        step(**fields)


def test_the_ways_to_pool(place: Place) -> None:
    for reduce in ("max", "sum", "rrf"):
        (row,) = rows(
            step(reduce=reduce, keep=1), place, ("taping of ankles", ["bracing athletes", "zinc"])
        )
        assert [hit["rank"] for hit in row["hits_pooled"]] == [1]
