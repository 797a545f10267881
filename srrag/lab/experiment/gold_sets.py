"""Questions with gold passages for training an encoder: a BEIR folder, or a benchmark's quotes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from srrag.algo.classification import FOLDS, question_fold
from srrag.core.errors import UsageError, reading
from srrag.core.formats import read_queries
from srrag.core.hits import unpack_hits
from srrag.core.pipeline import Pipeline
from srrag.core.spec import content_id
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.corpus.record import json_lines
from srrag.lab.experiment.rankings import read_windows
from srrag.lab.measure.references import Qrels, read_gold, read_qrels, resource_path, window_qrels
from srrag.lab.train.betr.pair_file import Origin, sample_pairs, write_pairs
from srrag.rerank.betr import RerankBETR, scorer
from srrag.retrieve.questions import question_table
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say
from srrag.storage.store import Store


def betr_of(pipeline: Pipeline) -> RerankBETR | None:
    """Return the first BETR of the ranking, None if it has none."""
    return next((step for step in pipeline.rank if isinstance(step, RerankBETR)), None)


def default_out(pipeline: Pipeline | None, root: str | None, pairs: str | None) -> Path:
    """Return the folder that a pipeline's BETR reads, else one in the root or beside the pairs."""
    step = None if pipeline is None else betr_of(pipeline)
    if step is not None:
        return Path(step.model or step.own).parent
    return Path(str(pairs)).parent / "betr" if root is None else Path(root) / "jobs" / "fit_betr"


def uncalibrated(pipeline: Pipeline) -> Pipeline:
    """Cut the ranking after the reranker whose scores BETR will calibrate.

    That is the reranker inside BETR if the ranking has one (betr.json is not read), else the last.
    """
    step = betr_of(pipeline)
    if step is None:
        return pipeline.ranking()
    try:
        return Pipeline(rank=(*pipeline.rank[: pipeline.rank.index(step)], step.reranker))
    except ValueError as error:
        raise UsageError(f"pipeline: up to the reranker of BETR: {error}") from error


def make_pairs(
    bench: Mapping[str, Any],
    bound: PipelineRun,
    at: Place,
    path: Path,
    *,
    depth: int,
    negatives: int,
    seed: int,
) -> Path:
    """Rank the benchmark's questions, and sample pairs from the first `depth` windows of each.

    `bound` is an uncalibrated pipeline at a build.
    """
    if bench["kind"] != "gold":
        raise UsageError(f"bench.kind={bench['kind']}: pairs need gold windows (bench.kind=gold)")
    units = Units(bound.store.artifacts(bound.build)["units"])
    questions, gold = read_windows(resource_path(bench["path"]), bench.get("split"), units)
    asked = question_table(row for row in questions if row["query_id"] in gold)
    table = bound.run(asked, at)
    unit_ids, scores, offsets = unpack_hits(table["hits"])
    found = unit_ids.to_pylist()
    candidates = {}
    for row, query_id in enumerate(table["query_id"].to_pylist()):
        best = slice(offsets[row], min(offsets[row + 1], offsets[row] + depth))
        candidates[query_id] = (found[best], scores[best])
    names = sorted({name for ids, _ in candidates.values() for name in ids})
    grades = dict(zip(names, units.take(names, ("grade",))["grade"].to_pylist(), strict=True))
    sampling = {"negatives": negatives, "seed": seed}
    pairs = sample_pairs(candidates, gold, grades, **sampling)
    origin = Origin(
        num_queries=len(gold),
        reranker=scorer(bound.pipeline.rank[-1]),
        depth=depth,
        questions={row["query_id"]: row["text"] for row in asked.to_pylist()},
        **sampling,
    )
    write_pairs(path, pairs, origin)
    say(f"{pairs.num_rows:,} pairs of {len(gold):,} questions → {path}")
    return path


_MAX_LINE_BYTES = 50_000_000


@dataclass(frozen=True, kw_only=True)
class GoldSource:
    """Where questions with gold passages come from; `key` names the settings in errors."""

    data: str | None
    """A BEIR folder, or a file of questions with gold quotes, as `srrag make_benchmark` writes."""
    root: str | None = None
    """With a file: the artifact folder whose windows hold the quotes."""
    build: str = "default"
    split: str = "test"
    """With a folder: which file of `qrels`."""
    passages: int = 0
    """With a number, so many passages at most: all gold that figures need, then gold to learn from,
    one more a question at a time, then others by the hash of their text."""
    key: str = "train"


