"""What a person types in short, in full: positional arguments, `model=…`, choices beside a root.

    srrag build papers/            corpus=folder corpus.path=papers/
    srrag ask "Does it help?"      question="Does it help?"
    srrag ask model=ollama/NAME    engine=http engine.model=NAME engine.base_url=…:11434/v1

`srrag.yaml` beside a root (`srrag init` writes it) holds overrides that every job there takes
before its own: `model: ollama/NAME`, `pipeline: srrag`, `status: show`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from omegaconf import OmegaConf

from srrag.core.errors import UsageError, first_line
from srrag.storage import mirror
from srrag.storage.atomic_write import commit

_PACKAGE = Path(__file__).resolve().parents[1]
_WHEEL = (_PACKAGE / "jobs").is_dir()

CONF = (_PACKAGE if _WHEEL else _PACKAGE.parent) / "conf"
"""The folder of every job's YAML."""

CONFS = (CONF, *sorted((_PACKAGE / "systems").glob("*/conf")))
"""With those of the published systems; all are searched for the choices of a group."""

JOBS = "srrag.jobs" if _WHEEL else "jobs"
"""The name of the package of jobs."""


def choices(group: str) -> dict[str, Path]:
    """The files of a group's choices, by name."""
    files = (file for folder in CONFS for file in (folder / group).glob("*.yaml"))
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}


CHOICES = "srrag.yaml"
"""The file beside a root that holds overrides for all its jobs."""

DEFAULT_ROOT = ".srrag"
"""Where a job looks and a build goes, in the folder of the command, unless `root=` says."""

_POSITION = {"ask": "question", "synthesise": "question", "build": "corpus.path"}
_ROOTED = ("status", "verify", "serve", "mcp", "init")
_OWN_SUBJECT = {"sweep": ("pipeline",), "evaluate": ("pipeline",)}
"""Choices that a job leaves aside, since they are what it compares."""

_OVERRIDE = re.compile(r"[~+-]|[\w.@/]*=")
_ADDRESSES = ("engine.base_url", "engine.api_key_env", "engine.headers", "engine.query")
"""Where a question and a key go is said by a command, or by `model`, which sends none of one's own
to an address that a file names."""
_EXAMPLE = "# For all jobs on the root beside this file:\n# model: ollama/NAME\n# pipeline: srrag\n"
_FORMS = "ollama/NAME, openai/NAME, http://host:8000/v1#NAME, vllm:FOLDER or rules"


def in_full(job: str, argv: Sequence[str]) -> list[str]:
    """The overrides that a command means; raises UsageError for a word that means none."""
    given = _rooted(job, argv)
    return [*_chosen(job, given), *given]


def _rooted(job: str, argv: Sequence[str]) -> list[str]:
    """The overrides that a command states itself, with the root of this folder where it counts."""
    given = [item for each in argv for item in _of_word(job, each, argv)]
    if job in _OWN_SUBJECT and not any(item.startswith("root=") for item in given):
        # These also score what has no root, so theirs has no default.
        given = [f"root={DEFAULT_ROOT}" for _ in Path(DEFAULT_ROOT).glob("srrag.json")] + given
    return given


