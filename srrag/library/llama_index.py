"""A retriever for LlamaIndex over an opened root (the extra `llamaindex`)."""

from __future__ import annotations

from collections.abc import Iterable

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from srrag.library.root import DEFAULT, Root


class SrragNodeRetriever(BaseRetriever):
    """The `k` best windows of a root for a query, as LlamaIndex nodes with their scores.

    A node's id is the window's, its text the window's, and its metadata hold what a citation needs.
    """

    def __init__(
        self, root: Root, k: int = 10, pipeline: str = DEFAULT, overrides: Iterable[str] = ()
    ) -> None:
        """Retrieve from an opened root (`srrag.open`)."""
        self.root, self.k, self.pipeline = root, k, pipeline
        self.overrides = tuple(overrides)
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self.root.search(
            query_bundle.query_str, k=self.k, pipeline=self.pipeline, overrides=self.overrides
        )
        return [
            NodeWithScore(
                node=TextNode(id_=each.unit_id, text=each.text, metadata=each.cited_as()),
                score=each.score,
            )
            for each in found
        ]
