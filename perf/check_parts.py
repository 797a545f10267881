"""What it costs to hold every part of a build against its receipt once, of the build's CPU.

    python -m perf.check_parts NEW_ROOT corpus=beir corpus.path=D/rehab

Builds a new root with the settings given, in this process with one thread, and then hashes
all parts, as a run that reads every one of them does. The last line on stdout is one JSON object:
parts, bytes, CPU seconds of the build (imports left out) and of the hashes, and their share.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import jobs.build
from srrag.config.compose import configure
from srrag.ids import file_sha256


def measured(root: Path, overrides: list[str]) -> dict[str, float]:
    """Build a root, then hash its parts."""
    given = [f"root={root}", "profile=local", "profile.threads=1", *overrides]
    config = {**configure("build", given), "command": "srrag build"}
    began = _cpu_s()
    jobs.build.run(config)
    built = _cpu_s() - began
    parts = sorted(root.glob("stages/*/*/part-*.parquet"))
    began = _cpu_s()
    for path in parts:
        file_sha256(path)
    checked = _cpu_s() - began
    return {
        "parts": len(parts),
        "bytes": sum(path.stat().st_size for path in parts),
        "build_cpu_s": round(built, 2),
        "check_cpu_s": round(checked, 4),
        "share": round(checked / built, 6),
    }


def _cpu_s() -> float:
    """CPU seconds of this process and of the children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), sys.argv[2:])))
