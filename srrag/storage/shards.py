"""The files of an index in shards: their names, and the record of which parts each shard holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from srrag.storage.atomic_write import commit_json, read_json

SHARDS = "shards.json"


@dataclass(frozen=True)
class IndexShard:
    """A shard: its number, the names of its parts, about how many rows, and what it made."""

    number: int
    parts: tuple[str, ...]
    rows: int
    made: Mapping[str, Any] = field(default_factory=dict)

    def file(self, name: str) -> str:
        """The name of one of its files: "ids.arrow" is "ids-00003.arrow" of shard 3."""
        return shard_file(name, self.number)


def shard_file(name: str, number: int) -> str:
    """The name of a shard's file; the number comes before the ending."""
    stem, dot, ending = name.partition(".")
    return f"{stem}-{number:05d}{dot}{ending}"


def read_shards(folder: Path) -> list[IndexShard]:
    """Read what `write_shards` wrote, by number."""
    found = read_json(folder / SHARDS)["shards"]
    return [IndexShard(**{**each, "parts": tuple(each["parts"])}) for each in found]


def write_shards(shards: Sequence[IndexShard], out: Path) -> None:
    """Record the shards of a version."""
    ordered = sorted(shards, key=lambda each: each.number)
    commit_json(out / SHARDS, {"shards": [asdict(shard) for shard in ordered]})


def stems(folder: Path, name: str) -> list[str]:
    """The stems of the files of this name, by shard."""
    return [shard.file(name) for shard in read_shards(folder)]
