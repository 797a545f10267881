"""A row of results: a system on a benchmark, its figures, costs, and where they come from."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from srrag.core.figures import BaselineDifference, Figure


class Stated(pydantic.BaseModel):
    """What stands in rows.json: no stray keys, nothing infinite."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


NO_EFFECT = 0.0005
"""A difference below this prints as .000."""


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

    name: str = pydantic.Field(pattern=r"^\S[^\x00-\x1f]{0,119}$")
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
