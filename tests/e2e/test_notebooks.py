"""The notebooks of docs/ are run on the sample, and print what they stored."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import linked

pytestmark = pytest.mark.e2e
BOOKS = Path(__file__).resolve().parents[2] / "docs" / "notebooks"


def cells(name: str) -> list[dict[str, Any]]:
    book = json.loads((BOOKS / f"{name}.ipynb").read_text("utf-8"))
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict[str, Any]) -> str:
    streams = [each for each in cell["outputs"] if each["output_type"] == "stream"]
    return "".join("".join(each["text"]) for each in streams)


@pytest.mark.parametrize("name", ["own_papers", "two_pipelines"])
def test_each_cell_is_executed_in_order_and_shows_something(name: str) -> None:
    stored = cells(name)
    assert [cell["execution_count"] for cell in stored] == list(range(1, len(stored) + 1))
    for cell in stored:
        assert cell["outputs"], "".join(cell["source"])
        assert {each["output_type"] for each in cell["outputs"]} <= {"stream", "execute_result"}
        assert "/tmp" not in json.dumps(cell["outputs"]), "no path of a machine"


@pytest.mark.parametrize("name", ["own_papers", "two_pipelines"])
def test_a_notebook_prints_what_it_stored(
    name: str, sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked(sample_root, tmp_path / "R")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells(name):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec("".join(cell["source"]), names)
        assert out.getvalue().strip() == printed(cell).strip()
    if name == "two_pipelines":
        figures = {(m.system, m.metric): m.value for m in names["result"].measured}
        table = json.dumps(cells(name)[0]["outputs"])
        assert f"{figures['hybrid', 'nDCG@10']:.3f}" in table
