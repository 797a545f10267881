"""The objects of a root on an object store, and their local mirror.

An object store has no rename, but each put is atomic: the file that is put last (a receipt, a
manifest or the pointer) makes the others valid. A local copy is current if it has the object's size
and is not older. It gets the object's time, so only the store's clock matters.
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
"""The file that makes the files of a folder valid."""

Wanted = Callable[[str], bool]
"""Selects files by their names."""

_IN_HAND = re.compile(r"(^|/)\.([^/]*\.[0-9a-f]{32}(/|$)|spill-|attempt-|trash-|lock)")
"""Names of temporary files and folders, which are never uploaded or downloaded in bulk."""

_ATTEMPTS = 8
_CONNECT_S, _REQUEST_S = 10.0, 30.0
_THREADS = 16
_BLOCK_BYTES = 8 << 20
_MAX_COPY_BYTES = 5 << 30
"""Largest object that a store can copy internally."""


@dataclass(frozen=True)
class ObjectStore:
    """The objects below `base` of a file system, and `folder`, their local mirror."""

    folder: Path
    address: str
    fs: fs.FileSystem
    base: str

    def key(self, path: Path) -> str:
        """The object's key for a path inside the mirror."""
        return "/".join((self.base, *path.relative_to(self.folder).parts))

    def shown(self, path: Path) -> str:
        """The address of a path inside the mirror."""
        return "/".join((self.address.partition("?")[0], *path.relative_to(self.folder).parts))

    def put(self, path: Path, source: Path) -> None:
        """Upload a file; raises OSError if the store does not then hold all of it."""
        key, size = self.key(path), source.stat().st_size
        with source.open("rb") as file:
            # Read before opening the object, since closing an object completes it.
            block = file.read(_BLOCK_BYTES)
            try:
                with self.fs.open_output_stream(key) as sink:
                    while block:
                        sink.write(block)
                        block = file.read(_BLOCK_BYTES)
            except BaseException:
                if size > _BLOCK_BYTES:  # closing the stream may have stored a partial object
                    with suppress(OSError):
                        self.fs.delete_file(key)
                raise
        info = self.fs.get_file_info(key)
        if info.type != fs.FileType.File or info.size != size:
            raise OSError(f"{self.shown(path)}: {info.size} of {size} bytes stand on the store")
        _set_time(source, info)

    def fetch(self, path: Path) -> None:
        """Download a file, unless its copy is current; raises FileNotFoundError if it is gone."""
        info = self.fs.get_file_info(self.key(path))
        if info.type != fs.FileType.File:
            path.unlink(missing_ok=True)
            raise FileNotFoundError(f"{self.shown(path)} is not there")
        self._bring(path, info)

    def pull(
        self, folder: Path, wanted: Wanted, *, recursive: bool = True, alone: bool = True
    ) -> set[str]:
        """Download the wanted files of a folder, and return the names directly in it.

        With `alone`, delete wanted local files that the store lacks.
        """
        # List local files first, so that files which another process adds from now on are kept.
        here = list(folder.rglob("*") if recursive else folder.glob("*")) if alone else []
        found = self.listed(folder, recursive)
        kept = {name: found[name] for name in found if _is_meant(name, wanted)}
        for path in here:
            name = path.relative_to(folder).as_posix()
            if name not in found and _is_meant(name, wanted) and path.is_file():
                path.unlink(missing_ok=True)
        with ThreadPoolExecutor(_THREADS) as pool:
            for last in (False, True):  # the manifest comes last: it vouches for the others
                names = [
                    name
                    for name, info in kept.items()
                    if (name.rpartition("/")[2] == MANIFEST) == last
                    and not _is_current(folder / name, info)
                ]
                for each in [pool.submit(self._bring, folder / n, kept[n]) for n in names]:
                    with suppress(FileNotFoundError):  # removed since the listing
                        each.result()
        return {name for name in found if "/" not in name}

    def join(self, folder: Path, since: float) -> None:
        """Upload new or changed local files, and download those that only the store has."""
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
        """Store a local folder under another name; the store copies the objects that it has."""
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
        """Find objects with this name `depth` levels below a folder, without a full listing."""
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
        """Read an object; raises FileNotFoundError."""
        if not self.has(path):
            raise FileNotFoundError(f"{self.shown(path)} is not there")
        with self.fs.open_input_stream(self.key(path)) as source:
            return bytes(source.read())

    def listed(self, folder: Path, recursive: bool) -> dict[str, fs.FileInfo]:
        """The objects below a folder by relative path; raises ValueError for an unsafe name."""
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
        """Raise ValueError if the bucket does not exist; its objects would merely seem missing."""
        bucket = self.base.partition("/")[0]
        if self.fs.get_file_info(bucket).type == fs.FileType.NotFound:
            raise ValueError(f"{self.address}: there is no bucket {bucket!r}")

    def has(self, path: Path) -> bool:
        """Whether an object exists."""
        return bool(self.fs.get_file_info(self.key(path)).type == fs.FileType.File)

    def is_current(self, path: Path) -> bool:
        """Whether the local copy of a file is current."""
        info = self.fs.get_file_info(self.key(path))
        return bool(info.type == fs.FileType.File and _is_current(path, info))

    def remove(self, path: Path) -> None:
        """Remove an object, if it exists."""
        with suppress(FileNotFoundError):
            self.fs.delete_file(self.key(path))

    def remove_folder(self, folder: Path) -> None:
        """Remove all objects below a folder, first the manifest, which makes them valid."""
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
    """Whether a file is wanted and not temporary."""
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
    """Open the object store of a mirror, whose folder name encodes the address."""
    address = unquote(folder.name)
    system, base = _system(address)
    return ObjectStore(folder, address, system, base.rstrip("/"))


def _system(address: str) -> tuple[fs.FileSystem, str]:
    """Open the file system of an address; returns it with the path inside it.

    Retries and timeouts can be set only for S3; other stores use their clients' defaults.
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
    """The S3 endpoint from the environment variables that other S3 clients read too."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not url:
        return {}
    parts = urlsplit(url)
    return {"endpoint_override": parts.netloc, "scheme": parts.scheme}
