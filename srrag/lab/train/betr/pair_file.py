"""Read a file of pairs as arrays, one row group at a time; errors name the row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.algo.betr import GRADES, Pairs, make_pairs
from srrag.core.schema import non_null
from srrag.core.spec import content_id
from srrag.storage.atomic_write import commit

PAIRS = non_null("query_id delta_s:double grade_pos grade_neg")
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
        for positive in np.flatnonzero(relevant).tolist():
            size = min(negatives, len(others))
            for negative in np.sort(draw.choice(others, size, replace=False)).tolist():
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


_BATCH_ROWS = 1 << 18
_GRADES = pa.array(list(GRADES), pa.string())


@dataclass(frozen=True)
class PairFile:
    """The pairs of a file, 13 bytes each, with their query ids and origin."""

    path: str
    pairs: Pairs
    query_ids: list[str]
    """The id of each query number."""
    fingerprint: str
    """Hash of all rows in order, independent of the file's layout."""
    origin: Origin | None
    """Origin of the pairs; None if the file does not state it."""


def read_pairs(path: str | Path) -> PairFile:
    """Read and check a file of PAIRS in one pass; memory holds the arrays and one batch.

    Raises ValueError in one line that names the file, the row (from 1) and the column. It rejects a
    file that is not Parquet, a missing column, a null, an unknown grade, a score that is not
    finite, an empty file, and pairs that never compare two grades.
    """
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a Parquet file of pairs ({error})") from error
    missing = [name for name in PAIRS.names if name not in file.schema_arrow.names]
    if missing:
        have = ", ".join(file.schema_arrow.names)
        raise ValueError(f"{path}: column {missing[0]!r} is missing; the file has {have}")
    num_rows = file.metadata.num_rows
    if num_rows == 0:
        raise ValueError(f"{path}: there is no pair")
    delta_s = np.empty(num_rows, np.float64)
    ranks = np.empty((2, num_rows), np.uint8)
    query = np.empty(num_rows, np.int32)
    numbers: dict[str, int] = {}
    start = 0
    for batch in file.iter_batches(_BATCH_ROWS, columns=PAIRS.names):
        rows, where = slice(start, start + batch.num_rows), (str(path), start)
        delta_s[rows] = _scores(batch["delta_s"], where)
        ranks[0, rows] = _ranks(batch["grade_pos"], "grade_pos", where)
        ranks[1, rows] = _ranks(batch["grade_neg"], "grade_neg", where)
        query[rows] = _queries(batch["query_id"], numbers, where)
        start += batch.num_rows
    if (ranks[0] == ranks[1]).all():
        found = ", ".join(GRADES[rank] for rank in np.unique(ranks))
        raise ValueError(
            f"{path}: no pair has two different grades (grades: {found}); there is no bias to learn"
        )
    pairs, query_ids = make_pairs(delta_s, ranks[0], ranks[1], query), list(numbers)
    return PairFile(str(path), pairs, query_ids, _fingerprint(pairs, query_ids), _origin(file))


def _scores(column: pa.Array, where: tuple[str, int]) -> npt.NDArray[np.float64]:
    _check_nulls(column, "delta_s", where)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise ValueError(f"{where[0]}: column 'delta_s' holds {column.type}, not numbers")
    scores: npt.NDArray[np.float64] = np.asarray(column, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        raise ValueError(_at(where, wrong[0], "delta_s", f"{scores[wrong[0]]} is no finite number"))
    return scores


def _ranks(column: pa.Array, name: str, where: tuple[str, int]) -> npt.NDArray[np.uint8]:
    _check_nulls(column, name, where)
    text = _as_text(column, name, where)
    ranks = pc.index_in(text, value_set=_GRADES)
    if ranks.null_count:
        row = int(np.flatnonzero(np.asarray(pc.is_null(ranks)))[0])
        grade = f"{text[row].as_py()!r} is not one of {', '.join(GRADES)}"
        raise ValueError(_at(where, row, name, grade))
    return np.asarray(ranks, dtype=np.uint8)


def _queries(
    column: pa.Array, numbers: dict[str, int], where: tuple[str, int]
) -> npt.NDArray[np.int32]:
    _check_nulls(column, "query_id", where)
    coded = _as_text(column, "query_id", where).dictionary_encode()
    here = [numbers.setdefault(name, len(numbers)) for name in coded.dictionary.to_pylist()]
    found: npt.NDArray[np.int32] = np.asarray(here, np.int32)[np.asarray(coded.indices)]
    return found


def _as_text(column: pa.Array, name: str, where: tuple[str, int]) -> pa.Array:
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"{where[0]}: column {name!r} holds {column.type}, not text") from None


def _check_nulls(column: pa.Array, name: str, where: tuple[str, int]) -> None:
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(pc.is_null(column)))[0])
        raise ValueError(_at(where, row, name, "there is no value"))


def _at(where: tuple[str, int], row: int, name: str, what: str) -> str:
    return f"{where[0]}: row {where[1] + int(row) + 1}, column {name!r}: {what}"


def _fingerprint(pairs: Pairs, query_ids: list[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for column in (pairs.delta_s, pairs.cell, pairs.query):
        digest.update(column.data)
    digest.update(json.dumps(query_ids).encode())
    return digest.hexdigest()


def _origin(file: pq.ParquetFile) -> Origin | None:
    raw: dict[bytes, bytes] = file.schema_arrow.metadata or {}
    if ORIGIN_KEY not in raw:
        return None
    stated: dict[str, Any] = json.loads(raw[ORIGIN_KEY])
    return Origin(**stated)
