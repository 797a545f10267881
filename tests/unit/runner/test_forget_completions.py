from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srrag.engine.log.completion_log import CompletionLog
from srrag.runner.deletion.prompt_keys import asked_keys, logged_keys
from srrag.storage.store import Store
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_by_rules
from tests.unit.runner.forgetting import (
    PLAIN,
    SECRET,
    TREATMENTS,
    build,
    document_of,
    forget,
    holding,
    traces,
    write_papers,
)


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    return write_papers(tmp_path / "papers")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(Endpoint(script=answer_by_rules)) as endpoint:
        yield endpoint.url


def test_completions_of_its_prompts_are_forgotten_and_no_others(
    papers: Path, tmp_path: Path, url: str
) -> None:
    root = tmp_path / "root"
    engine = ["engine=http", "engine.model=toy", f"engine.base_url={url}"]
    first = build(root, papers, *PLAIN, *engine)
    log = root / "completions"
    document = document_of(root, f"{SECRET}.md")
    before = logged_keys(log)
    by_document = asked_keys(Store(root), log)
    own = by_document[document].difference(*(k for d, k in by_document.items() if d != document))
    assert own
    figures = forget(root, f"doc_id='{document}'", *engine)
    assert logged_keys(log) == before - own
    assert figures["completions"] == len(own)
    assert CompletionLog(log).verify().problems == []
    assert not holding(root, SECRET)
    assert traces(root, document) == []
    fresh = build(tmp_path / "once", papers, *PLAIN, *engine, f"completions={log}")
    assert fresh["spent"]["calls"] == len(own) < first["spent"]["calls"]
    assert "answers to prompts" in traces(root, document)[0]


def test_a_log_that_others_share_loses_only_its_prompts(
    papers: Path, tmp_path: Path, url: str
) -> None:
    engine = ["engine=http", "engine.model=toy", f"engine.base_url={url}"]
    shared = f"completions={tmp_path / 'log'}"
    other = write_papers(tmp_path / "other", ["kinesiotape"])
    build(tmp_path / "beside", other, *PLAIN, *engine, shared)
    build(tmp_path / "root", papers, *PLAIN, *engine, shared)
    document = document_of(tmp_path / "root", f"{SECRET}.md")
    forget(tmp_path / "root", f"doc_id='{document}'", *engine, shared)
    assert not holding(tmp_path / "log", SECRET)
    again = build(tmp_path / "once", other, *PLAIN, *engine, shared)
    assert again["spent"]["calls"] == 0


def test_an_answer_that_a_copy_of_it_asks_for_stays(papers: Path, tmp_path: Path, url: str) -> None:
    (papers / "copy.md").write_bytes((papers / "taping.md").read_bytes() + b"\n")
    root = tmp_path / "root"
    engine = ["engine=http", "engine.model=toy", f"engine.base_url={url}"]
    build(root, papers, *PLAIN, *engine)
    document = document_of(root, "taping.md")
    figures = forget(root, "source_id=taping.md", *engine)
    assert (figures["documents"], figures["completions"]) == (1, 0)
    assert traces(root, document) == []


def test_descriptions_of_what_is_left_are_kept_and_asked_for_by_its_engine(
    papers: Path, tmp_path: Path, url: str
) -> None:
    root = tmp_path / "root"
    engine = ["engine=http", "engine.model=toy", f"engine.base_url={url}"]
    left_out = ("vectors", "dense", "tokens", "graph", "sparse")
    dense = ["plan=graph", *(f"stages.{name}=null" for name in left_out)]
    described = [*engine, "tree_engine=${engine}"]
    built = build(root, papers, *dense, *described)
    assert built["figures"]["tree"]["calls"] > 0
    assert built["usage"]["tree"]["calls"] > 0
    document = document_of(root, f"{SECRET}.md")
    with pytest.raises(ValueError, match="stage tree asks http"):
        forget(root, f"doc_id='{document}'")
    assert not (root / "forgetting.json").exists()
    forget(root, f"doc_id='{document}'", *engine)
    assert not holding(root, SECRET)
    assert traces(root, document) == []
    never = write_papers(tmp_path / "never", TREATMENTS[:-1])
    log = f"completions={root / 'completions'}"
    again = build(tmp_path / "once", never, *dense, *described, log)
    assert again["figures"]["tree"]["calls"] > 0
    assert again["spent"]["calls"] == 0