@dataclass(frozen=True)
class GoldSet:
    """Questions, passages, and by question the places of its gold with their grades, above 0."""

    questions: list[str]
    passages: list[str]
    gold: list[dict[int, int]]

    def __len__(self) -> int:
        """The number of questions."""
        return len(self.questions)

    def of_folds(self, folds: Sequence[int]) -> GoldSet:
        """The questions of these folds (srrag.algo.classification), with all passages."""
        rows = [n for n, text in enumerate(self.questions) if question_fold(text) in folds]
        return GoldSet(
            [self.questions[n] for n in rows], self.passages, [self.gold[n] for n in rows]
        )


def check_folds(folds: object, key: str) -> tuple[int, ...]:
    """Return the folds of a setting; raises UsageError unless they are different and known."""
    if not isinstance(folds, list) or not set(folds) <= set(range(FOLDS)):
        raise UsageError(f"{key}={folds}: a list of folds, 0 to {FOLDS - 1}")
    if not folds or len(set(folds)) < len(folds):
        raise UsageError(f"{key}={folds}: different folds, at least one")
    return tuple(folds)


def read_gold_set(source: GoldSource, held: Sequence[int], learned: Sequence[int] = ()) -> GoldSet:
    """Read the questions of two sets of folds, one to measure on, and one to learn from.

    Raises UsageError that names key, file or line.
    """
    if source.data is None:
        raise UsageError(f"{source.key}.data=PATH is missing: a BEIR folder or a benchmark's file")
    path = resource_path(source.data)
    if path.is_dir():
        questions, texts, qrels = _beir(source, path)
    elif path.is_file():
        questions, texts, qrels = _benchmark(source, path)
    else:
        raise UsageError(f"{source.key}.data={source.data}: there is no such folder or file")
    gold = {
        query: {name: grade for name, grade in qrels.get(query, {}).items() if grade > 0}
        for query, text in questions.items()
        if question_fold(text) in (*held, *learned)
    }
    measured = {query for query in gold if question_fold(questions[query]) in held}
    kept = _kept(texts, gold, measured, source.passages)
    place = {name: number for number, name in enumerate(kept)}
    found = {
        query: {place[name]: grade for name, grade in each.items() if name in place}
        for query, each in gold.items()
    }
    named = [query for query, each in found.items() if each]
    if not named:
        raise UsageError(f"{source.key}.data={source.data}: no question has a gold passage")
    return GoldSet(
        [questions[query] for query in named],
        [texts[name] for name in kept],
        [found[query] for query in named],
    )


def _beir(source: GoldSource, path: Path) -> tuple[dict[str, str], dict[str, str], Qrels]:
    files = [path / "corpus.jsonl", path / "queries.jsonl", path / "qrels" / f"{source.split}.tsv"]
    for file in files:
        if not file.is_file():
            said = f"{source.key}.data={source.data}"
            raise UsageError(f"{said}: {file.relative_to(path)} is missing")
    corpus, queries, judged = files
    texts: dict[str, str] = {}
    for line in json_lines(corpus, _MAX_LINE_BYTES):
        text = line.record.get("text")
        if line.reason or "_id" not in line.record or not isinstance(text, str):
            raise UsageError(f"{corpus}:{line.number}: not a passage with _id and text")
        if text.strip():
            texts[str(line.record["_id"])] = text
    with reading(judged):
        qrels = read_qrels(judged)
    return {row["query_id"]: str(row["text"]) for row in read_queries(queries)}, texts, qrels


def _benchmark(source: GoldSource, path: Path) -> tuple[dict[str, str], dict[str, str], Qrels]:
    if source.root is None:
        raise UsageError(f"{source.key}.root= is missing: {path.name} quotes a build's windows")
    units = Units(Store(source.root).artifacts(source.build)["units"])
    with reading(path):
        rows = list(read_gold(path))
        qrels = window_qrels(rows, units)
    columns = (units.units[name].to_pylist() for name in ("unit_id", "text"))
    return {row["query_id"]: row["text"] for row in rows}, dict(zip(*columns, strict=True)), qrels


def _kept(texts: Mapping[str, str], gold: Qrels, measured: set[str], most: int) -> list[str]:
    """The passages to use, in the order of the corpus."""
    if not most or len(texts) <= most:
        return list(texts)
    needed = dict.fromkeys(name for query in measured for name in gold[query])
    lists = [
        sorted(each, key=lambda name: (-each[name], name))
        for query, each in gold.items()
        if query not in measured
    ]
    useful = [name for rank in zip_longest(*lists) for name in rank if name is not None]
    others = sorted(texts, key=lambda name: content_id(texts[name]))
    order = [name for name in dict.fromkeys([*needed, *useful, *others]) if name in texts]
    chosen = set(order[: max(most, len(needed))])
    return [name for name in texts if name in chosen]
