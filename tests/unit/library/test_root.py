"""The library as a user has it: `import srrag; srrag.open(root).ask(…)`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import srrag
from srrag.answer.evidence import Evidence, EvidenceQuote
from srrag.answer.record import AnswerSentence
from srrag.answer.select.evidence import SelectEvidence
from srrag.core.errors import UsageError
from srrag.core.pipeline import Pipeline
from srrag.library.results import CitedReply
from srrag.library.root import Root
from srrag.llm.completion import BudgetSpent, EngineStopped
from srrag.retrieve.search import SearchSparse

CAST = "How long may an acute lateral ankle sprain be immobilised in a cast?"
PAIN = "Should bed rest be prescribed for acute low back pain?"


@pytest.fixture(scope="module")
def root(sample_root: Path) -> Iterator[Root]:
    with srrag.open(sample_root) as opened:
        yield opened


def test_an_answer_cites_graded_evidence(root: Root) -> None:
    reply = root.ask(CAST, pipeline="bm25")
    assert reply.question == CAST and "ten days" in reply.answer and reply.state == "answered"
    assert reply.cited and {item.grade for item in reply.evidence} <= {*"ABCDE", ""}
    assert any(item.grade == "A" and item.study.startswith("guideline") for item in reply.cited)
    text = str(reply)
    assert reply.answer.split()[0] in text and f"[{reply.cited[0].number}]" in text
    assert reply.to_arrow().num_rows == 1 and reply.to_arrow()["answer"][0].as_py() == reply.answer
    assert list(reply.to_pandas()["answer"]) == [reply.answer]
    assert reply.json["answer"] == reply.answer


def test_a_program_with_an_event_loop_asks_within_it_and_beside_it(root: Root) -> None:
    async def program() -> list[str]:
        here = root.ask(CAST, pipeline="bm25")
        beside = await asyncio.gather(
            *(asyncio.to_thread(root.ask, each, pipeline="bm25") for each in (CAST, PAIN))
        )
        return [reply.answer for reply in (here, *beside)]

    here, beside, other = asyncio.run(program())
    assert here == beside != other


def test_several_questions_are_answered_as_each_alone(root: Root) -> None:
    replies = root.answer([CAST, {"query_id": "q2", "text": PAIN}, "?!"], pipeline="bm25")
    assert [each.question for each in replies] == [CAST, PAIN, "?!"]
    assert replies[0] == root.ask(CAST, pipeline="bm25")
    assert "no word" in replies[2].error and "No answer" in str(replies)
    table = replies.to_arrow()
    assert isinstance(table, pa.Table) and table["query_id"][1].as_py() == "q2"
    assert len(replies[:2]) == 2


def test_a_search_ranks_windows(root: Root) -> None:
    found = root.search(CAST, k=3, pipeline="bm25")
    assert [each.rank for each in found] == [1, 2, 3]
    assert found[0].score >= found[1].score and "sprain" in found[0].text.lower()
    assert found.to_arrow()["unit_id"].to_pylist() == [each.unit_id for each in found]
    assert found[0].title[:20] in str(found) and "<table>" in found._repr_html_()
    with pytest.raises(UsageError, match="k=0"):
        root.search(CAST, k=0)


def test_a_pipeline_is_a_chain_of_steps(root: Root) -> None:
    named = root.pipeline("bm25")
    first, *rest = named.steps
    chain = first >> rest[0]
    for step in rest[1:]:
        chain = chain >> step
    assert chain == named and isinstance(chain, Pipeline)
    assert Pipeline(rank=named.rank) >> Pipeline(answer=(), rank=()) == named.ranking()
    assert root.ask(CAST, pipeline=chain) == root.ask(CAST, pipeline="bm25")
    with pytest.raises(ValueError, match="reads column 'evidence'"):
        _ = first >> rest[-1]
    with pytest.raises(UsageError, match="named"):
        root.ask(CAST, pipeline=chain, overrides=["engine=http"])
    with pytest.raises(UsageError, match="use search"):
        root.ask(CAST, pipeline=named.ranking())


def test_a_pipeline_of_ones_own_searches_and_answers(root: Root) -> None:
    few = SearchSparse(index="sparse", into="hits", k=7) >> SelectEvidence()
    assert len(root.search(CAST, k=50, pipeline=few)) == 7
    _, *rest = root.pipeline("bm25").answer
    mine = few
    for step in rest:
        mine = mine >> step
    assert root.ask(CAST, pipeline=mine).cited


def test_engines_that_stopped_are_started_anew_by_the_next_question(sample_root: Path) -> None:
    def stopped(table: pa.Table) -> pa.Table:
        raise EngineStopped("endpoint: gone")

    def ask(root: Root) -> object:
        return root.ask(CAST, pipeline="bm25")

    def search(root: Root) -> object:
        return root.search(CAST, pipeline="bm25")

    with srrag.open(sample_root) as root:
        for asked in (ask, search):
            asked(root)
            ((key, opened),) = root._opened.items()
            root._opened[key] = replace(opened, answer=stopped, rank=stopped)
            ended: list[bool] = []
            root._engines.callback(ended.append, True)
            with pytest.raises(EngineStopped, match="gone"):
                asked(root)
            assert ended == [True] and asked(root), "the endpoint is back"


def test_a_spent_budget_closes_nothing_as_no_engine_is_renewed_for_it(sample_root: Path) -> None:
    def spent(table: pa.Table) -> pa.Table:
        raise BudgetSpent("budget.max_tokens=1 is spent")

    with srrag.open(sample_root) as root:
        root.ask(CAST, pipeline="bm25")
        ((key, opened),) = root._opened.items()
        root._opened[key] = again = replace(opened, answer=spent)
        with pytest.raises(BudgetSpent):
            root.ask(CAST, pipeline="bm25")
        assert root._opened[key] is again and root.search(CAST, pipeline="bm25")


def test_overrides_change_a_named_pipeline(root: Root) -> None:
    cut = ["+pipeline.rank.sparse.k=4"]
    assert len(root.search(CAST, k=50, pipeline="bm25", overrides=cut)) == 4
    with pytest.raises(UsageError, match="nothing"):
        root.pipeline("nothing")


def test_wrong_usage_is_one_line(root: Root, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no word"):
        root.ask("  ")
    with pytest.raises(UsageError, match="holds no build"):
        srrag.open(tmp_path)
    with pytest.raises(UsageError, match="no finished build 'other'"):
        srrag.open(root.store.root, build="other")


def test_html_holds_no_markup_of_a_paper() -> None:
    quote = EvidenceQuote(char_start=0, char_end=5, text="a < b")
    evidence = Evidence(number=1, grade="C", title="<script>x</script>", quotes=(quote,))
    sentence = AnswerSentence(text="So.", citations=(1,))
    reply = CitedReply(
        question="<b>?", answer="So. [1]", state="answered", sentences=(sentence,),
        evidence=(evidence,),
    )  # fmt: skip
    html = reply._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html and "<q>a &lt; b</q>" in html
    assert "opacity" not in html, "cited evidence is not faded"


def test_opening_loads_neither_hydra_nor_ray_nor_torch(sample_root: Path) -> None:
    code = (
        "import sys, srrag; assert len(sys.modules) < 200, len(sys.modules); "
        f"srrag.open({str(sample_root)!r}); "
        "print(sorted({'hydra', 'ray', 'torch'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
