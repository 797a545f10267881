"""The `srrag` command: `srrag <job> [key=value …]`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import srrag
from srrag.core.errors import UsageError

from . import GROUPS, JOBS, SHORT, job_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job by name; exit 0 done, 1 failed, 2 wrong usage, 3 prompts wait for answers."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--version"]:
        print(f"srrag {srrag.__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(all_jobs() if "all" in arguments else usage())
        return 0 if arguments else 2
    job, *rest = (*SHORT.get(arguments[0], arguments[:1]), *arguments[1:])
    gc.disable()
    try:
        module = job_of(job)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from srrag.config.run_job import launch

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
    """The few jobs that most people need, in ten lines."""
    return "\n".join(
        [
            "srrag: evidence-graded answers from medical literature; research software",
            "",
            "  srrag sample               195 real abstracts of trials into ./.srrag, to try it on",
            "  srrag build PAPERS/        read papers (.pdf .docx .html .xml .md) into ./.srrag",
            '  srrag ask "A QUESTION"     answer it, every sentence cited and graded',
            "  srrag serve                the same as a page and an API on 127.0.0.1:8080",
            "  srrag status               what stands here",
            "  srrag evaluate             score a pipeline on questions with known answers",
            "",
            "A model writes with model=ollama/NAME, openai/NAME, http://host:8000/v1#NAME or",
            "vllm:FOLDER. `srrag help all` lists every job, `srrag JOB --help` its keys.",
        ]
    )


def all_jobs() -> str:
    """The list of jobs by what they are for, in a screen."""
    width = max(map(len, JOBS))
    lines = ["srrag JOB [key=value …]"]
    for group, names in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:<{width}} {JOBS[name]}" for name in names)]
    return "\n".join(
        [
            *lines,
            "",
            *(f"srrag {word:<15} short for: srrag {' '.join(job)}" for word, job in SHORT.items()),
            "srrag JOB --help      its keys, defaults and choices",
            "srrag JOB --schema    the JSON Schema of its last line",
            "A terminal gets text; a pipe, or format=json, one JSON object as the last line.",
            "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 files wait for answers.",
        ]
    )
