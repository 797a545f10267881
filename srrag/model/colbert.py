"""Late-interaction encoders (ColBERT): a vector for each token instead of each sentence."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from srrag.model.embed import LoadedEncoder, TokenVectors, join_tokens, quantise_rows
from srrag.model.encoder import Encoder, Role, check_model, load_tokenizer
from srrag.model.read_weights import check_positions, read_weights

_BATCH_TEXTS = {"cpu": 16, "gpu": 256}


class LoadedColbert(LoadedEncoder):
    """A multi-vector model of sentence-transformers in memory, including PyLate's.

    The model configures which tokens count, the expansion of questions and the prefixes. Its
    sentence vector is the mean of the token vectors.
    """

    def __init__(self, encoder: Encoder, device: str) -> None:
        self.encoder = encoder
        self.device = device
        self._model = _read(encoder, device)
        self.dim = int(self._model.get_embedding_dimension())
        self.tokenizer = load_tokenizer(encoder)
        self.num_texts = 0
        self.num_cut = 0
        self._count_lock = threading.Lock()

    def encode(
        self, texts: Sequence[str], role: Role = "passage", batch_tokens: int | None = None
    ) -> np.ndarray:
        """Unit-length means of the token vectors, float32 (texts, dim)."""
        return self.encode_tokens(texts, role, batch_tokens)[0]

    def encode_tokens(
        self, texts: Sequence[str], role: Role = "passage", batch_tokens: int | None = None
    ) -> tuple[np.ndarray, TokenVectors]:
        """Means as `encode`, and the unit-length vectors of the tokens that the model counts."""
        model = self._model
        encode = model.encode_query if role == "query" else model.encode_document
        prompt = model.prompts.get("query" if role == "query" else "document", "")
        cut = self.tokenizer.tokenise([prompt + text for text in texts]).cut
        with self._count_lock:
            self.num_texts += len(texts)
            self.num_cut += int(cut.sum())
            found = encode(
                list(texts),
                batch_size=_BATCH_TEXTS["cpu" if self.device == "cpu" else "gpu"],
                convert_to_numpy=True,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        rows = [np.asarray(each, np.float32).reshape(-1, self.dim) for each in found]
        means = np.stack([_mean(each) for each in rows]) if rows else np.zeros((0, self.dim))
        return means.astype(np.float32), join_tokens(
            [quantise_rows(r) for r in rows], self.dim, cut
        )


def _mean(rows: np.ndarray) -> np.ndarray:
    total: np.ndarray = rows.sum(0)
    total /= max(1e-12, float(np.linalg.norm(total)))
    return total


def _read(encoder: Encoder, device: str) -> Any:
    from sentence_transformers import MultiVectorEncoder

    check_model(encoder.model, encoder.revision)
    found = read_weights(MultiVectorEncoder, encoder.model, encoder.revision, device)
    positions = getattr(found[0].config, "max_position_embeddings", None)
    check_positions(encoder.model, encoder.max_tokens, positions)
    # These models come with a shorter limit, which would truncate windows.
    found[0].document_length = encoder.max_tokens
    return found
