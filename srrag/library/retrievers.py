"""Retrievers for other frameworks over an opened root (the extras `langchain`, `llamaindex`).

The classes are created on demand, because their bases belong to the other package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from srrag.core.errors import UsageError
from srrag.library.root import Root
from srrag.retrieve.passages import FoundPassage
from srrag.runner.pipeline_run import DEFAULT

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever as LangChainRetriever
    from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexRetriever


@contextmanager
def _needed(extra: str) -> Iterator[None]:
    """Name the extra that an import lacks."""
    try:
        yield
    except ImportError as error:
        raise UsageError(f"a retriever of {extra} needs: pip install 'srrag[{extra}]'") from error


def langchain_retriever(
    root: Root, *, k: int = 10, pipeline: str = DEFAULT, overrides: Iterable[str] = ()
) -> LangChainRetriever:
    """Make a LangChain retriever of the `k` best windows of a root for a query.

    `page_content` is the window's text, as its paper has it, and the metadata hold what a citation
    needs: grade, title, source_id, pmid, year, section, score, rank, and `status`, which says that
    a paper is retracted, superseded or doubted. Raises UsageError where LangChain is not installed.
    """
    with _needed("langchain"):
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever

    chosen: dict[str, Any] = {"k": k, "pipeline": pipeline, "overrides": tuple(overrides)}

    class EvidenceRetriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [
                Document(page_content=each.text, id=each.unit_id, metadata=cited_as(each))
                for each in root.search(query, **chosen)
            ]

    return EvidenceRetriever()


def llama_index_retriever(
    root: Root, *, k: int = 10, pipeline: str = DEFAULT, overrides: Iterable[str] = ()
) -> LlamaIndexRetriever:
    """Make a LlamaIndex retriever of the `k` best windows of a root for a query.

    A node's id is the window's, its text the window's, and its metadata hold what a citation needs,
    `status` among it. Raises UsageError where LlamaIndex is not installed.
    """
    with _needed("llamaindex"):
        from llama_index.core.base.base_retriever import BaseRetriever
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    chosen: dict[str, Any] = {"k": k, "pipeline": pipeline, "overrides": tuple(overrides)}

    class EvidenceNodeRetriever(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            nodes = []
            for each in root.search(query_bundle.query_str, **chosen):
                node = TextNode(id_=each.unit_id, text=each.text, metadata=cited_as(each))
                nodes.append(NodeWithScore(node=node, score=each.score))
            return nodes

    return EvidenceNodeRetriever()


def cited_as(passage: FoundPassage) -> dict[str, Any]:
    """The metadata of a passage: all but its text and id, which other fields hold."""
    return {name: value for name, value in vars(passage).items() if name not in _SAID}


_SAID = ("text", "unit_id")
