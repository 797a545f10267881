"""The mutation table of the core: `python -m tests.mutation [PART OF A MODULE'S NAME …]`.

Each module is held against the tests named here, or against those that mirror it. What may live
stands in `lived.txt`, with the reason; exits 1 if less than 90 % of a module's others are killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.mutation.mutate import mutants

REPOSITORY = Path(__file__).resolve().parents[2]
REASONS = Path(__file__).with_name("lived.txt")
MOST = 40
GOAL = 0.9

TESTS: dict[str, list[str]] = {
    "engine/dispatcher": ["engine/test_dispatcher.py"],
    "engine/log/completion_log": ["engine/log/test_completion_log.py"],
    "engine/log/entry": ["engine/log/test_entry.py"],
    "engine/log/journal": ["engine/log/test_journal.py"],
    "engine/log/recover": ["engine/log/test_recover.py"],
    "storage/store": ["storage/test_store.py"],
    "storage/manifest": ["storage/test_manifest.py", "storage/test_store.py"],
    "storage/mirror": ["storage/test_mirror.py"],
    "runner/part": ["runner/test_part.py"],
    "runner/relation_builds": ["runner/test_update.py"],
    "runner/verify": ["runner/test_verify.py"],
    "runner/repair": ["runner/test_repair.py"],
    "runner/deletion/delete": ["runner/deletion/test_forget_job.py"],
    "runner/deletion/find_ids": ["runner/deletion/test_find_ids.py"],
    "runner/deletion/tombstones": ["runner/deletion/test_tombstones.py"],
    "runner/deletion/vacuum": ["runner/deletion/test_vacuum.py"],
    "serve/api/gateway": ["serve/api/test_gateway.py"],
    "serve/ray/retry_middleware": ["serve/ray"],
    "serve/settings": ["serve/test_settings.py"],
    "serve/batcher": ["serve/test_batcher.py"],
    "serve/snapshot": ["serve/test_snapshot.py"],
    "answer/write/cited": ["answer/write/test_compose.py"],
    "answer/write/compose": ["answer/write/test_compose.py"],
    "answer/select/evidence": ["answer/select/test_evidence.py"],
    "reading/numbers": ["reading/test_numbers.py"],
    "reading/concepts": ["algo/test_abbreviations.py", "reading/test_concepts.py"],
    "algo/betr": ["algo/test_betr.py"],
    "lab/train/betr/features": ["lab/train/betr/test_features.py"],
    "algo/significance": ["algo/test_significance.py"],
    "algo/terms": ["algo/test_terms.py"],
}  # fmt: skip


def modules() -> dict[str, list[str]]:
    """Each module and its tests: those of the table, and of all algorithms."""
    algo = sorted(path.stem for path in (REPOSITORY / "srrag" / "algo").glob("[!_]*.py"))
    found = {f"algo/{name}": [f"algo/test_{name}.py"] for name in algo} | TESTS
    there = {
        module: [f"tests/unit/{test}" for test in tests if _is_there(test)]
        for module, tests in found.items()
    }
    return {module: tests for module, tests in there.items() if tests or module in TESTS}


def _is_there(test: str) -> bool:
    return (REPOSITORY / "tests" / "unit" / test).exists()


def reasons() -> dict[str, str]:
    """Why a mutant may live, by module and mutant: lines of `module: mutant  # reason`."""
    lines = REASONS.read_text("utf-8").splitlines() if REASONS.exists() else []
    told = (line.rpartition("  # ") for line in lines if line)
    return {mutant: reason for mutant, _, reason in told}


def scored(module: str, tests: list[str]) -> dict[str, Any]:
    """Score a module in a process of its own."""
    name = "srrag." + module.replace("/", ".")
    if not tests:
        file = REPOSITORY / "srrag" / f"{module}.py"
        drawn = mutants(file.read_text("utf-8"), str(file), MOST)
        lived = [f"{each.name} (no test)" for each in drawn]
        return {"drawn": len(drawn), "killed": 0, "lived": lived, "seconds": 0.0}
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation.score", name, str(MOST), *tests],
        cwd=REPOSITORY, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert done.returncode == 0, f"{module}: exit {done.returncode}"
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(only: list[str]) -> int:
    """Print the table; returns the exit code."""
    weak, may = [], reasons()
    print(
        "| module | drawn | killed | lived, with a reason | lived | s |\n|---|---|---|---|---|---|"
    )
    for module, tests in modules().items():
        if only and not any(each in module for each in only):
            continue
        found = scored(module, tests)
        if not found.get("drawn"):
            continue
        excused = [each for each in found["lived"] if f"{module}: {each}" in may]
        lived = len(found["lived"]) - len(excused)
        row = (found["drawn"], found["killed"], len(excused), lived, found["seconds"])
        print(f"| {module} | " + " | ".join(map(str, row)) + " |", flush=True)
        if found["killed"] < GOAL * (found["drawn"] - len(excused)):
            weak.append(module)
    print(f"below {GOAL:.0%}: {', '.join(weak) or 'none'}")
    return int(bool(weak))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
