"""Builds over real abstracts that the test endpoint answers: what their tests share."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.engine.log.entry import journal_file, list_log
from srrag.engine.log.journal import read_journal
from srrag.storage.store import Store
from tests.forked import Forked
from tests.gate import run

GRAPH = [f"stages.{name}=null" for name in ("vectors", "dense", "tokens", "units", "sparse")]
GRAPH += ["plan=graph", "stages.windows=null", "stages.communities=null"]
"""Without most of what no model has a part in."""


def write_rehab(shared: Path, file: Path, abstracts: int, passages: int = 0) -> Path:
    """Write whole abstracts, a passage a block, then single passages of others, which are graded.

    So a grade is asked for of the former, facts of all.
    """
    by_abstract: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (shared / "rehab" / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        by_abstract[row["metadata"]["doc"]].append(row)
    several = [rows for rows in by_abstract.values() if len(rows) > 1]
    single = [row for rows in several[abstracts:] for row in rows][:passages]
    documents = [
        {"id": rows[0]["_id"], "text": "\n\n".join(row["text"] for row in rows)}
        for rows in several[:abstracts]
    ] + [{"id": row["_id"], "text": row["text"], "grade": "E"} for row in single]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(document) + "\n" for document in documents), "utf-8")
    return file


def build(root: Path, corpus: Path, url: str, *more: str) -> list[str]:
    """Arguments of a build whose model the endpoint plays."""
    return [
        "build", "corpus=jsonl", f"corpus.path={corpus}", f"root={root}", "engine=http",
        "engine.model=toy", f"engine.base_url={url}", *more,
    ]  # fmt: skip


def start(arguments: Sequence[str], *gate: str) -> Forked:
    """Start the command and go on, held or killed by what tests.gate knows."""
    return Forked(run, [*gate, *arguments])


def ended(process: Forked, within_s: float = 200) -> tuple[int, str]:
    """The exit code of a started command, and its one line of error."""
    _, stderr = process.communicate(timeout=within_s)
    errors = [line for line in stderr.splitlines() if line.startswith("error:")]
    assert "Traceback" not in stderr, stderr[-3000:]
    assert len(errors) == bool(process.returncode), stderr[-3000:]
    return process.returncode, "".join(errors)


def counts(url: str) -> dict[str, Any]:
    """What the endpoint has seen so far."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/counts", timeout=30) as response:
        found: dict[str, Any] = json.load(response)
    return found


def hold(url: str, after: int) -> None:
    """Let the endpoint answer so many calls in all, and hold those that arrive later."""
    address = f"{url.removesuffix('/v1')}/hold/{after}"
    with urllib.request.urlopen(urllib.request.Request(address, method="POST"), timeout=30):
        pass


def release(url: str) -> None:
    """Open the endpoint's gate for good."""
    hold(url, sys.maxsize)


def held(url: str) -> int:
    """How many calls wait at the endpoint's gate."""
    found: int = counts(url)["held"]
    return found


def sends(url: str) -> int:
    """How many calls have arrived at the endpoint."""
    return sum(counts(url)["calls"].values())


def again(url: str) -> int:
    """How many calls arrived beyond the first of their prompt."""
    seen = counts(url)["calls"]
    return sum(seen.values()) - len(seen)


def wait_for(found: Callable[[], bool], process: Forked) -> None:
    """Wait until something is found while the process runs."""
    deadline = time.monotonic() + 150
    while not found():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.03)


def tables(root: Path) -> dict[str, pa.Table]:
    """All that stands in a build by stage: the rows of its parts in order, the files it made."""
    store = Store(root)
    found: dict[str, pa.Table] = {}
    for name, entry in store.read_pointer("default")["stages"].items():
        parts = sorted(entry.get("parts", []))
        for part in parts:
            found[f"{name}/{part}"] = store.read_part(name, entry["fingerprint"], part)
        if not parts:
            folder = store.stage_dir(name, entry["fingerprint"])
            found |= {f"{name}/{p.name}": pq.read_table(p) for p in folder.glob("*.parquet")}
    return found


def assert_equal_tables(root: Path, other: Path) -> None:
    """Row by row, by name of the part or file."""
    left, right = tables(root), tables(other)
    assert left.keys() == right.keys()
    for name, table in left.items():
        assert table.equals(right[name]), name


def logged(root: Path) -> Counter[bytes]:
    """How often each key stands in the log of a root, sealed or not."""
    folder = root / "completions"
    keys: Counter[bytes] = Counter()
    listing = list_log(folder)
    for file in listing.files():
        keys.update(pq.read_table(folder / file, columns=["key"])["key"].to_pylist())
    for name in listing.journals:
        keys.update(entry.key for entry in read_journal(folder / journal_file(name))[0])
    return keys


def state(folder: Path) -> str:
    """A hash of the names, sizes and times of all files below: whether anything was written."""
    files = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(folder.rglob("*"))]
    return hashlib.sha256(repr(files).encode()).hexdigest()
