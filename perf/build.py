"""`make bench`: what a build costs over encoding its texts alone, with Ray up.

Prints one JSON object. Three things are measured in one run on the same passages: encoding the
windows' texts (sentence and token vectors) alone, once in one process with a thread a core and once
in a process a core; the build on a Ray that is already up; and a second build of the same corpus,
which has to encode nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

SETTLE_S = 15

ENCODE_ALONE = """
import json, sys, time
from srrag.model.embed import load
from srrag.spec import build
texts, encoder, threads = json.load(open(sys.argv[1]))
model = load(build(encoder), "cpu", threads)
model.encode_tokens(texts[:32])
started = time.perf_counter()
model.encode_tokens(texts)
print(time.perf_counter() - started)
"""


class PeakMemory:
    """The largest sum of private memory of this process and its children, sampled."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(interval_s,), daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self, interval_s: float) -> None:
        while not self._stop.wait(interval_s):
            total = 0
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    memory = process.memory_info()
                    total += memory.rss - memory.shared
                except psutil.Error:
                    continue
            self.peak_bytes = max(self.peak_bytes, total)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="../shared/data/bioasq", help="a BEIR folder")
    parser.add_argument("--limit", type=int, default=0, help="only so many passages")
    parser.add_argument("--backend", default="", help="the encoder's backend")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(measure(arguments, Path(scratch))))


def measure(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All figures of one run."""
    import ray

    from srrag.config import factory
    from srrag.config.compose import configure
    from srrag.runner.build import BuildJob
    from srrag.spec import spec
    from srrag.storage.store import Store

    corpus = scratch / "corpus"
    passages = copy_corpus(Path(arguments.corpus), corpus, arguments.limit)
    overrides = ["profile=ray", "corpus=beir", f"corpus.path={corpus}", f"root={scratch / 'root'}"]
    if arguments.backend:
        overrides.append(f"embedder.backend={arguments.backend}")
    config = configure("build", overrides)
    reader = factory.make(config["corpus"], "corpus")
    plan = factory.plan(config, reader)
    ray.init(address="local", num_cpus=4, object_store_memory=256 << 20, include_dashboard=False,
             log_to_driver=False)  # fmt: skip
    time.sleep(SETTLE_S)  # "Ray up": its first idle workers have started
    job = BuildJob(Store(scratch / "root"), plan, factory.runner(config))
    started = time.perf_counter()
    with PeakMemory() as memory:
        first = job.run(reader.scan(), factory.place(config))
    build_s = time.perf_counter() - started
    started = time.perf_counter()
    job.run(reader.scan(), factory.place(config))
    again_s = time.perf_counter() - started
    ray.shutdown()
    windows = first["rows"]["windows"]
    encoder = spec(factory.make(config["embedder"], "embedder"))
    texts = window_texts(Store(scratch / "root"))
    alone = {
        f"{workers}x{threads}": encode_alone(texts, encoder, workers, threads, scratch)
        for workers, threads in ((1, os.cpu_count() or 1), (os.cpu_count() or 1, 1))
    }
    best_s = min(alone.values())
    return {
        "passages": passages,
        "windows": windows,
        "encoder": encoder,
        "encode_alone_s": {name: round(seconds, 1) for name, seconds in alone.items()},
        "build_s": round(build_s, 1),
        "build_over_best_encode": round(build_s / best_s, 3),
        "build_over_encode_in_one_process": round(build_s / next(iter(alone.values())), 3),
        "second_build_s": round(again_s, 2),
        "windows_per_s": round(windows / build_s, 1),
        "peak_memory_gb": round(memory.peak_bytes / 2**30, 2),
        "seconds_per_stage": first["seconds_per_stage"],
    }


def copy_corpus(source: Path, target: Path, limit: int) -> int:
    """Copy (the head of) corpus.jsonl; returns the number of passages."""
    if not (source / "corpus.jsonl").exists():
        raise SystemExit(f"{source}/corpus.jsonl is not there: give --corpus a BEIR folder")
    target.mkdir()
    with (source / "corpus.jsonl").open() as file:
        lines = file.readlines()[: limit or None]
    (target / "corpus.jsonl").write_text("".join(lines))
    return len(lines)


def window_texts(store: Any) -> list[str]:
    """The texts that the build encoded."""
    from srrag.units import Units

    texts: list[str] = Units(store.artifacts("default")["units"]).units["text"].to_pylist()
    return texts


def encode_alone(
    texts: list[str], encoder: Any, workers: int, threads: int, scratch: Path
) -> float:
    """Wall seconds until the slowest of so many processes has encoded its share of the texts."""
    processes = []
    for number in range(workers):
        path = scratch / f"texts-{number}.json"
        path.write_text(json.dumps([texts[number::workers], encoder, threads]))
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", ENCODE_ALONE, str(path)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "HF_HUB_OFFLINE": "1"},
            )
        )
    outputs = [process.communicate()[0] for process in processes]
    return max(float(json.loads(output.strip().splitlines()[-1])) for output in outputs)


if __name__ == "__main__":
    main()
