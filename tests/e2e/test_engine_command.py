"""The command with a model behind it: estimates, faults in one line, and what costs nothing."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.answered import GRAPH, build, counts, sends, state, write_rehab
from tests.e2e.command import fault, srrag
from tests.endpoint import Endpoint, serve
from tests.endpoint_process import started

pytestmark = pytest.mark.e2e
ESTIMATE = [*GRAPH, "estimate=true", "engine.tokenizer=utf8"]
STAGES = ("documents", "extracts")
WITH_UNITS = [f"stages.{name}=null" for name in ("vectors", "dense", "tokens")]
"""A build for questions by words alone, in which no encoder has a part."""
NOWHERE = "http://127.0.0.1:9/v1"


@dataclass(frozen=True)
class Ground:
    """A corpus, and an endpoint that answers as the rules do."""

    corpus: Path
    url: str


@pytest.fixture(scope="module")
def ground(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("ground")
    corpus = write_rehab(shared_data, folder / "rehab.jsonl", 30, 20)
    with started(folder, "--script", "rules", "--lifetime", "600") as (_, url):
        yield Ground(corpus, url)


@pytest.fixture(scope="module")
def built(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A root with all that a question needs, and the estimate that was made before it."""
    root = tmp_path_factory.mktemp("built") / "root"
    estimate, shown = srrag(*build(root, ground.corpus, ground.url, *ESTIMATE))
    assert not root.exists(), "an estimate writes nothing"
    assert sends(ground.url) == 0, "and calls nothing"
    for stage in (*STAGES, "all"):
        assert any(line.startswith(stage) for line in shown.splitlines()), shown
    summary, _ = srrag(*build(root, ground.corpus, ground.url, *WITH_UNITS))
    assert sends(ground.url) == summary["calls"]
    return root, {"estimate": estimate, "build": summary}


def test_an_estimate_counts_the_calls_that_follow(
    built: tuple[Path, dict[str, Any]], ground: Ground
) -> None:
    root, made = built
    estimate, build_ = made["estimate"], made["build"]
    assert estimate["documents"] == build_["documents"] == 50
    for stage in STAGES:
        told, used = estimate["stages"][stage], build_["usage"][stage]
        assert told["calls"] == used["calls"] > 0, stage
        assert (told["cached"], used["cached"], used["faults"]) == (
            0,
            told["prompts"] - told["calls"],
            {},
        )
        # The endpoint counts a token every four bytes too, and the schema of no answer.
        assert told["tokens_in"] == pytest.approx(used["tokens_in"], rel=0.02)
        rounded = used["calls"]  # it cuts parts of a token off, the estimate counts them
        assert told["tokens_out"] == pytest.approx(used["tokens_out"], rel=0.05, abs=rounded)
    before, called = state(root), sends(ground.url)
    estimate, _ = srrag(*build(root, ground.corpus, NOWHERE, *ESTIMATE))
    assert (estimate["calls"], estimate["prompts"]) == (0, 0), "all stages stand"
    completions = f"completions={root / 'completions'}"
    estimate, _ = srrag(
        *build(root.parent / "other", ground.corpus, NOWHERE, *ESTIMATE, completions)
    )
    assert (estimate["calls"], estimate["usd"]) == (0, 0)
    assert estimate["cached"] == estimate["prompts"] > 0
    assert (state(root), sends(ground.url)) == (before, called)


def test_a_finished_build_calls_nothing_and_starts_no_engine(
    built: tuple[Path, dict[str, Any]], ground: Ground
) -> None:
    root, made = built
    before = state(root / "completions")
    started_s = time.monotonic()
    summary, _ = srrag(*build(root, ground.corpus, NOWHERE, *WITH_UNITS))
    seconds = time.monotonic() - started_s
    print(f"a finished build took {seconds:.1f} s, {summary['seconds']} s of them in the build")
    assert summary["rows"] == made["build"]["rows"]
    assert set(summary["reused"].values()) == {1}
    assert state(root / "completions") == before


def test_a_changed_parser_and_an_overlapping_corpus_pay_for_what_is_new(
    built: tuple[Path, dict[str, Any]], ground: Ground, shared_data: Path, tmp_path: Path
) -> None:
    root, made = built
    shutil.copytree(root, tmp_path / "root")
    strict = "+stages.extracts.run.min_confidence=0.75"
    summary, _ = srrag(*build(tmp_path / "root", ground.corpus, NOWHERE, *WITH_UNITS, strict))
    usage = summary["usage"]["extracts"]
    assert summary["rejects"]["triples"]["low_confidence"] > 0
    assert (usage["calls"], summary["reused"]["chunks"], summary["reused"]["extracts"]) == (0, 1, 0)
    assert usage["cached"] >= made["build"]["usage"]["extracts"]["calls"]

    larger = write_rehab(shared_data, tmp_path / "larger.jsonl", 33, 0)
    called = sends(ground.url)
    completions = f"completions={tmp_path / 'root' / 'completions'}"
    summary, _ = srrag(*build(tmp_path / "other", larger, ground.url, *GRAPH, completions))
    assert summary["documents"] == 33
    assert summary["usage"]["extracts"]["cached"] > 20
    assert (
        0 < sends(ground.url) - called == summary["calls"] < summary["usage"]["extracts"]["cached"]
    )
    assert not (tmp_path / "other" / "completions").exists()


