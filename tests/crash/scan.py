"""What stands in a root, read by none of the code that writes or proves it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tantivy

_RANDOM = re.compile(r"[0-9a-f]{32}")
_TIMED = (".json", ".jsonl")


def held(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what they stand for where they are packed."""
    data = path.read_bytes()
    yield data
    yield data.lower()
    if path.suffix == ".parquet":
        for column in pq.ParquetFile(path).read().to_pylist():
            yield from _values(column)
    if path.suffix == ".arrow":
        yield from _values(pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist())
    if path.suffix == ".html":
        for found in re.finditer(rb">([A-Za-z0-9+/=]{16,})<", data):
            yield zlib.decompress(base64.b64decode(found[1]), -zlib.MAX_WBITS).lower()


def _values(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _values(each)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each)
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.lower().encode()


def traces(root: Path, told: dict[str, list[str]]) -> list[str]:
    """Files that hold a word, an id or a vector that has to be gone; indexes that find a word."""
    wanted = [word.encode() for word in (*told["words"], *told["ids"])]
    wanted += [bytes.fromhex(each) for each in told["bytes"]]
    found = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        if path.suffix == ".parquet" and path.read_bytes()[-4:] != b"PAR1":
            found.append(f"{name}: half a table")
        elif any(each in data for data in held(path) for each in wanted):
            found.append(name)
        if path.name == "meta.json" and any(_finds(path.parent, word) for word in told["words"]):
            found.append(f"{name}: its index finds a word")
    return found


def _finds(folder: Path, word: str) -> bool:
    from srrag.index.words import analyzer

    index = tantivy.Index.open(str(folder))
    index.register_tokenizer("srrag_english", analyzer())
    index.reload()
    return bool(index.searcher().search(index.parse_query(word, ["text"]), 10).hits)


def state(root: Path) -> dict[str, str]:
    """Every file by its name, with the hash of its content where no time and no draw is in it.

    Tantivy draws the names of its files, the log those of its parts; of each folder of either the
    number counts, and of the log the rows.
    """
    found: dict[str, str] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        if name.startswith("completions/") or path.name == ".lock" or path.suffix == ".lock":
            continue
        if "/index/" in name and path.name != "meta.json":
            name = f"{path.parent.relative_to(root)}/*{path.suffix}"
            found[name] = str(int(found.get(name, "0")) + 1)
            continue
        drawn = path.suffix in _TIMED
        found[_RANDOM.sub("*", name) if name.startswith("jobs") else name] = (
            "" if drawn else hashlib.sha256(path.read_bytes()).hexdigest()
        )
    found["answers"] = json.dumps(sorted(_answers(root / "completions")))
    hidden = (path.name for path in root.rglob(".*") if not path.name.endswith(".lock"))
    found["hidden"] = str(sorted(hidden))
    return found


def _answers(folder: Path) -> Iterator[str]:
    for path in folder.glob("*-*.parquet"):
        for row in pq.read_table(path).to_pylist():
            yield f"{row['key'].hex()} {row['text']} {row['fault']}"
    for path in folder.glob("journal-*.jsonl"):
        yield from path.read_text("utf-8").splitlines()
