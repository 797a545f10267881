"""Tiny encoders and question sets in the BEIR layout for the tests of `train_encoder`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from srrag.lab.train.encoder.task import EncoderSettings, EncoderTask, GoldMaterial
from srrag.model.encoder import Encoder
from tests.tiny_models import make_bert
from tests.unit.lab.train.filter_toys import DRUGS

PARTS = ["knee", "hip", "ankle", "elbow", "wrist", "neck", "back", "foot"]


def pooled_bert(folder: Path, seed: int = 0) -> Path:
    """A tiny BERT without dropout whose folder says that it pools by the mean."""
    make_bert(folder, seed=seed)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('_prob": 0.1', '_prob": 0.0'))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules = [{"path": path, "type": f"sentence_transformers.models.{k}"} for path, k in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def write_beir(folder: Path, number: int, first: int = 0) -> Path:
    """A passage a question, which names its drug and its part of the body in other words."""
    corpus, queries, judged = [], [], ["query-id\tcorpus-id\tscore"]
    for n in range(first, first + number):
        drug, part = DRUGS[n % len(DRUGS)], PARTS[n // len(DRUGS) % len(PARTS)]
        text = f"In trial {n} people with a painful {part} were given {drug}."
        corpus.append({"_id": f"d{n}", "text": text})
        queries.append({"_id": f"q{n}", "text": f"Does {drug} relieve the {part} in case {n}?"})
        judged.append(f"q{n}\td{n}\t1")
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n")
    return folder


def toy_material(number: int = 12) -> GoldMaterial:
    """A gold passage and two others for each question."""
    questions = [f"Does {DRUGS[n % 8]} relieve the {PARTS[n // 8]}?" for n in range(number)]
    passages = [f"People with a painful {PARTS[n // 8]} got {DRUGS[n % 8]}." for n in range(number)]
    gold = [[n] for n in range(number)]
    mined = [[(n + 1) % number, (n + 2) % number] for n in range(number)]
    return GoldMaterial(questions, passages, gold, [[*each] for each in gold], mined)


def toy_task(encoder: Path, state: Path, seed: int = 0, **settings: Any) -> EncoderTask:
    """A training on the toy material, of three steps an epoch and a checkpoint after each two."""
    given = toy_material()
    given.write(state / "material.json")
    usual = {"batch": 4, "epochs": 2, "learning_rate": 1e-3, "max_tokens": 32} | settings
    return EncoderTask(
        material=str(state / "material.json"), fingerprint=given.fingerprint,
        base=Encoder(model=str(encoder), max_tokens=64),
        settings=EncoderSettings(**{"checkpoint_steps": 2, **usual}),
        seed=seed, device="cpu", state=str(state),
    )  # fmt: skip
