"""The jobs of the `srrag` command, each a module; `srrag.run` does one of them from Python."""

from __future__ import annotations

import difflib
import importlib
from types import ModuleType
from typing import Any

from srrag.core.errors import UsageError

JOBS = {
    "init": "begin a root: which arithmetic is fast here, settled once",
    "build": "documents → windows → triples → graph and indexes",
    "ask": "answer one question with graded citations",
    "synthesise": "what studies found across papers, pooled and argued",
    "answer": "answer a file of questions; TREC run and BioGen JSON",
    "serve": "answer over HTTP: JSON, streams, OpenAI chat",
    "mcp": "let an assistant search and cite (Model Context Protocol)",
    "evaluate": "score a pipeline or the rules on a benchmark",
    "sweep": "many configurations over shared stages; one table",
    "report": "results as one page that works offline",
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

SHORT = {
    "sample": ["build", "corpus=open_access"],
    "report-bug": ["doctor", "out=srrag-bug-report"],
}
"""Words that stand for a job and what it is told."""

GROUPS = {
    "use": ("init", "build", "ask", "synthesise", "answer", "serve", "mcp", "status"),
    "measure": ("evaluate", "sweep", "report", "review", "make_benchmark"),
    "train": ("fit_betr", "fit_abstain", "fit_thresholds", "train_encoder", "train_tagger",
              "train_filter"),
    "keep": ("verify", "forget", "export", "organize", "doctor"),
}  # fmt: skip
"""The jobs by what they are for."""
OF_LAB = ("matplotlib", "openpyxl")


def run(job: str, *overrides: str) -> dict[str, Any]:
    """Do in this process what `srrag JOB overrides…` does; returns the object that it prints.

    Raises UsageError for an unknown job, key or input, and what the job itself raises.
    """
    from srrag.config import run_job  # imports Hydra

    return run_job.run(job, job_of(job).run, overrides)


def job_of(name: str) -> ModuleType:
    """The module of a job: `run(config)`, and OWN_STDOUT where it writes to stdout itself.

    Raises UsageError for a name that is no job, or a job whose extra is not installed.
    """
    if name not in JOBS:
        near = difflib.get_close_matches(name, JOBS, n=1)
        hint = f"did you mean {near[0]}?" if near else "`srrag help all` lists them"
        raise UsageError(f"there is no job {name!r}; {hint}")
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OF_LAB:
            raise
        raise UsageError(f"srrag {name} needs: pip install 'srrag[lab]'") from error
