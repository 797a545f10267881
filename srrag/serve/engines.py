"""The engines of a server, shared by its snapshots; a call is cancelled when its client leaves."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, nullcontext
from dataclasses import replace

from srrag.engine.base import Model, Opener, Reply
from srrag.runner.engines import engines_here, engines_of
from srrag.serve.listeners import ClientGone, audience
from srrag.serve.settings import ServeSettings
from srrag.storage.store import Store

_LOOK_S = 0.05
"""Seconds between a call's checks whether a client still waits for it."""


class SharedEngines:
    """Runs engines on an event loop in a thread; starts each at its first call.

    The last snapshot that releases them closes them.
    """

    def __init__(
        self, settings: ServeSettings, openers: Mapping[Model, Opener] | None = None
    ) -> None:
        """Bind the engines that the pipelines use; `openers` replace how some of them start."""
        self._users = 0
        self._running = ExitStack()
        models = engines_of(list(settings.pipelines.values()))
        if any(model.deferred for model in models):
            raise ValueError("engine.folder: a server cannot wait for answers in files")
        at = replace(settings.at, root=Store(settings.root).root)
        engines = engines_here(models, at, exclusive=False, openers=openers, wait=_waited)
        self.clients = self._running.enter_context(engines).clients

    def use(self) -> None:
        """Count one more snapshot as a user."""
        self._users += 1

    def release(self) -> None:
        """Count one user less, and close the engines with the last."""
        self._users -= 1
        if not self._users:
            self._running.close()


def _waited(future: Future[list[Reply]]) -> list[Reply]:
    """Wait while a client waits; else cancel the call and raise ClientGone."""
    present = audience()
    with present.away() if present is not None else nullcontext():
        while not wait([future], _LOOK_S).done:
            if present is not None and not present.wanted():
                future.cancel()
                raise ClientGone("nobody waits for the answer any more")
    return future.result()
