"""What it costs to hold every part of a root against its receipt once, beside its stages.

`python -m perf.check_parts ROOT` prints the parts, their bytes, the CPU-seconds of their sha256,
the seconds that the receipts and manifests tell, and the share.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from srrag.ids import file_sha256


def main(root: Path) -> dict[str, float]:
    """Hash all parts of a root, as a run that reads every one of them does."""
    parts = sorted(root.glob("stages/*/*/part-*.parquet"))
    started = time.process_time()
    for path in parts:
        file_sha256(path)
    spent = time.process_time() - started
    told = [*(path.with_suffix(".json") for path in parts), *root.glob("stages/*/*/manifest.json")]
    taken = sum(json.loads(path.read_text("utf-8")).get("seconds", 0.0) for path in told)
    return {
        "parts": len(parts),
        "bytes": sum(path.stat().st_size for path in parts),
        "check_cpu_s": round(spent, 3),
        "stages_s": round(taken, 1),
        "share": round(spent / taken, 6),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
