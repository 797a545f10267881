"""Identifies a model in a local folder by its content, without reading all of the weights."""

from __future__ import annotations

import hashlib
import json
import math
import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (".json", ".jinja", ".model", ".txt")
"""Files besides the weights that affect answers: configuration, tokenizer, chat template."""

MAX_HEADER_BYTES = 100_000_000
SAMPLE_BYTES = 4096


def folder_revision(folder: Path) -> str:
    """Hash the content of a model's folder: "sha256:" and 20 hex digits.

    The hash covers small files whole, and of weights the header (names, types, shapes) and the
    middle 4 KiB of every tensor, which change when the model is trained further in place. Raises
    ValueError for a folder without safetensors weights.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder of a model")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    if not any(path.suffix == ".safetensors" for path in files):
        raise ValueError(f"{folder}: no weights as safetensors; other formats are not loaded")
    digest = hashlib.sha256()
    for path in files:
        if path.suffix in SUFFIXES:
            pieces: Iterator[bytes] = iter([path.read_bytes()])
        elif path.suffix == ".safetensors":
            pieces = _weights(path)
        else:
            continue
        digest.update(f"\0{path.name}\0{path.stat().st_size}\0".encode())
        for piece in pieces:
            digest.update(piece)
    return f"sha256:{digest.hexdigest()[:20]}"


def _weights(path: Path) -> Iterator[bytes]:
    """Yield the header of a safetensors file, then the middle of each tensor in file order."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        try:
            if size > MAX_HEADER_BYTES:
                raise ValueError(f"a header of {size} bytes")
            header = file.read(size)
            spans = sorted(
                tuple(map(int, entry["data_offsets"]))
                for name, entry in json.loads(header).items()
                if name != "__metadata__"
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: not a safetensors file: {error}") from error
        yield header
        for start, end in spans:
            middle = max(start, math.floor((start + end - SAMPLE_BYTES) / 2))
            file.seek(8 + size + middle)
            yield file.read(min(SAMPLE_BYTES, end - middle))


_watched: set[int] = set()


class EndsWithParent(str):
    """A string in vLLM's configuration that ties each process that unpickles it to this one.

    vLLM's processes end when their parent closes them. A killed parent closes nothing, and they
    would occupy the GPU for ever. Each process unpickles the configuration before it loads a model.
    """

    parent: int

    def __new__(cls, parent: int | None = None) -> EndsWithParent:
        """Make the same string for every parent: it is part of vLLM's compilation cache key."""
        word = super().__new__(cls, "ends with parent")
        word.parent = os.getpid() if parent is None else parent
        return word

    def __reduce__(self) -> tuple[object, ...]:
        """Unpickle by calling `tied`."""
        return tied, (self.parent,)


def tied(parent: int) -> EndsWithParent:
    """Start a watch that ends this process as soon as the parent ends; one watch per parent."""
    if parent != os.getpid() and parent not in _watched:
        _watched.add(parent)
        try:
            process = os.pidfd_open(parent)
        except ProcessLookupError:
            os._exit(1)
        threading.Thread(target=_exit_after, args=(process,), daemon=True).start()
    return EndsWithParent(parent)


def _exit_after(process: int) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    os._exit(1)
