"""Estimate what a build would cost, before any call.

Every prompt is rendered and counted. Finished stages and answers in the log cost nothing. Where an
answer is unknown, the rules of the step answer, so that later stages have input; the rules' answers
determine the number of later prompts and the expected length of answers. Second tries are counted
only where the log holds a bad first one. A build that asks about its own results is named as not
counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.spec import segment_id
from srrag.core.stage import Plan, Stage
from srrag.core.step import Function, Place, Step
from srrag.corpus.record import RawRecord
from srrag.engine.base import Call, Model, Reply, key_of
from srrag.engine.client import LogClient, Send
from srrag.llm.completion import NOT_ASKED, Completion, DryClient, Engine, Prompt
from srrag.llm.read_answer import read
from srrag.runner.deletion.tombstones import Tombstones
from srrag.runner.engines import engines_of, log_folder
from srrag.runner.ingest import known_rows, segments, standing_parts
from srrag.runner.part import guarded, live
from srrag.runner.progress import say
from srrag.runner.runner import lost_rows
from srrag.storage.store import Store

UTF8 = "utf8"
UTF8_BYTES = 4
"""Bytes per token in the estimate without tokenizer: typical for English text."""


class TokenCounter:
    """Counts tokens of prompts and texts.

    `name` is the folder or hub id of a tokenizer, or "utf8" for one token per four bytes.
    """

    def __init__(self, name: str) -> None:
        """Bind a tokenizer; it loads at first use, and raises ValueError then if it cannot."""
        self.name = name
        self._systems: dict[str, int] = {}

    def texts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens."""
        if self.name == UTF8:
            return [-(-len(text.encode("utf-8", "replace")) // UTF8_BYTES) for text in texts]
        if not texts:
            return []
        encoded = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return [len(ids) for ids in encoded]

    def prompts(self, prompts: Sequence[Prompt]) -> list[int]:
        """Count the tokens of each prompt as a chat: template, system text and user text."""
        users = self.texts([prompt.user for prompt in prompts])
        return [
            self._system(prompt.system) + user for prompt, user in zip(prompts, users, strict=True)
        ]

    def _system(self, text: str) -> int:
        if text not in self._systems:
            self._systems[text] = self._chat(text)
        return self._systems[text]

    def _chat(self, system: str) -> int:
        """Count the tokens of a chat with an empty user message."""
        if self.name == UTF8 or not self._tokenizer.chat_template:
            return self.texts([system])[0]
        messages = [{"role": "system", "content": system}, {"role": "user", "content": ""}]
        text = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return self.texts([text])[0]

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self.name, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"engine.tokenizer={self.name}: no tokenizer can be loaded from there; give its "
                f"folder, or 'utf8' to count a token every four bytes"
            ) from error


RULES_ASK_NOTHING = "estimate: the engine is 'rules', which calls nothing"


@dataclass
class Estimate:
    """The prompts of one stage; tokens and money count only calls that are still to be made."""

    prompts: int = 0
    cached: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    """Tokens of the rules' answers in the same schema."""
    usd: float | None = 0.0
    """None for calls of a model without a known price."""
    hours: float | None = None

    def add(self, other: Estimate) -> None:
        """Add the estimate of another stage."""
        for name in ("prompts", "cached", "calls", "tokens_in", "tokens_out"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.usd = None if None in (self.usd, other.usd) else (self.usd or 0) + (other.usd or 0)
        if other.hours is not None:
            self.hours = (self.hours or 0.0) + other.hours

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate as a JSON object."""
        hours = None if self.hours is None else round(self.hours, 4)
        usd = None if self.usd is None else round(self.usd, 4)
        return {**vars(self), "usd": usd, "hours": hours}


def _never(calls: Sequence[Call]) -> list[Reply]:
    raise AssertionError("an estimate calls nothing")


@dataclass
class CountingClient(LogClient, DryClient):
    """Counts the calls of one engine; answers come from the log or from the rules.

    Clients that share `seen` count a prompt once, as the log pays for it once.
    """

    send: Send = _never
    seen: set[bytes] = field(default_factory=set)
    counted: Estimate = field(default_factory=Estimate)

    def __post_init__(self) -> None:
        """Bind the tokenizer; raises ValueError if the engine names none."""
        super().__post_init__()
        if self.engine.counts_by is None:
            raise ValueError(
                "engine.tokenizer: an estimate needs the model's tokenizer, a folder or a hub id, "
                "or 'utf8' to count a token every four bytes"
            )
        self._tokens = TokenCounter(self.engine.counts_by)
        self._unanswered: set[bytes] = set()
        self._again: dict[tuple[int, str, int], bytes] = {}
        """The keys of the prompts that follow bad answers in the log, by row, slot and draw."""

    @property
    def found(self) -> Estimate:
        """What was counted so far, with dollars and hours."""
        return priced(self.counted, self.engine)

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        """Answer from the log; a prompt that it does not hold is counted as a call."""
        answers = super().complete(prompts, attempt, may_call)
        for prompt, answer, may in zip(prompts, answers, may_call, strict=True):
            if attempt and may and answer.fault == NOT_ASKED:
                self._again[_place(prompt)] = key_of(self.engine, prompt, attempt)
        if attempt == 0:
            self._again.clear()
            self.counted.prompts += len(prompts)
            self.counted.cached += sum(each.fault != NOT_ASKED for each in answers)
        return answers

    def stand_in(
        self, prompts: Sequence[Prompt], answers: Sequence[Completion], texts: Sequence[str]
    ) -> list[Completion]:
        """Return the answers, with the rules' text where a prompt is yet to be asked, or again."""
        given = []
        for prompt, answer, text in zip(prompts, answers, texts, strict=True):
            again = self._again.get(_place(prompt))
            bad = answer.fault is not None and again is None
            given.append(answer if bad or answer.value is not None else read(text, prompt.schema))
            if (key := again or key_of(self.engine, prompt)) in self._unanswered:
                self._unanswered.remove(key)
                self.counted.tokens_out += sum(self._tokens.texts([text]))
        return given

    def _called(self, missing: dict[bytes, Call], attempt: int) -> dict[bytes, Completion]:
        """Count the calls that no client counted before, and answer none."""
        new = {key: call.prompt for key, call in missing.items() if key not in self.seen}
        self.seen.update(new)
        self._unanswered.update(new)
        asked = list(new.values())
        added = self._tokens.texts([self.engine.appended(prompt.schema) for prompt in asked])
        self.counted.calls += len(new)
        self.counted.tokens_in += sum(self._tokens.prompts(asked)) + sum(added)
        return {}


def _place(prompt: Prompt) -> tuple[int, str, int]:
    """What tells a prompt from the others of its batch, in each of its tries."""
    return prompt.row, prompt.slot, prompt.draw


def counting_clients(
    steps: Sequence[Step], log: Path, seen: set[bytes], fresh: bool = False
) -> dict[Engine, CountingClient]:
    """Return a client for each model that the steps ask; see CountingClient."""
    return {
        engine: CountingClient(engine, log, seen=seen, fresh=fresh) for engine in engines_of(steps)
    }


@dataclass(frozen=True)
class EstimateJob:
    """Runs the steps that lead to prompts, in this process, and writes nothing.

    Parts that lost rows count as missing where the account grants new tries (`retry_failed`).
    """

    store: Store
    plan: Plan
    name: str = "default"

    def run(self, records: Iterable[RawRecord], at: Place) -> dict[str, Any]:
        """Return the figures of each stage that asks a model; raises ValueError if nothing does."""
        stages = _leading_to_calls(self.plan)
        not_counted = [stage.name for stage in self.plan.builds if engines_of([stage.run])]
        if not (stages or not_counted):
            raise ValueError(RULES_ASK_NOTHING)
        log = log_folder(at)
        fresh = at.account.fresh
        clients = {s.name: counting_clients([s.step], log, set(), fresh) for s in stages}
        opened = {
            stage.name: stage.step.open(replace(at, clients=clients[stage.name]))
            for stage in stages
        }
        standing = {
            stage.name: self.store.parts(stage.name, self.plan.fingerprint(stage.name))
            for stage in stages
        }
        documents = 0
        for part, table in self._raw(Tombstones.of(self.store.root).passed(records)):
            made = self._made(stages, standing, part, fresh)
            self._run(stages, made, opened, part, table)
            documents += table.num_rows
            say(f"{documents:,} documents counted")
        return {**figures_of(clients, documents), "not_counted": not_counted}

    def _raw(self, records: Iterable[RawRecord]) -> Iterator[tuple[str, pa.Table]]:
        """Yield the segments that a build would make of the records, and the existing ones."""
        source, fingerprint = self.plan.source, self.plan.fingerprint(self.plan.source)
        parts = standing_parts(self.store, self.plan, self.name)
        known = known_rows(self.store, fingerprint, parts)
        seen: dict[str, set[str]] = defaultdict(set)
        for table in segments(records, known, seen):
            yield segment_id(table["raw_id"].to_pylist()), table
        for part in seen:
            yield part, self.store.read_part(source, fingerprint, part)

    def _made(
        self, stages: Sequence[Stage], standing: Mapping[str, set[str]], part: str, fresh: bool
    ) -> set[str]:
        """Return the stages that a build would run on a part."""
        made: set[str] = set()
        for stage in stages:
            missing = stage.inputs[0] in made or part not in standing[stage.name]
            if missing or (fresh and self._lost(stage, part)):
                made.add(stage.name)
        return made

    def _lost(self, stage: Stage, part: str) -> bool:
        """Whether a standing part lost rows."""
        fingerprint = self.plan.fingerprint(stage.name)
        return lost_rows(self.store.read_receipt(stage.name, fingerprint, part)) > 0

    def _run(
        self,
        stages: Sequence[Stage],
        made: Collection[str],
        opened: Mapping[str, Function],
        part: str,
        table: pa.Table,
    ) -> None:
        tables = {self.plan.source: table}
        for stage in stages:
            fingerprint = self.plan.fingerprint(stage.name)
            if stage.name not in made:
                tables[stage.name] = self.store.read_part(stage.name, fingerprint, part)
                continue
            alive = live(tables[stage.inputs[0]])
            rows = max(1, stage.resources.batch_rows)
            outputs = [
                guarded(opened[stage.name], stage, (start, alive.slice(start, rows)))[0]
                for start in range(0, alive.num_rows, rows)
            ]
            tables[stage.name] = pa.concat_tables([*outputs, stage.step.writes.empty_table()])


def _leading_to_calls(plan: Plan) -> list[Stage]:
    """Return the steps that ask a model and the steps that feed them, in order."""
    needed: set[str] = set()
    for stage in reversed(plan.steps):
        if engines_of([stage.step]) or stage.name in needed:
            needed |= {stage.name, *stage.inputs}
    return [stage for stage in plan.steps if stage.name in needed]


def figures_of(
    clients: Mapping[str, Mapping[Engine, CountingClient]], documents: int
) -> dict[str, Any]:
    """Return prompts, calls, tokens, dollars and hours, by stage and in total."""
    total, by_stage = Estimate(), {}
    for name, asked in clients.items():
        for engine, client in asked.items():
            total.add(client.found)
            by_stage[name] = {"engine": engine.name, **client.found.as_dict()}
    per_document = (total.tokens_in + total.tokens_out) / max(1, documents)
    return {
        "estimate": True,
        "documents": documents,
        **total.as_dict(),
        "tokens_per_document": round(per_document, 1),
        "stages": by_stage,
    }


def priced(found: Estimate, engine: Model) -> Estimate:
    """Return an estimate with the dollars and hours of an engine."""
    rates = (engine.tokens_per_s_in, found.tokens_in), (engine.tokens_per_s_out, found.tokens_out)
    hours = sum(tokens / rate for rate, tokens in rates if rate) / 3600
    known = engine.priced or not found.calls
    usd = engine.price(found.tokens_in, found.tokens_out) + engine.hourly_usd * hours
    return replace(
        found,
        usd=usd if known else None,
        hours=hours if engine.tokens_per_s_out is not None else None,
    )


def readable(summary: dict[str, Any]) -> str:
    """Format the estimate for a terminal."""
    head = f"{'stage':<12}{'calls':>12}{'cached':>12}{'tokens in':>16}{'tokens out':>16}"
    lines = [head + f"{'USD':>12}{'hours':>9}"]
    for name, row in [*summary["stages"].items(), ("all", summary)]:
        hours = "–" if row["hours"] is None else f"{row['hours']:.2f}"
        usd = "–" if row["usd"] is None else f"{row['usd']:,.2f}"
        lines.append(
            f"{name:<12}{row['calls']:>12,}{row['cached']:>12,}{row['tokens_in']:>16,}"
            f"{row['tokens_out']:>16,}{usd:>12}{hours:>9}"
        )
    lines.append("tokens out: as long as the rules' answers; of second tries only known ones count")
    if summary["not_counted"]:
        lines.append(f"not counted, though they ask a model: {', '.join(summary['not_counted'])}")
    return "\n".join(lines)
