"""Pairs of rows: names that lists multiply, McNemar's counts, Holm by group."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.core.pipeline import Pipeline
from srrag.core.schema import REJECT
from srrag.core.step import Place
from srrag.lab.experiment.bench import InSample
from srrag.lab.experiment.configurations import RowOff, configurations, made_before
from srrag.lab.experiment.read_bench import NearTopicBench, read_bench
from srrag.lab.experiment.running import Terms
from srrag.lab.experiment.sweep import bench_group, check_windows, score_tables
from srrag.lab.experiment.table import expanded_pairs, paired, readable_pairs
from srrag.lab.measure.judgements import Metric
from srrag.lab.measure.scores import Scores
from srrag.storage.mapped_table import IndexShard, write_lookup, write_shards
from srrag.storage.store import Store

GROUPS = [each.name.removesuffix(".yaml") for each in (files("conf") / "bench").iterdir()]


def pipeline(name: str, answer: str = "common") -> Pipeline:
    argv = [f"pipeline={name}", f"answer={answer}", "bench.path=P", "root=R"]
    return factory.pipeline(configure("evaluate", argv))


@pytest.mark.parametrize("name", ["biogen_b", "ideprag", "rasrag", "bm25", "srrag"])
def test_with_a_common_answer_a_pipeline_ranks_by_itself_and_answers_as_the_default(
    name: str,
) -> None:
    own, common = pipeline(name, "own"), pipeline(name)
    wanted = pipeline("hybrid_maxsim", "own").answer
    assert common.rank == own.rank
    written = {"anchors"} if name == "srrag" else set()
    assert common.answer == tuple(s for s in wanted if written.isdisjoint(s.writes.names))
    assert "answer" in common.writes.names


def test_what_ranks_nothing_keeps_its_answer_and_another_word_is_refused() -> None:
    assert pipeline("unaided") == pipeline("unaided", "own")
    with pytest.raises(UsageError, match="answer=mine: own or common"):
        pipeline("bm25", "mine")


@pytest.mark.slow
def test_rows_that_a_root_cannot_run_are_told_apart(sample_root: Path) -> None:
    argv = [f"root={sample_root}", "bench.path=P", "sweep=systems"]
    config = configure("sweep", argv)
    off: dict[str, RowOff] = {}
    wanted = config["overrides"], config["sweep"]["rows"], Pipeline.ranking
    rows = configurations(*wanted, made_before(config["sweep"]), off)
    names = [row.name for row in rows]
    assert {"bm25", "hybrid_maxsim", "biogen_d", "rethinking"} <= set(names)
    assert {"rasrag", "rasrag_soft", "ideprag"} <= set(off)
    assert "forest" in off["rasrag"].reason
    assert "hypergraph" in off["ideprag"].reason
    assert not set(names) & set(off)
    with pytest.raises(UsageError, match="configuration 'srrag"):
        configurations(*wanted, made_before(config["sweep"]))


def near(tmp_path: Path) -> NearTopicBench:
    """One question that the corpus answers, and one that it does not."""
    (tmp_path / "near").mkdir()
    (tmp_path / "beir").mkdir()
    bad = {"id": "b", "kind": "swap", "swapped": "P", "absent_term": "whiplash", "from_id": "g"}
    asked = {"_id": "g", "text": "Does rest help the knee?"}
    lines = {"near": {**bad, "text": "Does rest help whiplash?"}, "beir": asked}
    for folder, row in lines.items():
        (tmp_path / folder / "queries.jsonl").write_text(json.dumps(row) + "\n")
    argv = ["bench=near_topic", f"bench.path={tmp_path}/near", f"root={tmp_path}"]
    config = configure("sweep", [*argv, f"bench.answerable={tmp_path}/beir"])
    bench = read_bench(Terms.of(config))
    assert isinstance(bench, NearTopicBench)
    return bench


def test_near_topic_is_a_benchmark_of_sweeps_with_two_controls(tmp_path: Path) -> None:
    bench = near(tmp_path)
    assert [row["query_id"] for row in bench.gold] == ["b", "g"]
    said = {
        "answer": "It helps.", "answer_note": "", "state": "answered", "evidence": [],
    }  # fmt: skip
    answered = [{"query_id": name, "sentences": [{"text": "It helps."}], "reject": None, **said}
                for name in ("b", "g")]  # fmt: skip
    rejects = pa.array([None, None], REJECT)
    table = pa.Table.from_pylist(answered).drop_columns("reject").append_column("reject", rejects)
    outcome = bench.score(table, Place(), InSample())
    controls, told = bench.tried({}, "", InSample())
    values = {
        name: {each.metric.name: float(each.parts.mean()) for each in scores}
        for name, scores in {"system": outcome.scores, **controls}.items()
    }
    assert values["system"]["wrong_answer_rate"] == values["system"]["answered"] == 1.0
    assert values["control: always answer"] == values["system"]
    assert set(values["control: always abstain"].values()) == {0.0}
    assert told == {}


def test_a_ranking_alone_cannot_abstain(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none of its steps writes an answer"):
        near(tmp_path).asked(pipeline("bm25").ranking())


def test_whom_a_benchmark_is_unfair_to_is_found_by_its_name() -> None:
    config = configure("sweep", ["bench=bioasq", "bench.path=HALF", "root=R", "sweep=systems"])
    assert bench_group(config["overrides"], "beir") == "bioasq"
    assert "rasrag" in config["sweep"]["unfair"]["bioasq"]
    assert set(config["sweep"]["unfair"]) <= set(GROUPS)


QUESTIONS = tuple(f"q{n}" for n in range(24))
PAIRS_GROUPS = {query: "a" if n < 12 else "b" for n, query in enumerate(QUESTIONS)}


def right(*places: int) -> list[Scores]:
    """Scores of a system that is right on the questions of these places."""
    parts = np.isin(np.arange(24), places).astype(np.float64)
    metric = Metric("choice_accuracy", "options")
    return [Scores(metric, QUESTIONS, parts, np.ones(24), 24, 0, 0)]


def test_a_name_that_lists_multiply_pairs_rows_of_the_same_settings() -> None:
    rows = {
        "none": right(), "plain, k=1": right(0), "plain, k=4": right(1, 2),
        "filter, k=1": right(0, 3), "filter, k=4": right(2, 13), "filters": right(5),
    }  # fmt: skip
    pairs = expanded_pairs({"filter": "plain", "plain": "none"}, [*rows])
    found = paired(rows, pairs, {})
    assert [(each.row, each.against, each.only, each.only_other) for each in found] == [
        ("filter, k=1", "plain, k=1", 1, 0), ("filter, k=4", "plain, k=4", 1, 1),
        ("plain, k=1", "none", 1, 0), ("plain, k=4", "none", 2, 0),
    ]  # fmt: skip


def test_p_values_are_corrected_within_a_group() -> None:
    rows = {"none": right(), "ten": right(*range(10)), "two": right(0, 13)}
    found = {
        (each.row, each.group): each
        for each in paired(rows, [("ten", "none"), ("two", "none")], PAIRS_GROUPS)
    }
    assert {group for _, group in found} == {"a", "b", "all"}
    ten = found["ten", "a"]
    assert ten.p_mcnemar == pytest.approx(2 * 0.5**10)
    assert ten.p_holm == pytest.approx(2 * ten.p_mcnemar)  # two pairs in its group
    assert found["two", "a"].p_holm == found["two", "a"].p_mcnemar == 1.0
    assert found["ten", "b"].p_holm == 1.0
    assert "Holm" in readable_pairs(list(found.values()))


def test_a_row_that_is_not_there_is_named_and_one_left_out_is_not_missed() -> None:
    with pytest.raises(UsageError, match=r"sweep\.pairs: 'pla' is no row; there are plain, k=1"):
        expanded_pairs({"plain": "pla"}, ["plain, k=1"])
    assert expanded_pairs({"filter": "plain"}, ["plain, k=1"], {"filter"}) == []
    some = ["plain, k=1", "filter, k=4"]
    assert expanded_pairs({"filter": "plain"}, some[:1], {"filter, k=1", "filter, k=4"}) == []
    assert expanded_pairs({"filter": "plain"}, some, {"filter, k=1"}) == []


def test_where_a_judge_failed_everywhere_no_question_has_a_value() -> None:
    (scores,) = right(0, 1)
    void = replace(scores, parts=np.zeros(24), items=24, failed=24, void=True)
    (table,) = score_tables("row", [void], [*QUESTIONS, "apart"], InSample())
    assert table["value"].null_count == table.num_rows == 25
    assert set(table["reason"].to_pylist()) == {void.void_reason}
    (table,) = score_tables("row", [scores], QUESTIONS, InSample())
    assert table["value"].null_count == 0


def test_rows_with_other_windows_than_those_of_the_gold_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    windows = {"aa": ["1", "2"], "bb": ["1", "3"], "cc": ["2", "1", "3"]}
    for build, found in (("default", "aa"), ("same", "aa"), ("small", "bb"), ("more", "cc")):
        folder = store.stage_dir("units", found)
        folder.mkdir(parents=True, exist_ok=True)
        store.write_pointer(build, {"stages": {"units": {"fingerprint": found}}})
        ids = windows[found]
        for n, held in enumerate((ids[:1], ids[1:])):
            write_lookup(held, folder, f"units-{n:05}")
        write_shards([IndexShard(0, (), 1), IndexShard(1, (), len(ids) - 1)], folder)

    def row(build: str) -> Any:
        return SimpleNamespace(name=build, run=SimpleNamespace(store=store, build=build))

    check_windows([row("same"), row("default"), row("more")], str(tmp_path), "default")
    with pytest.raises(UsageError, match="configuration 'small': its build has other windows"):
        check_windows([row("same"), row("small")], str(tmp_path), "default")
