"""Cross-encoders and RankLLaMA: question and passage read as one text, one logit out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from srrag.model.encoder import check_model, model_revision, once
from srrag.model.passes import all_threads, use_threads
from srrag.model.read_weights import check_device, check_positions, read_weights

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


DTYPES = ("float32", "bfloat16")
_BATCH_PAIRS = 32


@dataclass(frozen=True, kw_only=True)
class CrossEncoderModel:
    """A cross-encoder and its arithmetic: everything that decides the scores, but no device."""

    separator: ClassVar[str] = "\n"
    """Between the title and the text of a passage."""

    model: str
    """A local folder, or a hub id with its `revision`."""
    revision: str | None = None
    """Commit of a hub model. Of a folder the hash of what it holds, which is read there."""
    max_tokens: int = 512
    """Longer pairs are cut here, special tokens included."""
    dtype: str = "float32"
    """`float32` or `bfloat16`."""

    def __post_init__(self) -> None:
        """Reject settings that no model could run with."""
        if not self.model:
            raise ValueError("model is missing: a folder, or a hub id with its revision")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")
        if self.max_tokens < 8:
            raise ValueError(f"max_tokens {self.max_tokens} is below 8")
        _pin(self, "model", "revision")


def _pin(model: CrossEncoderModel | RankLlamaModel, name: str, revision: str) -> None:
    """Take the revision of a folder from what it holds, unless one is stated."""
    if getattr(model, revision) is None:
        object.__setattr__(model, revision, model_revision(getattr(model, name)))


class LoadedCrossEncoder:
    """A cross-encoder in memory."""

    def __init__(self, model: CrossEncoderModel, device: str) -> None:
        self._network = _read(model, device)
        self._asking = threading.Lock()

    def logits(self, question: str, passages: Sequence[str]) -> npt.NDArray[np.float64]:
        """The model's own output for each passage, no sigmoid applied, float64 (passages,).

        Passages of similar length share a batch; other questions never do, so a score does not
        depend on what else is asked.
        """
        from torch import nn

        if not passages:
            return np.zeros(0)
        pairs = [(question, passage) for passage in passages]
        with self._asking, all_threads():
            found = self._network.predict(
                pairs,
                batch_size=_BATCH_PAIRS,
                activation_fn=nn.Identity(),
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return np.asarray(found, np.float64).reshape(len(passages))


def _read(model: CrossEncoderModel, device: str) -> CrossEncoder:
    import torch
    from sentence_transformers import CrossEncoder

    check_model(model.model, model.revision)
    dtype = getattr(torch, model.dtype)
    found: CrossEncoder = read_weights(
        CrossEncoder, model.model, model.revision, device,
        dtype=dtype, max_length=model.max_tokens,
    )  # fmt: skip
    if found.num_labels != 1:
        raise ValueError(
            f"model {model.model!r} gives {found.num_labels} numbers for a pair; a reranker gives 1"
        )
    positions = getattr(found.config, "max_position_embeddings", None)
    check_positions(model.model, model.max_tokens, positions)
    return found


_HEAD = "score"


@dataclass(frozen=True, kw_only=True)
class RankLlamaModel:
    """RankLLaMA and its arithmetic: everything that decides the scores, without a device."""

    separator: ClassVar[str] = " "
    """Between the title and the text of a passage, as the adapter was trained."""

    base: str
    """A local folder, or a hub id (meta-llama/Llama-2-7b-hf) with its `base_revision`."""
    base_revision: str | None = None
    adapter: str
    """A local folder, or a hub id (castorini/rankllama-v1-7b-lora-passage) with its revision."""
    adapter_revision: str | None = None
    max_tokens: int = 4096
    """Longer pairs are cut here, in the passage, special tokens included."""
    dtype: str = "float32"
    batch_pairs: int = 8

    def __post_init__(self) -> None:
        """Reject impossible settings."""
        for name in ("base", "adapter"):
            if not getattr(self, name):
                raise ValueError(f"{name} is missing: a folder, or a hub id with its revision")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")
        if self.max_tokens < 8 or self.batch_pairs < 1:
            raise ValueError("max_tokens is at least 8 and batch_pairs at least 1")
        for name in ("base", "adapter"):
            _pin(self, name, f"{name}_revision")


class LoadedRankLlama:
    """RankLLaMA in memory."""

    def __init__(self, model: RankLlamaModel, device: str) -> None:
        self._model, self._device = model, device
        self._tokenizer, self._network = _read_llama(model, device)
        self._asking = threading.Lock()

    def logits(self, question: str, passages: Sequence[str]) -> npt.NDArray[np.float64]:
        """The model's output for each passage, float64 (passages,).

        Passages of similar length share a batch; other questions never do.
        """
        import torch

        found = np.zeros(len(passages))
        pairs = [self._tokens(question, passage) for passage in passages]
        order = np.argsort([-len(ids) for ids in pairs], kind="stable")
        size = self._model.batch_pairs
        with self._asking, all_threads(), torch.inference_mode():
            for start in range(0, len(order), size):
                some = order[start : start + size].tolist()
                longest = len(pairs[some[0]])
                ids = torch.zeros((len(some), longest), dtype=torch.long)
                mask = torch.zeros((len(some), longest), dtype=torch.long)
                for row, place in enumerate(some):
                    ids[row, : len(pairs[place])] = torch.tensor(pairs[place])
                    mask[row, : len(pairs[place])] = 1
                found[some] = self._last(ids, mask)
        return found

    def _tokens(self, question: str, passage: str) -> list[int]:
        """The pair as the model card writes it: "query: …" and "document: …"."""
        ids: list[int] = self._tokenizer(
            f"query: {question}",
            f"document: {passage}",
            truncation="only_second",
            max_length=self._model.max_tokens,
        )["input_ids"]
        return ids

    def _last(self, ids: Any, mask: Any) -> npt.NDArray[np.float64]:
        """The head's output on the last token of each row that is no padding."""
        hidden = self._network.model(
            input_ids=ids.to(self._device), attention_mask=mask.to(self._device), use_cache=False
        ).last_hidden_state
        places = mask.sum(1) - 1
        last = hidden[range(len(ids)), places.to(self._device)]
        scores = self._network.score(last).float()[:, 0].cpu().numpy()
        return np.asarray(scores, np.float64)


