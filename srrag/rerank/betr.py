"""Rerank by evidence grade: r = â·s + û_grade, with parameters from `srrag fit_betr`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.betr import GRADES
from srrag.algo.classification import question_fold
from srrag.core.hits import unpack_hits
from srrag.core.provenance import Fitted, read_fitted
from srrag.core.schema import HITS
from srrag.core.spec import fingerprint, spec
from srrag.core.standing import UNGRADED
from srrag.core.step import Function, Place, Step, within
from srrag.core.units import open_units
from srrag.rerank.fuse_features import FuseFeatures
from srrag.rerank.reranker import rank_hits
from srrag.storage.atomic_write import read_json
from srrag.storage.mirror import bring

_WHICH = ("hits", "into", "keep", "tracks")


def scorer(step: Step) -> str:
    """Name and revision of a step that scores: `RerankMaxSim@<fingerprint>`.

    The revision is a hash of its configuration. Parameters are valid for that revision only,
    because other scorers have other scales. The column that it reads and the number of windows that
    it keeps are not part of the revision, unless it blends, which stretches scores over the hits it
    reads.
    """
    if getattr(step, "cross_fitted", False):  # weights of folds have the scale of the weights
        step = replace(step, cross_fitted=False)  # type: ignore[call-arg]
    same = () if getattr(step, "blend", ()) else _WHICH
    stated = {key: value for key, value in spec(step).items() if key not in same}
    return f"{type(step).__name__}@{fingerprint(stated, step.identity())}"


@dataclass(frozen=True)
class Calibration:
    """Content of betr.json: scale a, bias of each grade, name of the scorer, and training data."""

    a: float
    u: npt.NDArray[np.float64]
    reranker: str
    fitted: Fitted


def read_calibration(path: str | Path) -> Calibration:
    """Read a betr.json; raises ValueError that names the file and the problem."""
    if not bring(Path(path)).is_file():
        raise ValueError(
            f"{path}: there is no such file; `srrag fit_betr pipeline=…` writes it on a root with "
            f"gold windows (the sample), and pipeline.rank.fine.model names another root's"
        )
    stated = read_json(Path(path))
    try:
        a, reranker = float(stated["parameters"]["a"]), stated["reranker"] or ""
        u = [float(stated["parameters"]["u"][grade]) for grade in GRADES]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not the parameters of BETR ({error!r})") from error
    falling = all(upper >= lower for upper, lower in pairwise(u))
    if not (math.isfinite(a) and a > 0 and u[0] == 0 and falling and math.isfinite(u[-1])):
        raise ValueError(f"{path}: not the parameters of BETR (a > 0 and 0 = u_A ≥ … ≥ u_E)")
    return Calibration(a, np.array(u), str(reranker), read_fitted(stated, "betr", path))


def _fitted_together(reranker: Step) -> Calibration:
    """The biases of grades in the file of the reranker's weights, fitted with them; a = 1."""
    if not isinstance(reranker, FuseFeatures):
        raise ValueError(f"packaged: {type(reranker).__name__} has no packaged biases of grades")
    found = reranker.weights()
    return Calibration(1.0, np.array(found.u), scorer(reranker), found.fitted)


