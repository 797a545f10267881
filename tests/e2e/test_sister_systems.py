"""IdepRAG on a hypergraph and RASRAG on a textbook's tree, from the build to a judged answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import fault, srrag
from tests.endpoint import Endpoint, serve
from tests.unit.reading.vocabularies import vocabulary_folder

pytestmark = [pytest.mark.e2e, pytest.mark.in_order]

BOOK = {
    "1 Tendons": [
        ("t1", "Eccentric exercise", "Exercise therapy reduces pain in Achilles tendinopathy. "
         "Patients load the tendon slowly, three times a week, for twelve weeks."),
        ("t2", "Imaging of tendons", "Tendinopathy is diagnosed by ultrasound. A thickened tendon "
         "with hypoechoic areas supports the diagnosis."),
    ],
    "2 Fever": [
        ("f1", "Aspirin for fever", "Aspirin treats fever in adults. Aspirin may cause bleeding of "
         "the stomach, so that elderly patients take it with food."),
        ("f2", "Causes of fever", "Fever is a symptom of infection. Fever without infection occurs "
         "after surgery."),
    ],
    "3 The back": [
        ("b1", "Low back pain", "Exercise therapy relieves low back pain. Low back pain is common "
         "in nurses who lift patients."),
    ],
}  # fmt: skip
ASKED = {
    "q1": ("Does exercise therapy reduce pain in tendinopathy?", "t1",
           "Exercise therapy reduces pain in Achilles tendinopathy."),
    "q2": ("Does aspirin treat fever?", "f1", "Aspirin treats fever in adults."),
    "q3": ("How is tendinopathy diagnosed?", "t2", "Tendinopathy is diagnosed by ultrasound."),
}  # fmt: skip
JUDGES = ("support", "gold", "nuggets", "picot", "citations", "evidence", "claims", "accuracy",
          "choice")  # fmt: skip


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book as a benchmark's corpus and as sections with chapters, its questions and gold."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "qrels").mkdir()
    vocabulary_folder(folder)
    sections = [(chapter, *section) for chapter, some in BOOK.items() for section in some]
    write_lines(
        folder / "corpus.jsonl",
        [{"_id": name, "title": title, "text": text} for _, name, title, text in sections],
    )
    write_lines(
        folder / "book.jsonl",
        [
            {"id": name, "title": title, "markdown": f"# {title}\n\n{text}\n", "book": "Book",
             "chapter_no": int(chapter[0]), "chapter_title": chapter[2:], "section_no": n}
            for n, (chapter, name, title, text) in enumerate(sections)
        ],
    )  # fmt: skip
    queries = [{"_id": name, "text": text} for name, (text, _, _) in ASKED.items()]
    write_lines(folder / "queries.jsonl", queries)
    gold = "".join(f"{name}\t{right}\t1\n" for name, (_, right, _) in ASKED.items())
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{gold}", "utf-8")
    write_lines(
        folder / "answers.jsonl",
        [
            {"query_id": name, "text": text, "exact_answer": ideal}
            for name, (text, _, ideal) in ASKED.items()
        ],
    )
    return folder


@pytest.fixture(scope="module")
def graph(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("graph") / "root"
    summary, _ = srrag(
        "build", "plan=ebmkg", f"mesh={data}", "corpus=beir", f"corpus.path={data}",
        "+stages.hypergraph.run.least=1", f"root={root}",
    )  # fmt: skip
    figures = summary["figures"]["hypergraph"]
    assert figures["evidence"] >= 5
    assert figures["topics"] and figures["weights"] and figures["names_encoded"] >= 4
    return root


@pytest.fixture(scope="module")
def forest(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forest") / "root"
    summary, _ = srrag(
        "build", "plan=textbook", "corpus=jsonl", f"corpus.path={data / 'book.jsonl'}",
        f"root={root}",
    )  # fmt: skip
    assert summary["figures"]["forest"]["roots"] == 3
    return root


def test_an_answer_shows_its_walk_from_words_to_topics_to_findings(graph: Path) -> None:
    question = ASKED["q2"][0]
    summary, shown = srrag(
        "ask", f"root={graph}", "pipeline=ideprag", f"question={question}", "trace=true"
    )
    steps = [each["step"] for each in summary["trace"]]
    walk = ["FindSearchWords", "SearchTopics", "ExtractFeatures", "RerankAttention"]
    assert [step for step in steps if step in walk] == walk
    assert {each["kind"] for each in summary["evidence"]} == {"finding"}
    assert summary["state"] == "answered"
    assert "Aspirin treats fever in adults." in summary["answer"]
    assert "Aspirin treats fever in adults." in shown


@pytest.mark.parametrize("pipeline", ["rasrag", "rasrag_soft"])
def test_an_answer_shows_the_chapter_it_was_routed_to(forest: Path, pipeline: str) -> None:
    summary, shown = srrag(
        "ask", f"root={forest}", f"pipeline={pipeline}", f"question={ASKED['q3'][0]}", "trace=true"
    )
    steps = [each["step"] for each in summary["trace"]]
    assert ("SearchTree" if pipeline == "rasrag" else "RerankTreePrior") in steps
    assert summary["evidence"][0]["title"] == "Imaging of tendons"
    assert "ultrasound" in summary["answer"]
    assert "ultrasound" in shown


@pytest.mark.parametrize("pipeline", ["ideprag", "rasrag", "rasrag_soft"])
def test_rankings_and_answers_are_written_and_judged(
    graph: Path, forest: Path, data: Path, pipeline: str, tmp_path: Path
) -> None:
    root = graph if pipeline == "ideprag" else forest
    summary, _ = srrag(
        "evaluate", "bench=beir", f"bench.path={data}", f"root={root}", f"pipeline={pipeline}",
        f"out={tmp_path / 'E'}", "resamples=100",
    )  # fmt: skip
    assert summary["metrics"]["nDCG@10"]["value"] > 0.8
    assert summary["metrics"]["nDCG@10"]["n"] == len(ASKED)
    summary, _ = srrag(
        "answer", f"queries={data / 'queries.jsonl'}", f"root={root}", f"pipeline={pipeline}",
        f"out={tmp_path / 'A'}",
    )  # fmt: skip
    assert (summary["questions"], summary["failed"]) == (len(ASKED), 0)
    off = [f"bench.judges.{name}=null" for name in JUDGES]
    summary, _ = srrag(
        "evaluate", "bench=answers", f"bench.path={data / 'answers.jsonl'}", f"root={root}",
        f"pipeline={pipeline}", f"out={tmp_path / 'J'}", "resamples=100", *off,
    )  # fmt: skip
    assert summary["ok"]
    assert summary["questions"] == len(ASKED)
    assert summary["metrics"]["semantic_similarity"]["value"] > 0.3


def keeps_to_a_place(request: dict[str, Any]) -> str:
    """A judge who goes by length in recall, and in precision by the place alone."""
    first, _, second = request["messages"][1]["content"].partition("second evidence:")
    longer = "first" if len(first) > len(second) else "second"
    return json.dumps({"reason": "so", "recall": longer, "precision": "first"})


def test_a_model_prefers_evidence_and_its_taste_for_a_place_is_a_tie(
    graph: Path, data: Path, tmp_path: Path
) -> None:
    for pipeline in ("ideprag", "bm25"):
        srrag(
            "answer", f"queries={data / 'queries.jsonl'}", f"root={graph}",
            f"pipeline={pipeline}", f"out={tmp_path / pipeline}",
        )  # fmt: skip
    own = f"bench.answers={tmp_path / 'ideprag' / 'answers.parquet'}"
    gold = f"bench.path={data / 'answers.jsonl'}"
    asked = ("evaluate", "bench=preference", gold, own, "resamples=100")
    against = f"bench.baseline_answers={tmp_path / 'bm25' / 'answers.parquet'}"
    with serve(Endpoint(script=keeps_to_a_place)) as endpoint:
        summary, shown = srrag(
            *asked, against, f"out={tmp_path / 'P'}", "engine=http", "engine.model=toy",
            f"engine.base_url={endpoint.url}",
        )  # fmt: skip
        assert sum(endpoint.calls.values()) == 2 * len(ASKED)
    assert summary["judge"].endswith("toy")
    assert summary["metrics"]["precision_tie"]["value"] == 1.0
    assert summary["metrics"]["recall_tie"]["value"] < 1.0
    assert summary["metrics"]["advantage"]["value"] is None
    assert "are ties" in shown
    by_rules, _ = srrag(*asked, against, f"out={tmp_path / 'R'}")
    assert by_rules["metrics"]["recall_tie"]["n"] == len(ASKED)
    assert "compares two" in fault(*asked, f"out={tmp_path / 'N'}", code=2)
