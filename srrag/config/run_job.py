"""Runs a job as a command: progress on stderr, one JSON object on stdout, an exit code."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.config.compose import configure, describe, value_at
from srrag.config.words import DEFAULT_ROOT, choices_said
from srrag.core.errors import UsageError, first_line
from srrag.core.figures import schema
from srrag.llm.completion import AnswersAwaited
from srrag.runner.progress import say
from srrag.runner.ray.loopback import keep_ray_here
from srrag.storage import mirror
from srrag.storage.atomic_write import commit

DONE, FAILED, WRONG_USAGE, AWAITING = 0, 1, 2, 3

Job = Callable[[dict[str, Any]], dict[str, Any]]


def launch(
    name: str,
    job: Job,
    argv: Sequence[str],
    own_stdout: bool = False,
    stated: Callable[[], dict[str, Any]] | None = None,
) -> int:
    """Run a job, print its summary as one JSON object on stdout, and return the exit code.

    Where a person reads both streams on a terminal, a line or two say what stands and what comes
    next instead, unless `format=json` is among the arguments. A job with `own_stdout` writes to
    stdout itself, and no summary is printed. `stated` gives the JSON Schema of its own keys, where
    it has one.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    _without_pandas()
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # A Ray starts where a job starts it: what goes on after its end must not start another.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports its use to its makers
    # A node ends itself when its agent is not up in 15 s, which takes longer on a busy machine.
    os.environ.setdefault("RAY_agent_register_timeout_ms", "120000")
    warnings.filterwarnings("ignore", category=FutureWarning)
    if set(argv) & {"-h", "--help"}:
        print(describe(name))
        return DONE
    if "--schema" in argv:
        print(json.dumps(stated() if stated else schema(name), indent=1))
        return DONE
    try:
        config = _configured(name, argv)
        if chosen := choices_said(name, argv):
            say(chosen)
        signal.signal(signal.SIGTERM, _stop)
        with contextlib.nullcontext() if own_stdout else _stdout_to_stderr():
            summary = _run(name, job, config)
    except UsageError as error:
        return _fail(error, WRONG_USAGE)
    except AnswersAwaited as error:
        say(f"awaiting: {first_line(error)}")
        return AWAITING
    except KeyboardInterrupt:
        return _fail("interrupted; the same command resumes", FAILED)
    except (ValueError, OSError, RuntimeError, pa.ArrowException) as error:
        if os.environ.get("SRRAG_TRACEBACK"):
            raise
        return _fail(error, FAILED)
    read = sys.stdout.isatty() and sys.stderr.isatty() and "format=json" not in argv
    if config.get("format") == "table":
        print(summary["text"], flush=True)
    elif read and not own_stdout:
        if text := closing(name, config, summary):
            say(text)
    elif not own_stdout:
        narrow = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
        print(json.dumps(summary, ensure_ascii=narrow, allow_nan=False), flush=True)
    return DONE if summary.get("ok", True) else FAILED


def run(name: str, job: Job, argv: Sequence[str]) -> dict[str, Any]:
    """Run a job in this process and return its summary, as `srrag NAME …` prints it.

    Raises UsageError for wrong arguments, and what the job raises.
    """
    return _run(name, job, _configured(name, argv))


def _configured(name: str, argv: Sequence[str]) -> dict[str, Any]:
    return {**configure(name, argv), "command": shlex.join(["srrag", name, *argv])}


def _run(name: str, job: Job, config: dict[str, Any]) -> dict[str, Any]:
    if "local" in (value_at(config, "ray.address"), value_at(config, "profile.runner.address")):
        keep_ray_here()  # the job starts this Ray itself
    began = time.time()
    summary = {"job": name, **job(config)}
    if config.get("out") and not config.get("estimate"):  # an estimate leaves no trace
        _write_summary(Path(config["out"]), summary)
        mirror.join(Path(config["out"]), began)  # upload what is not there yet
    return summary


def closing(name: str, config: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """What a person reads when a job is done: what stands where, and what comes next."""
    root = config.get("root")
    here = "" if root in (None, DEFAULT_ROOT) else f" root={shlex.quote(str(root))}"
    lines = []
    if name == "build" and not config.get("estimate"):
        facts = sum(summary["rejects"].get("triples", {}).values())
        told = f"{summary['documents']:,} documents, {summary['windows']:,} windows"
        told += f", {summary['rejected'] - facts:,} rejected"
        told += f", {facts:,} facts not taken from the model" if facts else ""
        if skipped := summary["skipped_as_forgotten"]:
            told += f", {skipped:,} not read as forgotten"
        lines.append(f"{root}: {told}")
        lines.append(f'next: srrag ask{here} "…"    or    srrag serve{here}')
    if name == "init" and summary["texts_per_cpu_s"]:  # else it is begun
        lines.append(f"next: srrag build{here} PAPERS/")
    if config.get("out") and name != "build" and not config.get("estimate"):
        lines.append(f"written to {config['out']}")
    return "\n".join(lines)


class _NoPandas:
    """An import hook that finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave anything else to other hooks."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _without_pandas() -> None:
    """Hide pandas while Arrow looks for it; Arrow would import it at the first array.

    No job hands pandas' objects to Arrow, and the import takes a tenth of a cold question.
    """
    if "pandas" not in sys.modules:
        hook = _NoPandas()
        sys.meta_path.insert(0, hook)
        try:
            pa.array(range(1))
        finally:
            sys.meta_path.remove(hook)


def _stop(number: int, frame: object) -> None:
    """Treat SIGTERM as an interrupt, so that the job releases its locks and processes."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect everything that libraries print, even native code, from stdout to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _write_summary(folder: Path, summary: dict[str, Any]) -> None:
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)

    def write(path: Path) -> None:
        path.write_text(text + "\n", "utf-8")

    commit(folder / "summary.json", write)


def _fail(error: object, code: int) -> int:
    say(f"error: {first_line(error)}")
    return code
