from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from srrag.config.compose import configure
from srrag.config.words import choices, model_of
from srrag.core.errors import UsageError
from srrag.core.pipeline import Pipeline
from srrag.lab.experiment.configurations import (
    Configuration,
    RowOff,
    configurations,
    made_before,
    named,
)
from srrag.storage.store import Store
from tests.conftest import linked


def expanded(root: Path, *argv: str) -> list[Configuration]:
    config = configure("sweep", [f"root={root}", "bench=sample", *argv])
    given = config["sweep"]
    return configurations(config["overrides"], given["rows"], Pipeline.ranking, made_before(given))


def test_lists_multiply_rows_and_each_other() -> None:
    rows = {"one": "pipeline=bm25", "two": ["pipeline=dense", "seed=1,2"]}
    made = dict(named(rows, ["resamples=5,6", "root=R"]))
    assert made == {
        "one, resamples=5": ("pipeline=bm25", "resamples=5"),
        "one, resamples=6": ("pipeline=bm25", "resamples=6"),
        "two, seed=1, resamples=5": ("pipeline=dense", "seed=1", "resamples=5"),
        "two, seed=1, resamples=6": ("pipeline=dense", "seed=1", "resamples=6"),
        "two, seed=2, resamples=5": ("pipeline=dense", "seed=2", "resamples=5"),
        "two, seed=2, resamples=6": ("pipeline=dense", "seed=2", "resamples=6"),
    }


def test_lists_alone_make_rows_and_a_rows_own_list_goes_before() -> None:
    lists = ["pipeline=bm25,dense", "answering.Rules.select.k=4,8"]
    assert [name for name, _ in named({}, lists)] == [
        "bm25, k=4", "bm25, k=8", "dense, k=4", "dense, k=8",
    ]  # fmt: skip
    assert list(named({"a": "seed=range(0,2)"}, ["seed=7,8"])) == [
        ("a, seed=0", ("seed=0",)),
        ("a, seed=1", ("seed=1",)),
    ]
    assert list(named({}, ["root=R"])) == [("as it stands", ())]


def test_a_row_with_a_null_in_it_is_left_out() -> None:
    rows = {"a": None, "b": ["pipeline=srrag", None], "c": "pipeline=bm25"}
    assert [name for name, _ in named(rows, [])] == ["c"]


def test_each_composes_to_what_its_command_says(sample_root: Path) -> None:
    made = expanded(
        sample_root,
        "+sweep.rows.a=pipeline=bm25",
        "+sweep.rows.b=pipeline=hybrid seed=3",
        "resamples=7",
    )
    assert [row.name for row in made] == ["a", "b"]
    for row in made:
        srrag, job, *argv = shlex.split(row.command("gold.jsonl", row.config["engine"]))
        assert (srrag, job) == ("srrag", "evaluate")
        again = configure(job, argv)
        assert {k: again[k] for k in ("pipeline", "seed", "resamples", "bench")} == {
            k: row.config[k] for k in ("pipeline", "seed", "resamples", "bench")
        }
    assert made[1].resampling == {"resamples": 7, "seed": 3}
    assert made[0].pipeline.answer == ()


def test_an_override_of_a_row_goes_before_that_of_the_command(sample_root: Path) -> None:
    (made,) = expanded(sample_root, "+sweep.rows.a=pipeline=bm25", "pipeline=dense", "seed=4")
    assert made.argv == (f"root={sample_root}", "bench=sample", "seed=4", "pipeline=bm25")


def test_where_another_engine_answers_two_commands_repeat_it(sample_root: Path) -> None:
    engine = "engine=http engine.model=toy engine.base_url=http://127.0.0.1:9/v1"
    (made,) = expanded(sample_root, f"+sweep.rows.a=pipeline=bm25 {engine}", "resamples=5")
    answer, judge = made.command(
        "gold.jsonl", configure("evaluate", ["bench=sample"])["engine"]
    ).split(" && ")
    assert answer.startswith(f"srrag answer queries=gold.jsonl root={sample_root} pipeline=bm25 ")
    assert "resamples" not in answer
    assert "engine" not in judge
    assert judge.startswith(f"srrag evaluate root={sample_root} bench=sample resamples=5 ")
    configure("answer", shlex.split(answer)[2:])


