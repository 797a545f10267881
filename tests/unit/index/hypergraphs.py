"""The stages of a hypergraph by rules, over documents of a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from srrag.core.step import Place, Step
from srrag.model.encoder import Encoder
from srrag.reading.vocabulary import Vocabulary
from srrag.storage.atomic_write import write_parquet
from srrag.systems.ideprag.build_hypergraph import BuildHypergraph
from srrag.systems.ideprag.document_keywords import CutKeyedUnits, FindDocumentKeywords
from srrag.systems.ideprag.findings import EncodeFindings, ExtractFindings


@dataclass(frozen=True)
class GraphStages:
    """The steps, and the table that each one reads."""

    vocabulary: Vocabulary
    tables: dict[type[Step], tuple[Step, pa.Table]]
    inputs: dict[str, list[Path]]

    def graph(self, out: Path, **settings: object) -> Path:
        """Build the hypergraph into a new folder."""
        out.mkdir(parents=True)
        build_of(self.vocabulary, **settings).build(self.inputs, out, Place())
        return out


def build_of(vocabulary: Vocabulary, **settings: object) -> BuildHypergraph:
    return BuildHypergraph(encoder=Encoder(), vocabulary=vocabulary, **settings)  # type: ignore[arg-type]


def stages_of(
    parts: Sequence[tuple[pa.Table, Path]], vocabulary: Vocabulary, folder: Path
) -> GraphStages:
    """Run the steps over parts of documents, each with its windows."""
    steps: dict[str, tuple[str, Step]] = {
        "keywords": ("documents", FindDocumentKeywords(vocabulary=vocabulary)),
        "text_units": ("keywords", CutKeyedUnits()),
        "keyword_findings": ("text_units", ExtractFindings(vocabulary=vocabulary)),
        "finding_vectors": ("keyword_findings", EncodeFindings()),
    }
    tables: dict[type[Step], tuple[Step, pa.Table]] = {}
    inputs: dict[str, list[Path]] = {"windows": [windows for _, windows in parts]}
    for number, (documents, _) in enumerate(parts):
        made = {"documents": documents}
        for name, (source, step) in steps.items():
            made[name] = step.open(Place())(made[source])
            tables.setdefault(type(step), (step, made[source]))
            path = folder / f"{name}-{number}.parquet"
            write_parquet(made[name], path)
            inputs.setdefault(name, []).append(path)
    return GraphStages(vocabulary, tables, inputs)
