"""Estimate what a build would cost, before any call.

Every prompt is rendered and counted. Finished stages and answers in the log cost nothing. Where an
answer is unknown, the rules of the step answer, so that later stages have input; the rules' answers
determine the number of later prompts and the expected length of answers. A build whose prompts
depend on its own results predicts them, on the high side.

The bounds ("at most") count every prompt with all its tries, each answer at its limit, and after a
step whose answers decide how many prompts follow (`most`), as many as can follow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from srrag.corpus.record import RawRecord
from srrag.engine.base import Model
from srrag.engine.call import key_of
from srrag.engine.count_tokens import TokenCounter
from srrag.engine.log.completion_log import CompletionLog
from srrag.ids import segment_id
from srrag.llm.completion import Engine, Prompt, read, read_logged
from srrag.llm.retry_invalid import MAX_AGAIN_TOKENS
from srrag.runner.deletion.tombstones import Tombstones
from srrag.runner.engines import engines_of, log_folder
from srrag.runner.ingest import known_rows, segments
from srrag.runner.part import guarded, live
from srrag.runner.progress import say
from srrag.schema import TRIPLES
from srrag.stage import Plan, Stage
from srrag.step import Function, LLMStep, Place
from srrag.storage.store import Store

_COUNTS = ("prompts", "cached", "calls", "tokens_in", "tokens_out")
_BOUNDS = ("calls_max", "tokens_in_max", "tokens_out_max")
_FACTS = ["kind", "head", "head_type", "relation", "tail", "tail_type"]


@dataclass
class Estimate:
    """The prompts of one stage; tokens and money count only calls that are still to be made."""

    prompts: int = 0
    cached: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    """Tokens of the rules' answers in the same schema."""
    calls_max: int = 0
    """Calls with all tries of each prompt, for the most prompts that earlier answers can cause."""
    tokens_in_max: int = 0
    tokens_out_max: int = 0
    """Tokens if, in addition, every answer reaches its limit."""
    usd: float = 0.0
    usd_max: float = 0.0
    hours: float | None = None

    def add(self, other: Estimate) -> None:
        """Add the estimate of another stage."""
        for name in (*_COUNTS, *_BOUNDS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.usd += other.usd
        self.usd_max += other.usd_max
        if other.hours is not None:
            self.hours = (self.hours or 0.0) + other.hours

    def times(self, count: int) -> Estimate:
        """Return the bounds for the same prompts repeated `times` times."""
        return Estimate(**{name: count * getattr(self, name) for name in _BOUNDS})

    def most(self) -> dict[str, int]:
        """Return the bounds alone."""
        return {name: getattr(self, name) for name in _BOUNDS}

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate as a JSON object."""
        hours = None if self.hours is None else round(self.hours, 4)
        rounded = {"usd": round(self.usd, 4), "usd_max": round(self.usd_max, 4), "hours": hours}
        return {**vars(self), **rounded}


@runtime_checkable
class Widening(Protocol):
    """A step whose answers determine the number of prompts of later steps."""

    def most(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Return the answers that lead to the most prompts."""
        ...


@runtime_checkable
class Foretelling(Protocol):
    """A build that can predict its prompts from the facts of a corpus."""

    def foretold(self, triples: Iterable[pa.Table]) -> tuple[list[Prompt], list[str]]:
        """Return the predicted prompts, and the rules' answers to them."""
        ...


class Counting:
    """An opened LLMStep that makes no calls: answers come from the log or from the rules."""

    def __init__(self, step: LLMStep, log: CompletionLog, tokens: TokenCounter) -> None:
        """Keep the step, the log and the token counter."""
        self.step = step
        self.found = Estimate()
        self.log = log
        self.tokens = tokens
        self._seen: set[bytes] = set()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Render and count the prompts, then parse the logged answers or the rules' answers."""
        prompts = self.step.prompts(batch)
        keys = [key_of(self.step.engine, prompt) for prompt in prompts]
        known = self.log.lookup(keys)
        guesses = self.step.baseline(batch, prompts) if prompts else []
        self._count(
            {
                key: (prompt, guess)
                for key, prompt, guess in zip(keys, prompts, guesses, strict=True)
                if key not in known and key not in self._seen
            }
        )
        self.found.prompts += len(prompts)
        self.found.cached += sum(key in known for key in keys)
        answers = [
            read_logged(known[key].text, known[key].fault, prompt.schema)
            if key in known
            else read(guess, prompt.schema)
            for key, prompt, guess in zip(keys, prompts, guesses, strict=True)
        ]
        return self.step.parse(batch, prompts, answers)

    def _count(self, new: dict[bytes, tuple[Prompt, str]]) -> None:
        self._seen.update(new)
        prompts = [prompt for prompt, _ in new.values()]
        guesses = [guess for _, guess in new.values()]
        self.found.add(counted(self.tokens, self.step.engine, prompts, guesses, self.step.again))


class Widest:
    """An opened LLMStep that counts as many prompts as its input can make, and parses no facts."""

    def __init__(self, counting: Counting) -> None:
        """Share step, log and token counter with the counting of the expected prompts."""
        self.step, self._log, self._tokens = counting.step, counting.log, counting.tokens
        self.found = Estimate()
        self._seen: set[bytes] = set()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Count the prompts, and answer as the step does for the most of later ones."""
        step, prompts = self.step, self.step.prompts(batch)
        keys = [key_of(step.engine, prompt) for prompt in prompts]
        known = self._log.lookup(keys)
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in known}
        asked = [prompt for key, prompt in new.items() if key not in self._seen]
        self._seen.update(new)
        self.found.add(counted(self._tokens, step.engine, asked, [], step.again))
        if not (step.keeps_rows or isinstance(step, Widening)):
            return step.writes.empty_table()
        widest = step.most if isinstance(step, Widening) else step.baseline
        guesses = widest(batch, prompts) if prompts else []
        answers = [
            read_logged(known[key].text, known[key].fault, prompt.schema)
            if key in known
            else read(guess, prompt.schema)
            for key, prompt, guess in zip(keys, prompts, guesses, strict=True)
        ]
        return step.parse(batch, prompts, answers)


def counted(
    tokens: TokenCounter,
    engine: Engine,
    prompts: Sequence[Prompt],
    guesses: Sequence[str],
    again: int,
) -> Estimate:
    """Return the estimate for calls with these prompts."""
    asked = tokens.prompts(prompts)
    if isinstance(engine, Model):
        extra = [engine.appended(prompt.schema) for prompt in prompts]
        asked = [n + m for n, m in zip(asked, tokens.texts(extra), strict=True)]
    tries = 1 + again
    shown = sum(prompt.max_tokens + MAX_AGAIN_TOKENS for prompt in prompts)
    return Estimate(
        calls=len(prompts),
        tokens_in=sum(asked),
        tokens_out=sum(tokens.texts(guesses)),
        calls_max=tries * len(prompts),
        tokens_in_max=tries * sum(asked) + again * shown,
        tokens_out_max=tries * sum(prompt.max_tokens for prompt in prompts),
    )


@dataclass(frozen=True)
class EstimateJob:
    """Runs the steps that lead to prompts, in this process, and writes nothing."""

    store: Store
    plan: Plan
    name: str = "default"

    def run(self, records: Iterable[RawRecord], at: Place) -> dict[str, Any]:
        """Return the figures of each stage that asks a model; raises ValueError if none does."""
        stages = _leading_to_calls(self.plan)
        asking = [stage for stage in self.plan.builds if engines_of([stage.run])]
        if not stages:
            raise ValueError("estimate: the engine is 'rules', which calls nothing")
        log = CompletionLog(log_folder(at))
        opened: dict[str, Function | Counting] = {}
        for stage in stages:
            if models := engines_of([stage.step]):
                assert isinstance(stage.step, LLMStep)
                opened[stage.name] = Counting(stage.step, log, counter_of(models[0]))
            else:
                opened[stage.name] = stage.step.open(at)
        widest = {
            name: Widest(function) if isinstance(function, Counting) else function
            for name, function in opened.items()
        }
        widens = any(isinstance(stage.step, Widening) for stage in stages)
        documents, parts = 0, []
        facts: list[pa.Table] = []
        for part, table in self._raw(Tombstones.of(self.store.root).passed(records)):
            made = self._run(stages, opened, part, table)
            if widens:
                self._run(stages, widest, part, table)
            parts.append(part)
            documents += table.num_rows
            facts += [
                live(made[stage.name]).select(_FACTS)
                for stage in stages
                if asking and stage.step.writes.equals(TRIPLES)
            ]
            say(f"{documents:,} documents counted")
        for name, function in widest.items():
            if widens and isinstance(function, Widest):
                for bound in _BOUNDS:
                    setattr(opened[name].found, bound, getattr(function.found, bound))  # type: ignore[union-attr]
        foretold = {
            stage.name: self._foretold(stage, facts, parts)
            for stage in asking
            if isinstance(stage.run, Foretelling)
        }
        not_counted = [stage.name for stage in asking if stage.name not in foretold]
        return {**figures_of(stages, opened, documents, foretold), "not_counted": not_counted}

    def _foretold(
        self, stage: Stage, facts: Sequence[pa.Table], parts: Sequence[str]
    ) -> tuple[Model, Estimate]:
        """Return the predicted prompts of a build; none if it is finished for these parts."""
        (engine,) = engines_of([stage.run])
        folder = self.store.stage_dir(stage.name, self.plan.fingerprint(stage.name, parts))
        if (folder / "manifest.json").exists():
            return engine, Estimate()
        assert isinstance(stage.run, Foretelling)
        prompts, guesses = stage.run.foretold(facts)
        again = getattr(stage.run, "again", 1)
        found = counted(counter_of(engine), engine, prompts, guesses, again)
        return engine, replace(found, prompts=len(prompts))

    def _raw(self, records: Iterable[RawRecord]) -> Iterator[tuple[str, pa.Table]]:
        """Yield the segments that a build would make of the records, and the existing ones."""
        source, fingerprint = self.plan.source, self.plan.fingerprint(self.plan.source)
        parts: list[str] = []
        if self.store.pointer_path(self.name).exists():
            parts = self.store.read_pointer(self.name)["stages"].get(source, {}).get("parts", [])
        known = known_rows(self.store, fingerprint, parts)
        seen: dict[str, set[str]] = defaultdict(set)
        for table in segments(records, known, seen):
            yield segment_id(table["raw_id"].to_pylist()), table
        for part in seen:
            yield part, self.store.read_part(source, fingerprint, part)

    def _run(
        self,
        stages: Sequence[Stage],
        opened: Mapping[str, Function],
        part: str,
        table: pa.Table,
    ) -> dict[str, pa.Table]:
        tables = {self.plan.source: table}
        for stage in stages:
            fingerprint = self.plan.fingerprint(stage.name)
            if part in self.store.parts(stage.name, fingerprint):
                tables[stage.name] = self.store.read_part(stage.name, fingerprint, part)
                continue
            alive = live(tables[stage.inputs[0]])
            rows = max(1, stage.resources.batch_rows)
            outputs = [
                guarded(opened[stage.name], stage, (start, alive.slice(start, rows)))[0]
                for start in range(0, alive.num_rows, rows)
            ]
            tables[stage.name] = pa.concat_tables([*outputs, stage.step.writes.empty_table()])
        return tables


def _leading_to_calls(plan: Plan) -> list[Stage]:
    """Return the steps that ask a model and the steps that feed them or such builds, in order."""
    needed: set[str] = set()
    for stage in reversed(plan.stages):
        if engines_of([stage.run]) or stage.name in needed:
            needed |= {stage.name, *stage.inputs}
    return [stage for stage in plan.steps if stage.name in needed]


def counter_of(engine: Model) -> TokenCounter:
    """Return the counter of an engine's tokens; raises ValueError if it names no tokenizer."""
    if engine.counts_by is None:
        raise ValueError(
            "engine.tokenizer: an estimate needs the model's tokenizer, a folder or a hub id, or "
            "'utf8' to count a token every four bytes"
        )
    return TokenCounter(engine.counts_by)


def figures_of(
    stages: Sequence[Stage],
    opened: dict[str, Function | Counting],
    documents: int,
    foretold: Mapping[str, tuple[Model, Estimate]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return prompts, calls, tokens, dollars and hours, by stage and in total."""
    asked: dict[str, tuple[Model, Estimate]] = {}
    for stage in stages:
        function = opened[stage.name]
        if isinstance(function, Counting):
            asked[stage.name] = engines_of([stage.step])[0], function.found
    total = Estimate()
    by_stage = {}
    for name, (engine, found) in {**asked, **foretold}.items():
        cost = priced(found, engine)
        by_stage[name] = {"engine": engine.name, **cost.as_dict()}
        total.add(cost)
    per_document = (total.tokens_in + total.tokens_out) / max(1, documents)
    return {
        "estimate": True,
        "documents": documents,
        **total.as_dict(),
        "tokens_per_document": round(per_document, 1),
        "stages": by_stage,
        "foretold": list(foretold),
    }


def priced(found: Estimate, engine: Model) -> Estimate:
    """Return an estimate with the dollars and hours of an engine."""
    hours = _hours(engine, found.tokens_in, found.tokens_out)
    machine = engine.hourly_usd * hours
    return replace(
        found,
        usd=engine.price(found.tokens_in, found.tokens_out) + machine,
        usd_max=engine.price(found.tokens_in_max, found.tokens_out_max)
        + engine.hourly_usd * _hours(engine, found.tokens_in_max, found.tokens_out_max),
        hours=hours if engine.tokens_per_s_out is not None else None,
    )


def _hours(engine: Model, tokens_in: int, tokens_out: int) -> float:
    """Return the hours at the engine's rates, 0 where it names none."""
    rates = (engine.tokens_per_s_in, tokens_in), (engine.tokens_per_s_out, tokens_out)
    return sum(tokens / rate for rate, tokens in rates if rate) / 3600


def readable(summary: dict[str, Any]) -> str:
    """Format the estimate for a terminal."""
    head = f"{'stage':<12}{'calls':>12}{'cached':>12}{'tokens in':>16}{'tokens out':>16}"
    lines = [head + f"{'at most':>16}{'USD':>12}{'hours':>9}"]
    for name, row in [*summary["stages"].items(), ("all", summary)]:
        hours = "–" if row["hours"] is None else f"{row['hours']:.2f}"
        lines.append(
            f"{name:<12}{row['calls']:>12,}{row['cached']:>12,}{row['tokens_in']:>16,}"
            f"{row['tokens_out']:>16,}{row['tokens_out_max']:>16,}{row['usd']:>12,.2f}{hours:>9}"
        )
    lines.append(
        "tokens out: as long as the rules' answers; at most: every try, each answer at its limit"
    )
    if summary["foretold"]:
        told = ", ".join(summary["foretold"])
        lines.append(f"{told}: foretold by a rate on the high side; it asks about what is built")
    if summary["not_counted"]:
        lines.append(f"not counted, though they ask a model: {', '.join(summary['not_counted'])}")
    return "\n".join(lines)
