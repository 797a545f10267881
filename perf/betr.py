"""What BETR learns from simulated pairs, and how fast.

    python -m perf.betr --figure docs/betr.png     what each objective and solver makes of pairs
    python -m perf.betr --coverage                 how often 90 % intervals hold what was planted
    python -m perf.betr --speed                    80 epochs of Adam on the paper's 21,546 pairs
    python -m perf.betr --stream 10000000 F        write so many pairs to F, then read and fit them

The last line on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from srrag.algo.betr import GRADES
from srrag.train.betr.fit import BetrSettings, certainty, fit
from srrag.train.betr.pair_file import read_pairs
from srrag.train.betr.pairs import PAIRS
from srrag.train.betr.simulate import TABLE_1, pairs_table, simulate_pairs

NUM_QUERIES = 1310
PAPER_PAIRS = 21_546
PLANTED = {"as Table 1": TABLE_1, "no grade effect": 0 * TABLE_1, "inverted": -TABLE_1}


def biases_learned(u: np.ndarray) -> dict[str, Any]:
    """The biases by objective and solver for pairs with these planted, |Q| and τ the paper's."""
    pairs = simulate_pairs(u, num_queries=NUM_QUERIES)
    paper, posterior = BetrSettings(objective="paper"), BetrSettings(objective="posterior")
    certain = certainty(pairs, posterior, NUM_QUERIES, level=0.9, num_draws=2000, seed=0)
    adam = fit(pairs, None, BetrSettings(objective="paper", solver="adam"), NUM_QUERIES)
    found = {
        "paper, Adam 80 epochs": list(adam.u.values()),
        "paper, optimum": list(fit(pairs, None, paper, NUM_QUERIES).u.values()),
        "posterior, optimum": list(certain.fit.u.values()),
    }
    return {"planted": u.tolist(), "fitted": found, "interval": certain.u.tolist()}


def draw_figure(path: Path, learned: dict[str, dict[str, Any]]) -> None:
    """A panel for each kind of pairs."""
    from matplotlib.figure import Figure

    from srrag.train.betr.plots import BLUE, GREY, ORANGE, save

    styles = (("s", ORANGE), ("v", GREY), ("o", BLUE))
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    axes = figure.subplots(1, len(learned), sharey=True)
    for axis, (title, found) in zip(axes, learned.items(), strict=True):
        axis.plot(found["planted"], color="black", linewidth=1, label="planted")
        low, high = np.array(found["interval"]).T
        axis.vlines(range(5), low, high, color=BLUE, alpha=0.4, linewidth=6)
        for (name, u), (marker, colour) in zip(found["fitted"].items(), styles, strict=True):
            axis.plot(u, marker, color=colour, label=name)
        axis.set_title(f"pairs: {title}")
        axis.set_xticks(range(5), list(GRADES))
        axis.set_xlabel("evidence grade")
    axes[0].set_ylabel("bias $u_t$")
    axes[0].legend(frameon=False, fontsize=8)
    save(figure, path)


def coverage(seeds: int = 300) -> list[dict[str, Any]]:
    """Return the share of simulations whose intervals of a and each u_t cover the true value."""
    rows = []
    for u, num_queries in ((TABLE_1, 300), (2 * TABLE_1, 300), (0 * TABLE_1, 300), (TABLE_1, 60)):
        held = np.zeros(len(GRADES))
        for seed in range(seeds):
            pairs = simulate_pairs(u, num_queries=num_queries, seed=seed)
            found = certainty(
                pairs, BetrSettings(), num_queries, level=0.9, num_draws=1000, seed=seed
            )
            held[0] += found.a[0] <= 1 <= found.a[1]
            held[1:] += (found.u[1:, 0] <= u[1:] + 1e-12) & (u[1:] - 1e-12 <= found.u[1:, 1])
        shares = dict(zip(("a", *GRADES[1:]), (held / seeds).round(3).tolist(), strict=True))
        rows.append({"u_E": float(u[-1]), "queries": num_queries, **shares})
        print(rows[-1], file=sys.stderr)
    return rows


def speed() -> dict[str, Any]:
    """Seconds of Adam and of the exact solver on as many pairs as the paper has."""
    per_query = -(-PAPER_PAIRS // NUM_QUERIES)
    pairs = simulate_pairs(TABLE_1, num_queries=NUM_QUERIES, per_query=per_query)
    figures: dict[str, Any] = {"pairs": pairs.num_pairs}
    for solver in ("adam", "exact"):
        settings = BetrSettings(objective="paper", solver=solver)
        wall, cpu = time.perf_counter(), time.process_time()
        fit(pairs, None, settings, NUM_QUERIES)
        figures[f"{solver}_s"] = round(time.perf_counter() - wall, 3)
        figures[f"{solver}_cpu_s"] = round(time.process_time() - cpu, 3)
    return figures


def stream(num_pairs: int, path: Path) -> dict[str, Any]:
    """Read, check and fit a large file; the peak memory is that of this process."""
    if not path.exists():
        with pq.ParquetWriter(path, PAIRS) as writer:
            for start in range(0, num_pairs, 1_000_000):
                size = min(1_000_000, num_pairs - start)
                part = simulate_pairs(TABLE_1, num_queries=size // 20, per_query=20, seed=start)
                part.query[:] += start // 20
                writer.write_table(pairs_table(part))
        print(f"wrote {path}; run again to measure reading and fitting", file=sys.stderr)
        return {}
    times = [time.process_time()]
    file = read_pairs(path)
    times.append(time.process_time())
    found = fit(file.pairs, None, BetrSettings(), len(file.query_ids))
    times.append(time.process_time())
    certain = certainty(
        file.pairs, BetrSettings(), len(file.query_ids), level=0.9, num_draws=2000, seed=0
    )
    times.append(time.process_time())
    names = ("read_cpu_s", "fit_cpu_s", "intervals_cpu_s")
    return {
        "pairs": file.pairs.num_pairs,
        **dict(zip(names, np.diff(times).round(1).tolist(), strict=True)),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "u": found.u,
        "intervals": certain.u.round(4).tolist(),
    }


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--stream", nargs=2, metavar=("PAIRS", "FILE"))
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    if options.coverage:
        figures["coverage"] = coverage()
    if options.speed:
        figures["speed"] = speed()
    if options.stream:
        figures["stream"] = stream(int(options.stream[0]), Path(options.stream[1]))
    if options.figure:
        learned = {title: biases_learned(u) for title, u in PLANTED.items()}
        draw_figure(options.figure, learned)
        for title, found in learned.items():
            print(title, file=sys.stderr)
            for name, u in (*found["fitted"].items(), ("interval", found["interval"])):
                print(f"  {name:<24}{np.round(u, 3).tolist()}", file=sys.stderr)
        figures["learned"] = learned
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
