"""A cross-encoder reads each sentence of an answer beside each piece of evidence that it cites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt
import pyarrow as pa

from srrag.answer.judge_support import JudgeSupport, judged, to_judge
from srrag.answer.support_gate import statement
from srrag.model.cross_encoder import CrossEncoderModel
from srrag.rows import Row, live, with_columns
from srrag.step import Function, Place, Step


@dataclass(frozen=True, kw_only=True)
class ScoreSupport(Step):
    """Drop citations whose logit is below `least`, then sentences without a citation.

    This step follows CheckSupport, as JudgeSupport does, and revises what that left; a verbatim
    quote is not read. `support_scored` counts the sentences that were. `least` depends on the
    model: a logit of 0 is an even chance only of a model that was trained to tell support.
    """

    cross_encoder: CrossEncoderModel
    least: float = 0.0

    reads: ClassVar[tuple[str, ...]] = JudgeSupport.reads
    revises: ClassVar[tuple[str, ...]] = JudgeSupport.revises
    writes: ClassVar[pa.Schema] = pa.schema(
        [pa.field("support_scored", pa.int32(), nullable=False)]
    )

    def open(self, at: Place) -> Function:
        """Load the model."""
        from srrag.model.cross_encoder import load_cross_encoder

        logits = load_cross_encoder(self.cross_encoder, at.device, at.threads).logits

        def run(batch: pa.Table) -> pa.Table:
            rows = batch.select(list(self.revises)).to_pylist()
            scored = [0] * len(rows)
            for number, row in live(batch, self.reads):
                found = self.supporting(row, logits)
                scored[number] = len(found)
                rows[number] = judged(row, found)
            schema = pa.schema([batch.schema.field(name) for name in self.revises])
            batch = with_columns(batch, pa.Table.from_pylist(rows, schema=schema))
            return batch.append_column(self.writes.field(0), pa.array(scored, pa.int32()))

        return run

    def supporting(
        self, row: Row, logits: Callable[[str, Sequence[str]], npt.NDArray[Any]]
    ) -> dict[int, set[int]]:
        """The numbers of the evidence that supports each sentence that is no quote, by place."""
        found = {}
        for place, cited in to_judge(row).items():
            passages = [
                self.cross_encoder.separator.join(filter(None, (item["title"], item["text"])))
                for item in cited.values()
            ]
            scores = logits(statement(row["sentences"][place]["text"]), passages)
            stands = zip(cited, scores.tolist(), strict=True)
            found[place] = {n for n, score in stands if score >= self.least}
        return found
