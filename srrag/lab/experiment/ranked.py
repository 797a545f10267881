"""Base of benchmarks that score a ranking by gold: no judge, no control systems."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import pyarrow as pa

from srrag.core.pipeline import Pipeline
from srrag.core.step import Place, Step
from srrag.lab.experiment.in_sample import InSample, split
from srrag.lab.experiment.outcome import Outcome
from srrag.lab.experiment.record import with_windows
from srrag.lab.measure.scores import Scores


class RankedByGold:
    """A benchmark whose scores need a ranking and gold alone."""

    @abstractmethod
    def scores(self, table: pa.Table, at: Place) -> list[Scores]:
        """Score a ranking."""

    def asked(self, pipeline: Pipeline) -> Pipeline:
        """Return the ranking of a pipeline; ValueError if it ranks nothing."""
        if not pipeline.rank:
            raise ValueError("pipeline: it ranks nothing that could be judged")
        return pipeline.ranking()

    @property
    def learned(self) -> Sequence[Step]:
        """No judge is asked."""
        return ()

    def tried(
        self, outcomes: Mapping[str, Outcome], baseline: str, seen: InSample
    ) -> tuple[dict[str, list[Scores]], dict[str, str]]:
        """Try nothing: a ranking is scored by gold."""
        return {}, {}

    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Score a ranking for a sweep, with in-sample questions apart."""
        lost = len(table["reject"].drop_null())
        kept, apart = split(self.scores(table, at), seen)
        return Outcome(kept, missing={"failed": lost} if lost else {}, apart=apart)

    def kept(self, table: pa.Table, at: Place) -> pa.Table:
        """Keep the first windows of the ranking."""
        return with_windows(table, at)
