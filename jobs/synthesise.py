"""`srrag synthesise question=…`: what studies found, across papers, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srrag.library.root import Root
from srrag.library.terminal import check_question
from srrag.runner.progress import say
from srrag.synthesis.text import draw, readable


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Put the findings on `question` side by side; `out` gets a forest plot of what is pooled."""
    question = check_question(config["question"])
    made = Root(config["root"], config["build"]).synthesise(question)
    say(readable(made))
    plots = draw(made, Path(config["out"])) if config["out"] else []
    return made.json | {"plots": plots}
