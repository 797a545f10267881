"""What a build would cost, before anything is called.

Every prompt is rendered and counted. Stages that stand, and answers in the log, cost nothing.
Where an answer is not known, the step's rules answer in its place, so that later stages have
something to ask about: what they say is how many prompts there will be, and how long answers are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from srrag.completion import Prompt, read
from srrag.corpus.record import RawRecord
from srrag.engine.call import key_of
from srrag.engine.log import CompletionLog
from srrag.engine.model import Model
from srrag.engine.tokens import TokenCounter
from srrag.ids import segment_id
from srrag.runner.engines import engines_of, log_folder
from srrag.runner.forgotten import Forgotten
from srrag.runner.ingest import known_rows, segments
from srrag.runner.part import guarded, live
from srrag.runner.progress import say
from srrag.stage import Plan, Stage
from srrag.step import Function, LLMStep, Place
from srrag.store import Store


@dataclass
class Estimate:
    """What the prompts of one stage come to; tokens and money of calls yet to be made."""

    prompts: int = 0
    cached: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    """Of the answers that the rules give in the same schema."""
    tokens_out_max: int = 0
    """If every answer runs to its limit."""
    usd: float = 0.0
    usd_max: float = 0.0
    hours: float | None = None

    def add(self, other: Estimate) -> None:
        """Add another stage's."""
        for name in ("prompts", "cached", "calls", "tokens_in", "tokens_out", "tokens_out_max"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.usd += other.usd
        self.usd_max += other.usd_max
        if other.hours is not None:
            self.hours = (self.hours or 0.0) + other.hours

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        hours = None if self.hours is None else round(self.hours, 4)
        rounded = {"usd": round(self.usd, 4), "usd_max": round(self.usd_max, 4), "hours": hours}
        return {**vars(self), **rounded}


class Counting:
    """An opened LLMStep that calls nothing: answers come from the log, or from the rules."""

    def __init__(self, step: LLMStep, log: CompletionLog, tokens: TokenCounter) -> None:
        """Bind what it reads."""
        self.step = step
        self.found = Estimate()
        self._log = log
        self._tokens = tokens
        self._seen: set[bytes] = set()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Render, count, and parse what is known or guessed."""
        prompts = self.step.prompts(batch)
        keys = [key_of(self.step.engine, prompt) for prompt in prompts]
        known = self._log.lookup(keys)
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
            read(known[key].text if key in known else guess, prompt.schema)
            for key, prompt, guess in zip(keys, prompts, guesses, strict=True)
        ]
        return self.step.parse(batch, prompts, answers)

    def _count(self, new: dict[bytes, tuple[Prompt, str]]) -> None:
        self._seen.update(new)
        prompts = [prompt for prompt, _ in new.values()]
        self.found.calls += len(new)
        self.found.tokens_in += sum(self._tokens.prompts(prompts))
        self.found.tokens_out += sum(self._tokens.texts([guess for _, guess in new.values()]))
        self.found.tokens_out_max += sum(prompt.max_tokens for prompt in prompts)


@dataclass(frozen=True)
class EstimateJob:
    """Runs the steps that lead to prompts over a corpus, in this process, and writes nothing."""

    store: Store
    plan: Plan
    name: str = "default"

    def run(self, records: Iterable[RawRecord], at: Place) -> dict[str, Any]:
        """The figures of each stage that asks a model; raises ValueError if none does."""
        stages = _leading_to_calls(self.plan)
        if not stages:
            raise ValueError("estimate: the engine is 'rules', which calls nothing")
        log = CompletionLog(log_folder(at))
        opened: dict[str, Function | Counting] = {}
        for stage in stages:
            if models := engines_of([stage.step]):
                assert isinstance(stage.step, LLMStep)
                opened[stage.name] = Counting(stage.step, log, _counter(models[0]))
            else:
                opened[stage.name] = stage.step.open(at)
        documents = 0
        for part, table in self._raw(Forgotten.of(self.store.root).passed(records)):
            documents += self._run(stages, opened, part, table)
            say(f"{documents:,} documents counted")
        asking = [stage.name for stage in self.plan.builds if engines_of([stage.run])]
        return {**figures_of(stages, opened, documents), "not_counted": asking}

    def _raw(self, records: Iterable[RawRecord]) -> Iterator[tuple[str, pa.Table]]:
        """The segments that a build would make of the records, and those that stand."""
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
        opened: dict[str, Function | Counting],
        part: str,
        table: pa.Table,
    ) -> int:
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
        return int(table.num_rows)


def _leading_to_calls(plan: Plan) -> list[Stage]:
    """The stages that ask a model, and those that they read, in order."""
    needed: set[str] = set()
    for stage in reversed(plan.steps):
        if engines_of([stage.step]) or stage.name in needed:
            needed |= {stage.name, *stage.inputs}
    return [stage for stage in plan.steps if stage.name in needed]


def _counter(engine: Model) -> TokenCounter:
    if engine.counts_by is None:
        raise ValueError(
            "engine.tokenizer: an estimate needs the model's tokenizer, a folder or a hub id, or "
            "'utf8' to count a token every four bytes"
        )
    return TokenCounter(engine.counts_by)


def figures_of(
    stages: Sequence[Stage], opened: dict[str, Function | Counting], documents: int
) -> dict[str, Any]:
    """What was counted, by stage and in all: prompts, calls, tokens, dollars, hours."""
    total = Estimate()
    by_stage = {}
    for stage in stages:
        function = opened[stage.name]
        if isinstance(function, Counting):
            (engine,) = engines_of([stage.step])
            found = _priced(function.found, engine)
            by_stage[stage.name] = {"engine": engine.name, **found.as_dict()}
            total.add(found)
    per_document = (total.tokens_in + total.tokens_out) / max(1, documents)
    return {
        "estimate": True,
        "documents": documents,
        **total.as_dict(),
        "tokens_per_document": round(per_document, 1),
        "stages": by_stage,
    }


def _priced(found: Estimate, engine: Model) -> Estimate:
    rates = engine.tokens_per_s_in, engine.tokens_per_s_out
    seconds = None
    if rates[1] is not None:
        seconds = found.tokens_out / rates[1]
        seconds += found.tokens_in / rates[0] if rates[0] is not None else 0.0
    hours = None if seconds is None else seconds / 3600
    machine = engine.hourly_usd * (hours or 0.0)
    return replace(
        found,
        usd=engine.price(found.tokens_in, found.tokens_out) + machine,
        usd_max=engine.price(found.tokens_in, found.tokens_out_max) + machine,
        hours=hours,
    )


def readable(summary: dict[str, Any]) -> str:
    """The estimate, for a terminal."""
    head = f"{'stage':<12}{'calls':>12}{'cached':>12}{'tokens in':>16}{'tokens out':>16}"
    lines = [head + f"{'at most':>16}{'USD':>12}{'hours':>9}"]
    for name, row in [*summary["stages"].items(), ("all", summary)]:
        hours = "–" if row["hours"] is None else f"{row['hours']:.2f}"
        lines.append(
            f"{name:<12}{row['calls']:>12,}{row['cached']:>12,}{row['tokens_in']:>16,}"
            f"{row['tokens_out']:>16,}{row['tokens_out_max']:>16,}{row['usd']:>12,.2f}{hours:>9}"
        )
    lines.append("tokens out: as long as the rules' answers; at most: every answer at its limit")
    if summary["not_counted"]:
        lines.append(f"not counted, though they ask a model: {', '.join(summary['not_counted'])}")
    return "\n".join(lines)
