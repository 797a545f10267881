"""The files of the pages: compressed, and asked for again only where they changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from srrag.serve.api.gateway import PAGE_PATHS
from tests.unit.serve.serving import served, settings


@pytest.fixture(scope="module")
def client(sample_root: Path) -> Iterator[TestClient]:
    with served(settings(sample_root, "pipeline=bm25")) as (client, _):
        yield client


@pytest.mark.parametrize("path", PAGE_PATHS)
def test_a_file_is_packed_where_the_browser_takes_it(client: TestClient, path: str) -> None:
    plain = client.get(path, headers={"accept-encoding": "identity"})
    packed = client.get(path, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip" and packed.content == plain.content
    assert packed.headers["vary"].lower() == "accept-encoding"


def test_a_file_that_stands_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/page.css")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    again = client.get("/page.css", headers={"if-none-match": f'W/{tag}, "other"'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get("/page.css", headers={"if-none-match": '"older"'}).status_code == 200
    assert client.get("/ask.js").headers["etag"] != tag


def test_answers_are_never_kept(client: TestClient) -> None:
    assert client.get("/v1/models").headers["cache-control"] == "no-store"
