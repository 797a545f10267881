"""An encoder that reads question and passage together and compares their averaged words.

The encoder reads question and passage as one text, so every word attends to the other side. Then,
as in a bi-encoder, the words of each side are averaged to unit vectors u and v; the log-odds of yes
are s · Σ w_i·u_i·v_i + b. With w = 1 training starts from a cosine, for which a sentence encoder
was trained, instead of from a new map of its first token, and needs far fewer pairs
(docs/training.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from srrag.core.errors import first_line
from srrag.model.network import is_plain_bert, pack
from srrag.model.read_weights import CONFIG, TOKENIZER, encoder_folder, load_trainable

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Ints = npt.NDArray[np.int64]
Example = tuple[Ints, Ints]
"""Token ids of a question with a passage, and the side of each token: QUESTION, PASSAGE, OTHER."""

OTHER, QUESTION, PASSAGE = -1, 0, 1


class PairModel(Protocol):
    """A torch module with its tokenizer; `module` holds what can be trained."""

    module: nn.Module

    def examples(self, questions: Sequence[str], passages: Sequence[str]) -> list[Example]:
        """Tokenise pairs, each cut to the model's limit."""
        ...

    def losses(self, examples: Sequence[Example], labels: Tensor) -> Tensor:
        """The loss of each example, (examples,); labels are 1 for yes and 0 for no."""
        ...

    def logits(self, examples: Sequence[Example]) -> Tensor:
        """The log-odds of yes of each example, (examples,)."""
        ...

    def save(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        """Write what `load_pair_model` reads, with these weights of the trainable parameters."""
        ...


def scores(
    examples: Sequence[Example],
    logits: Callable[[Sequence[Example]], Tensor],
    batch_tokens: int,
) -> npt.NDArray[np.float64]:
    """The log-odds of each example, float64 (examples,), without padding.

    Examples of equal length share a pass, so a score does not depend on its neighbours.
    """
    found = np.zeros(len(examples))
    for rows in equal_lengths([len(ids) for ids, _ in examples], batch_tokens):
        with torch.inference_mode():
            found[rows] = logits([examples[row] for row in rows]).double().cpu().numpy()
    return found


def equal_lengths(lengths: Sequence[int], batch_tokens: int) -> list[Ints]:
    """Rows in groups of one length, at most `batch_tokens` tokens (or one row) each."""
    sizes = np.asarray(lengths, np.int64)
    order = np.argsort(sizes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1) if len(order) else []
    return [
        group[start : start + step]
        for group in groups
        for step in [max(1, batch_tokens // max(1, int(sizes[group[0]])))]
        for start in range(0, len(group), step)
    ]


def padded(
    examples: Sequence[Example], pad: int, left: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and sides of examples as one batch, each int64 (examples, longest)."""
    shape = len(examples), max(len(ids) for ids, _ in examples)
    ids = np.full(shape, pad, np.int64)
    mask, sides = np.zeros(shape, np.int64), np.full(shape, OTHER, np.int64)
    for row, (some, side) in enumerate(examples):
        place = slice(shape[1] - len(some), None) if left else slice(0, len(some))
        ids[row, place], mask[row, place], sides[row, place] = some, 1, side
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(sides)


SCALE, START_BIAS = 10.0, -6.0
"""s, and b at the start: a cosine of .6 is even odds."""
HEAD = ("head.weight", "head.bias")
WEIGHTS = "model.safetensors"


class PairTokenizer:
    """Tokenises pairs; the longer side is cut first."""

    def __init__(self, path: Path, max_tokens: int) -> None:
        """Read tokenizer.json; raises ValueError that names it."""
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise ValueError(f"{path}: {first_line(error)}") from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens, strategy="longest_first")

    def examples(self, questions: Sequence[str], passages: Sequence[str]) -> list[Example]:
        """Ids with special tokens, and the side of each."""
        found = self._tokenizer.encode_batch(list(zip(questions, passages, strict=True)))
        return [
            (
                np.asarray(one.ids, np.int64),
                np.array([OTHER if s is None else s for s in one.sequence_ids], np.int64),
            )
            for one in found
        ]


def compare(hidden: Tensor, sides: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Log-odds (pairs,) from token embeddings (pairs, L, dim) and sides (pairs, L)."""

    def unit(side: int) -> Tensor:
        mask = (sides == side).to(hidden.dtype).unsqueeze(2)
        return F.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1), dim=1)

    return SCALE * (unit(QUESTION) * unit(PASSAGE)) @ weight + bias


class PairEncoder:
    """The encoder while it is trained (srrag.model.pair_encoder.PairModel)."""

    def __init__(self, model: str, revision: str | None, max_tokens: int, device: str) -> None:
        """Load an encoder of transformers, in float32; ValueError if it cannot be read."""
        self.folder = encoder_folder(model, revision)
        self.tokenizer = PairTokenizer(self.folder / TOKENIZER, max_tokens)
        encoder = load_trainable(self.folder, model, "train.model", max_tokens)
        self.module: nn.Module = _WithHead(encoder).to(device)
        self.device = device

    def examples(self, questions: Sequence[str], passages: Sequence[str]) -> list[Example]:
        """Tokenise pairs."""
        return self.tokenizer.examples(questions, passages)

    def losses(self, examples: Sequence[Example], labels: Tensor) -> Tensor:
        """Binary cross-entropy."""
        logits = self.logits(examples)
        return F.binary_cross_entropy_with_logits(logits, labels, reduction="none")

    def logits(self, examples: Sequence[Example]) -> Tensor:
        """Log-odds of yes, float32."""
        found: Tensor = self.module(*(part.to(self.device) for part in padded(examples, pad=0)))
        return found

    def save(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        """Write config, tokenizer and all weights; those given replace the module's own."""
        tensors = {**dict(self.module.state_dict()), **weights}
        bare = {n.removeprefix("encoder."): t.cpu().contiguous() for n, t in tensors.items()}
        save_file(bare, folder / WEIGHTS)
        for name in (CONFIG, TOKENIZER):
            (folder / name).write_bytes((self.folder / name).read_bytes())


class _WithHead(nn.Module):
    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.config.hidden_size, 1)
        nn.init.ones_(self.head.weight)
        nn.init.constant_(self.head.bias, START_BIAS)

    def forward(self, ids: Tensor, mask: Tensor, sides: Tensor) -> Tensor:
        hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        # Outside of autocast's bfloat16, in which a cosine has two digits.
        with torch.autocast(hidden.device.type, enabled=False):
            return compare(hidden.float(), sides, self.head.weight[0], self.head.bias)


def read_pair_encoder(
    folder: Path, max_tokens: int, device: str
) -> tuple[PairTokenizer, Callable[[Sequence[Example]], Tensor]]:
    """The tokenizer and the log-odds of examples of one length, from a folder written by `save`.

    A plain BERT is read as it is: importing transformers takes longer than loading it.
    """
    tensors = load_file(folder / WEIGHTS, device=device)
    weight, bias = (tensors.pop(name) for name in HEAD)
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    hidden = _forward(folder, config, tensors, device)

    def logits(examples: Sequence[Example]) -> Tensor:
        sides = torch.from_numpy(np.stack([side for _, side in examples])).to(device)
        return compare(hidden([ids for ids, _ in examples]).float(), sides, weight[0], bias)

    return PairTokenizer(folder / TOKENIZER, max_tokens), logits


def _forward(
    folder: Path, config: dict[str, Any], tensors: Mapping[str, Tensor], device: str
) -> Callable[[Sequence[np.ndarray]], Tensor]:
    """Token embeddings (texts, L, dim) of the ids of texts of one length."""
    if is_plain_bert(config):
        forward = pack(tensors, config, "torch", device)
        return lambda ids: forward(ids)[0]
    encoder: nn.Module = _bare(folder)
    encoder.load_state_dict(dict(tensors))
    encoder.to(device).eval()

    def run(ids: Sequence[np.ndarray]) -> Tensor:
        batch = torch.from_numpy(np.stack(ids)).to(device)
        hidden: Tensor = encoder(input_ids=batch).last_hidden_state
        return hidden

    return run


def _bare(folder: Path) -> PreTrainedModel:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    made: PreTrainedModel = AutoModel.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
    return made
