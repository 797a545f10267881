"""Hypothetical passages that keep to the question's PICOT (SR-RAG, section 4.4, Listing S1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa

from srrag.core.rows import Row, RowStep
from srrag.core.schema import relation
from srrag.llm.completion import Answer, PromptFile, Rules, fenced, quoted
from srrag.llm.fields import Items, Text, most_tokens
from srrag.reading.numbers import told_numbers

NUM_PASSAGES = 3
TEMPERATURE = 0.3
"""Table S3: three passages a question, at this temperature for other words."""


class HydePassages(Answer):
    """Passages of 5 to 8 sentences (Listing S1)."""

    example: ClassVar[dict[str, Any] | None] = {
        "passages": [
            "The trial enrolled young children at high risk of dental caries. Fluoride varnish was "
            "applied to all primary teeth at regular visits. The control group received no topical "
            "fluoride. Caries increment on tooth surfaces was lower with varnish at the end of "
            "follow-up. Adverse events were rare and mild.",
            "Schoolchildren were allocated to varnish by a nurse or to usual care. Oral hygiene "
            "advice was the same in both groups. Examiners were blinded to allocation. The "
            "incidence of cavitated lesions did not differ significantly between the groups. "
            "Attendance and acceptability were high.",
            "Professional application of fluoride varnish is recommended for preschool children. "
            "It should be repeated at recall visits. Tooth brushing with fluoride toothpaste "
            "continues. Compared with no varnish, fewer primary teeth become decayed. The "
            "certainty is higher for children at high risk.",
        ]
    }

    passages: Annotated[
        list[Annotated[str, Text(140, "5 to 8 declarative sentences")]],
        Items(NUM_PASSAGES, "each in other words, as another paper would", fewest=NUM_PASSAGES),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "hyde.md", HydePassages)


@dataclass(frozen=True, kw_only=True)
class WriteHyde(RowStep):
    """Write three hypothetical passages about `text` that keep to its `anchors`, in one call.

    The paper samples each by a call of its own. Nobody reads a passage: its vector is searched for.
    The engine `rules` writes none, so the channel finds nothing. A faulty answer rejects its row.
    """

    version: ClassVar[int] = 4

    max_tokens: int = most_tokens(HydePassages)

    reads: ClassVar[tuple[str, ...]] = ("text", "anchors")
    writes: ClassVar[pa.Schema] = relation("hyde_passages:strings")
    auxiliary: ClassVar[bool] = True
    slot: ClassVar[str] = "hyde"
    file: ClassVar[PromptFile] = PROMPT
    temperature: ClassVar[float] = TEMPERATURE

    @property
    def off(self) -> bool:
        """Whether no passage is written, since rules make nothing up."""
        return isinstance(self.engine, Rules)

    def told(self, row: Row) -> dict[str, str] | None:
        """The question and its anchors; nothing is asked of the rules."""
        anchors = quoted({part: row["anchors"][part] for part in "PICOT"})
        question = fenced("question", row["text"])
        return None if self.off else {"question": question, "anchors": anchors}

    def ruled(self, rows: Sequence[Row]) -> list[HydePassages]:
        """The question, where an answer of the model has to be stood in for."""
        return [HydePassages(passages=[row["text"]]) for row in rows]

    def columns(self, value: HydePassages, row: Row) -> Row:
        """The passages, each once, without sentences whose numbers the question lacks."""
        return {"hyde_passages": told_numbers(value.passages, [row["text"]])}