@dataclass(frozen=True, kw_only=True)
class RerankBETR(Step):
    """Score by `reranker`, then rank by r = â·s + û_grade (Eq. 9 of sr-rag).

    The reranker is a part of this step, so that parameters fitted to another scorer are refused. It
    writes the column `into`; its uncalibrated scores stay in `<into>_uncalibrated`. `model` is the
    path of a betr.json, whose parameters are part of the identity. Where none is named, it is
    `own`, the root's; a root without that file takes the biases of grades that were fitted together
    with the reranker's packaged weights (â = 1). Where the reranker is cross-fitted, these biases
    too were fitted without the question's fold. A window without a grade counts as E.
    """

    reranker: Step
    model: str = field(default="", compare=False, metadata={"identity": False})
    own: str = field(default="", compare=False, metadata={"identity": False})
    into: str = "hits"
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError if the reranker does not write `into` or is itself BETR."""
        if isinstance(self.reranker, RerankBETR):
            raise ValueError("reranker: BETR calibrates a reranker, not itself")
        if self.reranker.writes.names != [self.into]:
            raise ValueError(f"reranker: it has to write the column {self.into!r} and no other")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the reranker reads."""
        return self.reranker.reads

    @property
    def writes(self) -> pa.Schema:
        """The reranker's hits and the calibrated ones."""
        return pa.schema([pa.field(f"{self.into}_uncalibrated", HITS), pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """What the reranker needs, and the units index for the grades."""
        return (*self.reranker.needs(), self.units)

    def identity(self) -> dict[str, Any]:
        """The parameters, and the identity of the reranker."""
        found = self.calibration()
        u = self._of_folds().tolist() if self._crossed() else found.u.tolist()
        return {"a": found.a, "u": u, "reranker": self.reranker.identity()}

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions whose pairs the parameters were fitted to; those of other folds are not."""
        return () if self._crossed() else (self.calibration().fitted,)

    def _crossed(self) -> bool:
        """Whether the biases are those of the folds of cross-fitted weights."""
        return self.takes_packaged() and bool(getattr(self.reranker, "cross_fitted", False))

    def _of_folds(self) -> npt.NDArray[np.float64]:
        """The biases of each fold, (folds, grades)."""
        assert isinstance(self.reranker, FuseFeatures)  # as `calibration` has checked
        return np.array([fold.u for fold in self.reranker.weights().folds])

    def calibration(self) -> Calibration:
        """Read the parameters; raises ValueError if they were fitted to another reranker."""
        path = self.model or self.own
        if not path:
            raise ValueError(
                "model: the path of a betr.json is missing; `srrag fit_betr` writes it"
            )
        if self.takes_packaged():
            return _fitted_together(self.reranker)
        found = read_calibration(path)
        here = scorer(self.reranker)
        if found.reranker != here:
            whose = found.reranker or "a reranker that it does not name"
            raise ValueError(f"{path} was fitted to the scores of {whose}, not of {here}")
        return found

    def takes_packaged(self) -> bool:
        """Whether no file is named, the root has none of its own, and the packaged ones count."""
        return not self.model and bool(self.own) and not bring(Path(self.own)).is_file()

    def open(self, at: Place) -> Function:
        """Read the parameters; raises ValueError if they were fitted to another reranker."""
        found = self.calibration()
        score = self.reranker.open(at)
        units = open_units(at, self.units)
        crossed = self._crossed()
        u = self._of_folds() if crossed else found.u[None]

        def run(batch: pa.Table) -> pa.Table:
            scored = score(batch)[self.into]
            ids, scores, offsets = unpack_hits(scored)
            grades = units.take(ids.to_pylist(), ("grade",))["grade"].to_pylist()
            ranks = np.array([GRADES.index(grade or UNGRADED) for grade in grades], np.int64)
            asked = map(question_fold, batch["text"].to_pylist() if crossed else ())
            fold = np.array([*asked] or [0] * batch.num_rows, np.int64)
            calibrated = found.a * scores.astype(np.float64)
            calibrated += u[np.repeat(fold, np.diff(offsets)), ranks]
            before, after = self.writes
            hits = rank_hits(ids, calibrated, offsets)
            return batch.append_column(before, scored).append_column(after, hits)

        return run


def terms_of(pipeline: Step) -> dict[str, Any] | None:
    """Scale `a` and the bias `u` of each grade; None for a pipeline without BETR."""
    steps = [step for step in within(pipeline) if isinstance(step, RerankBETR)]
    if not steps:
        return None
    found = steps[-1].calibration()
    return {"a": found.a, "u": dict(zip(GRADES, found.u.tolist(), strict=True))}
