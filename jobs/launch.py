"""What every job shares: composing its configuration, its exit codes and its last line."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hydra import compose, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from srrag import mirror
from srrag.runner.loopback import keep_ray_here
from srrag.runner.progress import say

DONE, FAILED, WRONG_USAGE = 0, 1, 2
FREE_TEXT = ("question", "entity")
"""Keys whose values are taken literally, whatever characters they hold."""

PATHS = ("root", "out", "results", "bench.path", "bench.answers", "graph.path", "completions")
"""Keys that name one file or folder each, in whichever job has them."""

_LITERAL = tuple(f"{key}=" for key in FREE_TEXT)

Job = Callable[[dict[str, Any]], dict[str, Any]]


class UsageError(ValueError):
    """Wrong usage or configuration: exit code 2."""


def launch(name: str, job: Job, argv: Sequence[str]) -> int:
    """Run a job: progress on stderr, one JSON object as the last line on stdout, exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", category=FutureWarning)
    if set(argv) & {"-h", "--help"}:
        print(describe(name))
        return DONE
    try:
        config = configure(name, argv)
    except UsageError as error:
        return _fail(error, WRONG_USAGE)
    config["command"] = shlex.join(["srrag", name, *argv])
    signal.signal(signal.SIGTERM, _stop)
    if "local" in (_at(config, "ray.address"), _at(config, "profile.runner.address")):
        keep_ray_here()  # it is a Ray that the job starts
    began = time.time()
    try:
        with _stdout_to_stderr():
            summary = {"job": name, **job(config)}
            _write_summary(config, name, summary)
            if config.get("out"):
                mirror.join(Path(config["out"]), began)  # what was not put there on the way
    except UsageError as error:
        return _fail(error, WRONG_USAGE)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command resumes", FAILED)
    except (ValueError, OSError, RuntimeError, pa.ArrowException) as error:
        if os.environ.get("SRRAG_TRACEBACK"):
            raise
        return _fail(error, FAILED)
    print(json.dumps(summary, ensure_ascii=False, allow_nan=False), flush=True)
    return DONE if summary.get("ok", True) else FAILED


def _stop(number: int, frame: object) -> None:
    """End as if interrupted, so that what is in hand is released."""
    raise KeyboardInterrupt


def configure(name: str, argv: Sequence[str]) -> dict[str, Any]:
    """Compose conf/<name>.yaml with overrides; raises UsageError in one line."""
    literal = dict(item.split("=", 1) for item in argv if item.startswith(_LITERAL))
    overrides = [item for item in argv if not item.startswith(_LITERAL)]
    if name == "sweep":
        overrides = list(_of_all_rows(overrides))
    try:
        with initialize_config_module("conf", version_base=None):
            composed = compose(
                name, overrides=[*map(quoted, overrides), *(f"{key}=_" for key in literal)]
            )
        for key in ("root", "results", "out"):  # what is below an address is below its folder here
            if isinstance(given := composed.get(key), str) and "://" in given:
                composed[key] = str(mirror.located(given))
        config = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        if isinstance(error, UsageError):
            raise
        text = re.sub(r"^\w+ raised while resolving interpolation: ", "", _first_line(error))
        if text.startswith("Could not override"):
            text += " The file does not name it: put + before the key, if there is such a field."
        raise UsageError(text) from error
    assert isinstance(config, dict)
    for key in PATHS:
        if isinstance(value := _at(config, key), (list, dict)):
            hint = "; `srrag sweep` puts several systems in one table" * (key == "results")
            raise UsageError(f"{key}={value}: one path is needed{hint}")
    composed_of = {"overrides": list(argv)}
    return {**{str(key): value for key, value in config.items()}, **literal, **composed_of}


def _at(config: Any, key: str) -> Any:
    """The value of a dotted key; None where there is none."""
    for name in key.split("."):
        config = config.get(name) if isinstance(config, Mapping) else None
    return config


