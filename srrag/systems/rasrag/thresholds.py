"""The relevance thresholds of a tree search: read, checked, and fitted to gold units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.storage.atomic_write import read_json
from srrag.storage.mirror import bring

QUANTILES = {
    "btu_definite": 0.75,
    "btu_candidate": 0.1,
    "stu_definite": 0.97,
    "stu_candidate": 0.5,
    "stu_uncertain": 0.1,
}
"""The share of gold units that score below each threshold."""
_PACKAGED = "pkg://srrag/"


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """τ of RASRAG's Eq. 4 and 5; a unit passes above its threshold.

    The paper prints τ_cand twice for uncertain units; the lower bound is `stu_uncertain`.
    """

    btu_definite: float
    btu_candidate: float
    stu_definite: float
    stu_candidate: float
    stu_uncertain: float

    def __post_init__(self) -> None:
        """Raise ValueError unless definite > candidate > uncertain, all finite."""
        for names in (
            ("btu_definite", "btu_candidate"),
            ("stu_definite", "stu_candidate", "stu_uncertain"),
        ):
            values = [getattr(self, name) for name in names]
            if not all(map(math.isfinite, values)) or sorted(set(values), reverse=True) != values:
                said = ", ".join(f"{n} = {v}" for n, v in zip(names, values, strict=True))
                raise ValueError(f"thresholds out of order: {said}; each has to exceed the next")


def read_thresholds(path: str, scorer: str, embedder: Mapping[str, Any]) -> Thresholds:
    """Read a file of `srrag fit_thresholds`; raises ValueError that names the file and the problem.

    `pkg://srrag/…` is a file of the package. Thresholds fitted to another scorer, or on vectors of
    another encoder (`embedder_name`; {} where none counts), are refused, since they differ in
    scale.
    """
    file = Path(str(files("srrag"))) / path.removeprefix(_PACKAGED)
    file = file if path.startswith(_PACKAGED) else bring(Path(path))
    if not file.is_file():
        raise ValueError(f"{path}: there is no such file; `srrag fit_thresholds` writes it")
    stated: Any = read_json(file)
    try:
        values = {name: float(stated["thresholds"][name]) for name in QUANTILES}
        fitted_to, vectors = str(stated["scorer"]), stated.get("embedder")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not thresholds of a tree search ({error!r})") from error
    if fitted_to != scorer:
        raise ValueError(f"{path} was fitted to the scores of {fitted_to}, not of {scorer}")
    if vectors is None:
        raise ValueError(f"{path} does not tell its embedder; `srrag fit_thresholds` fits it anew")
    if vectors != embedder:
        same = vectors.get("model") == embedder.get("model")
        theirs, here = (str(e if same else e.get("model")) for e in (vectors, embedder))
        raise ValueError(
            f"{path} was fitted on vectors of {theirs}, not of {here}; `srrag fit_thresholds` fits "
            "them to these"
        )
    try:
        return Thresholds(**values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def fit(
    btus: npt.NDArray[np.float64],
    stus: npt.NDArray[np.float64],
    quantiles: Mapping[str, float] = QUANTILES,
) -> dict[str, float]:
    """Return the quantiles of the scores of gold BTUs and gold STUs; none are published.

    Raises ValueError without gold units, and for a score that is not finite.
    """
    for name, scores in (("BTU", btus), ("STU", stus)):
        if not len(scores):
            raise ValueError(f"no question has a gold {name}")
        if not np.isfinite(scores).all():
            raise ValueError(f"a gold {name} has a score that is not finite")
    return {
        name: round(float(np.quantile(btus if name.startswith("btu") else stus, share)), 6)
        for name, share in quantiles.items()
    }
