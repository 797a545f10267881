"""A retriever for LangChain over an opened root (the extra `langchain`)."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from srrag.library.root import DEFAULT, Root


class SrragRetriever(BaseRetriever):
    """The `k` best windows of a root for a query, as LangChain documents.

    `page_content` is the window's text, as its paper has it, and the metadata hold what a citation
    needs: grade, title, source_id, pmid, year, section, score and rank.
    """

    root: Any
    """An opened root (`srrag.open`)."""
    k: int = 10
    pipeline: str = DEFAULT
    overrides: tuple[str, ...] = ()

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        root: Root = self.root
        found = root.search(query, k=self.k, pipeline=self.pipeline, overrides=self.overrides)
        return [
            Document(page_content=each.text, id=each.unit_id, metadata=each.cited_as())
            for each in found
        ]
