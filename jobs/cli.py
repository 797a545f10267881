"""The `srrag` command: `srrag <job> [key=value …]`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import srrag

from . import JOBS, job_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job by name; exit 0 done, 1 failed, 2 wrong usage, 3 prompts wait for answers."""
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
    gc.disable()
    from srrag.config.run_job import launch

    module = job_of(job)
    gc.freeze()  # no module is ever garbage; looking for some costs a short command a twentieth
    gc.enable()
    return launch(
        job,
        module.run,
        rest,
        own_stdout=getattr(module, "OWN_STDOUT", False),
        stated=getattr(module, "schema", None),
    )


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
            "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 files wait for answers.",
        ]
    )
