"""The configurations of a sweep: named rows and lists of values, each as `srrag evaluate` reads it.

The overrides of a configuration are its command. The sweep composes each one and binds it to its
build before it runs any, so that a wrong setting or a missing stage is found at once.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.config import factory
from srrag.config.compose import configure, listed
from srrag.config.words import model_of
from srrag.core.errors import UsageError, check_numbers
from srrag.core.pipeline import Pipeline
from srrag.core.step import Step
from srrag.lab.report.row import NAME
from srrag.llm.completion import one_line
from srrag.runner.engines import check_prices, engines_of
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say
from srrag.storage.mirror import exists, listing

Overrides = tuple[str, ...]
OWN = ("sweep", "out")
"""Keys that are about the sweep, not about a configuration."""
COMMON = (
    "bench", "profile", "completions", "budget", "mentions", "in_sample", "controls", "estimate",
    "retry_failed",
)  # fmt: skip
"""Keys that hold for all configurations, or they could not be compared or run together."""


@dataclass(frozen=True)
class Configuration:
    """A future row of the table: its overrides, the composed configuration, its bound pipeline.

    A row without a `run` is scored by its `stored` answers.
    """

    name: str
    overrides: Overrides
    argv: Overrides
    config: dict[str, Any]
    run: PipelineRun | None
    stored: pa.Table | None = None
    common: Overrides = ()
    """What the command says for all rows; its engine judges."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline to run: only its ranking if the benchmark judges rankings."""
        assert self.run is not None
        return self.run.pipeline

    @property
    def steps(self) -> Sequence[Step]:
        """The steps that run; of stored answers none is known."""
        return self.run.pipeline.steps if self.run else ()

    @property
    def resampling(self) -> dict[str, int]:
        """The number of resamples and the seed of its bootstrap intervals."""
        return {"resamples": self.config["resamples"], "seed": self.config["seed"]}

    def command(self, gold: str, judge: Any) -> str:
        """Return the command that repeats the row, given the gold's path and the judge's engine.

        It takes two commands if another engine answers.
        """
        if _asked(self.config["engine"]) == _asked(judge):
            return shlex.join(["srrag", "evaluate", *self.argv])
        out = f"{self.config['root']}/jobs/{re.sub(r'[^A-Za-z0-9]+', '-', self.name)}"
        known = {*configure("answer", ["root=R", "queries=Q"])} - {"overrides"}
        asks = [item for item in self.argv if first_key(item) in known]
        judges = [
            item
            for item in self.common
            if first_key(item) == "engine" or (item in self.argv and first_key(item) != "pipeline")
        ]
        answer = ["srrag", "answer", f"queries={gold}", *asks, f"out={out}"]
        judge = ["srrag", "evaluate", *judges, f"bench.answers={out}/answers.parquet"]
        return f"{shlex.join(answer)} && {shlex.join(judge)}"