def test_what_was_bad_is_asked_anew_only_when_told_to(shared_data: Path, tmp_path: Path) -> None:
    corpus = write_rehab(shared_data, tmp_path / "rehab.jsonl", 12, 0)
    options = [*GRAPH, "max_failed_share=1"]
    with started(tmp_path, "--script", "rules", "--faults", "nonsense=0.5") as (_, url):
        first, _ = srrag(*build(tmp_path / "root", corpus, url, *options))
    bad = first["rejects"]["extracts"]["invalid_json"]
    assert bad > 0
    (tmp_path / "port").unlink()
    port = url.split(":")[2].partition("/")[0]
    with started(tmp_path, "--script", "rules", "--port", port) as (_, url):
        again, _ = srrag(*build(tmp_path / "root", corpus, url, *options))
        assert (sends(url), again["rows"]) == (0, first["rows"])
        mended, _ = srrag(*build(tmp_path / "root", corpus, url, *options, "retry_failed=true"))
        called = counts(url)["calls"]
        whole, _ = srrag(*build(tmp_path / "whole", corpus, url, *options))
    assert mended["rejects"] == whole["rejects"]
    assert mended["rows"] == whole["rows"]
    assert set(called.values()) == {1}
    kinds = ("refusal", "invalid_json", "truncated", "empty")
    lost = sum(first["rejects"][stage].get(kind, 0) for stage in first["rejects"] for kind in kinds)
    assert lost <= len(called) < whole["calls"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "Connection refused"),
        (["engine.api_key_env=SRRAG_NO_KEY"], "SRRAG_NO_KEY is not set"),
        (["budget.max_usd=1"], "engine.usd_per_mtok_in"),
        (["engine.api_key_env=sk-abcdef0123456789"], "not a key"),
        (["estimate=true"], "engine.tokenizer"),
    ],
    ids=["unreachable", "no key", "no prices", "a key as name", "no tokenizer"],
)
def test_what_cannot_work_is_one_line(
    ground: Ground, tmp_path: Path, arguments: list[str], hint: str
) -> None:
    code = 2 if "sk-" in "".join(arguments) else 1
    error = fault(*build(tmp_path / "root", ground.corpus, NOWHERE, *GRAPH, *arguments), code=code)
    assert hint in error
    assert "sk-abcdef" not in error


def test_a_refused_key_is_never_shown(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRRAG_TEST_KEY", "sk-secret-0123456789")
    with serve(Endpoint(api_key="another")) as endpoint:
        arguments = build(tmp_path / "root", ground.corpus, endpoint.url, *GRAPH)
        _, shown = srrag(*arguments, "engine.api_key_env=SRRAG_TEST_KEY", code=1)
    assert "the key is refused" in shown
    assert "sk-secret" not in shown
    for path in (tmp_path / "root").rglob("*"):
        assert path.is_dir() or b"sk-secret" not in path.read_bytes()


def test_questions_are_answered_with_citations_and_their_cost(
    built: tuple[Path, dict[str, Any]], ground: Ground, tmp_path: Path
) -> None:
    root, _ = built
    model = ["pipeline=bm25", "engine=http", "engine.model=toy", f"engine.base_url={ground.url}"]
    asked = ["ask", f"root={root}", *model, "question=Does exercise reduce pain in adults?"]
    first, shown = srrag(*asked)
    assert first["model"] == "http: toy"
    assert first["sentences"][0]["citations"] == [1]
    shown_text = " ".join(first["evidence"][0]["text"].split())
    assert first["sentences"][0]["text"].rstrip(".") in shown_text
    assert (first["usage"]["calls"], first["usage"]["cached"]) == (2, 0), "read and check"
    assert first["usage"]["tokens_in"] > first["usage"]["tokens_out"] > 0
    assert "Written by the language model toy." in shown
    called = sends(ground.url)
    again, _ = srrag(*asked)
    assert (again["usage"]["calls"], again["usage"]["cached"], sends(ground.url)) == (0, 2, called)
    assert again["sentences"] == first["sentences"]

    queries = tmp_path / "queries.jsonl"
    texts = ["Does exercise reduce pain in adults?", "Does exercise improve function in adults?"]
    queries.write_text(
        "".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(texts))
    )
    out = tmp_path / "answers"
    summary, _ = srrag("answer", f"root={root}", f"queries={queries}", f"out={out}", *model)
    assert (summary["answered"], summary["failed"]) == (2, 0)
    usage = summary["usage"]["answers"]
    assert (usage["calls"], usage["cached"]) == (2, 2), "the first was asked before"
    lines = [json.loads(line) for line in (out / "answers.jsonl").read_text().splitlines()]
    assert lines[0]["sentences"] == first["sentences"]
    assert all(line["model"] == "http: toy" for line in lines)
