"""The objects of a root, and the folder of this machine that stands for it.

An object store has no rename, and a put is all or nothing: what is put last, a receipt, a manifest
or the pointer, is what makes the rest count. A copy here is current if it is as long as the object
and not older; its time is the object's, so that one clock, the store's, tells.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pyarrow import fs

MANIFEST = "manifest.json"
"""What makes the files of a folder count."""

Wanted = Callable[[str], bool]
"""Chooses files by their names."""

_IN_HAND = re.compile(r"(^|/)\.([^/]*\.[0-9a-f]{32}(/|$)|spill-|attempt-|trash-|lock)")
"""Names of files and folders that are not yet, or never, part of what stands."""

_ATTEMPTS = 8
_CONNECT_S, _REQUEST_S = 10.0, 30.0
_THREADS = 16
_BLOCK_BYTES = 8 << 20
_MAX_COPY_BYTES = 5 << 30
"""Of an object that a store copies by itself."""


@dataclass(frozen=True)
class ObjectStore:
    """The objects below `base` of a file system, and the folder here that stands for them."""

    folder: Path
    address: str
    fs: fs.FileSystem
    base: str

    def key(self, path: Path) -> str:
        """The object of a path."""
        return "/".join((self.base, *path.relative_to(self.folder).parts))

    def shown(self, path: Path) -> str:
        """The address of a path."""
        return "/".join((self.address.partition("?")[0], *path.relative_to(self.folder).parts))

    def put(self, path: Path, source: Path) -> None:
        """Put a file; raises OSError if what then stands there is not all of it."""
        key, size = self.key(path), source.stat().st_size
        with source.open("rb") as file:
            # Read before the object is opened: to close one is to complete it.
            block = file.read(_BLOCK_BYTES)
            try:
                with self.fs.open_output_stream(key) as sink:
                    while block:
                        sink.write(block)
                        block = file.read(_BLOCK_BYTES)
            except BaseException:
                if size > _BLOCK_BYTES:  # the stream was closed: what it had by then may stand
                    with suppress(OSError):
                        self.fs.delete_file(key)
                raise
        info = self.fs.get_file_info(key)
        if info.type != fs.FileType.File or info.size != size:
            raise OSError(f"{self.shown(path)}: {info.size} of {size} bytes stand on the store")
        _set_time(source, info)

    def fetch(self, path: Path) -> None:
        """Have a file here, unless it is and is current."""
        info = self.fs.get_file_info(self.key(path))
        if info.type != fs.FileType.File:
            path.unlink(missing_ok=True)
            raise FileNotFoundError(f"{self.shown(path)} is not there")
        self._bring(path, info)

    def pull(
        self, folder: Path, wanted: Wanted, *, recursive: bool = True, alone: bool = True
    ) -> set[str]:
        """Have the files of a folder here whose names are wanted; `alone`: no others of these."""
        # Looked at first: what a process puts there and then here from now on is not to go.
        here = list(folder.rglob("*") if recursive else folder.glob("*")) if alone else []
        found = self.listed(folder, recursive)
        kept = {name: found[name] for name in found if _is_meant(name, wanted)}
        for path in here:
            name = path.relative_to(folder).as_posix()
            if name not in found and _is_meant(name, wanted) and path.is_file():
                path.unlink(missing_ok=True)
        with ThreadPoolExecutor(_THREADS) as pool:
            for last in (False, True):  # a manifest here says that all it names is here
                names = [
                    name
                    for name, info in kept.items()
                    if (name.rpartition("/")[2] == MANIFEST) == last
                    and not _is_current(folder / name, info)
                ]
                for each in [pool.submit(self._bring, folder / n, kept[n]) for n in names]:
                    with suppress(FileNotFoundError):  # removed since it was listed
                        each.result()
        return {name for name in found if "/" not in name}

    def join(self, folder: Path, since: float) -> None:
        """Put what is new or changed here, and bring what is on the store alone."""
        found = self.listed(folder, recursive=True)
        here = {
            path.relative_to(folder).as_posix(): path
            for path in folder.rglob("*")
            if path.is_file()
        }
        with ThreadPoolExecutor(_THREADS) as pool:
            jobs = [
                pool.submit(self.put, path, path)
                for name, path in here.items()
                if not _IN_HAND.search(name)
                and path.stat().st_ctime >= since
                and (name not in found or path.stat().st_mtime_ns != found[name].mtime_ns)
            ]
            missing = [name for name in found.keys() - here.keys() if _is_meant(name, bool)]
            jobs += [pool.submit(self._bring, folder / name, found[name]) for name in missing]
            for each in jobs:
                each.result()

    def copy_folder(self, source: Path, target: Path) -> None:
        """Put the files of a folder that is here under another name: copies, where they stand."""
        self.remove_folder(target)
        stand = self.listed(source, recursive=True)
        names = sorted(
            path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()
        )
        for name in sorted(names, key=lambda name: name == MANIFEST):
            if name in stand and stand[name].size <= _MAX_COPY_BYTES:
                self.fs.copy_file(self.key(source / name), self.key(target / name))
                _set_time(source / name, self.fs.get_file_info(self.key(target / name)))
            else:
                self.put(target / name, source / name)

    def found(self, folder: Path, name: str, depth: int) -> list[Path]:
        """Objects of a name so many levels below a folder: one listing a level, not of all."""
        folders = [folder]
        for _ in range(depth):
            folders = [each / below for each in folders for below in self._folders(each)]
        paths = [each / name for each in sorted(folders)]
        infos = self.fs.get_file_info([self.key(path) for path in paths])
        pairs = zip(paths, infos, strict=True)
        return [path for path, info in pairs if info.type == fs.FileType.File]

    def _folders(self, folder: Path) -> list[str]:
        selector = fs.FileSelector(self.key(folder), allow_not_found=True)
        infos = self.fs.get_file_info(selector)
        return [info.base_name for info in infos if info.type == fs.FileType.Directory]

    def read(self, path: Path) -> bytes:
        """The content of an object; raises FileNotFoundError."""
        if not self.has(path):
            raise FileNotFoundError(f"{self.shown(path)} is not there")
        with self.fs.open_input_stream(self.key(path)) as source:
            return bytes(source.read())

    def listed(self, folder: Path, recursive: bool) -> dict[str, fs.FileInfo]:
        """The objects below a folder by their paths relative to it."""
        key = self.key(folder)
        selector = fs.FileSelector(key, allow_not_found=True, recursive=recursive)
        found = {
            info.path[len(key) + 1 :]: info
            for info in self.fs.get_file_info(selector)
            if info.type == fs.FileType.File
        }
        if outside := [name for name in found if {"", ".", ".."} & {*name.split("/")}]:
            raise ValueError(f"{self.shown(folder)}: {outside[0]!r} is no name of a file")
        return found

    def check_bucket(self) -> None:
        """Raise ValueError if there is no bucket: what is in it would just not be found."""
        bucket = self.base.partition("/")[0]
        if self.fs.get_file_info(bucket).type == fs.FileType.NotFound:
            raise ValueError(f"{self.address}: there is no bucket {bucket!r}")

    def has(self, path: Path) -> bool:
        """Whether an object is there."""
        return bool(self.fs.get_file_info(self.key(path)).type == fs.FileType.File)

    def is_current(self, path: Path) -> bool:
        """Whether a file is here as it is on the store."""
        info = self.fs.get_file_info(self.key(path))
        return bool(info.type == fs.FileType.File and _is_current(path, info))

    def remove(self, path: Path) -> None:
        """Remove an object, if it is there."""
        with suppress(FileNotFoundError):
            self.fs.delete_file(self.key(path))

    def remove_folder(self, folder: Path) -> None:
        """Remove all objects below a folder, its manifest first: it makes them count."""
        self.remove(folder / MANIFEST)
        with suppress(FileNotFoundError):
            self.fs.delete_dir(self.key(folder))

    def _bring(self, path: Path, info: fs.FileInfo) -> None:
        if _is_current(path, info):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with self.fs.open_input_stream(self.key(path)) as source, temporary.open("wb") as sink:
                shutil.copyfileobj(source, sink, _BLOCK_BYTES)
            if temporary.stat().st_size != info.size:
                raise OSError(f"{self.shown(path)}: it changed, or came only in part")
            _set_time(temporary, info)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _is_meant(name: str, wanted: Wanted) -> bool:
    """Whether a file is wanted, and not of work that is in hand."""
    return not _IN_HAND.search(name) and wanted(name.rpartition("/")[2])


def _is_current(path: Path, info: fs.FileInfo) -> bool:
    try:
        state = path.stat()
    except FileNotFoundError:
        return False
    return state.st_size == info.size and state.st_mtime_ns >= (info.mtime_ns or 0)


def _set_time(path: Path, info: fs.FileInfo) -> None:
    os.utime(path, ns=(info.mtime_ns, info.mtime_ns))


@lru_cache(maxsize=64)
def store_of(folder: Path) -> ObjectStore:
    """The objects that a folder stands for, by the address in its name."""
    address = unquote(folder.name)
    system, base = _system(address)
    return ObjectStore(folder, address, system, base.rstrip("/"))


def _system(address: str) -> tuple[fs.FileSystem, str]:
    """The file system of an address and the path in it.

    Only S3 lets retries be set here; the others keep those of their own clients.
    """
    parts = urlsplit(address)
    if parts.scheme != "s3":
        system, base = fs.FileSystem.from_uri(address)
        return system, str(base)
    options: dict[str, Any] = {**_endpoint(), **dict(parse_qsl(parts.query))}
    system = fs.S3FileSystem(
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        allow_delayed_open=True,  # small objects are one request instead of three
        background_writes=False,
        **options,
    )
    return system, f"{parts.netloc}{parts.path}"


def _endpoint() -> dict[str, str]:
    """Where S3 is, if the environment says so, as for other clients of it."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not url:
        return {}
    parts = urlsplit(url)
    return {"endpoint_override": parts.netloc, "scheme": parts.scheme}
