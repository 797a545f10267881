"""Rerank by a cross-encoder that reads the question and each window together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.hits import Offsets
from srrag.core.provenance import Fitted
from srrag.core.step import Place
from srrag.core.units import Units, open_units
from srrag.model.cross_encoder import CrossEncoderModel, RankLlamaModel, load_cross_encoder
from srrag.model.filter import FACTS, load_filter, read_facts
from srrag.rerank.reranker import Reranker, Score
from srrag.storage.manifest import sealed_revision


@dataclass(frozen=True, kw_only=True)
class RerankCrossEncoder(Reranker):
    """Score by the logit of any cross-encoder of sentence-transformers: fine ranking.

    sr-rag uses BGE-reranker-v2-m3; MedCPT's and ms-marco-MiniLM's are alternatives, RankLLaMA
    (RASRAG), and a filter of `srrag train_filter`, named by its folder. The model reads the title
    of the window's document, a line break (RankLLaMA: a blank), and the window's text; only the
    text if there is no title or `titles` is off. Input beyond the model's limit is truncated.
    """

    hits: str = "hits_coarse"
    text: str = "text"
    """The column of what is scored against, such as `rationale`."""
    cross_encoder: CrossEncoderModel | RankLlamaModel
    titles: bool = True
    units: str = "units"

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question and the hits."""
        return (self.text, self.hits)

    def needs(self) -> tuple[str, ...]:
        """The units index, for the texts."""
        return (self.units,)

    def identity(self) -> dict[str, Any]:
        """The content of a trained filter."""
        return {"filter": sealed_revision(folder)} if (folder := self.filter_folder) else {}

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions that a trained filter has seen."""
        return (read_facts(folder).fitted,) if (folder := self.filter_folder) else ()

    @property
    def filter_folder(self) -> Path | None:
        """The folder of the model if that is a filter of `srrag train_filter`."""
        folder = Path(getattr(self.cross_encoder, "model", ""))
        return folder if (folder / FACTS).is_file() else None

    def scorer(self, at: Place) -> Score:
        """Load the model."""
        logits = self.text_scorer(at)
        units = open_units(at, self.units)

        def score(batch: pa.Table, ids: pa.Array, offsets: Offsets) -> npt.NDArray[np.float64]:
            passages = self.passages(units, ids)
            questions = zip(batch[self.text].to_pylist(), pairwise(offsets), strict=True)
            scores = [logits(text, passages[start:end]) for text, (start, end) in questions]
            return np.concatenate([np.zeros(0), *scores])

        return score

    def text_scorer(self, at: Place) -> Callable[[str, Sequence[str]], npt.NDArray[np.float64]]:
        """Load the model; the function scores texts for a question."""
        if folder := self.filter_folder:
            loaded = load_filter(folder, at.device)
            own, told = loaded.facts.base.max_tokens, self.cross_encoder.max_tokens
            if told != own:
                raise ValueError(f"max_tokens is {told}, but the filter of {folder} reads {own}")
            return loaded.logits
        return load_cross_encoder(self.cross_encoder, at.device, at.threads).logits

    def passages(self, units: Units, ids: pa.Array) -> list[str]:
        """The input of the model for each window."""
        said = units.take_evidence(ids.to_pylist())
        if not self.titles:
            return list(said["text"].to_pylist())
        pairs = zip(said["title"].to_pylist(), said["text"].to_pylist(), strict=True)
        separator = self.cross_encoder.separator
        return [f"{title}{separator}{text}" if title else text for title, text in pairs]
