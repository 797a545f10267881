"""A tiny chat model with random weights: real guided decoding and real errors, no download.

`python -m tests.vllm.tiny_model FOLDER` writes one that is brief: what ends an object comes first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM

CONTEXT_TOKENS = 2048
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_TEXT = [
    "Cervical manipulation reduced neck pain at twelve weeks compared with sham treatment.",
    "Of 142 patients with an acute lateral ankle sprain, 71 were randomised to a brace.",
    '{"facts": [{"head": "exercise", "relation": "reduces", "tail": "pain", "confidence": 0.8}]}',
    '{"groups": [[1, 2, 3], [4, 5]], "grade": "B", "reason": "a cohort", "insufficient": false}',
]


_BRIEF = ("<|im_end|>", "}", "]", '"', "t")
"""What a brief model prefers, the best first, wherever a schema lets it choose."""


def make_tiny_model(
    folder: Path, *, seed: int = 0, layers: int = 2, context: int = CONTEXT_TOKENS,
    brief: bool = False,
) -> Path:  # fmt: skip
    """Write a Qwen2 of `layers` layers and hidden size 128, with its tokenizer, to the folder.

    A `brief` one has the same logits after every token: the shortest object that a schema allows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = _write_tokenizer(folder, context)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=-(-words // 64) * 64,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=not brief,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = Qwen2ForCausalLM(config).to(torch.float32)
    if brief:
        _make_brief(model, folder)
    model.save_pretrained(folder)
    return folder


@torch.no_grad()
def _make_brief(model: Qwen2ForCausalLM, folder: Path) -> None:
    """Have every token embedded as ones, no layer add to it, and the head prefer _BRIEF."""
    model.model.embed_tokens.weight.fill_(1.0)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    model.lm_head.weight.zero_()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for place, text in enumerate(reversed(_BRIEF), 1):
        model.lm_head.weight[tokenizer.token_to_id(text)] = place / model.config.hidden_size


def _write_tokenizer(folder: Path, context: int) -> int:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT * 4, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": context,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return tokenizer.get_vocab_size()


if __name__ == "__main__":
    print(make_tiny_model(Path(sys.argv[1]), context=16_384, brief=True))
