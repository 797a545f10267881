"""A chat model judges whether a passage holds evidence: p(yes) compares Yes with No.

The prompt follows Supplementary Table 10 of Rethinking RAG in medicine, and the loss is the
cross-entropy of the answer token alone (its section 4.2). All weights are trained, or LoRA updates
through PEFT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from srrag.core.errors import first_line
from srrag.core.spec import file_sha256
from srrag.llm.completion import PromptFile, fenced
from srrag.model.pair_encoder import OTHER, Example, padded
from srrag.model.read_weights import load_transformer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_passage.md")
WEIGHTS = "model.safetensors"
ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
_ADAPTER_NAME = ".default."
"""How PEFT marks the adapter's name in those of its parameters; files go without."""


@dataclass(frozen=True, kw_only=True)
class LoRA:
    """Low-rank updates of every linear layer (Hu et al. 2022); the paper trained all weights."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05


class PairCausal:
    """A causal language model (srrag.model.pair_encoder.PairModel)."""

    def __init__(
        self,
        model: str,
        revision: str | None,
        max_tokens: int,
        device: str,
        *,
        dtype: str = "float32",
        lora: LoRA | None = None,
        checkpointing: bool = False,
    ) -> None:
        """Load model and tokenizer; raises ValueError in one line if either cannot be read."""
        from transformers import AutoTokenizer

        self.max_tokens, self.device, self.base = max_tokens, device, model
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(
                model,
                revision=revision or "main",
                trust_remote_code=False,
                local_files_only=_local(model),
            )
        except (OSError, ValueError) as error:
            raise ValueError(f"train.model={model}: {first_line(error)}") from error
        self.yes, self.no = self._answers()
        self.causal = load_transformer(
            model,
            f"train.model={model}",
            "AutoModelForCausalLM",
            revision=revision or "main",
            dtype=getattr(torch, dtype),
        )
        self.module: nn.Module = self.causal if lora is None else _adapted(self.causal, lora)
        if checkpointing:
            self.causal.gradient_checkpointing_enable({"use_reentrant": False})
        self.module.to(device)

    def examples(self, questions: Sequence[str], passages: Sequence[str]) -> list[Example]:
        """Render and tokenise; a passage is cut where its prompt would be too long."""
        return [self._example(q, p) for q, p in zip(questions, passages, strict=True)]

    def _example(self, question: str, passage: str) -> Example:
        ids = self._tokens(self.render(question, passage))
        if (over := len(ids) - self.max_tokens) > 0:
            found = self.tokenizer(passage, add_special_tokens=False, return_offsets_mapping=True)
            spans = found["offset_mapping"]
            kept = spans[max(0, len(spans) - over - 8)][0] if spans else 0
            ids = self._tokens(self.render(question, passage[:kept]))[-self.max_tokens :]
        return np.asarray(ids, np.int64), np.full(len(ids), OTHER, np.int64)

    def render(self, question: str, passage: str) -> str:
        """The prompt up to where the answer begins, in the model's chat format if it has one."""
        texts = {"question": fenced("question", question), "passage": fenced("passage", passage)}
        user = PROMPT.user(**texts)
        if self.tokenizer.chat_template is None:
            return f"{PROMPT.system()}\n\n{user}\n\nAnswer:"
        said = [{"role": "system", "content": PROMPT.system()}, {"role": "user", "content": user}]
        text: str = self.tokenizer.apply_chat_template(
            said, tokenize=False, add_generation_prompt=True
        )
        return text

    def _tokens(self, text: str) -> list[int]:
        templated = self.tokenizer.chat_template is not None
        ids: list[int] = self.tokenizer(text, add_special_tokens=not templated)["input_ids"]
        return ids

    def _answers(self) -> tuple[int, int]:
        blank = "" if self.tokenizer.chat_template is not None else " "
        yes, no = (
            self.tokenizer(blank + word, add_special_tokens=False)["input_ids"][0]
            for word in ("Yes", "No")
        )
        if yes == no:
            raise ValueError(f"train.model={self.base}: Yes and No begin with the same token")
        return int(yes), int(no)

    def losses(self, examples: Sequence[Example], labels: Tensor) -> Tensor:
        """Cross-entropy of the answer's token over the whole vocabulary."""
        answers = torch.where(labels > 0.5, self.yes, self.no)
        return F.cross_entropy(self._next(examples), answers, reduction="none")

    def logits(self, examples: Sequence[Example]) -> Tensor:
        """Log-odds of Yes against No, float32."""
        found = self._next(examples)
        return found[:, self.yes] - found[:, self.no]

    def _next(self, examples: Sequence[Example]) -> Tensor:
        """Logits of the token after each prompt, float32 (examples, vocabulary)."""
        ids, mask, _ = padded(examples, pad=self.tokenizer.pad_token_id or 0, left=True)
        places = (mask.cumsum(1) - 1).clamp(min=0)
        output = self.module(
            input_ids=ids.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=places.to(self.device),
            logits_to_keep=1,
            use_cache=False,
        )
        found: Tensor = output.logits[:, -1].float()
        return found

    def save(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        """Write the adapter alone if there is one, else the whole model; and the tokenizer."""
        self.tokenizer.save_pretrained(folder)
        tensors = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
        if (configs := getattr(self.module, "peft_config", None)) is None:
            self.causal.config.save_pretrained(folder)
            save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
            return
        configs["default"].save_pretrained(str(folder))
        bare = {name.replace(_ADAPTER_NAME, "."): tensor for name, tensor in tensors.items()}
        save_file(bare, folder / ADAPTER, metadata={"format": "pt"})

    def read_adapter(self, folder: Path) -> None:
        """Load the adapter of a folder written by `save` into the model.

        Raises ValueError if the names in the file differ from the adapter's weights.
        """
        found = load_file(folder / ADAPTER)
        state = {n: p for n, p in self.module.named_parameters() if p.requires_grad}
        if {name.replace(_ADAPTER_NAME, ".") for name in state} != set(found):
            raise ValueError(f"{folder / ADAPTER}: not the adapter of {self.base}")
        for name, parameter in state.items():
            parameter.data.copy_(found[name.replace(_ADAPTER_NAME, ".")])


def base_files(model: str) -> dict[str, str]:
    """The sha256 of a local model's weights, which an adapter requires."""
    paths = sorted(Path(model).glob("*.safetensors")) if _local(model) else []
    return {path.name: file_sha256(path) for path in paths}


def _local(model: str) -> bool:
    return Path(model).is_dir()


def _adapted(causal: PreTrainedModel, lora: LoRA) -> nn.Module:
    try:
        from peft import LoraConfig, TaskType, get_peft_model
    except ImportError:
        raise ValueError("train.lora: PEFT is not installed; pip install 'srrag[train]'") from None
    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules="all-linear",
    )
    adapted: nn.Module = get_peft_model(causal, config)
    # As when only loading: the adapter's weights are float32, whatever the model's are.
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return adapted
