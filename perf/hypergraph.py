"""Time and memory of a hypergraph as large as the paper's: its arrays, and a walk.

    python -m perf.hypergraph [entities] [evidence]

The graph is generated: entities by Zipf's law, as many pieces of evidence as the paper's, labels by
chance. Encoding is no part of it. Seconds are of one thread's own time.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np
from scipy import sparse

from srrag.algo.hypergraph import expected_visits, topic_weights, topics_of, transition

LABELS = 15
NAMED = 3.9
"""Entities that a piece names, on average; with GENERAL chosen for the paper's numbers."""
GENERAL = 0.9
"""Share of pieces with the first label, and of the others with the second, and so on."""
QUESTIONS = 50
LINKED = 6
STEPS = 3


def main(entities: int = 251_849, evidence: int = 806_495) -> dict[str, float]:
    """Generate, build, walk; returns counts, seconds, milliseconds and GiB."""
    draw = np.random.default_rng(0)
    size = draw.poisson(NAMED - 1, evidence) + 1
    owner = np.repeat(np.arange(evidence), size)
    rank = np.minimum(entities * draw.random(len(owner)) ** 1.6, entities - 1).astype(np.int64)
    pairs = np.unique(np.stack([owner, rank]), axis=1)
    label = np.minimum(draw.geometric(GENERAL, evidence) - 1, LABELS - 1)
    started = time.process_time()
    topics = topics_of(pairs[0], pairs[1], label)
    weights = topic_weights(topics, pairs[0], pairs[1], (evidence, entities))
    to_topic, to_entity = transition(sparse.csr_array(weights.T.tocsr())), transition(weights)
    built = time.process_time() - started
    took = []
    for _ in range(QUESTIONS):
        seeds = np.zeros(entities, np.float32)
        seeds[rank[draw.integers(0, len(rank), LINKED)]] = 1.0
        started = time.process_time()
        expected_visits(to_topic, to_entity, seeds, STEPS)
        took.append(1000 * (time.process_time() - started))
    return {
        "entities": entities,
        "topics": len(topics),
        "evidence": evidence,
        "weights": int(weights.nnz),
        "build_seconds": round(built, 2),
        "walk_ms_median": round(float(np.median(took)), 2),
        "walk_ms_p95": round(float(np.quantile(took, 0.95)), 2),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*map(int, sys.argv[1:]))) + "\n")
