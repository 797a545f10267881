"""`python -m perf.back_ends`: LanceDB and Qdrant's local mode beside this package's own indexes.

Windows, vectors and grades are drawn (perf.drawn_corpus). Each engine is a process of its own and
builds vectors and words of the same parts; then 100 questions go to each, one by one, over all
grades and over grade C alone: vectors about the same topics, and ten words each. `@10` and `@100`
are the recall of exact search; for words, the share of what the first engine found. All is in CPU
seconds of the process, threads included; `open_s` is what opening and the first two questions cost.
Qdrant's local mode keeps whole collections in memory and warns above 20,000 points.

`--root R --questions FILE` (JSON lines with `text`) instead tells how much of what our words' index
finds first LanceDB's finds, over the windows of a root. The last line on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from perf.drawn_corpus import (
    WINDOWS_PER_DOCUMENT,
    DrawnDocuments,
    DrawnVectors,
    DrawnWindows,
    about,
    centres,
    words_of,
    zipf,
)
from srrag.grades import counted_as
from srrag.ids import content_id
from srrag.index.parts import unpack_vectors
from srrag.index.words import analyzer
from srrag.ranking import Ranked, rank
from srrag.step import Place
from srrag.storage.atomic_write import write_parquet
from srrag.storage.read_live import read_live

ENGINES = ("own", "own lists", "lancedb", "lancedb lists", "qdrant")
QUESTIONS, DEPTH, DOCUMENTS_A_PART = 100, 100, 500
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
Search = Callable[[Any, int, Sequence[str]], Ranked]


def draw(folder: Path, windows: int) -> None:
    """Write the parts of windows and vectors."""
    documents = windows // WINDOWS_PER_DOCUMENT
    for number, start in enumerate(range(0, documents, DOCUMENTS_A_PART)):
        names = [str(n) for n in range(start, min(start + DOCUMENTS_A_PART, documents))]
        raw = pa.table(
            {"raw_id": [content_id(n) for n in names], "source": names, "source_id": names}
        )
        cut = DrawnWindows().open(Place())(DrawnDocuments().open(Place())(raw))
        made = {"windows": cut, "vectors": DrawnVectors(tokens=1).open(Place())(cut)}
        for name, table in made.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            write_parquet(table, folder / name / f"part-{number:05d}.parquet")


def inputs_of(folder: Path) -> dict[str, list[Path]]:
    """The parts by relation."""
    return {name: sorted((folder / name).glob("*.parquet")) for name in ("windows", "vectors")}


def asked() -> tuple[np.ndarray, list[str]]:
    """Vectors and texts of the questions."""
    drawn = np.random.default_rng(11)
    return about(drawn, centres(), QUESTIONS), words_of(zipf(drawn, (QUESTIONS, 10), least=50))


def cpu_seconds() -> float:
    """What this process has used, user and system, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def build(engine: str, parts: Path, out: Path) -> dict[str, float]:
    """Build both indexes; CPU seconds of each."""
    if engine == "qdrant":
        return build_qdrant(parts, out)
    dense, sparse = steps(engine)
    seconds = {}
    for name, step in (("dense", dense), ("sparse", sparse)):
        (out / name).mkdir(parents=True)
        started = cpu_seconds()
        step.build(inputs_of(parts), out / name, Place(threads=1))
        seconds[name] = cpu_seconds() - started
    return seconds


def steps(engine: str) -> tuple[Any, Any]:
    """The builds of an engine of this package."""
    from srrag.index.dense import BuildDenseIndex
    from srrag.index.lance import BuildLanceDense, BuildLanceSparse
    from srrag.index.sparse import BuildSparseIndex

    flat = 256 if engine.endswith("lists") else 10**9
    if engine.startswith("lancedb"):
        return BuildLanceDense(flat_rows=flat), BuildLanceSparse()
    return BuildDenseIndex(flat_rows=flat), BuildSparseIndex()


