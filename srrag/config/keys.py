"""The page of all keys in the docs: the files of conf/, and the fields of what they name."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from itertools import takewhile

from srrag.config import words
from srrag.config.words import CONF, CONFS
from srrag.core.kinds import class_of

SHARED = {
    "root": "artifact folder, or an address like s3://bucket/root",
    "build": "name of the build in the root",
    "out": "folder for the summary and what the job writes; null: nowhere",
    "completions": "the log of all answers that a model gave: cache, checkpoint and receipt",
    "max_tokens": "ceiling on all tokens that the completions log has paid for; null: none",
    "max_usd": "ceiling on all money that the completions log has paid for; null: none",
    "seed": "of what is drawn at random",
    "resamples": "bootstrap resamples of the 95 % intervals",
    "weight_decay": "AdamW's decay of weights",
    "split_seed": "of the draw of held-out rows",
    "embedder": "how windows and questions are encoded; has to be the build's",
    "schema": "the entity and relation types that are extracted",
    "bench": "what is scored, and on which questions",
    "engine": "who answers prompts",
    "profile": "where the job runs",
    "pipeline": "how evidence is found and answers are written",
}
"""Keys with the same meaning in every job; a comment in a job's own file takes precedence."""


def choices() -> Iterator[tuple[str, str, str, str]]:
    """Yield each choice of each group: group, choice, what its file says of it, and its class."""
    for group in sorted({path.name for conf in CONFS for path in conf.iterdir() if path.is_dir()}):
        for path in words.choices(group).values():
            text = path.read_text("utf-8")
            head = [
                line.strip("# ")
                for line in takewhile(lambda line: line.startswith("#"), text.splitlines())
                if line.startswith("# ") and "@package" not in line
            ]
            kind = re.search(r"^_target_: (\w+)", text, re.MULTILINE)
            yield group, path.stem, " ".join(head), kind[1] if kind else ""


def reference(jobs: dict[str, str]) -> str:
    """The page of all keys in Markdown; `jobs` says in a line what each job does."""
    lines = ["# Keys", "", "Every key is an override: `srrag <job> key=value`. In all jobs:", ""]
    lines += [f"- `{key}`: {meaning}" for key, meaning in SHARED.items()] + [""]
    for job, what in jobs.items():
        text = (CONF / f"{job}.yaml").read_text("utf-8").strip()
        lines += [f"## srrag {job}", "", f"{what[:1].upper()}{what[1:]}.", ""]
        lines += ["```yaml", text, "```", ""]
    lines += ["## Choices", "", "`group=choice`, as in `srrag build corpus=folder`.", ""]
    for group, choice, said, kind in choices():
        lines += [f"**`{group}={choice}`** {said}", ""]
        if kind and kind != "Pipeline":
            lines += [f"- {each}" for each in _fields(kind)] + [""]
    return "\n".join(lines) + "\n"


def _fields(kind: str) -> Iterator[str]:
    """What the docstring of a class says, and its fields with their defaults."""
    cls = class_of(kind)
    yield " ".join((inspect.getdoc(cls) or "").split())
    for field in dataclasses.fields(cls):
        default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
        yield f"`{field.name}`{default}"
