"""`srrag verify root=…`: prove that a build is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.core.formats import read_ids
from srrag.engine.log.completion_log import CompletionLog
from srrag.runner.deletion.find_ids import prove_forgotten
from srrag.runner.progress import say
from srrag.runner.verify import verify
from srrag.storage.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Check every part, file and completion, and for traces of what was forgotten."""
    store = Store(config["root"])
    result = verify(store, config["build"])
    folder = Path(config["completions"])
    if folder.exists():
        proof = CompletionLog(folder).verify()
        result["problems"] += [f"completions: {problem}" for problem in proof.problems]
        result["ok"] = not result["problems"]
        result["completions"] = proof.totals.as_dict() if proof.totals else None
    documents = read_ids(config["forgotten"], "forgotten")
    if config["forgotten"] is not None:
        result["traces"] = prove_forgotten(store, documents, folder)
        told = [problem for problem in result["problems"] if problem not in result["traces"]]
        result["problems"] = told + result["traces"]
        result["ok"] = not result["problems"]
    for problem in result["problems"]:
        say(f"problem: {problem}")
    verdict = "all hold" if result["ok"] else "NOT whole"
    say(f"{result['checked']} parts and files checked: {verdict}")
    if result["ok"] and documents:
        say(f"nothing is left of {', '.join(documents)}")
    if paid := result.get("completions"):
        say(
            f"completions: {paid['completions']:,} good, {sum(paid['faults'].values()):,} bad, "
            f"{paid['paid_twice']:,} paid twice"
        )
    return result