def searches(engine: str, out: Path) -> tuple[Search, Search]:
    """The searches of an engine: by a vector, and by a text."""
    if engine == "qdrant":
        return open_qdrant(out)
    from srrag.index.opened import open_dense, open_sparse

    dense, sparse = open_dense(out / "dense"), open_sparse(out / "sparse")

    def by_vector(vector: np.ndarray, k: int, grades: Sequence[str]) -> Ranked:
        return dense.search(vector[None], k, grades)[0]

    def by_words(text: str, k: int, grades: Sequence[str]) -> Ranked:
        return sparse.search([text], k, grades)[0]

    return by_vector, by_words


@functools.cache
def _term(term: str) -> int:
    return int(content_id(term)[:7], 16)


def build_qdrant(parts: Path, out: Path) -> dict[str, float]:
    """One collection of both kinds of vectors; BM25's length norm is in a term's value."""
    models = importlib.import_module("qdrant_client.models")
    client = importlib.import_module("qdrant_client").QdrantClient(path=str(out))
    started = cpu_seconds()
    client.create_collection(
        "windows",
        vectors_config={"dense": models.VectorParams(size=384, distance=models.Distance.DOT)},
        sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    read, number = analyzer(), 0
    paths = inputs_of(parts)
    tables = zip(
        read_live(paths["windows"], ("unit_id", "text", "grade")),
        read_live(paths["vectors"], ("vector",)),
        strict=True,
    )
    for windows, vectors in tables:
        points = []
        matrix = unpack_vectors(vectors["vector"])
        for row, vector in zip(windows.to_pylist(), matrix, strict=True):
            counts = Counter(read.analyze(row["text"]))
            norm = 1.2 * (0.25 + 0.75 * sum(counts.values()) / 60)  # all texts have 60 words
            values = {_term(t): n * 2.2 / (n + norm) for t, n in counts.items()}
            words = models.SparseVector(indices=list(values), values=list(values.values()))
            points.append(models.PointStruct(
                id=number, vector={"dense": vector.tolist(), "words": words},
                payload={"unit_id": row["unit_id"], "grade": row["grade"] or "E"},
            ))  # fmt: skip
            number += 1
        client.upsert("windows", points)
    client.close()
    return {"both": cpu_seconds() - started}


def open_qdrant(out: Path) -> tuple[Search, Search]:
    """Open the collection, which reads it whole."""
    models = importlib.import_module("qdrant_client.models")
    client = importlib.import_module("qdrant_client").QdrantClient(path=str(out))
    read = analyzer()

    def search(query: Any, using: str, k: int, grades: Sequence[str]) -> Ranked:
        kept = models.FieldCondition(key="grade", match=models.MatchAny(any=list(grades)))
        found = client.query_points(
            "windows", query=query, using=using, limit=k,
            query_filter=models.Filter(must=[kept]) if grades else None,
        ).points  # fmt: skip
        ids = pa.array([point.payload["unit_id"] for point in found], pa.string())
        return rank(ids, np.array([point.score for point in found], np.float32), k)

    def by_vector(vector: np.ndarray, k: int, grades: Sequence[str]) -> Ranked:
        return search(vector.tolist(), "dense", k, grades)

    def by_words(text: str, k: int, grades: Sequence[str]) -> Ranked:
        terms = list(dict.fromkeys(map(_term, read.analyze(text))))
        query = models.SparseVector(indices=terms, values=[1.0] * len(terms))
        return search(query, "words", k, grades)

    return by_vector, by_words


def truth(parts: Path, grades: Sequence[str]) -> list[list[str]]:
    """The exact nearest windows of each question."""
    queries, paths = asked()[0], inputs_of(parts)
    ids, scores = [], []
    tables = zip(
        read_live(paths["windows"], ("unit_id", "grade")),
        read_live(paths["vectors"], ("unit_id", "vector")),
        strict=True,
    )
    for windows, vectors in tables:
        kept = np.isin(counted_as(windows["grade"]).to_numpy(), grades or list("ABCDE"))
        ids += vectors["unit_id"].filter(pa.array(kept)).to_pylist()
        scores.append(queries @ unpack_vectors(vectors["vector"])[kept].T)
    names = pa.array(ids)
    return [rank(names, row, DEPTH)[0].to_pylist() for row in np.concatenate(scores, axis=1)]


def ask(engine: str, out: Path) -> dict[str, Any]:
    """CPU seconds to open, p50 of a question in CPU ms, and what was found."""
    started = cpu_seconds()
    by_vector, by_words = searches(engine, out)
    vectors, texts = asked()
    by_vector(vectors[0], DEPTH, ()), by_words(texts[0], DEPTH, ())
    found: dict[str, Any] = {"open_s": round(cpu_seconds() - started, 2)}
    for name, search, questions in (("dense", by_vector, vectors), ("sparse", by_words, texts)):
        for grades in ((), ("C",)):
            each, hits = [], []
            for question in questions:
                before = time.process_time()
                hits.append(search(question, DEPTH, grades)[0].to_pylist())
                each.append(time.process_time() - before)
            key = name + "".join(f" {grade}" for grade in grades)
            found[f"{key} ms"] = round(1000 * float(np.median(each)), 2)
            found[f"{key} hits"] = hits
    return found


def shared(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]], k: int) -> float:
    """The mean share of the first k that are among the wanted first k."""
    pairs = [(set(a[:k]), set(b[:k])) for a, b in zip(found, wanted, strict=True) if b]
    return round(float(np.mean([len(a & b) / len(b) for a, b in pairs])), 3)


