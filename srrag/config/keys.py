"""The keys of every job and what they mean, read from the files of conf/: for docs and a test."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from srrag.config import places
from srrag.config.places import CONF, CONFS
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
_LINE = re.compile(r"^(?P<indent> *)(?P<dash>- )?(?P<name>\w+):(?P<rest>[ ].*|)$")


@dataclass(frozen=True)
class Key:
    """A key of a job: its dotted name, its default as YAML, and what it means, "" for unknown."""

    name: str
    default: str
    meaning: str


def keys_of(job: str) -> list[Key]:
    """The keys of a job, those of a step under its class's name apart, in the file's order."""
    return list(_keys((CONF / f"{job}.yaml").read_text("utf-8")))


def _keys(text: str) -> Iterator[Key]:
    holders: list[tuple[int, str]] = []
    lines = text.splitlines()
    steps = [-1]  # indents of mappings that a class describes
    for number, line in enumerate(lines):
        found = _LINE.match(line)
        if not found:
            continue
        indent, name = len(found["indent"]), found["name"]
        while holders and holders[-1][0] >= indent:
            holders.pop()
        steps = [each for each in steps if each < indent]
        if name == "_target_":
            steps.append(indent - 1)
            continue
        value, _, comment = (found["rest"] or "").partition("  #")
        value = value.split(" # ")[0].strip()
        in_defaults = any(holder == "defaults" for _, holder in holders)
        if in_defaults and not found["dash"]:
            continue
        path = ".".join([holder for _, holder in holders if holder != "defaults"] + [name])
        opens = not value or value.startswith("#")
        if opens:
            holders.append((indent, name))
        if len(steps) > 1 or (opens and _has_children(lines[number + 1 :], indent)):
            continue
        said = " ".join([comment.strip(" #"), *_continued(lines[number + 1 :])]).strip()
        inner = yaml.safe_load(value) if value.startswith("{") and "_target_" not in value else None
        if isinstance(inner, dict) and inner:
            for key, default in inner.items():
                yield Key(f"{path}.{key}", _shown(default), said or SHARED.get(key, ""))
        elif "_target_" in value:
            yield Key(path, value, said or "a step: its fields are in the reference of its class")
        else:
            yield Key(path, value, said or SHARED.get(name, ""))


def _has_children(rest: list[str], indent: int) -> bool:
    line = next((each for each in rest if each.strip() and not each.strip().startswith("#")), "")
    return len(line) - len(line.lstrip()) > indent


def _continued(rest: list[str]) -> Iterator[str]:
    """Lines below a key that hold nothing but more of its comment."""
    for line in rest:
        if not re.match(r"^ {20,}#", line):
            return
        yield line.strip(" #")


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)


def choices() -> Iterator[tuple[str, str, str, str]]:
    """Yield each choice of each group: group, choice, what its file says of it, and its class."""
    for group in sorted({path.name for conf in CONFS for path in conf.iterdir() if path.is_dir()}):
        for path in places.choices(group).values():
            text = path.read_text("utf-8")
            head = [
                line.strip("# ")
                for line in text.splitlines()[: _first_key(text)]
                if line.startswith("# ") and "@package" not in line
            ]
            kind = re.search(r"^_target_: (\w+)", text, re.MULTILINE)
            yield group, path.stem, " ".join(head), kind[1] if kind else ""


def _first_key(text: str) -> int:
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))


def reference(jobs: dict[str, str]) -> str:
    """The page of all keys in Markdown; `jobs` says in a line what each job does."""
    lines = ["# Keys", "", "Every key is an override: `srrag <job> key=value`.", ""]
    for job, what in jobs.items():
        lines += [f"## srrag {job}", "", f"{what[:1].upper()}{what[1:]}.", ""]
        lines += ["| Key | Default | Meaning |", "|---|---|---|"]
        cells = ([f"`{k.name}`", f"`{k.default}`", k.meaning] for k in keys_of(job))
        lines += [
            "| " + " | ".join(each.replace("|", "\\|") for each in row) + " |" for row in cells
        ]
        lines.append("")
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
