"""The check of an answer and lost helpers, from the command line, with a model that misbehaves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import jobs.fit_betr
from srrag.answer.write.cited import ABSTENTION
from srrag.config.compose import configure
from tests.e2e.test_command import srrag
from tests.endpoint import Endpoint, serve
from tests.sample_json import READING, asked_schema, read_papers

pytestmark = pytest.mark.e2e
ASKED = "Should bed rest be prescribed for acute low back pain in adults?"
CLAIM = "Yes, there is strong evidence that bed rest heals patients sooner."
MENDED = "Bed rest is discussed."


@pytest.fixture(scope="module")
def root(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of its own, with the sample and what its training questions taught."""
    copy = tmp_path_factory.mktemp("support") / "root"
    shutil.copytree(sample_root, copy, ignore=shutil.ignore_patterns("completions", "jobs"))
    config = configure("fit_betr", [f"root={copy}", "pipeline=srrag"])
    jobs.fit_betr.run({**config, "command": "test"})
    return copy


WRITTEN = (
    CLAIM,
    "Zinc shortens the common cold of 7919 schoolchildren.",
    "Book a course at www.clinic.example.",
)
"""After a good sentence as the lead: one that goes too far, and two that no reader should see."""


def checks(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What a careful reader says of those sentences, and that the link is all right."""
    user = request["messages"][1]["content"]
    told = [json.loads(line) for line in user.split("\n") if line.startswith('{"n": ')]
    found = []
    for each in told:
        verdict = {CLAIM: "partial"}.get(each["text"], "none" if "Zinc" in each["text"] else "full")
        mended = MENDED if verdict == "partial" else ""
        found.append(
            {"n": each["n"], "reason": "Read.", "verdict": verdict, "correction": mended}
            | {"cites": []}
        )
    return found


def answering(request: dict[str, Any]) -> str:
    """A model that answers and checks; its helpers answer with garbage."""
    title = (asked_schema(request) or {}).get("title")
    if title in READING:
        return read_papers(request, *WRITTEN)
    return json.dumps({"checks": checks(request)}) if title == "CheckedAnswer" else "none"


def refuting(request: dict[str, Any]) -> str:
    """The same answer, of which nothing is supported."""
    if (asked_schema(request) or {}).get("title") != "CheckedAnswer":
        return answering(request)
    return json.dumps(
        {"checks": [each | {"verdict": "none", "correction": ""} for each in checks(request)]}
    )


def engine(url: str, folder: Path) -> list[str]:
    return [
        "engine=http", "engine.model=m", f"engine.base_url={url}", f"completions={folder}",
    ]  # fmt: skip


def test_nothing_unsupported_is_shown_and_lost_helpers_are_named(
    root: Path, tmp_path: Path
) -> None:
    with serve(Endpoint(script=answering)) as endpoint:
        with_model = engine(endpoint.url, tmp_path / "completions")
        summary, shown = srrag(
            "ask", f"root={root}", "pipeline=srrag", f"question={ASKED}", *with_model, "trace=true"
        )
    quote, mended = (each["text"] for each in summary["sentences"])
    assert mended == MENDED and summary["answer"] == f"{quote} [1]\n\n- {MENDED} [1]"
    told = {
        each["text"]: (each["fault"], each["repaired"])
        for each in summary["support"]["unsupported"]
    }
    assert told == {
        CLAIM: ("partial", MENDED),
        "Zinc shortens the common cold of 7919 schoolchildren.": ("name", ""),
        "Book a course at www.clinic.example.": ("link", ""),
    }
    assert summary["support"]["kept_sentences"] == 2
    assert "Put right" not in shown and "Left out: 2 sentences" in shown
    assert not any(text in shown for text in told)
    (lost,) = summary["degraded"]
    assert lost["step"] == "PlanSearch"
    assert lost["fault"].endswith("Raise pipeline.rank.search.search.rank.plan.again (now 1).")
    assert "PlanSearch gave nothing." in shown
    steps = {each["step"]: each for each in summary["trace"]}
    assert steps["CheckAnswer"]["fault"] is None


def test_a_batch_counts_drops_and_has_a_ceiling_of_failures(root: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    rows = [{"query_id": "1", "text": ASKED}, {"query_id": "2", "text": "Is running safe?"}]
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    out = tmp_path / "out"
    asked = ["answer", f"root={root}", "pipeline=bm25", f"queries={queries}", f"out={out}"]
    with serve(Endpoint(script=refuting)) as endpoint:
        with_model = engine(endpoint.url, tmp_path / "completions")
        summary, _ = srrag(*asked, *with_model)
    assert summary["failed"] == 0 and summary["degraded"] == {}
    assert summary["support"]["faults"]["none"] >= 3
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


def test_a_check_that_is_lost_leaves_the_answer_but_for_contacts_and_is_told(
    root: Path, tmp_path: Path
) -> None:
    def script(request: dict[str, Any]) -> str:
        checked = (asked_schema(request) or {}).get("title") == "CheckedAnswer"
        return "none" if checked else answering(request)

    with serve(Endpoint(script=script)) as endpoint:
        with_model = engine(endpoint.url, tmp_path / "completions")
        summary, shown = srrag("ask", f"root={root}", f"question={ASKED}", *with_model)
    assert CLAIM in summary["answer"]
    assert "www" not in summary["answer"] and "7919" not in summary["answer"], "no model needed"
    assert "CheckAnswer" in [each["step"] for each in summary["degraded"]]
    assert "CheckAnswer gave nothing." in shown
