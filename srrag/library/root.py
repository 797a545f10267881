"""A root, opened: ask it, search it, answer many questions, without Ray and without a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from srrag.core.errors import UsageError
from srrag.core.hits import unpack_hits
from srrag.core.pipeline import Pipeline, bind, build_version
from srrag.core.spec import content_id
from srrag.core.standing import Standings
from srrag.core.step import Function, Place, usable_cpus
from srrag.core.units import Units, open_units
from srrag.library.results import CitedReplies, CitedReply, Evaluation, FoundPassages, evaluate_here
from srrag.llm.completion import BudgetSpent, EngineStopped, tallied
from srrag.retrieve.passages import found_passages
from srrag.retrieve.questions import question_fault, question_table
from srrag.runner.engines import engines_here, engines_of
from srrag.runner.pipeline_run import DEFAULT, check_pipeline
from srrag.storage.store import Store

if TYPE_CHECKING:
    from srrag.library.build import BuildSummary
    from srrag.synthesis.synthesis import Synthesis

BATCH = 64
"""Questions that `answer` runs at a time."""


@dataclass(frozen=True)
class _Opened:
    name: str
    pipeline: Pipeline
    answer: Function
    rank: Function
    units: Units
    standings: Standings
    version: str


class Root:
    """A finished build of a root. Use it as a context manager, or `close` it, if a model answers.

    A pipeline is named as in `conf/pipeline`, or is a Pipeline object. `overrides` change its
    configuration as on the command line, as in `root.ask(…, overrides=["engine=http"])`. A pipeline
    stays open, so only its first question loads models and indexes.
    """

    def __init__(self, root: str | Path, build: str = "default") -> None:
        """Open a root: a folder, or an address like s3://bucket/root.

        Raises UsageError if it holds no finished build of this name.
        """
        self.store = Store(root)
        self.store.check()
        self.store.read_pointer(build)
        self.name = build
        self._opened: dict[Any, _Opened] = {}
        self._engines = ExitStack()

    def __repr__(self) -> str:
        """How to open this root again."""
        return f"srrag.open({str(self.store)!r}, build={self.name!r})"

    def __enter__(self) -> Root:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release models and indexes; the next question opens them again."""
        self._opened.clear()
        self._engines.close()

    def ask(
        self, question: str, *, pipeline: str | Pipeline = DEFAULT, overrides: Iterable[str] = ()
    ) -> CitedReply:
        """Answer one question; raises UsageError for a question without words, or too long."""
        (reply,) = self._answered([_checked(question)], pipeline, overrides)
        if reply.error:
            raise RuntimeError(reply.error)
        return reply

    def answer(
        self,
        questions: Iterable[str | Mapping[str, Any]],
        *,
        pipeline: str | Pipeline = DEFAULT,
        overrides: Iterable[str] = (),
    ) -> CitedReplies:
        """Answer questions: texts, or rows of QUESTIONS such as {"query_id": …, "text": …}.

        A question that fails has an `error`, and the others are answered. A run over thousands of
        questions is better left to `srrag answer`, which resumes.
        """
        rows = [_row(each) for each in questions]
        return CitedReplies(tuple(self._answered(rows, pipeline, overrides)))

    def search(
        self,
        question: str,
        *,
        k: int = 10,
        pipeline: str | Pipeline = DEFAULT,
        overrides: Iterable[str] = (),
    ) -> FoundPassages:
        """Return the `k` best windows for a question, ranked by the pipeline, without an answer."""
        if k < 1:
            raise UsageError(f"k={k}: a search finds at least 1")
        opened = self._open(pipeline, tuple(overrides))
        with self._renewed():
            table = opened.rank(question_table([_checked(question)]))
        if (reject := table["reject"][0].as_py()) is not None:
            raise RuntimeError(f"{reject['stage']}: {reject['detail']}")
        ids, scores, _ = unpack_hits(table["hits"])
        unit_ids = ids.to_pylist()[:k]
        found = found_passages(unit_ids, scores[:k].tolist(), opened.units, opened.standings)
        return FoundPassages(question.strip(), found)

    def build(
        self,
        *,
        corpus: str = "folder",
        path: str | Path | None = None,
        overrides: Iterable[str] = (),
    ) -> BuildSummary:
        """Bring this root up to date with a corpus, as `srrag.build` does, and answer from it."""
        from srrag.library.build import build_here

        summary = build_here(self.store, self.name, corpus, path, overrides)
        self._opened.clear()
        return summary

    def evaluate(
        self,
        *,
        bench: str = "beir",
        path: str | Path | None = None,
        pipeline: str = DEFAULT,
        baseline: str = "",
        overrides: Iterable[str] = (),
    ) -> Evaluation:
        """Score a pipeline on a benchmark of conf/bench, and its difference to a baseline."""
        systems = [f"pipeline={pipeline}", *([f"baseline={baseline}"] if baseline else [])]
        return evaluate_here(self.store, self.name, bench, path, [*systems, *overrides])

    def synthesise(self, question: str) -> Synthesis:
        """Say what studies found, across papers: pooled where they can be, and how sure it is."""
        from srrag.config.factory import ontology
        from srrag.synthesis.gather import StudyFindings

        return StudyFindings(self.store, self.name, ontology()).synthesise(
            _checked(question)["text"]
        )

    def status(self) -> BuildSummary:
        """Return the counts of the build, and what was rejected and why."""
        from srrag.library.build import summary_of

        return summary_of(self.store, self.name)

    def pipeline(self, name: str = DEFAULT, overrides: Iterable[str] = ()) -> Pipeline:
        """Make the pipeline of a name; raises UsageError for an unknown name or override."""
        return self._configured(name, tuple(overrides))[0]

    def _answered(
        self, rows: list[dict[str, Any]], pipeline: str | Pipeline, overrides: Iterable[str]
    ) -> Iterable[CitedReply]:
        opened = self._open(pipeline, tuple(overrides))
        for start in range(0, len(rows), BATCH):
            with self._renewed(), tallied() as usage:
                table = opened.answer(question_table(rows[start : start + BATCH]))
            for number, row in enumerate(table.to_pylist()):
                yield CitedReply.of(
                    row, units=opened.units, row=table.slice(number, 1), pipeline=opened.name,
                    version=opened.version, off=tuple(opened.pipeline.left_out),
                    usage=usage.as_dict(), batch_rows=table.num_rows,
                )  # fmt: skip

    @contextmanager
    def _renewed(self) -> Iterator[None]:
        """Close engines that stopped, which stay stopped: the next question starts new ones.

        A new one would not help where the budget is spent.
        """
        try:
            yield
        except EngineStopped as error:
            if not isinstance(error, BudgetSpent):
                self.close()
            raise

    def _open(self, pipeline: str | Pipeline, overrides: tuple[str, ...]) -> _Opened:
        """Open a pipeline on the build, once."""
        if overrides and not isinstance(pipeline, str):
            raise UsageError("overrides= change a pipeline that is named, not one that is made")
        key = (pipeline, overrides) if isinstance(pipeline, str) else id(pipeline)
        if key not in self._opened:
            if isinstance(pipeline, str):
                chosen, at = self._configured(pipeline, overrides)
            else:
                chosen, at = pipeline, Place(threads=usable_cpus())
            check_pipeline(self.store, self.name, chosen)
            at = bind(self.store, self.name, chosen.needs(), at)
            engines = engines_here(engines_of([chosen]), at, exclusive=False)
            at = replace(at, clients=self._engines.enter_context(engines).clients)
            # The pipeline is kept too, so that no other object gets its id.
            self._opened[key] = _Opened(
                pipeline if isinstance(pipeline, str) else "", chosen,
                partial(_run, chosen, chosen.open(at)), chosen.ranking().open(at),
                open_units(at), Standings.of(at), build_version(self.store, self.name),
            )  # fmt: skip
        return self._opened[key]

    def _configured(self, name: str, overrides: tuple[str, ...]) -> tuple[Pipeline, Place]:
        from srrag.config import factory  # imports Hydra
        from srrag.config.compose import configure

        given = [f"root={self.store}", f"build={self.name}", f"pipeline={name}", *overrides]
        config = configure("ask", [*given, "question=?"])
        return factory.answering(config), factory.place(config)


def _run(pipeline: Pipeline, function: Function, table: pa.Table) -> pa.Table:
    if "answer" not in pipeline.writes.names:
        raise UsageError("pipeline: none of its steps writes an answer; use search")
    return function(table)


def _row(question: str | Mapping[str, Any]) -> dict[str, Any]:
    row = {"text": question} if isinstance(question, str) else dict(question)
    return {"query_id": content_id(str(row.get("text", ""))), **row}


def _checked(question: str) -> dict[str, Any]:
    if fault := question_fault(question):
        raise UsageError(f"question: {fault[1]}")
    return _row(question.strip())