def agreement(root: Path, questions: Path, scratch: Path) -> dict[str, float]:
    """The share of what our words' index finds first that LanceDB's finds over a root."""
    from srrag.index.opened import open_sparse
    from srrag.storage.store import Store

    store = Store(root)
    stages = store.read_pointer("default")["stages"]
    inputs = {
        name: [store.part_path(name, stages[name]["fingerprint"], part)
               for part in sorted(stages[name]["parts"])]
        for name in ("windows", "documents")
    }  # fmt: skip
    with questions.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    found = []
    for engine in ("own", "lancedb"):
        out = scratch / engine
        out.mkdir()
        dataclasses.replace(steps(engine)[1], titles="documents").build(inputs, out, Place())
        hits = open_sparse(out).search(texts, DEPTH)
        found.append([ids.to_pylist() for ids, _ in hits])
    ours, theirs = found
    return {f"@{k}": shared(theirs, ours, k) for k in (10, DEPTH)}


def apart(what: str, engine: str, scratch: Path) -> dict[str, Any]:
    """Build or ask in a process of its own."""
    command = [sys.executable, "-m", "perf.back_ends", "--what", what, "--engine", engine]
    done = subprocess.run(
        [*command, "--scratch", str(scratch)],
        stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, **ONE_THREAD},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{engine}: {what} failed: its messages stand above")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def compared(windows: int, engines: Sequence[str], scratch: Path) -> dict[str, Any]:
    """All engines over one corpus."""
    parts = scratch / "parts"
    draw(parts, windows)
    result: dict[str, Any] = {"windows": windows}
    wanted = {"dense": truth(parts, ()), "dense C": truth(parts, ("C",))}
    for engine in engines:
        made = apart("build", engine, scratch)
        found = apart("ask", engine, scratch)
        told = {**made, "open_s": found["open_s"]}
        for key in ("dense", "dense C", "sparse", "sparse C"):
            hits = found[f"{key} hits"]
            wanted.setdefault(key, hits)  # of words: what the first engine found
            told[key] = {"ms": found[f"{key} ms"], "@10": shared(hits, wanted[key], 10),
                         "@100": shared(hits, wanted[key], 100)}  # fmt: skip
        result[engine] = told
        print(engine, json.dumps(told), file=sys.stderr)
    return result


def one(what: str, engine: str, scratch: Path) -> dict[str, Any]:
    """What a process of its own does."""
    out = scratch / engine.replace(" ", "-")
    if what == "ask":
        return ask(engine, out)
    seconds = build(engine, scratch / "parts", out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    built = {f"{name} build s": round(value, 1) for name, value in seconds.items()}
    return {**built, "MB": round(size / 1e6, 1), "peak GB": round(peak / 2**20, 2)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=20_000)
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=ENGINES)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--what", choices=("build", "ask"), help=argparse.SUPPRESS)
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what:
        print(json.dumps(one(options.what, options.engine, options.scratch)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        if options.root:
            print(json.dumps(agreement(options.root, options.questions, Path(scratch))))
            return
        print(json.dumps(compared(options.windows, options.engines, Path(scratch))))


if __name__ == "__main__":
    main()
