"""Write the golden files anew: `python -m tests.golden.regenerate`, then read the difference."""

from __future__ import annotations

import json

from tests.golden.cases import CASES, RENDERED, golden
from tests.golden.identities import FILE, identities


def main() -> None:
    """Replace all files, and remove those of prompts that are gone."""
    RENDERED.mkdir(exist_ok=True)
    for path in RENDERED.glob("*.txt"):
        path.unlink()
    for task, case in CASES.items():
        (RENDERED / f"{task}.txt").write_text(golden(case(lambda text: text)), "utf-8")
    FILE.write_text(json.dumps(identities(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
