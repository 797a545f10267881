"""A trained evidence filter from its folder: p(yes | question, passage), calibrated."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from srrag.core.provenance import NOT_KNOWN, Fitted, read_fitted
from srrag.model.encoder import check_model
from srrag.model.pair_causal import LoRA, PairCausal, base_files
from srrag.model.pair_encoder import Example, PairModel, read_pair_encoder, scores
from srrag.model.read_weights import encoder_folder
from srrag.storage.atomic_write import read_json
from srrag.storage.manifest import check_sealed
from srrag.storage.mirror import pull_build

Floats = npt.NDArray[np.float64]

FACTS = "filter.json"
BATCH_TOKENS = 4096
DECIMALS = 4
"""Decimals of a probability; further digits may differ between batches."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """The base model of a filter, before training."""

    kind: Literal["encoder", "causal"] = "encoder"
    model: str = "minilm"
    """`minilm` (packaged), a local folder or a hub id."""
    revision: str | None = None
    """Commit of a hub model, or the hash of what a folder holds."""
    max_tokens: int = 256
    """Longer pairs are cut here."""
    dtype: str = "float32"
    """Of a causal model's weights: float32 or bfloat16. An encoder's are float32."""
    lora: LoRA | None = None
    """Low-rank updates for a causal model; None trains all weights."""

    def __post_init__(self) -> None:
        """Raise ValueError that names the setting."""
        if self.kind not in ("encoder", "causal"):
            raise ValueError(f"train.kind={self.kind}: one of encoder, causal")
        if self.dtype not in ("float32", "bfloat16"):
            raise ValueError(f"train.dtype={self.dtype}: one of float32, bfloat16")
        if isinstance(self.max_tokens, bool) or not self.max_tokens >= 16:
            raise ValueError(f"train.max_tokens={self.max_tokens}: at least 16 are needed")
        if self.kind == "encoder" and (self.lora or self.dtype != "float32"):
            raise ValueError("train.lora, train.dtype: for train.kind=causal only")


def load_pair_model(base: Base, device: str, *, checkpointing: bool = False) -> PairModel:
    """Load the base model; raises ValueError if a folder's is not the one of its revision."""
    check_model(base.model, base.revision)
    if base.kind == "encoder":
        from srrag.model.pair_encoder import PairEncoder

        return PairEncoder(base.model, base.revision, base.max_tokens, device)
    return PairCausal(
        base.model, base.revision, base.max_tokens, device,
        dtype=base.dtype, lora=base.lora, checkpointing=checkpointing,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Decision:
    """p(yes) = σ(scale · l + bias) of a model's log-odds l, and the threshold on it.

    All three were chosen on held-out questions.
    """

    scale: float = 1.0
    bias: float = 0.0
    threshold: float
    """Least probability of a passage that counts as evidence."""

    def log_odds(self, logits: Floats) -> Floats:
        """Calibrated log-odds, not rounded."""
        return self.scale * logits + self.bias

    def probabilities(self, logits: Floats) -> Floats:
        """Calibrated probabilities, rounded to DECIMALS."""
        found: Floats = np.exp(-np.logaddexp(0.0, -self.log_odds(logits))).round(DECIMALS)
        return found


@dataclass(frozen=True)
class FilterFacts:
    """Content of filter.json: the settings besides the weights, and facts about the training."""

    base: Base
    decision: Decision
    base_sha256: dict[str, str]
    fitted: Fitted = NOT_KNOWN

    def stated(self) -> dict[str, Any]:
        """As JSON, without its training data."""
        return {key: value for key, value in asdict(self).items() if key != "fitted"}


def read_facts(folder: Path) -> FilterFacts:
    """Read filter.json; raises ValueError that names it and what is wrong."""
    path = pull_build(folder) / FACTS
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; `srrag train_filter` writes it")
    stated = read_json(path)
    try:
        base, decision = dict(stated["base"]), Decision(**stated["decision"])
        base["lora"] = base["lora"] and LoRA(**base["lora"])
        if not all(map(math.isfinite, asdict(decision).values())):
            raise ValueError("a number is not finite")
        seen = read_fitted(stated, "evidence filter", path)
        return FilterFacts(Base(**base), decision, dict(stated["base_sha256"]), seen)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not the facts of a filter ({error!r})") from error


class LoadedFilter:
    """A filter in memory; its methods may be called from several threads."""

    def __init__(self, folder: Path, device: str) -> None:
        """Check every file's sha256 and load; raises ValueError that names the file."""
        self.revision = check_sealed(folder)
        self.facts = read_facts(folder)
        self.device = device
        self._examples, self._logits = self._read(folder)

    def _read(self, folder: Path) -> tuple[Callable[..., list[Example]], Callable[..., Any]]:
        base = self.facts.base
        if base.kind == "encoder":
            tokenizer, logits = read_pair_encoder(folder, base.max_tokens, self.device)
            return tokenizer.examples, logits
        if base.lora is not None and base_files(base.model) != self.facts.base_sha256:
            raise ValueError(f"{base.model}: not the weights that the adapter was trained on")
        source = base.model if base.lora else str(folder)
        causal = PairCausal(
            source, base.revision if base.lora else None, base.max_tokens, self.device,
            dtype=base.dtype, lora=base.lora,
        )  # fmt: skip
        if base.lora is not None:
            causal.read_adapter(folder)
        causal.module.eval()
        return causal.examples, causal.logits

    def probabilities(self, questions: Sequence[str], passages: Sequence[str]) -> Floats:
        """p(yes) of each pair, float64; a pair's does not depend on its neighbours."""
        return self.facts.decision.probabilities(self._scores(questions, passages))

    def logits(self, question: str, passages: Sequence[str]) -> Floats:
        """Log-odds of yes of each passage, as a cross-encoder gives them, float64 (passages,)."""
        return self.facts.decision.log_odds(self._scores([question] * len(passages), passages))

    def _scores(self, questions: Sequence[str], passages: Sequence[str]) -> Floats:
        """The model's log-odds of each pair."""
        return scores(self._examples(questions, passages), self._logits, BATCH_TOKENS)


def base_sha256(base: Base) -> dict[str, str]:
    """Hashes of a local model's weights; empty for a hub model, which its revision identifies."""
    if base.kind == "encoder":
        return base_files(str(encoder_folder(base.model, base.revision)))
    return base_files(base.model)


_LOADED: dict[tuple[str, str], LoadedFilter] = {}
_LOADING = threading.Lock()


def load_filter(folder: Path, device: str = "cpu") -> LoadedFilter:
    """The filter of a folder, read once per process, device and content."""
    with _LOADING:
        found = _LOADED.get((str(folder), device))
        if found is None or found.revision != check_sealed(folder):
            found = _LOADED[str(folder), device] = LoadedFilter(folder, device)
        return found