OPENAI = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("engine", "model", "address", "key"),
    [
        ("model=http://other:8000/v1#llama", "llama", "http://other:8000/v1", None),
        (
            "engine=http engine.model=llama engine.base_url=http://other:8000/v1",
            "llama", "http://other:8000/v1", None,
        ),
        ("engine=rules", None, None, None),
        ("engine=http engine.model=mini", "mini", OPENAI, "OPENAI_API_KEY"),
        ("engine.model=mini", "mini", OPENAI, "OPENAI_API_KEY"),
        ("engine.model=b engine.base_url=http://gpu7/v1", "b", "http://gpu7/v1", None),
    ],
)  # fmt: skip
def test_a_row_takes_nothing_of_a_judge_elsewhere_and_no_price_of_another_model(
    sample_root: Path, engine: str, model: str | None, address: str | None, key: str | None
) -> None:
    prices = ["engine.usd_per_mtok_in=5", "engine.usd_per_mtok_out=15"]
    judge = [*model_of("openai/gpt-4o", {}), *prices]
    (made,) = expanded(sample_root, f"+sweep.rows.a=pipeline=bm25 {engine}", *judge)
    settings = made.config["engine"]
    assert (settings.get("model"), settings.get("base_url")) == (model, address)
    assert settings.get("api_key_env") == key and settings.get("usd_per_mtok_in") is None
    asked = configure("evaluate", [f"root={sample_root}", "bench=sample", *judge])["engine"]
    answer, judged = made.command("gold.jsonl", asked).split(" && ")
    assert configure("answer", shlex.split(answer)[2:])["engine"] == settings
    assert configure("evaluate", shlex.split(judged)[2:-1])["engine"] == asked


@pytest.mark.slow
@pytest.mark.parametrize("name", ["systems", "rethinking_recorded"])  # one goes on from another
def test_every_row_of_a_file_can_be_left_out(name: str) -> None:
    given = ["root=R", "bench=sample", f"sweep={name}"]
    rows = list(configure("sweep", given)["sweep"]["rows"])
    left = configure("sweep", [*given, *(f"sweep.rows.{row}=null" for row in rows)])["sweep"]
    assert rows and left["rows"] == dict.fromkeys(rows)


def test_names_of_rows_can_be_written_in_an_override_and_a_baseline_is_a_row() -> None:
    paths = choices("sweep")
    stated = {name: yaml.safe_load(path.read_text("utf-8")) for name, path in paths.items()}
    own = {name: each.get("sweep", each) for name, each in stated.items()}
    before = {name: stated[name].get("defaults", [])[:-1] for name in paths}
    for name, each in own.items():
        theirs = [own[other] for other in before[name]]
        rows = {row for one in (each, *theirs) for row in one["rows"]}
        assert all(row.isidentifier() for row in rows), name
        assert next(one["baseline"] for one in (each, *theirs) if "baseline" in one) in {
            None,
            *rows,
        }


def test_all_files_that_are_lacking_are_named_at_once_with_what_makes_them(
    sample_root: Path, tmp_path: Path
) -> None:
    nowhere = {key: f"{tmp_path}/{key}.json" for key in ("betr", "betr_no_colbert")}
    asked = ["sweep=retrieval", *(f"sweep.{key}={path}" for key, path in nowhere.items())]
    with pytest.raises(UsageError) as caught:
        expanded(sample_root, *asked)
    made_by = (
        "srrag fit_betr root=S pipeline=srrag →",
        "srrag fit_betr root=S pipeline=srrag_graph ",
    )
    for (key, path), command in zip(nowhere.items(), made_by, strict=True):
        assert f"sweep.{key}={path}: there is no such file (made by: {command}" in str(caught.value)
    left = [f"sweep.rows.{row}=null" for row in ("srrag", "srrag_graph")]
    with pytest.raises(UsageError) as caught:
        expanded(sample_root, *asked, *left)
    assert str(caught.value).startswith("sweep.betr_no_colbert=")
    made = expanded(sample_root, *asked, *left, "sweep.rows.srrag_no_colbert=null")
    assert [row.name for row in made] == [
        "bm25", "dense", "graph", "hybrid", "hybrid_graph", "hybrid_maxsim",
    ]  # fmt: skip


def test_a_root_of_ones_own_leaves_out_the_rows_that_it_lacks_something_for(
    sample_root: Path, tmp_path: Path
) -> None:
    root = linked(sample_root, tmp_path / "R", "jobs")
    pointer = Store(root).read_pointer("default")
    text = {name: of for name, of in pointer["stages"].items() if name not in ("entities", "graph")}
    Store(root).write_pointer("default", {**pointer, "stages": text})
    config = configure("sweep", [f"root={root}", "bench=sample", "sweep=retrieval"])
    given, off = config["sweep"], dict[str, RowOff]()
    made = configurations(
        config["overrides"], given["rows"], Pipeline.ranking, made_before(given), off
    )
    assert [row.name for row in made] == ["bm25", "dense", "hybrid", "hybrid_maxsim", "srrag"]
    assert set(off) == {"graph", "hybrid_graph", "srrag_graph", "srrag_no_colbert"}
    assert "(made by: srrag fit_betr root=S pipeline=srrag_graph" in off["srrag_no_colbert"].reason
    assert not any("\n" in each.reason for each in off.values())
    assert "pipeline=graph" in off["graph"].overrides


