"""Propose a new version of the extraction schema; the old one stays (SR-RAG Eq. 12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from srrag.core.ontology import Ontology
from srrag.core.spec import spec
from srrag.core.step import Build, Place
from srrag.extract.proposals import Element, ProposalSupport, Row, Verdict, collect, grown, judge
from srrag.storage.manifest import check_part
from srrag.storage.mirror import opened

REASONS = ("proposed", "unknown_type", "unknown_relation")
"""Reject reasons that show gaps in the schema: proposals, and facts outside the schema."""
_COLUMNS = (
    "doc_id", "unit_id", "kind", "head_type", "relation", "tail_type", "quote", "confidence",
    "char_start", "char_end", "reject",
)  # fmt: skip
_JUDGED = ["char_start", "char_end", "reject"]
"""The columns that show whether a part has such facts; quotes are long and read only then."""


@dataclass(frozen=True, kw_only=True)
class GrowSchema(Build):
    """TRIPLES → a report on proposals, and the next version of the schema if any is accepted.

    `number` is the version of the schema in use. `threshold` is μ, the minimum of a proposal's mean
    confidence over the windows that make it, and `min_windows` the minimum number of those windows.
    The schema in use never changes here; the user decides whether to adopt the new file.
    """

    ontology: Ontology
    number: int = 1
    threshold: float = 0.8
    min_windows: int = 5
    triples: str = "triples"

    def __post_init__(self) -> None:
        """Raise ValueError for thresholds out of range."""
        if not 0.0 <= self.threshold <= 1.0:
            raise ValueError(f"threshold must lie in [0, 1], not {self.threshold}")
        if self.min_windows < 1:
            raise ValueError(f"min_windows must be at least 1, not {self.min_windows}")

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `report.md`, and `schema-N+1.yaml`, which a build accepts, if any is accepted."""
        found = collect(_refused(inputs[self.triples]), self.ontology)
        verdicts = judge(
            found, self.ontology, threshold=self.threshold, min_windows=self.min_windows
        )
        accepted = [element for element in found if verdicts[element] == "accepted"]
        (out / "report.md").write_text(self._report(found, verdicts), "utf-8")
        number = self.number + bool(accepted)
        if accepted:
            schema = spec(grown(self.ontology, accepted))
            text = yaml.safe_dump(schema, sort_keys=False, allow_unicode=True)
            made = f"# Version {number} of the schema\n{text}"
            (out / f"schema-{number}.yaml").write_text(made, "utf-8")
        return {
            "proposed": len(found),
            "accepted": len(accepted),
            "elements": ", ".join(dict.fromkeys(element.name for element in accepted)),
            "version": number,
        }

    def _report(
        self, found: Mapping[Element, ProposalSupport], verdicts: Mapping[Element, Verdict]
    ) -> str:
        lines = [
            f"# Schema version {self.number}: proposals",
            "",
            f"Accepted: at least {self.min_windows} windows, mean confidence {self.threshold:g} "
            f"or more. Version {self.number} stays in use until another is chosen.",
        ]
        # Accepted ones first, then by the number of proposing windows.
        order = sorted(found, key=lambda e: (verdicts[e] != "accepted", -len(found[e].votes), e))
        for element in order:
            support = found[element]
            lines += [
                "",
                f"## {_title(element)}: {verdicts[element]}",
                "",
                f"{len(support.votes)} windows of {len(support.documents)} documents, "
                f"confidence {support.confidence:.3f}",
                "",
            ]
            for _, unit, document, quote in support.examples:
                lines.append(f"    {' '.join(quote.split())}  [{document} {unit}]")
        return "\n".join(lines) + "\n"


def _title(element: Element) -> str:
    if element.kind == "relation":
        return f"relation {element.head_type} {element.name} {element.tail_type}"
    return f"{element.kind} {element.name}" + (
        f" of {element.head_type}" if element.head_type else ""
    )


def _refused(paths: Sequence[Path]) -> Iterator[Row]:
    """Yield facts refused for a missing type, if their window contains the quote."""
    for path in paths:
        check_part(path)
        file = pq.ParquetFile(opened(path))
        if not pc.any(_wanted(file.read(columns=_JUDGED))).as_py():
            continue
        table = file.read(columns=list(_COLUMNS))
        yield from table.filter(_wanted(table)).to_pylist()


def _wanted(facts: pa.Table) -> pa.ChunkedArray:
    reason = pc.struct_field(facts["reject"], "reason")
    # An ungrounded quote, which the model may have invented, has an empty span.
    grounded = pc.greater(facts["char_end"], facts["char_start"])
    return pc.and_(pc.is_in(reason, pa.array(REASONS)), grounded)
