from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobs.build
import jobs.forget
import jobs.verify
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.core.spec import question_id
from srrag.lab.report.drilldown import pack
from srrag.runner.deletion import delete as module
from srrag.runner.summary import read_rejects
from srrag.storage.store import Store
from tests.unit.runner.forgetting import (
    PLAIN,
    SECRET,
    TREATMENTS,
    WITHOUT_ENCODER,
    asked_of,
    build,
    document_of,
    forget,
    holding,
    tables,
    traces,
    write_papers,
)


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    return write_papers(tmp_path / "papers")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of such papers, which tests copy."""
    folder = tmp_path_factory.mktemp("built")
    build(folder / "root", write_papers(folder / "papers"), *PLAIN)
    return folder / "root"


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "root"))


def test_what_is_left_equals_what_never_held_it(root: Path, tmp_path: Path) -> None:
    assert holding(root, SECRET)
    document = document_of(root, f"{SECRET}.md")
    figures = forget(root, f"doc_id='{document}'")
    assert (figures["documents"], figures["parts_rewritten"]) == (1, 1)
    assert not holding(root, SECRET)
    assert traces(root, document) == []
    never = write_papers(tmp_path / "never", TREATMENTS[:-1])
    build(tmp_path / "once", never, *PLAIN)
    assert tables(root) == tables(tmp_path / "once")


def test_a_proof_is_of_documents_that_were_forgotten(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, stays = (document_of(root, f"{name}.md") for name in (SECRET, TREATMENTS[0]))
    forget(root, f"source_id={SECRET}.md")
    assert f"doc_id={gone}" in capsys.readouterr().err, "what to ask for is said"
    assert traces(root, gone) == [] and f"nothing is left of {gone}" in capsys.readouterr().err
    assert jobs.verify.run(asked_of(root, f"[{gone}]"))["ok"]
    for both in (f"[{gone},{stays}]", f"[{stays},{gone}]"):
        found = jobs.verify.run(asked_of(root, both))
        assert not found["ok"] and all(stays in trace for trace in found["traces"])
    for never in (gone.upper(), "typo", f"[{gone},typo]"):
        with pytest.raises(UsageError, match="no document of this doc_id was forgotten"):
            jobs.verify.run(asked_of(root, never))
    with pytest.raises(UsageError, match="forgotten= is empty"):
        jobs.verify.run(asked_of(root, ""))


def test_it_does_not_come_back_until_it_is_taken_back(papers: Path, root: Path) -> None:
    document = document_of(root, f"{SECRET}.md")
    forget(root, f"source_id={SECRET}.md")
    again = build(root, papers, *PLAIN)
    assert (again["documents"], again["skipped_as_forgotten"]) == (3, 1)
    assert set(again["reused"].values()) == {1}, "nothing is made again"
    with (papers / f"{SECRET}.md").open("a") as file:
        file.write("A later version.\n")
    assert build(root, papers, *PLAIN)["documents"] == 3, "named by its source: no version is read"
    assert traces(root, document) == []
    assert forget(root, f"source_id={SECRET}.md", "undo=true") == {"taken_back": 1}
    assert build(root, papers, *PLAIN)["documents"] == 4


def test_a_later_version_of_a_document_named_by_content_is_read(papers: Path, root: Path) -> None:
    forget(root, f"doc_id='{document_of(root, f'{SECRET}.md')}'")
    (papers / f"{SECRET}.md").write_text("# Retraction\n\nThe trial was retracted.\n")
    assert build(root, papers, *PLAIN)["documents"] == 4
    assert not holding(root, SECRET + " reduced")


def test_duplicates_that_name_it_go_too(papers: Path, tmp_path: Path) -> None:
    lines = [
        {"id": n, "text": f"Trial {n} of {t} for heel pain."} for n, t in enumerate(TREATMENTS)
    ]
    lines.append({"id": 3, "text": "Another text under the id 3."})
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    root = tmp_path / "root"
    options = ["corpus=jsonl", f"corpus.path={corpus}", f"root={root}", *PLAIN]
    run = {**configure("build", options), "command": "test"}
    assert jobs.build.run(run)["rejects"]["raw"] == {"duplicate_id": 1}
    forget(root, "source_id=3")
    assert read_rejects(Store(root), "default").num_rows == 0
    assert jobs.build.run(run)["skipped_as_forgotten"] == 2


def plant(path: Path, text: str) -> None:
    """Write a text into a file, of whatever kind its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"hits": [[{"id": text}]]}), path)
    elif path.suffix == ".xlsx":
        workbook = openpyxl.Workbook()
        workbook.worksheets[0].append([text])
        workbook.save(path)
    elif path.suffix == ".html":
        path.write_text(f"<script>{pack({'doc_id': text})}</script>")
    else:
        path.write_text(text)


