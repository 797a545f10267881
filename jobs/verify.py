"""`srrag verify root=…`: prove that a build is whole."""

from __future__ import annotations

import sys
from typing import Any

from srrag.runner.progress import say
from srrag.runner.verify import verify
from srrag.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Check rows, hashes and ids of every part and file; exit 1 if anything does not hold."""
    store = Store(config["root"])
    result = verify(store, config["build"])
    for problem in result["problems"]:
        say(f"problem: {problem}")
    verdict = "all hold" if result["ok"] else "NOT whole"
    say(f"{result['checked']} parts and files checked: {verdict}")
    return result


if __name__ == "__main__":
    from jobs.launch import launch

    sys.exit(launch("verify", run, sys.argv[1:]))
