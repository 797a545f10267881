"""Build, ask, answer, stream and judge through a real model too small for any of it.

What it writes is not tested; what has to hold whatever a model writes is: every row is kept or
rejected, calls are those of the estimate and second tries, no unsupported sentence is shown, and
what an answer went on without is said.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from srrag.engine.log.completion_log import CompletionLog
from srrag.llm.read_answer import repeated
from tests.conftest import linked
from tests.e2e.command import srrag

pytestmark = [pytest.mark.long(900, "a real model writes on two cores")]

SAMPLE = Path(__file__).parents[2] / "srrag" / "sample" / "documents"
QUESTION = "How long may an acute lateral ankle sprain be immobilised in a cast?"
TRIES = 2
SHORT = ["++stages.extracts.run.max_tokens=300", "stages.windows=null"]


@pytest.fixture(scope="module", params=["vllm", "http"])
def engine(request: pytest.FixtureRequest) -> list[str]:
    settings: list[str] = request.getfixturevalue(request.param)
    return settings


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two documents of the sample."""
    folder = tmp_path_factory.mktemp("few")
    for path in sorted((SAMPLE / "LAS").glob("*.md"))[:2]:
        shutil.copy(path, folder)
    return folder


def ask_settings(root: Path, engine: list[str], tmp_path: Path) -> list[str]:
    return [f"root={root}", f"completions={tmp_path}/completions", *engine]


def texts(log: Path) -> list[dict[str, Any]]:
    return [row for path in log.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]


def test_a_build_calls_what_was_estimated_and_second_tries(
    engine: list[str], few: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    job = ["build", f"root={root}", "corpus=folder", f"corpus.path={few}", *engine, *SHORT]
    told, _ = srrag(*job, "estimate=true")
    made, _ = srrag(*job, "max_failed_share=1")
    extracts = told["stages"]["extracts"]["calls"]
    assert extracts <= made["usage"]["extracts"]["calls"] <= TRIES * extracts
    out = [made["tokens_out"], told["tokens_out"]]
    print(f"tokens out, expected: {out}; faults {made['usage']['extracts']['faults']}")
    proof, _ = srrag("verify", f"root={root}")
    assert proof["ok"] and proof["completions"]["paid_twice"] == 0
    pointer = json.loads((root / "builds" / "default.json").read_text())["stages"]["triples"]
    for path in (root / "stages" / "triples" / pointer["fingerprint"]).glob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            reason = (row["reject"] or {}).get("reason", "")
            assert reason != "unknown_relation", "the guide allows relations of the schema alone"
            assert row["quote"] or row["reject"], "no fact without its quote"
    looped = [row for row in texts(root / "completions") if repeated(row["text"]) is not None]
    assert not looped, "what is kept of a loop is its first copy"


def test_an_answer_shows_what_is_supported_and_says_what_it_lacks(
    engine: list[str], fitted_root: Path, tmp_path: Path
) -> None:
    """The whole pipeline with a planned search and a second reading, streamed to the terminal."""
    root = linked(fitted_root, tmp_path / "root")
    code = 0
    try:
        answer, heard = srrag(
            "ask", *ask_settings(root, engine, tmp_path), "pipeline=srrag", f"question={QUESTION}",
            "+answering.srrag.model.read.max_tokens=600",
            "+answering.srrag.model.again.read.max_tokens=600",
        )  # fmt: skip
    except AssertionError as error:  # only the answering step may end in no answer: exit 1, a line
        code, heard, answer = 1, str(error), {}
        assert "error: answer: " in heard or "error: ReadAndAnswer" in heard, heard[-2000:]
    totals = CompletionLog(tmp_path / "completions").totals()
    calls = totals.completions + sum(totals.faults.values())
    prompts = 4  # plan, read, read again, check
    assert 0 < calls <= TRIES * prompts
    if code:
        return
    sentences = [each["text"] for each in answer["sentences"]]
    assert all(each["citations"] for each in answer["sentences"])
    if support := answer["support"]:
        assert support["kept_sentences"] == len(sentences) <= support["sentences"]
    assert not any("heel pain" in text for text in sentences), "words of a prompt's example"
    for each in answer["degraded"]:
        assert each["step"] and each["fault"]
        assert each["step"] in heard, "said in the terminal too"
    for each in support["unsupported"] if support else ():
        assert each["text"] not in heard.split("Note:")[0], "nothing unsupported is shown"


def test_a_file_of_questions_is_balanced(
    engine: list[str], fitted_root: Path, tmp_path: Path
) -> None:
    root = linked(fitted_root, tmp_path / "root")
    asked = tmp_path / "queries.jsonl"
    rows = [{"query_id": "1", "text": QUESTION}, {"query_id": "2", "text": "Is yoga safe at sea?"}]
    asked.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made, _ = srrag(
        "answer", *ask_settings(root, engine, tmp_path), "pipeline=bm25", f"queries={asked}",
        "max_failed_share=1", "+answering.model.read.max_tokens=600", f"out={tmp_path}/out",
    )  # fmt: skip
    answers = pq.read_table(tmp_path / "out" / "answers.parquet").to_pylist()
    assert [row["query_id"] for row in answers] == ["1", "2"]
    failed = [row for row in answers if row["reject"]]
    assert made["failed"] == len(failed)
    for row in answers:
        shown = {item["evidence_id"] for item in row["evidence"]}
        assert all({*each["evidence_ids"]} <= shown for each in row["sentences"])
        assert row["reject"] or row["answer"]


def test_a_judge_judges_or_says_that_it_did_not(
    engine: list[str], fitted_root: Path, tmp_path: Path
) -> None:
    root = linked(fitted_root, tmp_path / "root")
    gold = (SAMPLE.parent / "questions.jsonl").read_text("utf-8").splitlines()[:1]
    bench = tmp_path / "gold.jsonl"
    bench.write_text("\n".join(gold) + "\n")
    others = ["support", "picot", "citations", "evidence", "claims", "accuracy", "similarity",
              "choice"]  # fmt: skip
    judged, _ = srrag(
        "evaluate", "bench=answers", f"bench.path={bench}", f"root={root}", "pipeline=bm25",
        f"completions={tmp_path}/completions", *engine, "resamples=10",
        *(f"bench.judges.{name}=null" for name in others),
        "pipeline.answer=${answering.Rules}", "answering.Rules.compose.engine={_target_: Rules}",
        f"out={tmp_path}/out",
    )  # fmt: skip
    assert judged
    totals = CompletionLog(tmp_path / "completions").totals()
    assert totals.paid_twice == 0
