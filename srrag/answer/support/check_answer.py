"""A model reads an answer beside what it cites, and corrects what is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.answer.select.sentence_numbers import CitedText, cited_papers
from srrag.answer.support.settle_checks import (
    REVISES,
    CheckedAnswer,
    CheckedSentence,
    checked,
    to_check,
)
from srrag.core.rows import Row, live, with_columns, with_rejects
from srrag.core.schema import REJECT, SUPPORT, UNSUPPORTED
from srrag.core.step import LLMStep
from srrag.llm.completion import Completion, Fault, Prompt, PromptFile, Rules
from srrag.llm.delimit import quoted
from srrag.llm.fields import most_tokens
from srrag.reading.numbers import lost_numbers

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "check_answer.md", CheckedAnswer)


@dataclass(frozen=True, kw_only=True)
class CheckAnswer(LLMStep):
    """Have a model check the sentences of an answer against what each cites, and mend them.

    This step follows an answering step: one call a question, with the cited papers and all
    sentences that cite. A sentence that is not wholly supported is replaced once by its correction,
    which the same call gives; without one it is left out. If the lead falls (the first sentence of
    the part `answer`), so do verdict and choice: the answer says that it could not be supported,
    and what still stands is shown as evidence. `support` counts sentences, `unsupported` lists what
    did not stand as written and what stands instead.

    Numbers that no cited sentence holds are shown to the model, which decides. What `veto` finds
    is held back whatever the model says, in findings as well; `missing` and reasons may name what
    no paper holds. Sentences without a
    verdict stay as they were, and the question is marked as degraded. By rules this step is off.

    A cited paper is shown whole up to `whole_chars`, else the cited sentences with `neighbours`
    on either side.
    """

    whole_chars: int = 3000
    neighbours: int = 2
    max_tokens: int = most_tokens(CheckedAnswer)

    reads: ClassVar[tuple[str, ...]] = ("text", "evidence", *REVISES)
    revises: ClassVar[tuple[str, ...]] = REVISES
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("support", SUPPORT, nullable=False),
            pa.field("unsupported", UNSUPPORTED, nullable=False),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 3

    @property
    def off(self) -> bool:
        """Rules quote word for word, and have nothing to check."""
        return isinstance(self.engine, Rules)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each question with a sentence that cites."""
        if self.off:
            return []
        return [
            Prompt(
                number,
                "check",
                PROMPT.system(),
                self.rendered(
                    row["text"], row["evidence"], [row["sentences"][place] for place in asked]
                ),
                CheckedAnswer,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
            if (asked := to_check(row))
        ]

    def rendered(self, question: str, evidence: Sequence[Row], sentences: Sequence[Row]) -> str:
        """Render the papers and sentences of one prompt; sentences are numbered from 1."""
        papers = cited_papers(evidence, sentences)
        return PROMPT.user(
            question=quoted(question),
            papers="\n".join(
                line
                for paper in papers.values()
                for line in paper.lines(self.whole_chars, self.neighbours)
            ),
            num_sentences=len(sentences),
            sentences="\n".join(
                quoted(_to_judge(n, sentence, papers, question))
                for n, sentence in enumerate(sentences, 1)
            ),
        )

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Nothing is asked of the rules."""
        return []

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Each sentence has a check."""
        (row,) = batch.select(["sentences", "evidence"]).slice(prompt.row, 1).to_pylist()
        numbers = range(1, len(to_check(row)) + 1)
        given = [each.n for each in value.checks]
        if lacking := [n for n in numbers if n not in given]:
            listed = ", ".join(map(str, lacking))
            return Fault("incomplete", f"No check is given for these sentences: {listed}.")
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Revise each answer by the checks on its sentences."""
        checks: dict[int, dict[int, CheckedSentence]] = {}
        faults: dict[int, list[Fault]] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            fault = completion.fault or self.check(batch, prompt, completion.value)
            if fault is not None:
                faults[prompt.row] = [fault]
            given = completion.value.checks if completion.value else ()
            checks[prompt.row] = {each.n: each for each in reversed(given)}
        names = [*self.revises, "support", "unsupported"]
        blank = {"support": dict.fromkeys(SUPPORT.names, 0), "unsupported": []}
        rows = [each | blank for each in batch.select(list(self.revises)).to_pylist()]
        for number, row in live(batch, self.reads):
            if not self.off:
                rows[number] = checked(row, checks.get(number, {}))
        fields = [
            self.writes.field(name) if name in self.writes.names else batch.schema.field(name)
            for name in names
        ]
        table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
        return with_rejects(with_columns(batch, table), "check", faults)


def _to_judge(n: int, sentence: Row, papers: Mapping[str, CitedText], question: str) -> Row:
    """What a prompt tells of a sentence; `not_found` stands only where a number was lost."""
    cited = [papers[each] for each in sentence["evidence_ids"] if each in papers]
    cites: list[str] = []
    sources = [question]
    for paper in cited:
        places = paper.of_places(sentence["places"])
        cites += [f"{paper.number}.{each}" for each in places] or [str(paper.number)]
        sources += [paper.item["title"], str(paper.item["year"] or "")]
        sources += [paper.sentence(each) for each in places] or [paper.item["text"]]
    lost = lost_numbers(sentence["text"], sources)
    told = {"n": n, "text": sentence["text"], "cites": ", ".join(cites)}
    return told | ({"not_found": ", ".join(lost)} if lost else {})
