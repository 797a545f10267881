"""Build a root from a composed configuration: what `srrag build` and `root.build(…)` run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.errors import UsageError
from srrag.core.schema import REJECTS
from srrag.core.stage import Plan
from srrag.corpus.notices import keep_statuses, list_name, read_statuses
from srrag.library.results import Tabled
from srrag.runner.build import BuildJob
from srrag.runner.engines import engines_of
from srrag.runner.estimate import EstimateJob, readable
from srrag.runner.progress import say
from srrag.runner.summary import headline, read_rejects, readable_rejects, summarise
from srrag.storage.manifest import DamagedError
from srrag.storage.store import Store


@dataclass(frozen=True, kw_only=True)
class BuildSummary(Tabled):
    """A finished build: its `documents` and `windows`, and the `rejected` rows with reasons.

    `json` is what `srrag build` and `srrag status` print.
    """

    root: str
    build: str
    documents: int
    windows: int
    rejected: int
    rejects: pa.Table = field(default_factory=REJECTS.empty_table, repr=False, compare=False)
    """A row each, with stage, reason and detail."""
    json: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each stage, and all rejected ones."""
        return {**self.json.get("rows", {}), "rejected": self.rejected}

    def to_arrow(self) -> pa.Table:
        """The rows of each stage as a table: stage, rows."""
        return pa.table({"stage": list(self.counts), "rows": list(self.counts.values())})

    def __str__(self) -> str:
        """The counts, a line each, and the reasons of the first ten rejects."""
        lines = [f"{self.root}, build {self.build}"]
        lines += [f"  {name:<14}{count:>10,}" for name, count in self.counts.items()]
        return "\n".join([*lines, *filter(None, [readable_rejects(self.rejects, 10)])])

    def _repr_html_(self) -> str:
        return self._html("build.html", made=self, rejects=self.rejects.slice(0, 10).to_pylist())


def summary_of(store: Any, build: str, said: Mapping[str, Any] | None = None) -> BuildSummary:
    """Summarise a finished build; `said` is the summary of the run that made it."""
    json = {**headline(summarise(store, build)), **(said or {})}
    rows = json["rows"]
    return BuildSummary(
        root=str(store),
        build=build,
        documents=rows.get("documents", 0),
        windows=rows.get("windows", 0),
        rejected=json["rejected"],
        rejects=read_rejects(store, build),
        json=json,
    )


_NAMED = 10
_SAMPLE = "corpus=open_access"
_NAMES_PAPERS = re.compile(r"[+~]*corpus(=|@|\.path=)")


def _keep_papers(store: Store, config: Mapping[str, Any]) -> None:
    """Raise UsageError where a sample would take the place of other papers unasked."""
    overrides, command = config.get("overrides", ()), _command(store, config)
    if _SAMPLE in overrides and _SAMPLE not in (command or _SAMPLE):
        raise UsageError(f"root={store} holds other papers: `srrag sample root=FOLDER`")
    stands = store.pointer_path(config["build"]).exists()
    same = _corpus_of(config["command"])
    known = command and _corpus_of(command) in ([], ["corpus=sample"], same)
    if stands and not known and not any(map(_NAMES_PAPERS.match, overrides)):
        made = f"`{command}` built it" if command else "a command that is not known built it"
        raise UsageError(f"root={store}: {made}: name its papers, or corpus=sample for the sample")


def _command(store: Store, config: Mapping[str, Any]) -> str:
    """The command that made the build, "" if none did, or if its pointer is yet to be repaired."""
    build = config["build"]
    if not store.pointer_path(build).exists():
        return ""
    try:
        return str(store.read_pointer(build).get("command", ""))
    except DamagedError:
        if config["repair"]:
            return ""
        raise


def _corpus_of(command: str) -> list[str]:
    """The words of a command line that name what a build reads."""
    return [word for word in shlex.split(command)[2:] if "=" not in word or word[:6] == "corpus"]


def _former(store: Store, config: Mapping[str, Any]) -> str:
    """The command of the build that this one takes the place of, "" where it reads the same."""
    command = _command(store, config)
    return command if command and _corpus_of(command) != _corpus_of(config["command"]) else ""


def _plan(store: Store, config: dict[str, Any], reader: Any, *, keep: bool) -> Plan:
    """The plan of a configuration; a list of statuses is kept in the root if wanted."""
    from srrag.config import factory  # imports Hydra

    if config["statuses"] and config["stages"].get("standing"):
        notices = read_statuses(Path(config["statuses"]))
        kept = keep_statuses(store, notices) if keep else list_name(notices)
        config["stages"]["standing"]["run"]["statuses"] = kept
    return factory.plan(config, reader)


def made_anew(store: Store, build: str) -> list[str] | None:
    """Stages of a finished build that its own command would make again with this version.

    None where that cannot be told: its command is none of `srrag build`, or not one of today's.
    """
    from srrag.config import factory  # imports Hydra
    from srrag.config.compose import configure

    pointer = store.read_pointer(build)
    words = shlex.split(pointer["command"])
    if words[:2] != ["srrag", "build"]:
        return None
    try:
        config = configure("build", [*words[2:], f"root={store}"])
        reader = factory.make(config["corpus"], "corpus")
        plan = _plan(store, config, reader, keep=False)
    except (ValueError, OSError):
        return None
    stood = {name: each["fingerprint"] for name, each in pointer["stages"].items()}
    parts = pointer["stages"].get(plan.source, {}).get("parts", [])
    names = (plan.source, *(stage.name for stage in plan.stages))
    return [name for name in names if stood.get(name) != plan.fingerprint(name, parts)]


def build_root(config: dict[str, Any]) -> dict[str, Any]:
    """Build the missing parts of `root` from `corpus`."""
    from srrag.config import factory  # imports Hydra

    reader = factory.make(config["corpus"], "corpus")
    store = Store(config["root"])
    _keep_papers(store, config)
    plan = _plan(store, config, reader, keep=not config["estimate"])
    asked = engines_of([stage.step for stage in plan.steps])
    if asked and all(stage.name != "graph" for stage in plan.stages):
        say("plan=graph makes a graph of what the model finds, with no further call")
    if config["estimate"]:
        summary = EstimateJob(store, plan, config["build"]).run(
            reader.scan(), factory.place(config)
        )
        say(readable(summary))
        return summary
    job = BuildJob(
        store=store,
        plan=plan,
        runner=factory.runner(config),
        name=config["build"],
        command=config["command"],
        max_failed_share=config["max_failed_share"],
        retry_failed=config["retry_failed"],
        update=config["update"],
        repair=config["repair"],
    )
    former = _former(store, config)
    store, summary = job.store, job.run(reader.scan(), factory.place(config))
    if former:
        say(f"in the place of what `{former}` read; a folder that holds both keeps both")
    if named := readable_rejects(read_rejects(store, job.name), _NAMED):
        say(f"rejected: {summary['rejected']:,}\n{named}")
    return headline(summary)


def build_here(
    store: Store,
    name: str,
    corpus: str = "folder",
    path: str | Path | None = None,
    overrides: Iterable[str] = (),
) -> BuildSummary:
    """Build a root in this process; `corpus`, `path` and `overrides` are as on the command line."""
    from srrag.config.compose import configure

    given = [f"root={store}", f"build={name}", f"corpus={corpus}", *overrides]
    given += [] if path is None else [f"corpus.path={path}"]
    config = configure("build", given)
    if config["estimate"]:
        raise UsageError("estimate=true: it builds nothing; ask `srrag build` for an estimate")
    said = build_root({**config, "command": shlex.join(["srrag", "build", *given])})
    return summary_of(store, name, said)
