"""Write the golden files anew: `python -m tests.golden.regenerate`, then read the difference."""

from __future__ import annotations

from tests.golden.cases import CASES, RENDERED, golden


def main() -> None:
    """Replace all files, and remove those of prompts that are gone."""
    RENDERED.mkdir(exist_ok=True)
    for path in RENDERED.glob("*.txt"):
        path.unlink()
    for task, case in CASES.items():
        (RENDERED / f"{task}.txt").write_text(golden(case(lambda text: text)), "utf-8")


if __name__ == "__main__":
    main()
