"""An edition: every pipeline of a server, opened on one version of its build."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from srrag.answer.streaming import uncited_of
from srrag.completion import EngineStopped, Usage, one_line, tallied
from srrag.index.units import Units, open_units
from srrag.model.embed import load
from srrag.model.encoder import Encoder, Role
from srrag.retrieve.questions import question_table
from srrag.runner.engines import engines_here, engines_of
from srrag.runner.local import LocalRunner
from srrag.runner.pipeline_run import PipelineRun
from srrag.serve.batcher import Ticket
from srrag.serve.faults import RequestFault, late
from srrag.serve.heard import Abandoned, Audience, Hear, aloud
from srrag.serve.settings import Settings
from srrag.spec import fingerprint
from srrag.step import Function, Place, within
from srrag.store import Store

ENGINE_RETRY_S = 5.0
WARM_UP = "Does exercise reduce pain?"


@dataclass(frozen=True)
class Asked:
    """What a request wants of a pipeline: a row of QUESTIONS, or texts to encode."""

    row: Mapping[str, Any]
    hear: Hear | None = None
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Found:
    """A row that came out of a pipeline, and what making it took."""

    row: dict[str, Any]
    version: str
    units: Units
    """The windows of the edition that it came from: another may have taken its place."""
    batch_rows: int = 1
    usage: Usage = field(default_factory=Usage)


Asking = Ticket[Asked, Found]


def build_version(store: Store, build: str) -> str:
    """The identity of a build's content: fingerprints and hashes of its stages."""
    return fingerprint(store.contents(build))


class Engines:
    """The engines of a server, shared by its editions; closed with the last that uses them."""

    def __init__(self, settings: Settings) -> None:
        """Start what the pipelines ask; nothing for the rules."""
        self._stack = ExitStack()
        self._users = 0
        at = replace(settings.at, root=Store(settings.root).root)
        models = engines_of(list(settings.pipelines.values()))
        self.clients = self._stack.enter_context(engines_here(models, at, exclusive=False)).clients

    def use(self) -> None:
        """Count one more edition."""
        self._users += 1

    def release(self) -> None:
        """Count one less, and close with the last."""
        self._users -= 1
        if self._users == 0:
            self._stack.close()


class Edition:
    """Opened pipelines; `version` names the build that every answer rests on."""

    def __init__(self, settings: Settings, engines: Engines) -> None:
        """Open everything; raises ValueError if the build lacks what a pipeline needs."""
        store = Store(settings.root)
        self.settings = settings
        self.engines = engines
        self.opened_at = time.time()
        at, self.version = _placed(settings, store)
        at = replace(at, clients=engines.clients)
        self._answer: dict[str, Function] = {}
        self._rank: dict[str, Function] = {}
        for name, pipeline in settings.pipelines.items():
            self._answer[name] = aloud(pipeline).open(at)
            self._rank[name] = pipeline.ranking().open(at)
        self.units: Units = open_units(at)
        encoder = _encoder_of(settings)
        self.encoder_name = encoder.model
        self._encoder = load(encoder, at.device, at.threads)
        self._uncited = {name: uncited_of(p) for name, p in settings.pipelines.items()}
        self._warm()
        engines.use()

    def work(self, kind: str, tickets: Sequence[Asking]) -> list[Found | Exception]:
        """Answer a batch; kinds are `answer:<pipeline>`, `search:<pipeline>`, `encode:<role>`."""
        what, _, pipeline = kind.partition(":")
        if what == "encode":
            return self._encoded("query" if pipeline == "query" else "passage", tickets)
        function = self._answer[pipeline] if what == "answer" else self._rank[pipeline]
        rows = [{**t.item.row, "query_id": str(n)} for n, t in enumerate(tickets)]
        ears = {str(n): t.item.hear for n, t in enumerate(tickets) if t.item.hear is not None}
        wanted = partial(_any_wanted, tickets)
        audience = Audience(ears, wanted, self._uncited[pipeline])
        try:
            with audience.present(), tallied() as usage:
                out = function(question_table(rows)).to_pylist()
        except Abandoned:
            return [late()] * len(tickets)
        except EngineStopped as error:
            message = f"the engine does not answer: {one_line(error)}"
            fault = RequestFault(503, "engine", message, retry_s=ENGINE_RETRY_S)
            return [fault] * len(tickets)
        for row in out:
            audience.finish(row)
        return [self._found(row, len(out), usage) for row in out]

    def _warm(self) -> None:
        """Answer once what asks no model: the first call of much code is its slowest."""
        self._encoder.encode([WARM_UP], "query")
        for name, function in self._answer.items():
            if not self.settings.asks_model(name):
                function(question_table([{"query_id": "0", "text": WARM_UP}]))

    def _encoded(self, role: Role, tickets: Sequence[Asking]) -> list[Found | Exception]:
        texts = list(dict.fromkeys(text for ticket in tickets for text in ticket.item.texts))
        vectors = dict(zip(texts, self._encoder.encode(texts, role), strict=True))
        return [
            Found(
                {"vectors": np.stack([vectors[text] for text in ticket.item.texts])},
                self.version,
                self.units,
                len(tickets),
            )
            for ticket in tickets
        ]

    def _found(self, row: dict[str, Any], batch_rows: int, usage: Usage) -> Found | Exception:
        if row["reject"] is None:
            # Of one row alone usage is exact; rules, who alone share a batch, use nothing.
            return Found(row, self.version, self.units, batch_rows, usage)
        reject = row["reject"]
        message = f"{reject['stage']}: {reject['detail']}"
        return RequestFault(422, reject["reason"].lower(), message)

    def close(self) -> None:
        """Release the engines; what is mapped goes with the last reference."""
        self.engines.release()


def _any_wanted(tickets: Sequence[Asking]) -> bool:
    return not all(ticket.gone() for ticket in tickets)


def _placed(settings: Settings, store: Store) -> tuple[Place, str]:
    """The artifacts of all pipelines and their version, from one and the same pointer."""
    while True:
        version = build_version(store, settings.build)
        for pipeline in settings.pipelines.values():
            run = PipelineRun(store, settings.build, pipeline, LocalRunner())
            at = run.place(settings.at)
        if build_version(store, settings.build) == version:
            return at, version


def _encoder_of(settings: Settings) -> Encoder:
    """The encoder of the first pipeline that has one, or the packaged one."""
    steps = [step for pipeline in settings.pipelines.values() for step in within(pipeline)]
    encoders = [found for step in steps if (found := getattr(step, "encoder", None)) is not None]
    return encoders[0] if encoders else Encoder()
