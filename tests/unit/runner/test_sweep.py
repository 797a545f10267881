from __future__ import annotations

from pathlib import Path

import pytest

from srrag.core.pipeline import Pipeline
from srrag.core.step import Place
from srrag.llm.completion import Account
from srrag.runner.pipeline_run import SOURCE, PipelineRun
from srrag.runner.runner import LocalRunner
from srrag.storage.store import Store
from tests.unit.runner.sweeps import SEEN, Add, AskText, OutModel, meeting, questions, ranked, sweep

SHARED = (Add(into="a"), Add(into="b"))
TWO = (
    ranked(*SHARED, Add(into="c")),
    ranked(*SHARED, Add(into="d"), answer=(Add(into="e"), Add(into="f"))),
)
TEXTS = questions({str(n): "knee" * n for n in range(1, 131)})


@pytest.fixture(autouse=True)
def unseen() -> None:
    SEEN.clear()


def steps_of(root: Path, *pipelines: Pipeline) -> list[list[list[str]]]:
    """The stages of each pipeline, each as the columns that its steps add."""
    plan = sweep(root, *pipelines).plan
    by_name = {stage.name: stage.step for stage in plan.steps}
    return [
        [
            [getattr(step, "into", "hits") for step in by_name[name].steps]  # type: ignore[attr-defined]
            for name in path
        ]
        for path in plan.paths
    ]


def test_a_stage_ends_where_pipelines_part_and_where_a_ranking_ends(tmp_path: Path) -> None:
    assert steps_of(tmp_path, TWO[1]) == [[["a", "b", "d", "hits"], ["e", "f"]]]
    assert steps_of(tmp_path, *TWO) == [
        [["a", "b"], ["c", "hits"]],
        [["a", "b"], ["d", "hits"], ["e", "f"]],
    ]
    short = ranked(Add(into="a"))
    assert steps_of(tmp_path, short, *TWO)[1] == [["a"], ["b"], ["c", "hits"]]
    unaided = Pipeline(rank=(), answer=(Add(into="z"),))
    assert steps_of(tmp_path, unaided, *TWO)[0] == [["z"]]


def test_the_same_pipeline_twice_is_one(tmp_path: Path) -> None:
    twice = sweep(tmp_path, TWO[0], TWO[0])
    assert twice.plan.paths[0] == twice.plan.paths[1]
    assert len(twice.plan.steps) == 1


def test_what_is_shared_runs_once_and_equals_each_alone(tmp_path: Path) -> None:
    together = sweep(tmp_path / "together", *TWO)
    together.run(TEXTS, Place())
    assert SEEN == {"a": 130, "b": 130, "c": 130, "d": 130, "e": 130, "f": 130}
    for number, pipeline in enumerate(TWO):
        alone = sweep(tmp_path / f"alone-{number}", pipeline)
        alone.run(TEXTS, Place())
        tables = together.table(number, TEXTS), alone.table(0, TEXTS)
        assert tables[0].schema.equals(pipeline.writes)
        assert tables[0].drop_columns("trace").equals(tables[1].drop_columns("trace"))
        traces = [[[e["step"] for e in row] for row in t["trace"].to_pylist()] for t in tables]
        assert traces[0] == traces[1]
        assert len(traces[0][0]) == len(pipeline.steps)


def test_a_second_run_does_nothing_and_another_pipeline_only_its_own(tmp_path: Path) -> None:
    sweep(tmp_path, *TWO).run(TEXTS, Place())
    SEEN.clear()
    sweep(tmp_path, *TWO).run(TEXTS, Place())
    assert not SEEN
    other = ranked(*SHARED, Add(into="d"), answer=(Add(into="g"),))
    sweep(tmp_path, *TWO, other).run(TEXTS, Place())
    assert SEEN == {"g": 130}


def test_where_a_pipeline_is_cut_does_not_change_what_its_stages_are(tmp_path: Path) -> None:
    """A list that grows cuts elsewhere: what stands behind the cut is not done again."""
    sweep(tmp_path, TWO[1]).run(TEXTS, Place())
    SEEN.clear()
    sweep(tmp_path, *TWO).run(TEXTS, Place())
    assert SEEN == {"a": 130, "b": 130, "c": 130}, "the prefix was no stage yet; d, e, f stand"


def test_rejected_rows_are_found_wherever_the_cut_was(tmp_path: Path) -> None:
    first, second = Add(into="a", bad="early"), Add(into="b")
    texts = questions({"1": "knee", "2": "early", "3": "hip"})
    sweep(tmp_path, ranked(first, second)).run(texts, Place())
    cut = sweep(tmp_path, ranked(first, second), ranked(first, Add(into="c")))
    cut.run(texts, Place())
    assert cut.table(0, texts)["b"].to_pylist() == [4, 0, 3]
    assert cut.table(0, texts)["reject"].null_count == 2


def test_a_single_run_finds_what_a_sweep_left(tmp_path: Path) -> None:
    sweep(tmp_path, *TWO).run(TEXTS, Place())
    SEEN.clear()
    run = PipelineRun(Store(tmp_path), "default", TWO[1], LocalRunner())
    assert run.run(TEXTS, Place())["f"].to_pylist() == [4 * n for n in range(1, 131)]
    assert not SEEN


