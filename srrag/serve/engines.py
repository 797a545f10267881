"""The engines of a server, shared by its snapshots; a call is cancelled when its client leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from srrag.engine.base import Model
from srrag.engine.call import Call, Opener, Reply
from srrag.engine.client import EngineLoop, LogClient
from srrag.engine.dispatcher import Dispatchers
from srrag.llm.completion import Client, Engine
from srrag.runner.engines import check_prices, engines_of, log_folder
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
        self._closed = False
        self.clients: dict[Engine, Client] = {}
        models = engines_of(list(settings.pipelines.values()))
        if not models:
            return
        at = replace(settings.at, root=Store(settings.root).root)
        check_prices(models, at)
        if any(model.deferred for model in models):
            raise ValueError("engine.folder: a server cannot wait for answers in files")
        folder = log_folder(at)
        chosen = {model: (openers or {}).get(model, model.open) for model in models}
        self._hosts = Dispatchers(chosen, folder, at.account)
        self._loop = EngineLoop("the server has closed its engines")
        for model in models:
            send = partial(self._send, model)
            self.clients[model] = LogClient(model, folder, send, at.account.fresh)

    def use(self) -> None:
        """Count one more snapshot as a user."""
        self._users += 1

    def release(self) -> None:
        """Count one user less, and close the engines with the last."""
        self._users -= 1
        if self._users or self._closed:
            return
        self._closed = True
        if self.clients:
            self._loop.run(self._hosts.close())
            self._loop.close()

    def _send(self, model: Model, calls: Sequence[Call]) -> list[Reply]:
        """Send calls from a worker's thread, in its context, so that its listeners get drafts."""
        while True:
            try:
                return _waited(self._loop.submit(self._hosts.complete(model, calls)))
            except CancelledError:
                # It had joined an equal call of another request, which was cancelled: send again.
                continue


def _waited(future: Future[list[Reply]]) -> list[Reply]:
    """Wait while a client waits; else cancel the call and raise ClientGone."""
    present = audience()
    with present.away() if present is not None else nullcontext():
        while not wait([future], _LOOK_S).done:
            if present is not None and not present.wanted():
                future.cancel()
                raise ClientGone("nobody waits for the answer any more")
    return future.result()
