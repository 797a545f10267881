"""Builds and questions whose answers come from batch files, in rounds."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.batch_runner import Request, answer, by_rules, completed, of_vllm, requests
from tests.conftest import linked
from tests.e2e.answered import GRAPH, assert_equal_tables, build, logged, sends, start, write_rehab
from tests.e2e.command import here, srrag
from tests.e2e.test_make_benchmark import OTHERS, scripted
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_by_rules, answer_with_slips

pytestmark = pytest.mark.e2e
AWAITING = 3
GOLD = ("gold", "nuggets", "picot")
ASKED = {"accuracy"}
"""A judge that does with an answer of any words."""
WITH_UNITS = [f"stages.{name}=null" for name in ("vectors", "dense", "tokens")]


def from_files(arguments: Sequence[str], folder: Path) -> list[str]:
    """The same command with batch files in place of an endpoint."""
    kept = [each for each in arguments if not each.startswith(("engine=", "engine.base_url="))]
    return [*kept, "engine=batch", f"engine.folder={folder}"]


def rounds(
    arguments: Sequence[str], folder: Path, row: Callable[[Request], Any] = by_rules
) -> tuple[dict[str, Any], list[str]]:
    """Answer the files and give the command again until it is done; returns its lines, too."""
    lines: list[str] = []
    while True:
        code, stdout, stderr = here(*arguments)
        if code == 0:
            return json.loads(stdout.splitlines()[-1]), lines
        assert code == AWAITING, stderr[-2000:]
        told = [line for line in stderr.splitlines() if line.startswith("awaiting: ")]
        assert len(told) == 1 and "Traceback" not in stderr
        lines += told
        assert answer(folder, row), told


def asked_once(folder: Path) -> bool:
    return set(Counter(request["custom_id"] for request in requests(folder)).values()) == {1}


def test_a_build_from_files_is_the_build_of_an_endpoint(shared_data: Path, tmp_path: Path) -> None:
    """Even with answers that slip; then the endpoint itself finds nothing left to pay for."""
    corpus, folder = write_rehab(shared_data, tmp_path / "rehab.jsonl", 30, 20), tmp_path / "batch"
    options = [*GRAPH, "max_failed_share=1"]
    with serve(Endpoint(script=answer_with_slips)) as endpoint:
        online = build(tmp_path / "online", corpus, endpoint.url, *options)
        whole, _ = srrag(*online)
        summary, lines = rounds(
            from_files(build(tmp_path / "root", corpus, endpoint.url, *options), folder),
            folder,
            lambda r: of_vllm(r, completed(r, answer_with_slips(r["body"]))),
        )
        assert_equal_tables(tmp_path / "root", tmp_path / "online")
        assert logged(tmp_path / "root") == logged(tmp_path / "online")
        assert summary["rejects"] == whole["rejects"]
        assert any(summary["rejects"].values()), "slips were among the answers"
        asking = {stage for stage, used in summary["usage"].items() if used["calls"]}
        assert asking == {"documents", "extracts"}
        assert len(lines) >= 3, "a round has a second try"
        assert asked_once(folder)
        called = sends(endpoint.url)
        srrag(*build(tmp_path / "root", corpus, endpoint.url, *options))
        assert sends(endpoint.url) == called


def test_questions_are_asked_from_files(shared_data: Path, tmp_path: Path) -> None:
    corpus, folder = write_rehab(shared_data, tmp_path / "rehab.jsonl", 30, 20), tmp_path / "batch"
    with serve(Endpoint(script=answer_by_rules)) as endpoint:
        srrag(*build(tmp_path / "root", corpus, endpoint.url, *WITH_UNITS))
    queries = tmp_path / "queries.jsonl"
    texts = ["Does exercise reduce pain in adults?", "Does exercise improve function in adults?"]
    queries.write_text(
        "".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(texts))
    )
    model = [f"root={tmp_path / 'root'}", "pipeline=bm25", "engine.model=toy"]
    files = ["engine=batch", f"engine.folder={folder}"]
    out = f"out={tmp_path / 'answers'}"
    summary, lines = rounds(["answer", f"queries={queries}", *model, *files, out], folder)
    assert (summary["questions"], summary["failed"]) == (2, 0)
    assert summary["usage"]["answers"]["calls"] == len(requests(folder)) == 2 * len(lines)
    assert "2 prompts" in lines[0]
    one, lines = rounds(["ask", *model, *files, "question=Is exercise safe for adults?"], folder)
    assert one["model"] == "http: toy" and lines
    again, lines = rounds(["ask", *model, *files, f"question={texts[0]}"], folder)
    assert not lines and again["usage"]["cached"] > 0
    assert asked_once(folder)


def test_a_benchmark_is_made_and_judged_from_files(sample_root: Path, tmp_path: Path) -> None:
    """By evaluate and by a sweep, whose prompts the log has answered for evaluate already."""
    root, folder = linked(sample_root, tmp_path / "root", "jobs"), tmp_path / "batch"
    model = ["engine=batch", "engine.model=toy", f"engine.folder={folder}"]
    given = [f"root={root}", "sample.windows=30", "pool_windows=5", "max_failed_share=1.0"]

    def making(request: Request) -> Any:
        return of_vllm(request, completed(request, scripted(request["body"])))

    made, lines = rounds(["make_benchmark", *given, *model], folder, making)
    assert made["questions"] > 2 and len(lines) >= len(("questions", "support", "reference"))
    assert asked_once(folder)

    judging = [
        "bench=answers", f"bench.path={made['out']}/benchmark.jsonl", f"root={root}",
        "resamples=50", *(f"bench.judges.{name}=null" for name in {*OTHERS, *GOLD} - ASKED),
    ]  # fmt: skip
    judged, lines = rounds(["evaluate", *judging, "pipeline=bm25", *model], folder)
    assert len(lines) > 1
    assert judged["questions"] == made["questions"]
    before = len(requests(folder))
    rows = [f"+sweep.rows.model=pipeline=bm25 {' '.join(model)}", "+sweep.rows.rules=pipeline=bm25"]
    swept, _ = rounds(["sweep", *judging, *rows, f"out={tmp_path / 'ladder'}"], folder)
    assert (swept["configurations"], swept["failed"]) == (2, {})
    assert asked_once(folder) and len(requests(folder)) >= before


def test_a_build_that_is_killed_again_and_again_asks_nothing_twice(
    shared_data: Path, tmp_path: Path
) -> None:
    corpus, folder = write_rehab(shared_data, tmp_path / "rehab.jsonl", 30, 20), tmp_path / "batch"
    command = from_files(build(tmp_path / "root", corpus, "", *GRAPH), folder)
    reached = (  # in the first stage, when prompts are written, when their answers were read
        lambda: any((tmp_path / "root/stages").glob("*/*/part-*.parquet")),
        lambda: any(folder.glob("prompts-*.jsonl")),
        lambda: any((tmp_path / "root/stages/documents").glob("*/part-*.parquet")),
    )
    answered = 0
    for is_there in reached:
        process = start(command)
        while process.poll() is None and not is_there():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(200)
        answered += answer(folder) if folder.exists() else 0
    assert answered, "prompts of a killed run were answered"
    rounds(command, folder)
    assert asked_once(folder)
    assert set(logged(tmp_path / "root").values()) == {1}
    with serve(Endpoint(script=answer_by_rules)) as endpoint:
        srrag(*build(tmp_path / "online", corpus, endpoint.url, *GRAPH))
    assert_equal_tables(tmp_path / "root", tmp_path / "online")
