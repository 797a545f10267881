"""A fuzzer of OpenAPI descriptions against a server that listens: it finds no 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode

from tests.conftest import linked
from tests.unit.serve.serving import listening, settings

pytestmark = pytest.mark.e2e
EXAMPLES = 12


@pytest.fixture(scope="module")
def url(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # Its own, as feedback is written into it.
    root = linked(sample_root, tmp_path_factory.mktemp("fuzzed") / "root", "jobs")
    told = settings(root, "pipeline=bm25", "log=null", "limits.max_body_bytes=20000")
    with listening(told) as url:
        yield url


def asked(url: str, operation: Any, mode: GenerationMode) -> set[int]:
    """The statuses of a few requests, the same in every run; raises what would make one fail."""
    statuses: set[int] = set()

    @hypothesis.settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def one(case: Any) -> None:
        response = case.call(base_url=url.rstrip("/"), timeout=30)
        statuses.add(response.status_code)
        assert response.status_code < 500, (case.as_curl_command(), response.text)

    with suppress(hypothesis.errors.Unsatisfiable):  # where nothing can be wrong with a request
        one()
    return statuses


def takes_any_text(operation: Any) -> bool:
    """Whether texts in its path are all that it is given: no request to it can be wrong."""
    given = [each.definition["schema"] for each in operation.path_parameters]
    more = operation.query or operation.headers or operation.cookies or operation.body
    any_text = all({**schema, "title": ""} == {"type": "string", "title": ""} for schema in given)
    return bool(given) and any_text and not more


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_makes_the_server_fail(url: str, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{url}openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    if mode is GenerationMode.NEGATIVE:
        operations = [each for each in operations if not takes_any_text(each)]
    seen = {operation.label: asked(url, operation, mode) for operation in operations}
    assert len(seen) >= 13
    if mode is GenerationMode.POSITIVE:
        assert 200 in seen["POST /v1/search"] | seen["POST /v1/answers"]
    else:
        assert 400 in seen["POST /v1/answers"]
