"""The keywords of a question: its words with the highest cosine to it (KeyBERT, as in RASRAG)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from srrag.algo.terms import STOPWORDS
from srrag.core.step import Function, Place, Step
from srrag.model.encoder import Encoder

_WORD = re.compile(r"\b\w\w+\b")


@dataclass(frozen=True, kw_only=True)
class FindKeywords(Step):
    """Add the `most` words of a question with the highest cosine to it, best first.

    KeyBERT's method (Grootendorst 2020) with single words: words of two letters and more, lower
    case, without stop words; ties go to the earlier word. RASRAG takes five (section 1.3).
    `keyword_vector` encodes the words as one text, best first; a question of stop words alone keeps
    its own vector.
    """

    encoder: Encoder = field(default_factory=Encoder)
    most: int = 5

    reads: ClassVar[tuple[str, ...]] = ("text", "query_vector")
    writes: ClassVar[pa.Schema] = pa.schema(
        [pa.field("keyword_vector", pa.binary()), pa.field("keywords", pa.list_(pa.string()))]
    )
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {"keyword_vector": ("float32", 1e-5)}

    def __post_init__(self) -> None:
        """Raise ValueError if no word is asked for."""
        if self.most < 1:
            raise ValueError(f"most is {self.most}: at least one keyword is needed")

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        model = load(self.encoder, at.device, at.threads)

        def run(batch: pa.Table) -> pa.Table:
            listed = [candidates(text) for text in batch["text"].to_pylist()]
            own = [np.frombuffer(each, np.float32) for each in batch["query_vector"].to_pylist()]
            words = sorted({word for each in listed for word in each})
            places = {word: n for n, word in enumerate(words)}
            vectors = model.encode(words, "query") if words else np.zeros((0, 1), np.float32)
            found = []
            for each, query in zip(listed, own, strict=True):
                cosines = vectors[[places[word] for word in each]] @ query if each else np.zeros(0)
                order = np.argsort(-np.round(cosines, 5), kind="stable")[: self.most]
                found.append([each[n] for n in order.tolist()])
            phrases = sorted({" ".join(each) for each in found if each})
            encoded = dict(zip(phrases, model.encode(phrases, "query"), strict=True))
            packed = [
                encoded[" ".join(each)].tobytes() if each else query.tobytes()
                for each, query in zip(found, own, strict=True)
            ]
            batch = batch.append_column(self.writes.field(0), pa.array(packed, pa.binary()))
            return batch.append_column(self.writes.field(1), pa.array(found, pa.list_(pa.string())))

        return run


def candidates(text: str) -> list[str]:
    """The words of a text that may be keywords, each once, in order."""
    words = (word.casefold() for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in words if word not in STOPWORDS))
