"""Summary of a build: figures that print as a table, and the rejected rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.html import templates
from srrag.core.schema import REJECTS


@dataclass(frozen=True, kw_only=True)
class BuildSummary:
    """A finished build: its `documents` and `windows`, and the `rejected` rows with reasons.

    `json` is what `srrag build` and `srrag status` print.
    """

    root: str
    build: str
    documents: int
    windows: int
    rejected: int
    rejects: pa.Table = field(default_factory=REJECTS.empty_table, repr=False, compare=False)
    """A row each, with stage, reason and detail."""
    json: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each stage, and all rejected ones."""
        return {**self.json.get("rows", {}), "rejected": self.rejected}

    def to_arrow(self) -> pa.Table:
        """The rows of each stage as a table: stage, rows."""
        return pa.table({"stage": list(self.counts), "rows": list(self.counts.values())})

    def to_pandas(self) -> Any:
        """The rows of each stage as a pandas frame."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        """The counts, a line each, and the reasons of the first ten rejects."""
        from srrag.runner.rejects import readable_rejects

        lines = [f"{self.root}, build {self.build}"]
        lines += [f"  {name:<14}{count:>10,}" for name, count in self.counts.items()]
        return "\n".join([*lines, *filter(None, [readable_rejects(self.rejects, 10)])])

    def _repr_html_(self) -> str:
        page = templates(Path(__file__).parent).get_template("build.html")
        return page.render(made=self, rejects=self.rejects.slice(0, 10).to_pylist())


def summary_of(store: Any, build: str, said: Mapping[str, Any] | None = None) -> BuildSummary:
    """Summarise a finished build; `said` is the summary of the run that made it."""
    from srrag.runner.rejects import read_rejects
    from srrag.runner.summary import headline, summarise

    json = {**headline(summarise(store, build)), **(said or {})}
    rows = json["rows"]
    return BuildSummary(
        root=str(store),
        build=build,
        documents=rows.get("documents", 0),
        windows=rows.get("windows", 0),
        rejected=json["rejected"],
        rejects=read_rejects(store, build),
        json=json,
    )
