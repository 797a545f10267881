"""Bind the artifacts of a finished build to a place, so that steps can open there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from srrag.core.errors import UsageError
from srrag.core.spec import fingerprint
from srrag.core.step import OPTIONAL, Place
from srrag.storage.manifest import check_files
from srrag.storage.mirror import store_at
from srrag.storage.store import Store


def build_version(store: Store, build: str) -> str:
    """Hash a build's content: the fingerprints of its stages and the hashes of their files."""
    return fingerprint(store.contents(build))


def bind(store: Store, build: str, needs: Iterable[str], at: Place) -> Place:
    """Return the place with the artifacts of a build, whose needed stages are all there.

    On a local disk it checks the files of these stages now, on an object store once a step opens
    them. Raises ValueError that names a stage which is not built, or a damaged file; for the graph
    with the command that makes it.
    """
    artifacts = store.artifacts(build)
    for stage in dict.fromkeys(needs):
        if stage not in artifacts:
            if stage in OPTIONAL:
                continue
            if stage == "graph":
                raise UsageError(without_graph(store, build))
            raise ValueError(f"pipeline: stage {stage!r} is not in build {build!r}")
        if store_at(store.root) is None:
            check_files(artifacts[stage])
    return replace(at, artifacts=artifacts, root=store.root)


def without_graph(store: Store, build: str) -> str:
    """What to say of a build without a graph: the command that made it makes the graph as well."""
    command = re.sub(r" plan=\S+", "", store.read_pointer(build)["command"])
    return f"build {build!r} of root={store} has no graph; `{command} plan=graph` adds it"
