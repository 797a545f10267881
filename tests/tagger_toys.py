"""Tiny encoders with random weights, and abstracts whose labels the words give away."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch

from srrag.lab.train.tagger.task import TaggerSettings, TaggerTask, fingerprint_of, read_abstracts
from srrag.model.encoder import model_path

WORDS = {
    "P": ["adults", "children", "runners", "patients with asthma", "older women"],
    "I": ["aspirin", "yoga", "insulin", "a knee brace", "supervised exercise"],
    "O": ["pain", "blood pressure", "quality of life", "grip strength", "sleep"],
}
FRAMES = [
    "We gave I to P and measured O .",
    "O improved in P who received I .",
    "The effect of I on O was studied in P for a year .",
    "This trial was small .",
]


def abstract(number: int, draw: random.Random, sentences: int = 4) -> dict[str, Any]:
    """An EBM-NLP record of some drawn sentences."""
    tokens: list[str] = []
    spans = []
    for frame in draw.choices(FRAMES, k=sentences):
        for word in frame.split(" "):
            filled = draw.choice(WORDS[word]) if word in WORDS else word
            start, first = len(" ".join(tokens)) + (1 if tokens else 0), len(tokens)
            tokens += filled.split(" ")
            if word in WORDS:
                place = {"start": start, "end": start + len(filled), "tok": [first, len(tokens)]}
                spans.append({"label": word, **place, "text": filled})
    return {"id": str(number), "text": " ".join(tokens), "spans": spans}


def write_abstracts(path: Path, count: int, seed: int = 0, first: int = 0) -> Path:
    """A file of so many abstracts, a line each."""
    draw = random.Random(seed)
    rows = [abstract(first + number, draw) for number in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def tiny_encoder(folder: Path, kind: str = "bert") -> Path:
    """An encoder of 2 layers and 32 dimensions over the packaged model's vocabulary."""
    from transformers import AutoModel, BertConfig, DistilBertConfig

    torch.manual_seed(0)
    if kind == "bert":
        config: Any = BertConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=512, hidden_dropout_prob=0.1,
        )  # fmt: skip
    else:
        config = DistilBertConfig(dim=32, n_layers=2, n_heads=2, hidden_dim=64)
    AutoModel.from_config(config).save_pretrained(folder)
    shutil.copyfile(Path(model_path("minilm")) / "tokenizer.json", folder / "tokenizer.json")
    return folder


def toy_plain(folder: Path) -> dict[str, Any]:
    """A training of two epochs on 40 abstracts, as plain values."""
    crowd = write_abstracts(folder / "crowd.jsonl", 40)
    settings = TaggerSettings(
        encoder=str(tiny_encoder(folder / "encoder")), epochs=2, learning_rate=0.01,
        head_factor=1, batch_tokens=512, window=32, context=4, frozen_layers=0,
    )  # fmt: skip
    return TaggerTask(
        crowd=str(crowd), fingerprint=fingerprint_of(read_abstracts(crowd)), settings=settings,
        share=0.2, split_seed=0, seed=0, device="cpu", state=str(folder / "state"),
    ).plain()  # fmt: skip