@once
def _loaded(
    model: CrossEncoderModel | RankLlamaModel, device: str
) -> LoadedCrossEncoder | LoadedRankLlama:
    kind = LoadedRankLlama if isinstance(model, RankLlamaModel) else LoadedCrossEncoder
    return kind(model, device)  # type: ignore[arg-type]


def load_cross_encoder(
    model: CrossEncoderModel | RankLlamaModel, device: str = "cpu", threads: int | None = None
) -> LoadedCrossEncoder | LoadedRankLlama:
    """Return the model in memory, read once per process and device.

    `threads` is how many its products have on a CPU. Raises ValueError in one line for a model
    or adapter that cannot be read or does not give one number for a pair.
    """
    use_threads(threads)
    return _loaded(model, device)


def _read_llama(model: RankLlamaModel, device: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    try:
        from peft import PeftConfig, PeftModel
    except ImportError:
        raise ValueError(
            "cross_encoder: PEFT is not installed; pip install 'srrag[rankllama]'"
        ) from None
    check_device(device)
    for name, revision in (("base", model.base_revision), ("adapter", model.adapter_revision)):
        path = getattr(model, name)
        if revision is None and not Path(path).is_dir():
            raise ValueError(f"{name} {path!r} is no folder here; a hub id needs its revision")
        check_model(path, revision)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {
        "revision": model.base_revision or "main",
        "local_files_only": Path(model.base).is_dir(),
        "trust_remote_code": False,
    }
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model.base, **options)
        network: Any = AutoModelForSequenceClassification.from_pretrained(
            model.base, num_labels=1, dtype=getattr(torch, model.dtype), use_safetensors=True,
            **options,
        )  # fmt: skip
        pinned: dict[str, Any] = {}
        if model.adapter_revision:
            pinned["revision"] = model.adapter_revision
        config = PeftConfig.from_pretrained(model.adapter, **pinned)
        adapted = PeftModel.from_pretrained(network, model.adapter, config=config, **pinned)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        first = (str(error).strip().splitlines() or [repr(error)])[0]
        raise ValueError(f"RankLLaMA {model.base!r} + {model.adapter!r}: {first}") from error
    saved = config.modules_to_save or ()
    if _HEAD not in saved or not (hasattr(network, _HEAD) and hasattr(network, "model")):
        raise ValueError(f"adapter {model.adapter!r} holds no head {_HEAD!r}: it scores nothing")
    check_positions(model.base, model.max_tokens, network.config.max_position_embeddings)
    return tokenizer, adapted.merge_and_unload().to(device).eval()
