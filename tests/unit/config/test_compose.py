from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from srrag.config import factory
from srrag.config.compose import configure, describe, listed, quoted, with_pipeline
from srrag.config.run_job import DONE, FAILED, WRONG_USAGE, launch
from srrag.core.errors import UsageError

SLASHES = "backslashes before the closing quote are not escaped"
INTERPOLATION = "the text is still interpolated: it can read the environment"


def asked(text: str) -> Any:
    return configure("ask", ["root=/r", f"question={text}"])["question"]


@pytest.mark.parametrize(
    "text",
    [
        "Does rest help?", "", " lead and trail ", "it's", "'", '"', '"quoted"', "'quoted'",
        "a, b, c", "{a: 1}", "[1, 2", "(x", ")", "x=y", "=", "$", "$HOME", "US$ 5", "}", "a:b",
        "null", "true", "1", "1e3", "on", "~x", "+x", "a@b", "#", "%", "50 % (95 % CI 1–2)",
        "line\nbreak", "tab\there", "Übung für naïve 膝 🦵", "C:\\dir", "a\\b", "\\n", "\\'",
        "a\\'b", "don\\'t", "x ? y : z", "*", "&", "`x`", "; rm -rf", "!x", "|", "--help",
    ],
)  # fmt: skip
def test_a_question_is_taken_as_it_is(text: str) -> None:
    assert asked(text) == text


@pytest.mark.parametrize("text", ["\\", "ends in \\", "ends in \\\\", "\\\\'", "\\\\", "x\\\\\\'y"])
def test_backslashes_are_taken_as_they_are(text: str) -> None:
    assert asked(text) == text


@pytest.mark.parametrize(
    "text", ["${oc.env:HOME}", "${root}", "${x}", "${", "a ${b} c", "\\${x}", "${question}"]
)
def test_a_question_is_not_interpolated(text: str) -> None:
    assert asked(text) == text


def test_three_question_marks_are_a_text() -> None:
    assert asked("???") == "???"


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@example("\\")
@given(st.text(st.one_of(st.sampled_from("\\'\"${},()[]:= "), st.characters(codec="utf-8"))))
def test_any_question_is_taken_as_it_is(text: str) -> None:
    assert asked(text) == text


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.text(st.sampled_from("ab'\"$,()[]:=?é膝🦵 \n"), max_size=12).filter(lambda t: t != "???"))
def test_any_question_without_braces_and_backslashes_is_taken_as_it_is(text: str) -> None:
    assert asked(text) == text


@pytest.mark.parametrize("path", ["/tmp/a b", "/tmp/it's", "/tmp/a(b)", "/tmp/ü", "x=y"])
def test_paths_need_no_quotes(path: str) -> None:
    assert configure("build", [f"root={path}"])["root"] == path


def test_what_hydra_can_read_is_left_to_it() -> None:
    assert quoted("profile=local") == "profile=local"
    assert quoted("stages.windows.run.max_tokens=128") == "stages.windows.run.max_tokens=128"


@pytest.mark.parametrize(
    ("job", "override", "read"),
    [
        ("forget", "doc_id=[123_4, 5_6,a]", ["123_4", "5_6", "a"]),
        ("forget", "source_id=12_3", "12_3"),
        ("forget", "doc_id=007", "007"), ("forget", "doc_id='1_2'", "1_2"),
        ("build", "build=2024_11", "2024_11"), ("build", "build=1.10", "1.10"),
        ("build", "root=/tmp/run 5", "/tmp/run 5"), ("ask", "out=2024_11", "2024_11"),
        ("export", "community=12e3", "12e3"),
    ],
)  # fmt: skip
def test_a_name_that_looks_like_a_number_is_kept_as_it_is_typed(
    job: str, override: str, read: Any
) -> None:
    needed = {"ask": ["question=x"], "export": ["format=json", "root=R"]}
    assert configure(job, [*needed.get(job, ()), override])[override.partition("=")[0]] == read


def test_rows_of_builds_that_look_like_numbers_have_their_names() -> None:
    made = listed("build=1_2,2024-01")
    assert made == ["build=1_2", "build=2024-01"]
    assert list(map(quoted, made)) == ["build='1_2'", "build='2024-01'"]


@pytest.mark.parametrize("word", ["root", "", "help", "-x"])
def test_what_is_no_override(word: str) -> None:
    with pytest.raises(UsageError, match="write key=value"):
        quoted(word)