def _asked(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's settings without its sampling; judges set their own."""
    return {key: value for key, value in engine.items() if key not in ("seed", "temperature")}


@dataclass(frozen=True)
class RowOff:
    """A configuration that cannot run on a root, and why."""

    reason: str
    overrides: Overrides


@dataclass(frozen=True)
class FileMadeBefore:
    """A file or folder that rows may read: its key in `sweep`, its path, and the command for it."""

    key: str
    path: str
    command: str


def made_before(keys: Mapping[str, Any]) -> list[FileMadeBefore]:
    """Return the files that the section `sweep` says other commands make."""
    return [FileMadeBefore(key, str(keys[key]), made) for key, made in keys["made_by"].items()]


def configurations(
    overrides: Sequence[str],
    rows: Mapping[str, Any],
    asked: Callable[[Pipeline], Pipeline],
    made_by: Sequence[FileMadeBefore] = (),
    off: dict[str, RowOff] | None = None,
) -> list[Configuration]:
    """Compose and check every configuration; raises UsageError that names the one at fault.

    `overrides` hold for all `rows`, which map names to their own. `asked` returns the part of a
    pipeline to run; it raises ValueError if it cannot run. With `off`, a configuration at fault
    goes there with its reason, and the others run; a file that `overrides` name has to be there.
    """
    argv = [item for item in overrides if first_key(item) not in OWN]
    if any(first_key(item) == "baseline" for item in argv):
        raise UsageError("baseline=: a sweep names the row to compare with by sweep.baseline=")
    for item in argv:
        if listed(item) and first_key(item) in COMMON:
            raise UsageError(f"{item}: it holds for all rows; give it one value")
    common = [item for item in argv if not listed(item)]
    made: dict[str, Configuration] = {}
    identities: set[str] = set()
    wanted = list(named(rows, argv))
    stated = {key_of(item) for item in overrides}
    needed = [file for file in made_by if off is None or f"sweep.{file.key}" in stated]
    if lacks := _lacking(needed, [item for _, given in wanted for item in given]):
        raise UsageError(lacks)
    for name, given in wanted:
        _check_name(name, made)
        try:
            if lacks := _lacking(made_by, given):
                raise UsageError(lacks)
            made[name] = _composed(name, given, common, asked)
            for step in made[name].pipeline.steps:
                if repr(step) not in identities:
                    step.identity()
                    identities.add(repr(step))
        except (ValueError, OSError) as error:
            if off is None:
                raise UsageError(f"configuration {name!r}: {error}") from error
            made.pop(name, None)
            off[name] = RowOff(one_line(error), given)
    if not made:
        raise UsageError("sweep: there is no configuration; name a sweep= or give a list, key=a,b")
    return list(made.values())


def _check_name(name: str, made: Collection[str]) -> None:
    """Raise UsageError for a second configuration of a name, or a name that results refuse."""
    if name in made:
        raise UsageError(f"sweep: two configurations are named {name!r}")
    if not re.match(NAME, name):
        raise UsageError(
            f"sweep: {name[:60]!r}… is no name of at most 120 characters; give fewer or shorter "
            "values, or a row of that name: +sweep.rows.NAME='…'"
        )


def _lacking(made_by: Sequence[FileMadeBefore], overrides: Sequence[str]) -> str:
    """Name the missing files of `sweep.KEY` that rows read; "" where all are there."""
    read = {item.partition("=")[2] for item in overrides}
    lacking = []
    for file in made_by:
        given = f"sweep.{file.key}={file.path}"
        for item in listed(given) or [given]:
            path = item.partition("=")[2]
            if path in read and not exists(Path(path)) and not listing(Path(path)):
                lacking.append(f"{item}: there is no such file (made by: {file.command})")
    return "; ".join(lacking)


def named(rows: Mapping[str, Any], argv: Sequence[str]) -> Iterator[tuple[str, Overrides]]:
    """Yield name and overrides of every configuration: each row times its lists' combinations."""
    if rows and not isinstance(rows, Mapping):
        raise UsageError("sweep.rows: rows have names; add one by +sweep.rows.NAME='…'")
    lists = [item for item in argv if listed(item)]
    for name, given in (rows or {"": ""}).items():
        items = overrides_of(name, given)
        if items is None:
            say(f"sweep.rows: {name!r} is left out, as it names nothing")
            continue
        keys = {key_of(item) for item in items}
        whole = [*items, *(item for item in lists if key_of(item) not in keys)]
        for choice in product(*([(i, v) for v in listed(i)] or [(i, i)] for i in whole)):
            chosen = [value for item, value in choice if item != value]
            label = ", ".join(filter(None, [name, *map(short, chosen)]))
            yield label or "as it stands", tuple(value for _, value in choice)


def overrides_of(name: str, given: Any) -> list[str] | None:
    """Return the overrides of a row given as a text or a list; None if one of them is null."""
    texts = given if isinstance(given, list) else [given]
    if any(text is None for text in texts):
        return None
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"sweep.rows: {name!r} is no text of overrides, nor a list of them")
    try:
        items = [item for text in texts for item in shlex.split(text)]
    except ValueError as error:
        raise UsageError(f"sweep.rows: {name!r}: {error}") from error
    for item in items:
        if first_key(item) in (*OWN, *COMMON, "baseline"):
            raise UsageError(f"configuration {name!r}: {item} holds for all or none; give it once")
    return items


def key_of(override: str) -> str:
    """The key that an override sets."""
    return override.partition("=")[0].lstrip("+~")


def first_key(override: str) -> str:
    """The group or job key that an override is about."""
    return re.split(r"[.@]", key_of(override))[0]


def short(override: str) -> str:
    """Shorten an override for a name: pipelines and engines lose their key, others keep it."""
    key, _, value = override.partition("=")
    return value if "." not in key and key in ("pipeline", "engine") else f"{_last(key)}={value}"


def _last(key: str) -> str:
    return key.rpartition(".")[2].lstrip("+~")


def _composed(
    name: str, overrides: Overrides, common: Sequence[str], asked: Callable[[Pipeline], Pipeline]
) -> Configuration:
    word = "model="
    own = [
        each
        for item in overrides
        for each in (model_of(item.removeprefix(word)) if item.startswith(word) else [item])
    ]
    argv = (*_kept(common, own), *own)
    config = configure("evaluate", argv)
    check_numbers(config, resamples=1, seed=0)
    pipeline = asked(factory.pipeline(config))
    run = factory.pipeline_run(config, pipeline)
    at = run.place(factory.place(config))
    check_prices(engines_of([run.pipeline]), at)
    return Configuration(name, overrides, argv, config, run, common=tuple(common))


def _kept(common: Sequence[str], own: Sequence[str]) -> Iterator[str]:
    """Yield what of the command holds for a row too.

    An engine of its own takes no key, header or other setting of a judge elsewhere, and at the same
    place no price of another model.
    """
    keys = {key_of(item) for item in own}
    elsewhere = "engine" in keys and not _where(own) <= _where(common)
    named = {key_of(item) for item in common}
    moved = "engine.base_url" in keys & named and not _where(own) <= _where(common)
    for item in common:
        key = key_of(item)
        price = key.startswith("engine.usd_per_mtok") and "engine.model" in keys & named
        secret = moved and key.startswith(("engine.api_key_env", "engine.headers", "engine.query"))
        if not (key in keys or price or secret or (elsewhere and first_key(item) == "engine")):
            yield item


def _where(overrides: Sequence[str]) -> ItemsView[str, str]:
    """The kind and address of the engine that overrides name, the last of each."""
    named = {key_of(item): item for item in overrides}
    return {key: named[key] for key in ("engine", "engine.base_url") if key in named}.items()
