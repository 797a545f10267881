"""The packaged abstracts: each may be passed on, says whose it is, and is read as a paper."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import srrag
from jobs import SHORT
from jobs.cli import all_jobs, usage
from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.corpus.record import resolve
from srrag.storage.store import Store
from tests.conftest import linked


def test_each_names_its_article_and_a_licence_that_lets_it_be_passed_on() -> None:
    path = resolve("pkg://srrag/sample/open_access.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert len(rows) == 195
    assert set(Counter(row["license"] for row in rows)) <= {"CC-BY", "CC0"}
    assert all(row["pmcid"].startswith("PMC") and row["pmid"].isdigit() for row in rows)
    assert all(row["title"] and row["journal"] and row["year"] for row in rows)
    assert len({row["pmid"] for row in rows}) == len(rows)


def test_the_sample_takes_no_place_of_other_papers(sample_root: Path, tmp_path: Path) -> None:
    root = linked(sample_root, tmp_path / "R", "jobs")
    job, *rest = SHORT["sample"]
    for more in ((), ("estimate=true",)):
        with pytest.raises(UsageError, match="holds other papers: `srrag sample root=FOLDER`"):
            srrag.run(job, *rest, f"root={root}", *more)
    assert Store(root).read_pointer("default") == Store(sample_root).read_pointer("default")


def test_sample_is_short_for_a_build_of_them() -> None:
    job, *rest = SHORT["sample"]
    config = configure(job, rest)
    records = list(factory.make(config["corpus"], "corpus").scan())
    assert len(records) == 195
    assert not any(record.reason for record in records)
    assert "srrag sample" in usage()
    assert "srrag sample" in all_jobs()
