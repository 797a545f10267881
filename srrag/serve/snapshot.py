"""A snapshot: all pipelines of a server, opened on one version of its build."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from srrag.algo.maxsim import maxsim
from srrag.answer.write.cited import checked_in
from srrag.core.pipeline import Pipeline, bind, build_version
from srrag.core.standing import Standings
from srrag.core.step import Function, LLMStep, Place, within
from srrag.core.units import Units, open_units
from srrag.engine.base import Model, Opener, Reply
from srrag.expand.read_follow_up import ReadFollowUp
from srrag.llm.completion import BudgetSpent, EngineStopped, Rules, Usage, one_line, tallied
from srrag.model.encoder import Encoder
from srrag.rerank.betr import terms_of
from srrag.rerank.bi_encoder import RerankBiEncoder
from srrag.retrieve.questions import question_table
from srrag.runner.engines import engines_here, engines_of
from srrag.serve.batcher import Ticket, Turns
from srrag.serve.errors import ApiError, Refused, late
from srrag.serve.listeners import ClientGone, Hear, Listeners, audience, observed
from srrag.serve.remote_steps import all_here
from srrag.serve.settings import ServeSettings
from srrag.storage.store import Store

if TYPE_CHECKING:
    from srrag.model.embed import LoadedEncoder

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
        self.close_unused()

    def close_unused(self) -> None:
        """Close the engines unless a snapshot uses them, such as after one that failed to open."""
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


WEIGHTS = RerankBiEncoder()
"""Weights of cosine and MaxSim for texts without a BM25 score."""


class EncodedQuery(NamedTuple):
    """A query's vector, shape (dim,), and those of its tokens, (tokens, dim)."""

    vector: npt.NDArray[np.float32]
    tokens: npt.NDArray[np.float32]


