"""A model proposes a type, the build writes the next version of the schema, and that one is used.

SR-RAG, Eq. 12.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from srrag.storage.store import Store
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_by_rules
from tests.sample_json import asked_schema
from tests.unit.runner.deletion.test_delete import PLAIN, build, write_papers

pytestmark = pytest.mark.e2e

SCHEMAS = Path(__file__).parents[2] / "conf" / "schema"


def propose(request: dict[str, Any]) -> str:
    """Answer by rules, and propose that participants be linked with what they were given."""
    text = answer_by_rules(request)
    system, user = (each["content"] for each in request["messages"][:2])
    if (asked_schema(request) or {}).get("title") != "Extraction":
        return text
    said = next(line for line in user.splitlines() if "randomised to" in line)
    number = re.search(r"\d+", said)
    assert number is not None
    lines = [f"90 Participant: adults @{number[0]}?90", f"91 Intervention: rest @{number[0]}"]
    drawn = f"91 was_drawn_for 90 @{number[0]}?90"
    answer = json.loads(text)
    if "was_drawn_for" in system:
        return json.dumps({**answer, "entities": answer["entities"] + lines})
    return json.dumps({**answer, "proposals": [*lines, drawn]})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(Endpoint(script=propose)) as endpoint:
        yield endpoint.url


def types_of(root: Path) -> set[str]:
    entities = Store(root).artifacts("default")["entities"] / "entities.parquet"
    return set(pq.read_table(entities, columns=["type"])["type"].to_pylist())


def test_a_proposed_type_is_reported_written_beside_and_used_when_chosen(
    tmp_path: Path, url: str
) -> None:
    before = {path.name: path.read_bytes() for path in SCHEMAS.iterdir() if path.is_file()}
    papers, root = write_papers(tmp_path / "papers"), tmp_path / "root"
    options = [*PLAIN, "engine=http", "engine.model=toy", f"engine.base_url={url}"]
    growing = "+stages.schema_growth.run.min_windows=4"
    figures = build(root, papers, *options, growing)["figures"]["schema_growth"]
    assert figures["elements"] == "Participant, was_drawn_for"
    assert "Participant" not in types_of(root), "the schema in use stays as it is"
    found = Store(root).artifacts("default")["schema_growth"]
    report = (found / "report.md").read_text("utf-8")
    assert "## entity Participant: accepted\n\n4 windows of 4 documents, confidence 0.900" in report
    chosen = tmp_path / "conf" / "schema" / "grown.yaml"
    chosen.parent.mkdir(parents=True)
    shutil.copy(found / "schema-2.yaml", chosen)
    use = [f"hydra.searchpath=[file://{tmp_path / 'conf'}]", "schema=grown"]
    build(root, papers, *options, growing, *use, "+stages.schema_growth.run.number=2")
    assert "Participant" in types_of(root)
    assert {p.name: p.read_bytes() for p in SCHEMAS.iterdir() if p.is_file()} == before
