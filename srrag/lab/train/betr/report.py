"""Write the results of a fit of BETR: betr.json, the draws, Table 1 and the losses by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from srrag.algo.betr import GRADES, biases
from srrag.core.ids import file_sha256
from srrag.lab.train.betr.fit import BetrSettings, Certainty, Fit, by_grade
from srrag.storage.atomic_write import commit, commit_json


def write_report(
    out: Path,
    fit: Fit,
    certain: Certainty,
    settings: BetrSettings,
    facts: Mapping[str, Any],
    split: pa.Table,
    curve: Sequence[Mapping[str, float]],
) -> dict[str, Any]:
    """Write all files into `out`, betr.json last; returns the content of betr.json."""
    draws = out / "draws.parquet"
    commit(draws, lambda path: pq.write_table(draws_table(certain), path))
    commit(out / "split.parquet", lambda path: pq.write_table(split, path))
    commit(out / "table1.md", lambda path: _write(path, table_1(fit, certain)))
    commit_json(out / "curve.json", list(curve))
    stated = {
        **betr_json(fit, certain, settings),
        "draws": {"file": draws.name, "sha256": file_sha256(draws)},
        **facts,
    }
    commit_json(out / "betr.json", stated, sealed=True)
    return stated


def betr_json(fit: Fit, certain: Certainty, settings: BetrSettings) -> dict[str, Any]:
    """Parameters and intervals as JSON. The intervals are those of `posterior` at the same τ."""
    odds = np.exp(certain.u)
    return {
        "parameters": {
            "a": fit.a,
            "u": fit.u,
            "alpha": fit.theta[0],
            "delta": dict(zip(GRADES[1:], fit.theta[1:], strict=True)),
            "odds_ratio": by_grade(np.exp(list(fit.u.values()))),
        },
        "settings": vars(settings),
        "objective": fit.objective,
        "solver_gap": fit.gap,
        "posterior": {"a": certain.fit.a, "u": certain.fit.u, "tau": settings.tau},
        "intervals": {
            "of": "posterior",
            "level": certain.level,
            "num_draws": len(certain.draws.theta),
            "a": list(certain.a),
            "u": by_grade(certain.u),
            "odds_ratio": by_grade(odds),
        },
    }


def draws_table(certain: Certainty) -> pa.Table:
    """The draws as columns a, u_A … u_E; all with δ ≥ 0."""
    theta = certain.draws.theta
    columns = {"a": np.exp(theta[:, 0])}
    columns |= {f"u_{grade}": u for grade, u in zip(GRADES, biases(theta[:, 1:]).T, strict=True)}
    return pa.table(columns)


def table_1(fit: Fit, certain: Certainty) -> str:
    """Table 1 of SR-RAG as Markdown, with intervals."""
    share = f"{100 * certain.level:g} %"
    of = "interval of the odds ratio (posterior)"
    lines = [
        f"| Grade | u_t | odds ratio | {share} {of} | Δ from prev. |",
        "|---|---|---|---|---|",
    ]
    for place, (grade, u) in enumerate(fit.u.items()):
        low, high = np.exp(certain.u[place])
        step = f"{fit.theta[place]:.4f}" if place else "—"
        lines.append(f"| {grade} | {u:.4f} | {np.exp(u):.4f} | {low:.4f} – {high:.4f} | {step} |")
    low, high = certain.a
    lines += ["", f"a = {fit.a:.4f}, {share} interval (posterior) {low:.4f} – {high:.4f}", ""]
    return "\n".join(lines)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
