"""The support gate and lost helpers, from the command line, with a model that misbehaves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import jobs.fit_betr
from srrag.answer.cited import ABSTENTION
from srrag.answer.sentences import split_sentences
from srrag.config.compose import configure
from tests.e2e.test_command import srrag
from tests.endpoint import Endpoint, serve
from tests.sample_json import asked_schema

pytestmark = pytest.mark.e2e
ASKED = "Should bed rest be prescribed for acute low back pain in adults?"
CLAIM = "Yes, there is strong evidence that bed rest heals patients sooner."
HELPERS = {
    "FindAnchors", "WriteHyde", "Reflect", "FindSnippets", "NoticeMismatch",
}  # fmt: skip


@pytest.fixture(scope="module")
def root(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of its own, with the sample and what its training questions taught."""
    copy = tmp_path_factory.mktemp("support") / "root"
    shutil.copytree(sample_root, copy, ignore=shutil.ignore_patterns("completions", "jobs"))
    config = configure("fit_betr", [f"root={copy}", "pipeline=srrag"])
    jobs.fit_betr.run({**config, "command": "test"})
    return copy


def misbehaving(request: dict[str, Any]) -> str:
    """One good sentence, and five that no reader should see; helpers answer with garbage."""
    if (asked_schema(request) or {}).get("title") != "CitedAnswer":
        return "none"
    user = request["messages"][1]["content"]
    given = [json.loads(line) for line in user.split("\n") if line.startswith('{"n": ')]
    first = given[0]
    quote = split_sentences(first["text"])[0].text
    said = [
        {"text": quote, "cites": [first["n"]]},
        {"text": CLAIM, "cites": [each["n"] for each in given]},
        {"text": ASKED, "cites": [first["n"]]},
        {"text": quote, "cites": [first["n"]]},
        {"text": "Zinc shortens the common cold of 7919 schoolchildren.", "cites": [first["n"]]},
    ]
    return json.dumps(
        {"answer": said, "evidence": [], "limits": [{"text": "Sentence 1.", "cites": [1]}],
         "insufficient": False, "missing": ""}
    )  # fmt: skip


def only_echoes(request: dict[str, Any]) -> str:
    """Nothing but the question."""
    if (asked_schema(request) or {}).get("title") != "CitedAnswer":
        return "none"
    said = [{"text": ASKED, "cites": [1]}]
    return json.dumps(
        {"answer": said, "evidence": [], "limits": [], "insufficient": False, "missing": ""}
    )


def engine(url: str, folder: Path) -> list[str]:
    return [
        "engine=http", "engine.model=m", f"engine.base_url={url}", f"completions={folder}",
    ]  # fmt: skip


def test_nothing_unsupported_is_shown_and_lost_helpers_are_named(
    root: Path, tmp_path: Path
) -> None:
    with serve(Endpoint(script=misbehaving)) as endpoint:
        with_model = engine(endpoint.url, tmp_path / "completions")
        summary, shown = srrag(
            "ask", f"root={root}", "pipeline=srrag", f"question={ASKED}", *with_model, "trace=true"
        )
    (only,) = summary["sentences"]
    assert summary["answer"] == f"{only['text']} [{only['citations'][0]}]"
    dropped = {each["text"]: each["fault"] for each in summary["support"]["dropped"]}
    assert dropped == {
        CLAIM: "cites_everything",
        ASKED: "echo",
        only["text"]: "repeated",
        "Zinc shortens the common cold of 7919 schoolchildren.": "unsupported",
        "Sentence 1.": "placeholder",
    }
    assert summary["support"]["kept_sentences"] == 1
    assert "Left out: 1 sentence" in shown
    assert not any(text in shown for text in dropped if text not in (ASKED, only["text"]))
    assert {each["step"] for each in summary["degraded"]} == HELPERS
    faults = {each["step"]: each["fault"] for each in summary["degraded"]}
    key = "Raise pipeline.rank.search.search.rank.hyde.again (now 1)."
    assert faults["WriteHyde"].endswith(key)
    assert "WriteHyde gave nothing." in shown
    steps = {each["step"]: each for each in summary["trace"]["steps"]}
    assert steps["CheckSupport"]["items"] == 5
    assert "fault" in steps["FindSnippets"]
    assert summary["trace"]["rounds"][0]["fault"]


