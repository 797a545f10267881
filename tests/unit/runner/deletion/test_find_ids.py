"""A wanted id is found in whatever kind of file it stands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.errors import UsageError
from srrag.core.spec import content_id
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.journal import Journal
from srrag.lab.report.drilldown import pack
from srrag.runner.deletion.find_ids import (
    asked_keys,
    holding,
    logged_keys,
    prove_forgotten,
    shown,
    unaccounted,
)
from srrag.runner.deletion.tombstones import Tombstones
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_by_rules
from tests.unit.engine.logs import entry, key
from tests.unit.runner.forgetting import (
    PLAIN,
    SECRET,
    TREATMENTS,
    build,
    document_of,
    forget,
    traces,
    write_papers,
)
from tests.unit.runner.forgetting import (
    holding as files_with,
)

ID, OTHER = content_id("one"), content_id("other")
NESTED = pa.struct([pa.field("ids", pa.list_(pa.string())), pa.field("n", pa.int64())])


def parquet(path: Path, value: str) -> None:
    pq.write_table(
        pa.table({"raw": [b"x" * 32], "hits": pa.array([{"ids": [value]}], NESTED)}), path
    )


def coded(path: Path, value: str) -> None:
    columns = {"large": pa.array([None, value], pa.large_string()).dictionary_encode(), "n": [1, 2]}
    pq.write_table(pa.table(columns), path)


def arrow(path: Path, value: str) -> None:
    values = [None, value, *(content_id(str(number)) for number in range(300))]
    table = pa.table({"ids": pa.array([values], pa.large_list(pa.large_string()))})
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=packed) as writer,
    ):
        writer.write_table(table)


def workbook(path: Path, value: str) -> None:
    book = openpyxl.Workbook()
    book.worksheets[0].append(["text", value])
    book.save(path)


def page(path: Path, value: str) -> None:
    path.write_text(f"<b>{'A' * 17}</b><script>{pack({'doc_id': value})}</script>")


def text(path: Path, value: str) -> None:
    path.write_text(json.dumps({"doc": value}))


KINDS = [
    ("a.parquet", parquet), ("b.parquet", coded), ("c.arrow", arrow), ("d.xlsx", workbook),
    ("e.html", page), ("f.jsonl", text), ("half.parquet", text), ("no.xlsx", text),
]  # fmt: skip


@pytest.mark.parametrize(("name", "write"), KINDS)
def test_a_wanted_id_is_found_in_a_file_of_each_kind(
    tmp_path: Path, name: str, write: Callable[[Path, str], None]
) -> None:
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / name
    write(path, ID)
    assert list(holding([tmp_path], {ID}.__contains__)) == [path]
    assert list(holding([tmp_path], {OTHER}.__contains__)) == []
    assert list(holding([tmp_path], {OTHER}.__contains__, ID[5:20])) == [path], "or a text"
    assert list(holding([tmp_path], {OTHER}.__contains__, "absent")) == []


def test_files_are_named_in_order_and_searched_from_their_first_byte(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(12)]
    for path in files:
        path.write_text("word first")
    assert list(holding([tmp_path], {ID}.__contains__, "word")) == sorted(files)


def test_a_longer_number_is_no_id_and_our_own_lists_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(f"a{ID} {ID}0")
    (tmp_path / "empty.txt").touch()
    for name in ("forgotten.json", "forgotten.copy.json", "forgetting.json", ".lock"):
        (tmp_path / name).write_text(ID)
    assert list(holding([tmp_path], {ID}.__contains__)) == []
    (tmp_path / "short.txt").write_text(f"x-{ID}.")
    assert list(holding([tmp_path], {ID}.__contains__)) == [tmp_path / "short.txt"]


def test_an_output_shows_all_but_figures(tmp_path: Path) -> None:
    for name in ("out/summary.json", "out/.lock", "out/graph.json", "out/deep/page.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert {path.name for path in shown(tmp_path / "out")} == {"page.html", "graph.json"}
    assert list(shown(tmp_path / "out" / "graph.json")) == [tmp_path / "out" / "graph.json"]


def test_a_build_of_parts_or_files_that_do_not_stand_is_told(tmp_path: Path) -> None:
    stages = tmp_path / "stages"
    commit_json(stages / "raw" / "a" / "part-p.json", {"sha256": "1"})
    commit_json(stages / "raw" / "a" / "manifest.json", {"spec": {}})
    whole = {"files": {"x": "2"}, "contents": {"raw": {"p": "1"}}}
    commit_json(stages / "units" / "b" / "manifest.json", whole)
    after = {"files": {"y": "3"}, "contents": {"units": {"x": "2"}, "raw": {"p": "1"}}}
    commit_json(stages / "dense" / "c" / "manifest.json", after)
    store = Store(tmp_path)
    assert list(unaccounted(store)) == []
    (stages / "raw" / "a" / "part-q.json").write_text("{")
    (stages / "units" / "b" / "manifest.json").write_text("[]")
    assert list(unaccounted(store)) == [
        f"{stages / 'dense' / 'c'} was built from parts that do not stand"
    ]
    commit_json(stages / "units" / "b" / "manifest.json", {"files": {"x": "2"}})
    (line,) = unaccounted(store)
    assert line.startswith(str(stages / "units" / "b")), "of unknown parts"


def left(root: Path, *documents: str) -> list[str]:
    found = prove_forgotten(Store(root), documents, root / "completions")
    return [each.replace(f"{root}/", "") for each in found]


def test_what_is_left_of_a_document_is_named_wherever_it_is(tmp_path: Path) -> None:
    Store(tmp_path).create()
    log = tmp_path / "completions"
    with closing(Journal(log)) as journal:
        journal.append([entry(1), entry(2)])
    (tmp_path / "mine.txt").touch()
    (tmp_path / "jobs" / "export").mkdir(parents=True)
    old, new = tmp_path / "jobs" / "export" / "old.json", tmp_path / "jobs" / "export" / "new.json"
    old.touch()
    os.utime(old, (1, 1))
    keys = {"units": [OTHER], "sources": ["s"], "keys": [key(2).hex(), key(3).hex()]}
    Tombstones.of(tmp_path).add({ID: keys}, [])
    os.utime(tmp_path / "mine.txt", (1, 1))
    new.touch()
    assert left(tmp_path, ID) == [
        "completions holds 1 answers to prompts with its text",
        "jobs/export/old.json is of before the forgetting and may show what it held",
        "mine.txt: no pointer, manifest or receipt explains it; it may hold anything",
    ]
    for path in (old, tmp_path / "mine.txt", *log.iterdir()):
        path.unlink()
    (tmp_path / "mine.txt").touch()  # of after the forgetting
    assert left(tmp_path, ID) == []
    new.write_text(OTHER)
    (tmp_path / "stages" / ".trash-1").mkdir(parents=True)
    for name in ("forgetting.json", "stages/loose", "stages/.trash-1/x"):
        (tmp_path / name).write_text("{}")
    assert left(tmp_path, ID) == [
        f"jobs/export/new.json holds {ID} or a unit of it",
        "an interrupted forgetting is not finished: run `srrag forget root=…`",
        "stages/.trash-1/x: no pointer, manifest or receipt explains it; it may hold anything",
        "stages/loose: no pointer, manifest or receipt explains it; it may hold anything",
    ]
    assert f"jobs/export/new.json holds {OTHER} or a unit of it" in left(tmp_path, OTHER)


def test_only_what_was_forgotten_is_proven_so(tmp_path: Path) -> None:
    Store(tmp_path).create()
    Tombstones.of(tmp_path).add({ID: {"units": [], "sources": [], "keys": []}}, [])
    assert left(tmp_path, ID) == []
    with pytest.raises(UsageError, match="forgotten= is empty"):
        left(tmp_path)
    for asked in ([OTHER], [ID, OTHER]):
        with pytest.raises(UsageError, match=f"{OTHER}: no document of this doc_id was forgotten"):
            left(tmp_path, *asked)


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
    assert not files_with(root, SECRET)
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
    assert not files_with(tmp_path / "log", SECRET)
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
    assert not files_with(root, SECRET)
    assert traces(root, document) == []
    never = write_papers(tmp_path / "never", TREATMENTS[:-1])
    log = f"completions={root / 'completions'}"
    again = build(tmp_path / "once", never, *dense, *described, log)
    assert again["figures"]["tree"]["calls"] > 0
    assert again["spent"]["calls"] == 0
