"""The retrievers of other frameworks, with their real packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import srrag
from srrag.core.errors import UsageError
from srrag.library.root import Root

CAST = "How long may an acute lateral ankle sprain be immobilised in a cast?"
CITED = {
    "rank", "score", "grade", "title", "doc_id", "source_id", "pmid", "year", "section", "standing",
    "standing_link", "status",
}  # fmt: skip


@pytest.fixture(scope="module")
def root(sample_root: Path) -> Iterator[Root]:
    with srrag.open(sample_root) as opened:
        yield opened


def test_langchain_gets_documents_that_can_be_cited(root: Root) -> None:
    pytest.importorskip("langchain_core", reason="without the extra langchain")
    from langchain_core.runnables import RunnableLambda

    from srrag.library.retrievers import langchain_retriever

    retriever = langchain_retriever(root, k=3, pipeline="bm25")
    expected = root.search(CAST, k=3, pipeline="bm25")
    found = retriever.invoke(CAST)
    assert [each.page_content for each in found] == [each.text for each in expected]
    assert [each.id for each in found] == [each.unit_id for each in expected]
    assert set(found[0].metadata) == CITED and found[0].metadata["grade"] == expected[0].grade
    chain: Any = retriever | RunnableLambda(lambda documents: documents[0].metadata["title"])
    assert chain.invoke(CAST) == expected[0].title


def test_llama_index_gets_nodes_with_scores(root: Root) -> None:
    pytest.importorskip("llama_index.core", reason="without the extra llamaindex")
    from srrag.library.retrievers import llama_index_retriever

    found = llama_index_retriever(root, k=3, pipeline="bm25").retrieve(CAST)
    expected = root.search(CAST, k=3, pipeline="bm25")
    assert [each.node.node_id for each in found] == [each.unit_id for each in expected]
    assert [each.text for each in found] == [each.text for each in expected]
    assert [each.score for each in found] == [each.score for each in expected]
    assert set(found[0].metadata) == CITED


@pytest.mark.parametrize("extra", ["langchain", "llamaindex"])
def test_a_retriever_names_the_extra_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch, root: Root, extra: str
) -> None:
    from srrag.library import retrievers

    for name in ("langchain_core.documents", "llama_index.core.base.base_retriever"):
        monkeypatch.setitem(sys.modules, name, None)
    make = {
        "langchain": retrievers.langchain_retriever,
        "llamaindex": retrievers.llama_index_retriever,
    }[extra]
    with pytest.raises(UsageError, match=rf"pip install 'srrag\[{extra}\]'"):
        make(root)
