"""Tokenising for encoders: ids, counts, character spans, and which tokens carry content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from srrag.core.errors import first_line
from srrag.model.encoder import Encoder, model_path

_NOT_JUDGED = -1


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids of each text, special tokens included, and which texts had to be cut."""

    ids: list[np.ndarray]  # int64 each
    cut: np.ndarray  # bool (texts,)


class TextTokenizer:
    """A fast tokenizer in two settings: cut at the model's limit, and uncut for measuring."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        """Take a tokenizer over; its own truncation and padding settings are ignored."""
        self._cut = tokenizer
        self._cut.no_padding()
        self._cut.enable_truncation(max_tokens)
        self._content = np.full(tokenizer.get_vocab_size(), _NOT_JUDGED, np.int8)
        added = tokenizer.get_added_tokens_decoder().items()
        special = [n for n, token in added if token.special and "unk" not in token.content.lower()]
        self._content[[number for number in special if number < len(self._content)]] = False

    @cached_property
    def _whole(self) -> Tokenizer:
        """The same, uncut; a question needs none."""
        found = Tokenizer.from_str(self._cut.to_str())
        found.no_truncation()
        return found

    @property
    def content(self) -> np.ndarray:
        """By vocabulary id, whether a token is of content."""
        return self.is_content(np.arange(len(self._content)))

    def is_content(self, ids: np.ndarray) -> np.ndarray:
        """True for words and "unknown", False for special tokens and punctuation alone.

        Tokens are judged when they first occur: a question has few of them.
        """
        new = np.unique(ids[self._content[ids] == _NOT_JUDGED])
        if len(new):
            # Byte-level vocabularies write a blank as a letter, so look at decoded text, not at
            # names.
            words = self._cut.decode_batch(new[:, None].tolist(), skip_special_tokens=False)
            self._content[new] = [any(map(str.isalnum, word)) for word in words]
        return np.asarray(self._content[ids] > 0)

    def tokenise(self, texts: Sequence[str]) -> Tokens:
        """Ids with special tokens, at most `max_tokens` a text."""
        found = self._cut.encode_batch_fast(list(texts))
        ids = [np.asarray(one.ids, dtype=np.int64) for one in found]
        return Tokens(ids, np.array([bool(one.overflowing) for one in found], dtype=bool))

    def count(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text, uncut and without special tokens, int64."""
        found = self._whole.encode_batch_fast(list(texts), add_special_tokens=False)
        return np.array([len(one.ids) for one in found], dtype=np.int64)

    def spans(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Character start and end of each token, uncut, no special tokens: int64 (tokens, 2)."""
        found = self._whole.encode_batch(list(texts), add_special_tokens=False)
        return [np.asarray(one.offsets, dtype=np.int64).reshape(-1, 2) for one in found]

    def content_spans(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Character start and end of each content token, cut at the limit: int64 (tokens, 2)."""
        found = []
        for one in self._cut.encode_batch(list(texts)):
            keep = self.is_content(np.asarray(one.ids, dtype=np.int64))
            found.append(np.asarray(one.offsets, dtype=np.int64).reshape(-1, 2)[keep])
        return found


@cache
def load_tokenizer(encoder: Encoder) -> TextTokenizer:
    """The encoder's tokenizer, without its weights: cutting windows needs no more.

    Raises ValueError that names the model if it has no tokenizer.json.
    """
    path = Path(model_path(encoder.model))
    try:
        if path.is_dir():
            found = Tokenizer.from_file(str(path / "tokenizer.json"))
        else:
            found = Tokenizer.from_pretrained(encoder.model, revision=encoder.revision or "main")
    except Exception as error:  # the library raises plain Exception
        raise ValueError(f"tokenizer of model {encoder.model!r}: {first_line(error)}") from error
    return TextTokenizer(found, encoder.max_tokens)