@contextlib.contextmanager
def reading(*paths: Path) -> Iterator[None]:
    """Raise UsageError, which names the file, for what is wrong with those that were given.

    So a line that cannot be taken is wrong usage in every job, whichever reader meets it.
    """
    try:
        yield
    except UsageError:
        raise
    except (ValueError, OSError) as error:
        said = _first_line(error)
        if isinstance(error.__cause__ or error, UnicodeDecodeError):
            raise UsageError(next(filter(None, map(_undecoded, paths)), said)) from error
        named = any(str(path) in said for path in paths)
        raise UsageError(said if named else f"{paths[0]}: {said}") from error


def _undecoded(path: Path) -> str:
    """The line of a file that is not UTF-8: readers decode many at once, and cannot name it."""
    if path.is_file():
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f"{path}:{number}: not UTF-8 ({error.reason})"
    return ""


def check_numbers(config: Mapping[str, Any], **least: int) -> None:
    """Raise UsageError unless each of these keys is a whole number that is not below its least."""
    for key, bound in least.items():
        number = config[key]
        if isinstance(number, bool) or not isinstance(number, int) or number < bound:
            raise UsageError(f"{key}={number}: a whole number, at least {bound}")


def with_pipeline(name: str, config: dict[str, Any], pipeline: str) -> dict[str, Any]:
    """Compose a job as it was, its engine, embedder and all, but with another pipeline."""
    kept = [
        item for item in config["overrides"] if not re.match(r"[+~]*(pipeline\b|baseline=)", item)
    ]
    return configure(name, [*kept, f"pipeline={pipeline}"])


def listed(override: str) -> list[str]:
    """The overrides that one with a list of values (key=a,b) stands for; none for any other."""
    try:
        parsed = OverridesParser.create().parse_override(override)
    except HydraException:
        return []
    if not parsed.is_sweep_override():
        return []
    return [f"{parsed.get_key_element()}={value}" for value in parsed.sweep_string_iterator()]


def _of_all_rows(overrides: Sequence[str]) -> Iterator[str]:
    """What a sweep itself is composed of: its lists and pipelines are those of single rows.

    A list below `sweep.` is a text that its rows name.
    """
    for item in overrides:
        if item.startswith("sweep.") and listed(item):
            key, _, values = item.partition("=")
            yield f"{key}='{values}'"
        elif not (listed(item) or re.match(r"[+~]*pipeline\b", item)):
            yield item


def quoted(override: str) -> str:
    """Quote the value of an override that is free text or that Hydra could not parse."""
    key, equals, value = override.partition("=")
    if override.startswith("~"):
        return override
    if not equals:
        raise UsageError(f"{override!r} is not an override; write key=value")
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return f"{key}='" + re.sub(r"(\\*)('|$)", _escaped, value) + "'"
    return override


def _escaped(match: re.Match[str]) -> str:
    """Double the backslashes before a quote or the end, and escape the quote."""
    return 2 * match[1] + ("\\'" if match[2] else "")


def describe(name: str) -> str:
    """The job's keys with their defaults, as its YAML file states them, and what may be chosen."""
    folder = Path(__file__).resolve().parent.parent / "conf"
    choices = [
        f"  {group}: {', '.join(sorted(file.stem for file in (folder / group).glob('*.yaml')))}"
        for group in dict.fromkeys(_groups(folder, name))
    ]
    text = (folder / f"{name}.yaml").read_text("utf-8")
    shown = "\nGroups (group=choice):\n" + "\n".join(choices) if choices else ""
    return f"srrag {name} [key=value …]\n\n{text}{shown}"


def _groups(folder: Path, name: str) -> Iterator[str]:
    """The groups that a job's file chooses from, those of files that it goes on from included."""
    stated: Any = OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml"))
    for chosen in stated.get("defaults", []):
        if isinstance(chosen, dict):
            yield str(next(iter(chosen))).partition("@")[0]
        elif chosen != "_self_":
            yield from _groups(folder, chosen)


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Keep stdout for the last line, whatever libraries print, native code included."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _write_summary(config: dict[str, Any], name: str, summary: dict[str, Any]) -> None:
    out = config.get("out")
    if out:
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / "summary.json").write_text(text + "\n", "utf-8")


def _fail(error: object, code: int) -> int:
    say(f"error: {_first_line(error)}")
    return code


def _first_line(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
