"""The calibration parameters of a pipeline's last ranking, for explanations."""

from __future__ import annotations

from typing import Any

from srrag.algo.betr import GRADES
from srrag.core.step import Step, within
from srrag.rerank.betr import RerankBETR


def terms_of(pipeline: Step) -> dict[str, Any] | None:
    """Scale `a` and the bias `u` of each grade; None for a pipeline without BETR."""
    steps = [step for step in within(pipeline) if isinstance(step, RerankBETR)]
    if not steps:
        return None
    found = steps[-1].calibration()
    return {"a": found.a, "u": dict(zip(GRADES, found.u.tolist(), strict=True))}
