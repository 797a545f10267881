"""The `srrag` command: `srrag <job> [key=value …]`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import srrag

JOBS = {
    "build": "documents → windows → triples → graph and indexes",
    "ask": "answer one question with graded citations",
    "answer": "answer a file of questions; TREC run and BioGen JSON",
    "serve": "answer over HTTP: JSON, streams, OpenAI chat",
    "mcp": "let an assistant search and cite (Model Context Protocol)",
    "evaluate": "score a pipeline or the rules on a benchmark",
    "sweep": "many configurations over shared stages; one table",
    "report": "results as one page, Markdown and plots",
    "review": "expert review sheets, and figures from filled ones",
    "make_benchmark": "questions, gold windows and answers from a build",
    "organize": "communities of a graph that another tool made",
    "fit_betr": "learn how much score and evidence grade weigh",
    "fit_abstain": "learn when the evidence does not answer",
    "fit_thresholds": "learn the thresholds of a textbook's tree search",
    "train_encoder": "adapt an embedder to questions with gold passages",
    "train_tagger": "fine-tune an encoder to tag P, I and O",
    "train_filter": "learn which passages hold evidence for a question",
    "export": "the graph as GraphML, Parquet, CSV, JSON or a page",
    "status": "show what stands in a root",
    "verify": "prove that a build is whole",
    "forget": "remove documents, and every trace of them",
    "doctor": "check that this machine is ready",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job by name; exit 0 done, 1 failed, 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--version"]:
        print(f"srrag {srrag.__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    job, *rest = arguments
    if job not in JOBS:
        print(f"error: there is no job {job!r}; jobs: {', '.join(JOBS)}", file=sys.stderr)
        return 2
    from srrag.config.run_job import launch

    module = importlib.import_module(f"jobs.{job}")
    return launch(job, module.run, rest, own_stdout=getattr(module, "OWN_STDOUT", False))


def usage() -> str:
    """The list of jobs, in a screen."""
    width = max(map(len, JOBS))
    return "\n".join(
        [
            "srrag <job> [key=value …]      evidence-based retrieval-augmented generation",
            *(f"  {name:<{width}} {text}" for name, text in JOBS.items()),
            "",
            "srrag <job> --help             its keys, defaults and choices",
            "srrag <job> --schema           the JSON Schema of its last line",
            "srrag --version",
            "Progress goes to stderr; the last line on stdout is one JSON object.",
            "Exit codes: 0 done, 1 failed, 2 wrong usage, configuration or input.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