class TextScores:
    """Computes the bi-encoder's logits (see RerankBiEncoder), encoding the texts on the spot."""

    def __init__(self, encoder: Encoder, at: Place) -> None:
        """Bind the encoder; it loads with the first text."""
        self.model = encoder.model
        self._encoder, self._at = encoder, at

    @cached_property
    def _loaded(self) -> LoadedEncoder:
        from srrag.model.embed import load

        return load(self._encoder, self._at.device, self._at.threads)

    def encoded(self, query: str) -> EncodedQuery:
        """The vectors of a query, which all its texts share."""
        vectors, tokens = self._loaded.encode_tokens([query], "query")
        widened = tokens.values.astype(np.float32) * tokens.scale.astype(np.float32)[:, None]
        return EncodedQuery(vectors[0], widened)

    def scores(self, query: EncodedQuery, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """The log odds of relevance of each text, shape (len(texts),)."""
        held, found = self._loaded.encode_tokens(texts, "passage")
        sums = maxsim(query.tokens, found.values, found.offsets, found.scale)
        late = sums / max(1, len(query.tokens))
        cosines = held @ query.vector
        logits = WEIGHTS.scale * cosines + WEIGHTS.late * late + WEIGHTS.shift
        return np.asarray(logits, np.float64)


ENGINE_RETRY_S = 5.0
WARM_UP = "Does exercise reduce pain?"


@dataclass(frozen=True)
class PipelineJob:
    """The job of a request: a row of QUESTIONS, and who hears how it is answered."""

    row: Mapping[str, Any]
    hear: Hear | None = None


@dataclass(frozen=True)
class PipelineResult:
    """A row that a pipeline returned, with its build version, batch size and usage."""

    row: dict[str, Any]
    version: str
    units: Units
    """The windows of the snapshot that made the row, which may have been replaced since."""
    batch_rows: int = 1
    usage: Usage = field(default_factory=Usage)
    standings: Standings = field(default_factory=lambda: Standings(None))
    terms: Mapping[str, Any] | None = None
    """The terms of BETR, if the pipeline ranks by it."""


Asking = Ticket[PipelineJob, PipelineResult]
Move = Callable[[Pipeline, Place, str], Pipeline]
"""Moves steps of a pipeline to other deployments, given its place and the build version."""


class Snapshot:
    """Opened pipelines; `version` names the build that every answer rests on."""

    def __init__(
        self, settings: ServeSettings, engines: SharedEngines, move: Move = all_here
    ) -> None:
        """Open all pipelines; `move` moves some of their steps to other deployments.

        Raises ValueError if the build lacks a stage or file that a pipeline needs.
        """
        self.settings = settings
        self.engines = engines
        self.opened_at = time.time()
        at, self.version = placed(settings)
        at = replace(at, clients=engines.clients)
        self._answer: dict[str, Function] = {}
        self._rank: dict[str, Function] = {}
        for name, pipeline in settings.pipelines.items():
            told = observed(move(conversing(pipeline), at, self.version))
            self._answer[name] = told.open(at)
            self._rank[name] = told.ranking().open(at)
        self.units: Units = open_units(at)
        self.standings = Standings.of(at)
        self.texts = TextScores(_encoder_of(settings), at)
        self.terms = {name: terms_of(p) for name, p in settings.pipelines.items()}
        self._checked = {name: checked_in(p) for name, p in settings.pipelines.items()}
        self._warm()
        engines.use()

    def work(
        self, kind: str, tickets: Sequence[Asking], turns: Turns,
        paid: Callable[[str, Usage], None] = lambda kind, usage: None,
    ) -> list[PipelineResult | Exception]:  # fmt: skip
        """Process a batch of one kind: `answer:<pipeline>` or `search:<pipeline>`.

        `paid` hears of its usage, whatever becomes of the answers.
        """
        what, _, pipeline = kind.partition(":")
        function = self._answer[pipeline] if what == "answer" else self._rank[pipeline]
        rows = [{**t.item.row, "query_id": str(n)} for n, t in enumerate(tickets)]
        ears = {str(n): t.item.hear for n, t in enumerate(tickets) if t.item.hear is not None}
        deadline = max(ticket.deadline for ticket in tickets)
        audience = Listeners(
            ears, lambda: not all(ticket.gone() for ticket in tickets), deadline,
            self._checked[pipeline], turns, tickets[0].caller,
        )  # fmt: skip
        try:
            with audience.present(), tallied() as usage:
                try:
                    out = function(question_table(rows)).to_pylist()
                finally:
                    paid(kind, usage)
        except ClientGone:
            return [late()] * len(tickets)
        except Refused as error:
            return [error.fault] * len(tickets)
        except BudgetSpent as error:
            return [ApiError(503, "budget", one_line(error))] * len(tickets)
        except EngineStopped as error:
            message = f"the engine does not answer: {one_line(error)}"
            fault = ApiError(503, "engine", message, retry_s=ENGINE_RETRY_S)
            return [fault] * len(tickets)
        for row in out:
            audience.finish(row)
        return [self._found(row, len(out), usage, self.terms[pipeline]) for row in out]

    def _warm(self) -> None:
        """Run what each pipeline does without a model once, since first calls are slow."""
        if not any("EncodeQuestions" in each.steps for each in self.settings.apart.values()):
            self.texts.scores(self.texts.encoded(WARM_UP), [WARM_UP])
        for name in self._answer:
            if not self.settings.asks_model(name):
                self._answer[name](question_table([{"query_id": "0", "text": WARM_UP}]))
            elif not engines_of([self.settings.pipelines[name].ranking()]):
                self._rank[name](question_table([{"query_id": "0", "text": WARM_UP}]))

    def _found(
        self, row: dict[str, Any], batch_rows: int, usage: Usage, terms: Mapping[str, Any] | None
    ) -> PipelineResult | Exception:
        if row["reject"] is None:
            # Usage is exact: batches with a model have one row, and rules use no tokens.
            return PipelineResult(
                row, self.version, self.units, batch_rows, usage, self.standings, terms
            )
        reject = row["reject"]
        message = f"{reject['stage']}: {reject['detail']}"
        return ApiError(422, reject["reason"].lower(), message)

    def close(self) -> None:
        """Release the engines; mapped files are unmapped with their last reference."""
        self.engines.release()


def conversing(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a first step that reads follow-ups, by the model that answers; or as is."""
    asking = (step for step in within(pipeline) if isinstance(step, LLMStep) and not step.off)
    engine = next((step.engine for step in asking if not isinstance(step.engine, Rules)), None)
    if engine is None:
        return pipeline
    first = ReadFollowUp(engine=engine)
    if pipeline.rank:
        return replace(pipeline, rank=(first, *pipeline.rank))
    return replace(pipeline, answer=(first, *pipeline.answer))


def opening_fault(settings: ServeSettings) -> str:
    """Why a snapshot cannot be opened, in one line, by opening it here; "" if it can be.

    A replica's own reason is lost in Ray, which says only that its startup failed.
    """
    engines = SharedEngines(settings, None)
    try:
        Snapshot(settings, engines).close()
    except Exception as error:  # whatever it is, it is the reason
        engines.close_unused()
        return one_line(error)
    return ""


def placed(settings: ServeSettings) -> tuple[Place, str]:
    """The artifacts of all pipelines and their build version, read from the same pointer."""
    store = Store(settings.root)
    while True:
        version = build_version(store, settings.build)
        needs = (name for pipeline in settings.pipelines.values() for name in pipeline.needs())
        at = bind(store, settings.build, needs, settings.at)
        if build_version(store, settings.build) == version:
            return at, version


def _encoder_of(settings: ServeSettings) -> Encoder:
    """The encoder of the first pipeline that has one, or the packaged one."""
    steps = [step for pipeline in settings.pipelines.values() for step in within(pipeline)]
    encoders = [found for step in steps if (found := getattr(step, "encoder", None)) is not None]
    return encoders[0] if encoders else Encoder()