PLACES = (
    "stages/questions/f/part-a.parquet", "stages/answers-SearchSparse-0123abcd/f/part-a.parquet",
    "jobs/benchmark/stages/seeds/f/part-a.parquet", "jobs/judged/stages/cases/f/part-a.parquet",
    "jobs/make_benchmark/review.xlsx", "jobs/sweep/answers/bm25.parquet",
    "jobs/sweep/report/report.html", "jobs/serve/feedback.jsonl", "jobs/ask/summary.json",
)  # fmt: skip


@pytest.mark.parametrize("held", ["document", "window", "question"])
def test_what_any_job_keeps_of_it_is_found_and_deleted(root: Path, held: str) -> None:
    document = document_of(root, f"{SECRET}.md")
    store = Store(root)
    chunks = store.read_pointer("default")["stages"]["chunks"]
    rows = pa.concat_tables(
        store.read_part("chunks", chunks["fingerprint"], part) for part in chunks["parts"]
    ).to_pylist()
    unit = next(row["unit_id"] for row in rows if row["doc_id"] == document)
    text = {"document": document, "window": unit, "question": question_id(unit)}[held]
    for place in PLACES:
        plant(root / place, text)
    forget(root, f"doc_id='{document}'")
    assert [place for place in PLACES if (root / place).exists()] == []
    assert traces(root, document) == []
    for place in PLACES:
        plant(root / place, text)
    found = traces(root, document)
    assert [place for place in PLACES if not any(place in line for line in found)] == []


def test_an_output_of_before_is_a_trace_also_if_the_clock_went_back(root: Path) -> None:
    document = document_of(root, f"{SECRET}.md")
    shown = root / "jobs" / "export" / "graph.graphml"
    plant(shown, SECRET)
    tomorrow = time.time() + 86_400
    os.utime(shown, (tomorrow, tomorrow))
    forget(root, f"doc_id='{document}'")
    plant(shown, SECRET)
    os.utime(shown, (tomorrow, tomorrow))
    (line,) = traces(root, document)
    assert str(shown) in line


def test_a_run_without_the_note_of_the_killed_one_finds_all_that_was_left(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = document_of(root, f"{SECRET}.md")
    for place in PLACES:
        plant(root / place, document)

    def killed(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, "holding", killed)
        forget(root, f"doc_id='{document}'")
    assert traces(root, document)
    (root / "forgetting.json").write_text('{"documents"')
    with pytest.raises(ValueError, match=r"damaged .*delete it and forget the same"):
        forget(root)
    (root / "forgetting.json").unlink()
    forget(root, f"doc_id='{document}'")
    assert traces(root, document) == []
    assert [place for place in PLACES if (root / place).exists()] == []


def test_traces_are_found_where_they_are(papers: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root, papers, *WITHOUT_ENCODER[:-1], "stages.sparse=null")
    document = document_of(root, f"{SECRET}.md")
    found = "\n".join(traces(root, document))
    for stage in ("raw", "parsed", "documents", "chunks", "triples", "units", "entities"):
        assert f"/stages/{stage}/" in found, stage
    forget(root, f"doc_id='{document}'")


def test_prune_removes_what_no_build_names(papers: Path, root: Path) -> None:
    before = tables(root)
    build(root, papers, *PLAIN, "schema=neutral")
    build(root, papers, *PLAIN)
    assert forget(root, "prune=true")["pruned"] > 0
    assert tables(root) == before
    assert forget(root, "prune=true")["pruned"] == 0
    assert set(build(root, papers, *PLAIN)["reused"].values()) == {1}


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        ([], UsageError, "doc_id"),
        (["doc_id=unknown"], ValueError, "doc_id=unknown"),
        (["source_id=unknown"], ValueError, "source_id=unknown"),
        (["source_id=1.5"], ValueError, "source_id=1.5"),
        (["doc_id=@/nowhere"], UsageError, "nowhere"),
        (["source_id=[ibuprofen.md,exercise therapy.md,taping.md,zorbamycin.md]"],
         ValueError, "nothing would be left"),
    ],
)  # fmt: skip
def test_what_cannot_be_forgotten_changes_nothing(
    root: Path, options: list[str], error: type[Exception], hint: str
) -> None:
    with pytest.raises(error, match=hint):
        forget(root, *options)
    assert not (root / "forgetting.json").exists()
    assert not (root / "forgotten.json").exists()