@pytest.mark.parametrize(
    "argv",
    [
        [], ["root=/r", "question=x", "nonsense=1"], ["root=/r", "question=x", "pipeline=nonsense"],
        ["root=/r", "question=x", "a b=c"], ["root=/r", "=x"],
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line(argv: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        configure("ask", argv)
    assert len(str(caught.value).splitlines()) == 1


def job(config: dict[str, Any]) -> dict[str, Any]:
    os.write(1, b"noise of a library\n")
    return {"asked": config["question"]}


def last_line(capfd: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capfd.readouterr().out.splitlines()[-1])


ARGV = ["root=/r", "question=it's so"]


@pytest.mark.parametrize(
    "argv",
    [
        ["report", "results=[a,b]"],
        ["build", "root=[a]"],
        ["evaluate", "root=x", "bench.path=[a,b]"],
        ["evaluate", "root=x", "bench.path={a: 1}"],
        ["organize", "root=x", "graph.path=[a]"],
    ],
)
def test_a_path_is_one_path(argv: list[str]) -> None:
    key = argv[-1].partition("=")[0]
    with pytest.raises(UsageError, match=rf"^{key}=.*: one path is needed"):
        configure(argv[0], argv[1:])


def test_stdout_holds_one_json_object(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert launch("ask", job, [*ARGV, f"out={tmp_path}/o"]) == DONE
    captured = capfd.readouterr()
    assert json.loads(captured.out) == {"job": "ask", "asked": "it's so"}
    assert "noise of a library" in captured.err
    assert json.loads((tmp_path / "o" / "summary.json").read_text())["asked"] == "it's so"


def test_a_summary_that_is_not_ok_fails(capfd: pytest.CaptureFixture[str]) -> None:
    assert launch("ask", lambda config: {"ok": False}, ARGV) == FAILED
    assert last_line(capfd)["ok"] is False


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("wrong\nkey"), WRONG_USAGE), (ValueError("bad value"), FAILED),
        (OSError("disk full"), FAILED), (RuntimeError(""), FAILED), (KeyboardInterrupt(), FAILED),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_an_exit_code(
    error: BaseException, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(config: dict[str, Any]) -> dict[str, Any]:
        raise error

    assert launch("ask", fails, ARGV) == code
    captured = capfd.readouterr()
    assert captured.out == ""
    (line,) = [line for line in captured.err.splitlines() if "error:" in line]
    assert line.split("error: ", 1)[1]


def test_errors_of_the_program_itself_are_not_hidden() -> None:
    def fails(config: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        launch("ask", fails, ARGV)


def test_wrong_usage_has_its_own_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    assert launch("export", job, ["nonsense"]) == WRONG_USAGE
    assert "write key=value" in capfd.readouterr().err


def test_help_names_every_key_and_group(capfd: pytest.CaptureFixture[str]) -> None:
    assert launch("ask", job, ["--help"]) == DONE
    text = capfd.readouterr().out
    assert text.strip() == describe("ask").strip()
    for word in ("question:", "root:", "pipeline:", "hybrid_maxsim", "profile:"):
        assert word in text


@pytest.mark.parametrize(
    ("name", "groups"),
    [("review", []), ("organize", ["embedder", "profile"]), ("sweep", ["pipeline", "sweep"])],
)
def test_help_names_the_groups_of_the_job_alone(name: str, groups: list[str]) -> None:
    shown = describe(name).partition("Groups (group=choice):")[2]
    found = [line.split(":")[0].strip() for line in shown.splitlines() if line]
    assert set(groups) <= set(found) and len(found) == len(set(found))
    assert name == "sweep" or found == groups


def test_another_pipeline_keeps_what_else_was_asked_for() -> None:
    asked = [
        "bench=sample",
        "pipeline=srrag_paper",
        "pipeline.rank.search.rounds=2",
        "baseline=bm25",
        "root=R",
    ]
    config = configure("evaluate", [*asked, "embedder=minilm_int8"])
    other = with_pipeline("evaluate", config, "hybrid")
    assert other["root"] == "R"
    assert other["baseline"] is None
    assert other["pipeline"]["rank"]["encode"]["encoder"]["backend"] == "torch-int8"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("pipeline.rank.late.keep", "put + before the key (+pipeline.rank.late.keep=…)."),
        ("pipeline.rank.late.model", "RerankMaxSim has no field 'model'; it has hits, into, keep"),
        ("pipeline.rank.nearest.k", "Nothing is called 'pipeline.rank.nearest'."),
        ("pipeline.rank.sprase", "Did you mean pipeline.rank.sparse?"),
        ("embeder", "Did you mean embedder?"),
        ("modle", "Did you mean model?"),
        ("pipeline.rank.nearest", "It has encode, weigh, sparse, dense, fuse, whole, late; put +"),
    ],
)
def test_a_key_that_no_file_names(key: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        configure("ask", ["root=R", "question=x", "pipeline=hybrid_maxsim", f"{key}=5"])
    assert str(caught.value).startswith(f"Could not override '{key}'.")
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("more", [[], ["engine.base_url=http://h"]])
def test_a_model_without_its_engine_is_told_to_name_one(more: list[str]) -> None:
    with pytest.raises(UsageError, match="Rules has no fields; name another engine first, as mode"):
        configure("ask", ["root=R", "question=x", "engine.model=m", *more])


@pytest.mark.parametrize(
    ("job", "override", "said"),
    [
        ("build", "budget=null", "budget=None: max_tokens and max_usd"),
        ("answer", "max_failed_share=null", "max_failed_share=None: a share from 0 to 1"),
        ("answer", "max_failed_share=true", "max_failed_share=True: a share from 0 to 1"),
        ("build", "max_failed_share=20", "max_failed_share=20: a share from 0 to 1"),
    ],
)
def test_a_ceiling_that_is_none_is_named_before_anything_runs(
    job: str, override: str, said: str
) -> None:
    needed = ["queries=Q"] if job == "answer" else []
    with pytest.raises(UsageError, match=said):
        factory.place(configure(job, ["root=R", *needed, override]))


def test_the_models_of_the_published_chain_are_named() -> None:
    asked = [
        "pipeline.rank.coarse.encoder.model=C",
        "pipeline.rank.fine.reranker.cross_encoder.model=X",
    ]
    rank = configure("ask", ["root=R", "question=x", "pipeline=srrag_paper", *asked])["pipeline"][
        "rank"
    ]
    assert rank["coarse"]["encoder"]["model"] == "C"
    assert rank["fine"]["reranker"]["cross_encoder"]["model"] == "X"


def test_a_wrong_option_names_those_that_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"'index/lance'; did you mean lancedb\? There is lancedb, own$"
    ):
        configure("build", ["root=/r", "index=lance"])


def test_a_key_that_another_one_needs_is_named_where_it_is_missing() -> None:
    with pytest.raises(UsageError, match=r"^format=… is needed; srrag export --help says more$"):
        configure("export", ["root=R"])
