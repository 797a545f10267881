"""A measured figure: a value, its 95 % interval, and how many it was measured on.

One shape for everything that is measured: the last line of a job, `rows.json` of results, the page
of a report. `schema` states it as JSON Schema; `srrag JOB --schema` prints that.
"""

from __future__ import annotations

from typing import Any, Literal

import pydantic

Floats = tuple[float, float, float]

_MEASURED = {"value": {"type": "number"}, "low": {"type": "number"}, "high": {"type": "number"}}
_UNMEASURED = {
    **{key: {"type": "null"} for key in ("value", "low", "high")},
    "reason": {"minLength": 1},
}


class Figure(pydantic.BaseModel):
    """A value with its 95 % bootstrap interval, or None and the reason; counts behind it.

    `n` counts what the bootstrap draws (questions, documents), `items` what was judged of them
    (sentences, pairs), `failed` items that could not be judged, `left_out` those without gold.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    reason: str = ""
    items: int | None = None
    failed: int = 0
    left_out: int = 0
    better: Literal["higher", "lower", "neither"] = "higher"

    @pydantic.model_validator(mode="after")
    def _is_whole(self) -> Figure:
        if self.value is None and not self.reason:
            raise ValueError("there is no value, and no reason why")
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two ends")
        return self

    def stated(self) -> dict[str, Any]:
        """The figure as jobs print it: value, interval, n and the other known fields."""
        always = {"value": self.value, "low": self.low, "high": self.high, "n": self.n}
        return always | self.model_dump(exclude_defaults=True)


class BaselineDifference(Figure):
    """The difference of a system to its baseline; p-values of the paired bootstrap and McNemar."""

    p: float | None = None
    p_holm: float | None = None
    p_mcnemar: float | None = None


def measured(found: Floats, n: int, **more: Any) -> dict[str, Any]:
    """State (value, low, high) as a Figure in JSON, rounded to four digits."""
    value, low, high = (round(each, 4) for each in found)
    return {"value": value, "low": low, "high": high, "n": n, **more}


def unmeasured(reason: str, n: int = 0, **more: Any) -> dict[str, Any]:
    """State as a Figure in JSON that there is no value, and why."""
    return {"value": None, "low": None, "high": None, "n": n, "reason": reason, **more}


def printed(figure: dict[str, Any], digits: int = 4) -> str:
    """A figure for a terminal: value and interval, or a dash and the reason."""
    if figure["value"] is None:
        return f"{'–':>{digits + 4}}   {figure['reason']}"
    value, low, high = (f"{figure[key]:.{digits}f}" for key in ("value", "low", "high"))
    return f"{value:>{digits + 4}}   [{low}, {high}]"


NEEDED = {
    "evaluate": ("metrics",),
    "fit_abstain": ("metrics",),
    "fit_betr": ("metrics",),
    "fit_thresholds": ("metrics",),
    "sweep": ("rows",),
    "train_encoder": ("metrics",),
    "train_filter": ("metrics",),
    "train_tagger": ("metrics",),
}
"""Required fields of a job's summary, beside its name."""


def schema(job: str) -> dict[str, Any]:
    """The JSON Schema of the last line of a job.

    At any depth, `metrics` and `…_metrics` map names to figures, `difference` to those of two
    systems; `rows`, `systems` and `controls` map names to objects with `metrics`. All other keys
    are the job's own.
    """
    figures = {"type": "object", "additionalProperties": {"$ref": "#/$defs/Figure"}}
    differences = {"type": "object", "additionalProperties": {"$ref": "#/$defs/Difference"}}
    grouped = {"type": "object", "required": ["metrics"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The last line of srrag {job}",
        "$ref": "#/$defs/Node",
        "type": "object",
        "required": ["job", *NEEDED.get(job, ())],
        "properties": {
            "job": {"const": job},
            **{
                name: {"type": "object", "additionalProperties": grouped}
                for name in ("rows", "systems", "controls")
                if job in ("evaluate", "sweep", "review")
            },
        },
        "$defs": {
            "Figure": _stated(Figure),
            "Difference": _stated(BaselineDifference),
            "Node": {
                "properties": {"difference": differences},
                "patternProperties": {"^([a-z_]+_)?metrics$": figures},
                "additionalProperties": {
                    "if": {"type": "array"},
                    "then": {"items": {"$ref": "#/$defs/Node"}},
                    "else": {"$ref": "#/$defs/Node"},
                },
            },
        },
    }


def _stated(model: type[Figure]) -> dict[str, Any]:
    """The schema of a figure as jobs print it: value, interval and n are always there."""
    made = model.model_json_schema()
    del made["additionalProperties"]  # a job may add fields, as a review adds its SD
    either = [{"properties": _MEASURED}, {"properties": _UNMEASURED, "required": ["reason"]}]
    return {**made, "required": ["value", "low", "high", "n"], "anyOf": either}
