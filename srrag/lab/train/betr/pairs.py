"""BETR's pairs: sample them from rankings with gold windows, and write them to Parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from srrag.core.ids import content_id
from srrag.storage.atomic_write import commit

PAIRS = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("delta_s", pa.float64(), nullable=False),
        pa.field("grade_pos", pa.string(), nullable=False),
        pa.field("grade_neg", pa.string(), nullable=False),
    ]
)
ORIGIN_KEY = b"srrag.pairs"

UNGRADED = "E"
"""Grade assigned to a window without a grade."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Origin of pairs: |Q| including queries without pairs, the scorer, and the sampling."""

    num_queries: int
    reranker: str
    """Name and revision of the step that gave the scores, as `name@revision`."""
    negatives: int
    depth: int
    seed: int
    questions: Mapping[str, str] = field(default_factory=dict)
    """Text of each question by its id."""


def sample_pairs(
    candidates: Mapping[str, tuple[Sequence[str], npt.NDArray[Any]]],
    gold: Mapping[str, Mapping[str, int]],
    grades: Mapping[str, str],
    *,
    negatives: int = 20,
    seed: int = 42,
) -> pa.Table:
    """Algorithm 1, lines 2 to 7: up to K = 20 other candidates for each gold one, as PAIRS.

    `candidates` holds the windows of each question with their scores; a window is relevant if
    `gold` gives it a relevance above 0. A question needs both kinds to have pairs. The sample
    depends only on the question and the seed. Raises ValueError if there is no pair at all.
    """
    columns: dict[str, list[Any]] = {name: [] for name in PAIRS.names}
    for query_id in sorted(candidates):
        unit_ids, scores = candidates[query_id]
        if not np.isfinite(scores).all():
            raise ValueError(f"question {query_id}: the ranking holds a score that is no number")
        relevant = np.array([gold.get(query_id, {}).get(unit, 0) > 0 for unit in unit_ids], bool)
        others = np.flatnonzero(~relevant)
        draw = np.random.default_rng([seed, int(content_id(query_id)[:15], 16)])
        for positive in np.flatnonzero(relevant):
            size = min(negatives, len(others))
            for negative in np.sort(draw.choice(others, size, replace=False)):
                columns["query_id"].append(query_id)
                columns["delta_s"].append(float(scores[positive]) - float(scores[negative]))
                columns["grade_pos"].append(grades[unit_ids[positive]] or UNGRADED)
                columns["grade_neg"].append(grades[unit_ids[negative]] or UNGRADED)
    if not columns["query_id"]:
        raise ValueError(
            f"none of {len(candidates)} questions has both a gold window and another one among "
            "its candidates"
        )
    return pa.table(columns, schema=PAIRS)


def write_pairs(path: Path, pairs: pa.Table, origin: Origin) -> None:
    """Write the file, with its origin in the schema's metadata."""
    metadata = {ORIGIN_KEY: json.dumps(vars(origin), sort_keys=True).encode()}
    table = pairs.cast(PAIRS).replace_schema_metadata(metadata)
    commit(path, lambda temporary: pq.write_table(table, temporary, compression="ZSTD"))
