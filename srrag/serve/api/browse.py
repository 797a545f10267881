"""The further routes that the web pages use: stored runs, the graph and feedback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request

from srrag.config.factory import ontology
from srrag.core.errors import UsageError
from srrag.retrieve.questions import question_fault
from srrag.serve.api.bodies import SynthesisRequest
from srrag.serve.api.openapi import shown
from srrag.serve.api.question import passing_of
from srrag.serve.errors import ApiError
from srrag.serve.feedback import Feedback, Kept, keep_feedback
from srrag.serve.graph_view import MAX_STUDIES, GraphView, Names, Walk
from srrag.serve.runs import (
    State,
    StoredRun,
    answers_of,
    brief,
    chosen,
    compared,
    find_runs,
    read_answer,
    run_summary,
)
from srrag.serve.service import PipelineService
from srrag.storage.store import Store
from srrag.synthesis.gather import StudyFindings
from srrag.synthesis.text import as_images

Json = dict[str, Any]
Grade = Literal["", "A", "B", "C", "D", "E", "none"]
MAX_ROWS = 200
READ_BY_RULES = 10_000
"""Documents that rules may read for a question; a model's findings have no such limit."""

MAX_BESIDE = 7
"""Runs beside the first one; so many are kept in memory."""

_Text = Annotated[str, Query(max_length=200)]
_Id = Annotated[str, Query(max_length=200)]
_Runs = Annotated[list[str] | None, Query(max_length=MAX_BESIDE)]
_Ids = Annotated[list[str] | None, Query(max_length=MAX_STUDIES)]
_Question = Annotated[str, Query(max_length=4000)]


def add_reading(app: FastAPI, host: PipelineService) -> None:
    """Add the routes to an app: what reads files runs in threads, what walks the graph in turns."""
    _add_feedback(app, host)
    _add_runs(app, host)
    _add_graph(app, host)
    _add_synthesis(app, host)


def _add_feedback(app: FastAPI, host: PipelineService) -> None:
    @app.post("/v1/feedback", responses=shown("feedback"))
    def feedback(body: Feedback, request: Request) -> Kept:
        """Keep what a reader says of an answer, in a file of the root and nowhere else."""
        return keep_feedback(host.settings.root, body, passing_of(request).caller)


def _add_runs(app: FastAPI, host: PipelineService) -> None:
    def run_of(run_id: str, field: str) -> StoredRun:
        try:
            return find_runs(host.settings.run_folders)[run_id]
        except KeyError:
            raise ApiError(404, "not_found", "there is no such run", field) from None

    @app.get("/v1/runs", responses=shown("runs"))
    def runs() -> Json:
        """Stored runs of answers, the newest first."""
        told = [run_summary(run) for run in find_runs(host.settings.run_folders).values()]
        return {"runs": sorted(told, key=lambda run: -run.get("modified", 0))}

    @app.get("/v1/runs/{run_id}", responses=shown("run"))
    def answers(
        run_id: str,
        against: _Runs = None,
        text: _Text = "",
        grade: Grade = "",
        state: Literal["", State] = "",
        differs: bool = False,
        order: Literal["", "difference"] = "",
        offset: Annotated[int, Query(ge=0, le=10**7)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 50,
    ) -> Json:
        """Questions of a run, filtered; with `against`, how other runs answered each.

        `order=difference` puts those first whose answers share the fewest words.
        """
        rows = _rows(run_of(run_id, "run_id"))
        others = [_rows(run_of(each, "against")) for each in against or ()]
        listed = compared(rows, others) if others else rows
        found = chosen(listed, text=text, grade=grade, state=state, differs=differs)
        if order:
            found.sort(key=lambda row: -row.get("distance", 0.0))
        shown = [brief(row) for row in found[offset : offset + limit]]
        return {"total": len(found), "of": len(rows), "answers": shown}

    @app.get("/v1/runs/{run_id}/answer", responses=shown("run_answer"))
    def answer(run_id: str, query_id: _Id) -> Json:
        """One stored answer with its citations, evidence and trace."""
        run = run_of(run_id, "run_id")
        _rows(run)
        found = read_answer(run, query_id, host.edition.units)
        if found is None:
            raise ApiError(404, "not_found", "the run has no such question", "query_id")
        return {"run": run.name, **found}


def _rows(run: StoredRun) -> tuple[Json, ...]:
    try:
        return answers_of(run)
    except (OSError, ValueError) as error:
        message = f"{run.name} cannot be read: {type(error).__name__}"
        raise ApiError(422, "run", message, "run_id") from error


def _add_graph(app: FastAPI, host: PipelineService) -> None:
    opened: dict[str, GraphView] = {}
    lock = threading.Lock()

    def view() -> GraphView:
        version = host.edition.version
        with lock:
            if version not in opened:
                try:
                    fresh = GraphView(host.settings.root, host.settings.build)
                except ValueError as error:
                    raise ApiError(404, "no_graph", str(error)) from error
                opened.clear()
                opened[version] = fresh
            return opened[version]

    @app.get("/v1/graph_view/names", responses=shown("names", Names))
    async def names(request: Request, text: _Text = "") -> Json:
        """Entities by a part of their name."""
        return await _in_turn(host, request, lambda: view().names(text))

    @app.get("/v1/graph_walk", responses=shown("graph_walk", Walk))
    async def graph_walk(
        request: Request, entity: _Id = "", document: _Ids = None, text: _Question = ""
    ) -> Json:
        """From population to intervention to outcome, by the studies that name them.

        Through the documents given, such as those of an answer's evidence, or through those that
        name an entity. Concepts with words of `text` come first. `studies` and `document` count in
        `documents`.
        """
        if bool(entity) == bool(document):
            raise ApiError(400, "invalid", "name an entity or documents", "entity")

        def walk() -> Json:
            found = view()
            if document:
                return found.walk.of_documents(document, text)
            if (row := found.row_of(entity)) is None:
                raise ApiError(404, "not_found", "there is no such entity", "entity")
            return found.walk.of_entity(row, text)

        return await _in_turn(host, request, walk)


def _add_synthesis(app: FastAPI, host: PipelineService) -> None:
    opened: dict[str, StudyFindings] = {}
    lock = threading.Lock()

    def findings() -> StudyFindings:
        version = host.edition.version
        with lock:  # callers' threads ask at once: one reads, the others wait for it
            if version not in opened:
                fresh = StudyFindings(Store(host.settings.root), host.settings.build, ontology())
                opened.clear()
                opened[version] = fresh
            return opened[version]

    @app.post("/v1/synthesis", responses=shown("synthesis"))
    async def synthesis(body: SynthesisRequest, request: Request) -> Json:
        """What studies found, across papers: the JSON of `srrag synthesise`.

        `plots` holds the forest plot of each pooled effect, in their order, as the address of an
        image.
        """
        if fault := question_fault(body.question):
            raise ApiError(422, *fault, "question")

        def made() -> Json:
            gathered = findings()
            if why := gathered.unread(body.question, READ_BY_RULES):
                raise ApiError(404, "no_findings", f"this library holds no findings; {why}")
            try:
                told = [(each.doc_id, each.text) for each in body.told]
                found = gathered.synthesise(body.question, body.answer, told)
            except UsageError as error:  # what it needs is not installed
                raise ApiError(501, "extra", str(error)) from error
            return found.json | {"plots": as_images(found)}

        return await _in_turn(host, request, made)


async def _in_turn(host: PipelineService, request: Request, make: Callable[[], Json]) -> Json:
    passing = passing_of(request)
    return await host.call(make, passing.deadline, passing.counted)