def test_what_an_outage_took_is_asked_anew_where_that_is_told(tmp_path: Path) -> None:
    up = tmp_path / "up"
    answer = (AskText(engine=OutModel(up=str(up))), Add(into="b"))
    made, texts = sweep(tmp_path / "root", ranked(answer=answer)), questions({"1": "a", "2": "hip"})
    fresh = Place(account=Account(fresh=True))
    for there, at, lost in ((0, Place(), 2), (1, Place(), 2), (1, fresh, 0), (1, fresh, 0)):
        if there:
            up.touch()
        made.run(texts, at)
        assert len(texts) - made.table(0, texts)["reject"].null_count == lost
    assert SEEN == {"b": 2}, "what stands is not made again"


def test_other_questions_are_other_parts(tmp_path: Path) -> None:
    sweep(tmp_path, TWO[0]).run(TEXTS, Place())
    SEEN.clear()
    more = questions({str(n): "knee" * n for n in range(1, 150)})
    sweep(tmp_path, TWO[0]).run(more, Place())
    assert SEEN["a"] == 149 - 128, "the first two parts of 64 are the same"


def test_rows_that_fail_in_any_stage_stand_in_their_places(tmp_path: Path) -> None:
    texts = {"1": "knee", "2": "", "3": "early", "4": "hip", "5": "late", "6": "toe"}
    first, second = Add(into="a", bad="early"), Add(into="b", bad="late")
    made = sweep(tmp_path, ranked(first, answer=(second,)), ranked(first))
    table = questions(texts)
    made.run(table, Place())
    rows = made.table(0, table).to_pylist()
    assert [row["query_id"] for row in rows] == list(texts)
    reasons = [row["reject"] and row["reject"]["detail"] for row in rows]
    assert reasons == [
        None, "the question holds no word", "cannot count early", None, "cannot count late", None,
    ]  # fmt: skip
    assert [row["a"] for row in rows] == [4, 0, 0, 3, 4, 3]
    assert [row["b"] for row in rows] == [4, 0, 0, 3, 0, 3]
    assert [len(row["trace"]) for row in rows] == [3, 0, 2, 3, 3, 3]
    other = made.table(1, table).to_pylist()
    assert [row["reject"] is None for row in other] == [True, False, False, True, True, True]


def test_a_pipeline_that_cannot_be_run_takes_no_other_with_it(tmp_path: Path) -> None:
    broken = Add(into="x", broken=True)
    made = sweep(
        tmp_path,
        ranked(Add(into="a"), broken),
        TWO[0],
        ranked(Add(into="a"), broken, Add(into="y")),
    )
    reasons = made.run_each(TEXTS, Place())
    assert reasons == dict.fromkeys((0, 2), "the model of x cannot be loaded")
    assert made.stands(1, TEXTS)
    assert not made.stands(0, TEXTS)
    assert made.table(1, TEXTS)["c"].to_pylist()[0] == 4
    with pytest.raises(OSError, match="cannot be loaded"):
        made.run(TEXTS, Place())


def test_what_is_read_of_a_build_tells_stages_apart_but_only_theirs(tmp_path: Path) -> None:
    from srrag.runner.pipeline_run import SegmentPlan, default_resources

    pipeline = ranked(Add(into="a"), answer=(Add(into="from_units"),))
    plans = [
        SegmentPlan([pipeline], {"units": [content]}, default_resources) for content in ("1", "2")
    ]
    first, second = ([plan.fingerprint(name) for name in plan.paths[0]] for plan in plans)
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert plans[0].fingerprint(SOURCE) == plans[1].fingerprint(SOURCE)


def test_a_pipeline_that_needs_what_is_not_built(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stage 'units' is not in build 'default'"):
        sweep(tmp_path, ranked(Add(into="from_units"))).run(TEXTS, Place())
    with pytest.raises(ValueError, match="there is no question"):
        sweep(tmp_path, TWO[0]).run(TEXTS.slice(0, 0), Place())


def test_what_a_pipeline_takes_counts_its_shared_stages_too(tmp_path: Path) -> None:
    made = sweep(tmp_path, *TWO)
    made.run(TEXTS, Place())
    shared, *own = (stage.name for stage, _ in made.receipts(1, TEXTS))
    assert shared == made.plan.paths[0][0]
    assert [shared, *own] == list(made.plan.paths[1])
    assert all(len(listed) == 3 for _, listed in made.receipts(1, TEXTS))
    assert made.usage(1, TEXTS).calls == 0


def test_engines_of_several_configurations_work_at_the_same_time(tmp_path: Path) -> None:
    made = sweep(tmp_path / "root", *meeting(tmp_path / "met"))
    assert [len(path) for path in made.plan.paths] == [2, 2], "a step that asks is a stage"
    made.run(TEXTS, Place())
    for number in range(2):
        assert made.table(number, TEXTS)["reject"].null_count == 130
        assert made.usage(number, TEXTS).calls == 130