def model_of(word: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The engine that `model=…` names, as overrides; raises UsageError.

    The usual variables are read: OLLAMA_HOST, OPENAI_BASE_URL, OPENAI_API_KEY (its name alone is
    kept, never the key).
    """
    if word == "rules":
        return ["engine=rules"]
    if word.startswith("vllm:"):
        return ["engine=vllm", f"engine.model={word.removeprefix('vllm:')}"]
    kind, _, name = word.partition("/")
    if found := re.fullmatch(r"(https?://[^#]+)#(.+)", word):
        address, name, key = found[1], found[2], None
    elif kind == "ollama" and name:
        address, key = _ollama(environment.get("OLLAMA_HOST") or "127.0.0.1"), None
    elif kind == "openai" and name:
        address = environment.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        key = "OPENAI_API_KEY"
    else:
        raise UsageError(f"model={word}: {_FORMS}")
    made = ["engine=http", f"engine.model={name}", f"engine.base_url={address}"]
    return [*made, "engine.tokenizer=utf8", *([f"engine.api_key_env={key}"] if key else [])]


def _ollama(host: str) -> str:
    """The address of Ollama by its variable: a host, host:port or URL; 11434 is its port."""
    found = urlsplit(host if "://" in host else f"http://{host}")
    port = found.port or (11434 if "://" not in host else None)
    name = "127.0.0.1" if found.hostname == "0.0.0.0" else found.hostname  # noqa: S104 (a server's)
    at = f"{name}:{port}" if port else name
    return f"{found.scheme}://{at}{found.path.rstrip('/')}/v1"


@lru_cache(maxsize=64)
def tops(job: str) -> dict[str, Any]:
    """The groups and keys at the top of a job's configuration, with those of files it extends."""
    stated: Any = OmegaConf.to_container(OmegaConf.load(CONF / f"{job}.yaml"))
    found: dict[str, Any] = {}
    for chosen in stated.pop("defaults", []):
        if isinstance(chosen, dict):
            found |= {str(name).partition("@")[0]: value for name, value in chosen.items()}
        elif chosen != "_self_":
            found |= tops(chosen)
    return found | {str(key): value for key, value in stated.items()}


def choices_file(root: str | Path) -> Path | None:
    """Where the choices for a root lie; None for a root at an address, or its mirror."""
    address = "://" in str(root) or "://" in mirror.shown(Path(root))
    return None if address else Path(root).absolute().parent / CHOICES


def read_choices(path: Path | None) -> dict[str, str]:
    """The choices of a file, by dotted key; empty without one. Raises UsageError with its name."""
    try:
        text = path.read_text("utf-8") if path else ""
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {first_line(error)}") from error
    try:
        stated = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: {first_line(error)}") from error
    if not isinstance(stated, dict):
        raise UsageError(f"{path}: keys with values are needed, as in `model: ollama/NAME`")
    return dict(_flat(stated))


def choose(root: str | Path, chosen: Mapping[str, str]) -> Path:
    """Write choices into the file beside a root, over what it holds; returns its path.

    Without any, a file that is missing shows how they are written. Raises UsageError for a model
    that is none, and for a root at an address.
    """
    if "model" in chosen:
        model_of(chosen["model"])
    path = choices_file(root)
    if path is None:
        told = root if "://" in str(root) else mirror.shown(Path(root))
        raise UsageError(f"root={told}: choices are kept beside a folder, not at an address")
    held = {**read_choices(path), **chosen}

    def write(new: Path) -> None:
        new.write_text(yaml.safe_dump(held, sort_keys=False) if held else _EXAMPLE, "utf-8")

    if chosen or not path.exists():
        commit(path, write)
    return path


def _flat(stated: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in stated.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            plain = value is None or isinstance(value, bool)
            yield f"{above}{key}", json.dumps(value) if plain else str(value)


def _of_word(job: str, word: str, argv: Sequence[str]) -> Iterable[str]:
    if job == "init" and word.startswith(("model=", "pipeline=")):
        return [f"choose.{word}"]
    if word.startswith("model=") and "engine" in tops(job):
        return model_of(word.removeprefix("model="))
    if word == "format=json" and "format" not in tops(job):
        return []
    if _OVERRIDE.match(word) or job not in (*_POSITION, *_ROOTED):
        return [word]
    key = _POSITION.get(job, "root")
    plain = [each for each in argv if not _OVERRIDE.match(each)]
    if len(plain) > 1:
        raise UsageError(f"{' '.join(plain)}: one argument is needed; put a question in quotes")
    if any(item.startswith(f"{key}=") for item in argv):
        raise UsageError(f"{word!r} and {key}=…: one of them is needed")
    if job == "build" and not any(item.startswith("corpus=") for item in argv):
        return [f"corpus={_kind(Path(word))}", f"corpus.path={word}"]
    return [f"{key}={word}"]


def _kind(path: Path) -> str:
    """The reader of a path: rows of JSON, a BEIR set, PubMed's files, or a folder of papers."""
    if path.suffix == ".jsonl":
        return "jsonl"
    if (path / "corpus.jsonl").is_file():
        return "beir"
    return "pubmed" if path.is_dir() and any(path.glob("pubmed*.xml.gz")) else "folder"


def choices_said(job: str, argv: Sequence[str]) -> str:
    """What the file beside the root adds to a command, in a line; "" for nothing."""
    added = _chosen(job, _rooted(job, argv))
    return f"{CHOICES} beside the root adds {' '.join(added)}" if added else ""


def _chosen(job: str, given: Sequence[str]) -> list[str]:
    """The overrides of the file beside the root, but those that the command says otherwise."""
    known = tops(job)
    if job == "init" or "root" not in known:
        return []
    roots = [item.removeprefix("root=") for item in given if item.startswith("root=")]
    root = [known["root"], *roots][-1]
    path = choices_file(root) if isinstance(root, str) and root != "???" else None
    # A key below a choice changes it; another choice of the group takes its place.
    keys = [item.partition("=")[0].lstrip("+~") for item in given]
    said = {key.partition("@")[0] for key in keys if "." not in key}
    found: list[str] = []
    for key, value in read_choices(path).items():
        top = "engine" if key == "model" else re.split(r"[.@]", key, maxsplit=1)[0]
        if top == "root" or not any(top in tops(each) for each in ("build", "serve", "answer")):
            raise UsageError(f"{path}: {key}: no job has such a key")
        if key in _ADDRESSES:
            raise UsageError(f"{path}: {key}: say it with the command, or name a `model`")
        if top in known and top not in said and top not in _OWN_SUBJECT.get(job, ()):
            found += model_of(value) if key == "model" else [f"{key}={value}"]
    return found
