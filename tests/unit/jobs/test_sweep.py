"""`srrag sweep bench=sample`: the table is that of single evaluations, corrected over its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import evaluate, sweep
from srrag.algo.significance import holm
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.lab.experiment.read_bench import read_bench
from srrag.lab.experiment.running import Terms
from srrag.lab.report.results import read_results, write_judgements
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_by_rules
from tests.sample_json import READING, asked_schema
from tests.unit.lab.report.toy_results import toy_judgements

SAMPLE = Path(__file__).parents[3] / "srrag" / "sample" / "questions.jsonl"


def run(out: Path, root: Path, *argv: str) -> dict[str, Any]:
    given = [f"root={root}", f"out={out}", "bench=sample", "resamples=300", *argv]
    return sweep.run({**configure("sweep", given), "command": "test"})


def test_the_table_is_that_of_single_evaluations(sample_root: Path, tmp_path: Path) -> None:
    summary = run(tmp_path, sample_root, "pipeline=bm25,dense,graph", "sweep.baseline=dense")
    assert (summary["configurations"], summary["failed"], summary["ok"]) == (3, {}, True)
    assert summary["seconds_stages"] <= summary["seconds_unshared"]
    results = read_results(tmp_path)
    rows = {row.name: row for row in results.rows}
    given = [f"root={sample_root}", "bench=sample", "resamples=300", "pipeline=bm25"]
    alone = evaluate.run({**configure("evaluate", [*given, "baseline=dense"]), "command": "test"})
    for name, figure in rows["bm25"].metrics.items():
        assert alone["metrics"][name].items() <= figure.model_dump().items()
    for name, difference in rows["bm25"].difference.items():
        assert difference.p == alone["difference"][name]["p"]
    tested = [rows[name].difference for name in ("bm25", "graph")]
    for metric, p in (("nDCG@10", "p"), ("miss@10", "p_mcnemar")):
        raw = [getattr(difference[metric], p) for difference in tested]
        assert [difference[metric].p_holm for difference in tested] == holm(raw)
    assert rows["dense"].difference == {}
    assert rows["graph"].baseline == "dense"
    assert all(row.usd == 0.0 and row.seconds > 0 for row in rows.values())
    assert list(rows["dense"].models) == ["minilm"]
    shared = set(rows["dense"].fingerprints) & set(rows["graph"].fingerprints)
    assert any(name.startswith("answers-EncodeQuestions") for name in shared)


def test_each_value_has_its_strata_and_again_nothing_is_made(
    sample_root: Path, tmp_path: Path
) -> None:
    write_judgements(tmp_path, "dense", toy_judgements())  # of another sweep
    run(tmp_path, sample_root, "pipeline=bm25,dense")
    assert read_results(tmp_path).judgements("dense") is None
    again = run(tmp_path, sample_root, "pipeline=bm25,dense")
    assert again["parts_made"] == 0
    values = read_results(tmp_path).questions
    assert (again["questions"], again["without_gold"]) == (57, 4)
    assert values.num_rows == 2 * 8 * 57
    assert set(values["grade"].to_pylist()) == {*"ABCDE", None}, "without gold there is none"
    assert {"sufficient", "uncertain"} <= set(values["certainty"].to_pylist())
    assert "ACL" in values["condition"].to_pylist()
    kept = read_results(tmp_path).answers("dense")
    assert kept is not None
    assert len(kept["evidence"][0].as_py()) == 10


def test_benchmarks_of_any_shape_are_swept(sample_root: Path, tmp_path: Path) -> None:
    asked = {"question": "Is rest advised?", "options": {"A": "yes", "B": "no"}, "answer": "B"}
    path = tmp_path / "benchmark.json"
    path.write_text(json.dumps({"one": {"1": asked, "2": asked}, "two": {"1": asked}}, indent=1))
    config = configure("sweep", [f"root={sample_root}", "bench=mirage", f"bench.path={path}"])
    assert read_bench(Terms.of(config)).questions["options"].to_pylist() == [["yes", "no"]] * 3
    config["bench"]["subset"] = "two"
    bench = read_bench(Terms.of(config))
    assert bench.questions["query_id"].to_pylist() == ["two:1"]
    assert [(row["subset"], row["gold_option"]) for row in bench.gold] == [("two", "no")]
    config["bench"]["subset"] = "three"
    with pytest.raises(UsageError, match=r"bench\.subset=three: .* has one, two"):
        read_bench(Terms.of(config))


def test_a_row_that_is_off_is_told_by_its_settings_where_a_list_multiplies_it(
    sample_root: Path, tmp_path: Path
) -> None:
    """Such a row has the name that the list gave it, and no row of that name was written down."""
    summary = run(
        tmp_path, sample_root, "sweep=lists", "+sweep.rows.a=pipeline=bm25", "seed=0,1",
        "+sweep.rows.b=pipeline=nothing", "+sweep.lacking=said",
    )  # fmt: skip
    assert set(summary["off"]) == {"b, seed=0", "b, seed=1"}
    rows = {row.name: row for row in read_results(tmp_path).rows}
    assert rows["b, seed=1"].command == "pipeline=nothing seed=1"


@pytest.mark.parametrize("odd", [{"gold": ["123"]}, {"gold": [{"id": 1}]}, {"relevant": 3}])
def test_gold_of_another_shape_is_named_before_anything_runs(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps({"query_id": "q7", "text": "Is rest advised?", **odd}) + "\n")
    config = configure("sweep", ["root=null", "bench=answers", f"bench.path={path}"])
    with pytest.raises(UsageError, match=r"gold\.jsonl: question 'q7': `gold` is a list"):
        read_bench(Terms.of(config))


@pytest.mark.slow
def test_seeds_are_rows_with_answers_of_their_own_and_are_summed_up(
    sample_root: Path, tmp_path: Path, capsys: Any
) -> None:
    """The judge answers nonsense: that is said before any figure."""

    def script(request: dict[str, Any]) -> str:
        title = asked_schema(request).get("title")  # type: ignore[union-attr]
        if title == "CheckedAnswer":
            return answer_by_rules(request)
        if title in READING:
            asked.append((request["seed"], request["temperature"]))
            return answer_by_rules(request)
        judged.append(request["temperature"])
        return "I had rather not say."

    asked: list[tuple[int, float]] = []
    judged: list[float] = []
    rows = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()[:4]]
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    judges = configure("sweep", [f"root={sample_root}", "bench=answers"])["bench"]["judges"]
    kept = ("gold", "nuggets", "similarity")
    left = [f"bench.judges.{name}=null" for name in judges if name not in kept]
    with serve(Endpoint(script=script)) as endpoint:
        summary = run(
            tmp_path / "out", sample_root, "bench=answers", f"bench.path={path}", "pipeline=bm25",
            "engine=http", "engine.model=seeded", f"engine.base_url={endpoint.url}", *left,
            "engine.temperature=0.7", "engine.seed=0,1,2",
        )  # fmt: skip
    assert summary["configurations"] == 3
    assert summary["stages"] == 8, "what comes before the answers once, these by each seed"
    answered = len(rows) * 3
    assert len(asked) == len(set(asked)) == answered
    assert {heat for _, heat in asked} == {0.7}
    assert set(judged) == {0.0}, "sampling is that of the answers"
    assert summary["over_seeds"]["all seeds"]["semantic_similarity"]["seeds"] == 3
    assert summary["broken_judges"] == ["nuggets"] and not summary["ok"]
    said = capsys.readouterr().err
    assert "NO RESULT of the judge nuggets: it failed wherever it was asked, for all" in said
    assert said.index("NO RESULT") < said.index("in brackets: p of") < said.index("over seeds")
    results = read_results(tmp_path / "out").rows
    assert {row.broken_judges for row in results} == {("nuggets",)}
    assert results[1].command.endswith("engine.temperature=0.7 engine.seed=1")
    assert "&&" not in results[1].command, "the same judge, so that one command repeats it"