def test_a_filter_that_is_lacking_is_named_before_anything_runs(sample_root: Path) -> None:
    with pytest.raises(UsageError, match=r"^sweep\.filter=F: .*srrag train_filter train\.data="):
        expanded(sample_root, "sweep=rethinking", "sweep.filter=F")


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (["+sweep.rows.wrong=pipeline=nothing"], "configuration 'wrong': "),
        (["+sweep.rows.wrong=pipeline=bm25 pipeline.x=1"], "configuration 'wrong': "),
        (["+sweep.rows.wrong=pipeline=bm25 build=other"], "no finished build 'other'"),
        (["+sweep.rows.wrong=pipeline=rethinking"], "configuration 'wrong': "),
        (["+sweep.rows.wrong=pipeline=bm25 bench=nli"], "bench=nli holds for all or none"),
        (["+sweep.rows.wrong=pipeline=bm25 sweep.x=1"], "sweep.x=1 holds for all or none"),
        (['+sweep.rows.wrong=pipeline="bm25'], "sweep.rows: 'wrong'"),
        (["+sweep.rows.wrong=3"], "sweep.rows: 'wrong' is no text"),
        (["sweep.rows={a: pipeline=bm25}"], "sweep.rows: rows have names"),
        (["pipeline=bm25", "resamples=0"], "configuration 'as it stands': resamples=0: a whole"),
        (["pipeline=bm25", "seed=x"], "seed=x: a whole number, at least 0"),
        (["+sweep.rows.a=null"], "there is no configuration"),
        (["pipeline=bm25,bm25"], "two configurations are named 'bm25'"),
        (["pipeline=bm25,dense", "pipeline.rank=x,y"], "configuration 'bm25, rank=x': pipeline: "),
        (["pipeline=bm25", "baseline=dense"], "sweep.baseline="),
        (["pipeline=bm25", f"+answering.x={'x' * 119},y"], "is no name of at most 120 characters"),
        (["pipeline=bm25", "budget.max_usd=2,500"], "budget.max_usd=2,500: it holds for all rows"),
        (["pipeline=bm25", "bench.limit=50,100"], "bench.limit=50,100: it holds for all rows"),
        (["pipeline=bm25", "in_sample=apart,allow"], "in_sample=apart,allow: it holds for all"),
        (["+sweep.rows.a=pipeline=bm25 in_sample=allow"], "in_sample=allow holds for all or none"),
    ],
)
def test_what_is_wrong_is_named_before_anything_runs(
    sample_root: Path, argv: list[str], wanted: str
) -> None:
    with pytest.raises(UsageError) as caught:
        expanded(sample_root, *argv)
    assert wanted in str(caught.value)
    assert "\n" not in str(caught.value)


GIVEN = ("bench=mirage", "bench.path=mcq", "root=R", "sweep.filter=F", "sweep.k=4")


def rows(sweep: str) -> dict[str, tuple[str, ...]]:
    return dict(named(configure("sweep", [f"sweep={sweep}", *GIVEN])["sweep"]["rows"], ()))


@pytest.mark.slow
def test_every_row_chooses_an_option_and_the_filter_sees_the_k_retrieved() -> None:
    for name, overrides in rows("rethinking").items():
        config = configure("evaluate", [*GIVEN[:3], *overrides])
        steps = {**config["pipeline"]["answer"]}
        assert [*filter(steps.get, steps)][-1] == "choose", name
        if name.endswith(("filter", "both")):
            rank = config["pipeline"]["rank"]
            assert rank["filter"]["depth"] == 4
            assert rank["judge"]["depth"] == 32, "one judgement of each pair for every k"
            assert rank["judge"]["model"] == rank["filter"]["model"] == "F"


def test_recorded_rationales_are_searched_for_and_rules_choose() -> None:
    made = rows("rethinking_recorded")
    assert {"model", "model_medrag"} < made.keys() and made.keys() > rows("rethinking").keys()
    config = configure("evaluate", [*GIVEN[:3], *made["bm25_rationale"]])
    rank, answer = (config["pipeline"][part] for part in ("rank", "answer"))
    assert rank["reason"]["engine"]["_target_"] == "RecordedEngine"
    assert rank["reason"]["engine"]["setting"] == "cot" and rank["sparse"]["text"] == "rationale"
    assert answer["choose"]["engine"] == {"_target_": "Rules"}
