"""What a served answer says of a paper that tells a harm as "worse"."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from srrag.config.compose import configure
from tests.conftest import run_build
from tests.unit.serve.serving import served, settings

PAPER = """# A rigid brace for ankle sprain: a randomised controlled trial

## Methods

Sixty adults with an ankle sprain were randomly assigned to a rigid brace or to no brace.

## Results

Pain was worse with a rigid brace than without a brace (p = 0.01).

## Conclusions

Pain was significantly worse with a rigid brace in adults with ankle sprain.
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    root = tmp_path_factory.mktemp("worse")
    (papers := root / "papers").mkdir()
    (papers / "brace.md").write_text(PAPER, "utf-8")
    quick = ["stages.vectors=null", "stages.extracts=null"]
    run_build(
        configure("build", [f"root={root / 'R'}", "corpus=folder", f"corpus.path={papers}", *quick])
    )
    with served(settings(root / "R", "pipeline=bm25")) as (client, _):
        yield client


@pytest.mark.parametrize(
    ("claim", "says"), [("reduce", "no"), ("improve", "no"), ("increase", "yes")]
)
def test_pain_that_was_worse_is_not_reduced(client: TestClient, claim: str, says: str) -> None:
    question = f"Does a rigid brace {claim} pain in adults with ankle sprain?"
    body = {"question": question, "options": {"clinical": True}}
    reading = client.post("/v1/answers", json=body).json()["clinical"]
    assert [line["says"] for line in reading["bottom_line"]][:1] == [says]
    assert reading["certainty"]["says"] == says