@pytest.mark.parametrize(
    ("name", "step"), [("rationale", "WriteRationale"), ("reformulate", "Reformulate")]
)
def test_a_search_goes_on_without_its_helper(
    root: Path, tmp_path: Path, name: str, step: str
) -> None:
    with serve(Endpoint(script=misbehaving)) as endpoint:
        with_model = engine(endpoint.url, tmp_path / "completions")
        summary, _ = srrag(
            "ask", f"root={root}", f"pipeline={name}", f"question={ASKED}", *with_model
        )
    assert [each["step"] for each in summary["degraded"]] == [step]
    assert summary["evidence"] and len(summary["sentences"]) == 1


def test_a_batch_counts_drops_and_has_a_ceiling_of_failures(root: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    rows = [{"query_id": "1", "text": ASKED}, {"query_id": "2", "text": "Is running safe?"}]
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    out = tmp_path / "out"
    asked = ["answer", f"root={root}", "pipeline=bm25", f"queries={queries}", f"out={out}"]
    with serve(Endpoint(script=only_echoes)) as endpoint:
        with_model = engine(endpoint.url, tmp_path / "completions")
        summary, _ = srrag(*asked, *with_model)
    assert summary["failed"] == 0 and summary["degraded"] == {}
    assert summary["support"]["dropped"]["echo"] == 1
    lines = (out / "answers.jsonl").read_text("utf-8").splitlines()
    first = next(row for row in map(json.loads, lines) if row["query_id"] == "1")
    assert first["answer"] == ABSTENTION and first["state"] == "not"
    with serve(Endpoint(script=lambda _: "none")) as endpoint:
        with_model = engine(endpoint.url, tmp_path / "others")
        more = [*asked, *with_model, "engine.model=other"]
        summary, shown = srrag(*more, code=1)
        assert summary["failed"] == 2
        assert "2 of 2 questions failed; max_failed_share is 0.2" in shown
        borne, _ = srrag(*more, "max_failed_share=1")
    assert borne["failed"] == 2 and borne["ok"]


JUDGED = "+pipeline.answer.judge={_target_: JudgeSupport, engine: ${engine}}"


@pytest.mark.parametrize("verdict", ["supports", "silent", "garbage"])
def test_a_model_judges_what_the_rules_let_through(
    root: Path, tmp_path: Path, verdict: str
) -> None:
    """It keeps a sentence or drops it; its garbage costs its verdict alone, and is told."""

    def script(request: dict[str, Any]) -> str:
        user = request["messages"][1]["content"]
        given = [json.loads(line) for line in user.split("\n") if line.startswith('{"n": ')]
        match (asked_schema(request) or {}).get("title"):
            case "JudgedSentence" if verdict != "garbage":
                return json.dumps({"verdicts": [{"n": n["n"], "verdict": verdict} for n in given]})
            case "CitedAnswer":
                quote = split_sentences(given[0]["text"])[0].text
                said = [{"text": f"Overall, {quote}", "cites": [given[0]["n"]]}]
                return json.dumps({"answer": said, "evidence": [], "limits": [],
                                   "insufficient": False, "missing": ""})  # fmt: skip
        return "none"

    with serve(Endpoint(script=script)) as endpoint:
        with_model = engine(endpoint.url, tmp_path / "completions")
        summary, shown = srrag("ask", f"root={root}", f"question={ASKED}", *with_model, JUDGED)
    dropped = [each["fault"] for each in summary["support"]["dropped"]]
    assert dropped == (["judged"] if verdict == "silent" else [])
    assert (summary["answer"] == ABSTENTION) == (verdict == "silent")
    assert ("a model judged" in shown) == (verdict == "silent")
    lost = [each["step"] for each in summary["degraded"]]
    assert ("JudgeSupport" in lost) == (verdict == "garbage")
