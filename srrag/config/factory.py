"""Builds objects from configuration: the plan, the place, the runner and the pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import yaml

from srrag.config.compose import with_pipeline
from srrag.config.words import choices
from srrag.core.errors import UsageError
from srrag.core.ontology import Ontology
from srrag.core.pipeline import Pipeline
from srrag.core.schema import RAW
from srrag.core.spec import build, construct, fingerprint, spec
from srrag.core.stage import Plan, Resources, Stage
from srrag.core.step import Place, Step, usable_cpus
from srrag.corpus.read_jsonl import ReadBeir
from srrag.llm.completion import Account
from srrag.runner.engines import engines_of
from srrag.runner.pipeline_run import PipelineRun, check_pipeline
from srrag.runner.progress import say
from srrag.runner.runner import Runner
from srrag.storage.mirror import located
from srrag.storage.store import Store

MODES = ("field", "text", "none")
READERS = {
    "BuildDenseIndex": ("titles",),
    "BuildSparseIndex": ("titles",),
    "BuildLanceDense": ("titles",),
    "BuildLanceSparse": ("titles",),
    "BuildTokenIndex": ("titles", "windows"),
}
"""Classes that read titles, and their fields that name the stages with the titles."""
OWN_FIELD = ("BuildSparseIndex", "BuildLanceSparse")
"""Classes that can search titles as a separate field."""


def title_mode(reader: Any) -> str:
    """How a reader's titles are searched: as a separate field, before the text, or not at all.

    "auto", of a BEIR folder, is "field" unless its own questions are titles, and says so. Raises
    UsageError for another word.
    """
    mode = getattr(reader, "title", "none")
    if mode == "auto" and isinstance(reader, ReadBeir):
        if count := reader.asked_titles():
            say(f"corpus.title=none, since {count} of its questions are titles")
        return "none" if count else "field"
    if mode not in MODES:
        raise UsageError(f"corpus.title={mode}: {', '.join(MODES)} are known")
    return str(mode)


def searching(stages: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """The stages of a plan for a mode; with "none" no stage reads titles.

    So a root that was built before titles could be searched stays as it is with "none".
    """
    made: dict[str, Any] = {}
    for name, entry in stages.items():
        kind = entry["run"]["_target_"] if entry else ""
        if mode == "none" and kind in READERS:
            lost = [entry["run"][key] for key in READERS[kind] if key in entry["run"]]
            inputs = [each for each in entry["inputs"] if each not in lost]
            run = {key: value for key, value in entry["run"].items() if key not in READERS[kind]}
            made[name] = {**entry, "inputs": inputs, "run": run}
        elif mode == "text" and kind in OWN_FIELD and entry["run"].get("titles"):
            made[name] = {**entry, "run": {**entry["run"], "own_field": False}}
        elif not (mode == "none" and kind == "EncodeTitles"):
            made[name] = entry
    return made


def make(config: Any, key: str) -> Any:
    """Build an object from its configuration; raises UsageError that names the key."""
    try:
        return build(config)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{key}: {error}") from error


def make_as(cls: type, fields: Mapping[str, Any], key: str) -> Any:
    """Build an object of a class from plain values; raises UsageError that names the key."""
    try:
        return construct(cls, {name: build(value) for name, value in fields.items()})
    except (ValueError, TypeError) as error:
        raise UsageError(f"{key}: {error}") from error


COMMON = "hybrid_maxsim"
"""The pipeline whose answer steps every pipeline gets with `answer: common`."""


def place(config: Mapping[str, Any]) -> Place:
    """The place of this process's steps: device, threads and account; raises UsageError."""
    profile = config["profile"]
    if profile["device"] != "cpu":
        import torch

        if not torch.cuda.is_available():
            raise UsageError(
                f"profile.device={profile['device']}: torch finds no GPU here; on a cluster, ask "
                "for a share of one: ray job submit --entrypoint-num-gpus 0.25 -- srrag …"
            )
    return Place(
        device=profile["device"],
        threads=profile["threads"] or usable_cpus(),
        account=account(config),
    )


def training_place(config: Mapping[str, Any]) -> Place:
    """The place of a training run; it calls no model, so it has neither log nor budget."""
    return place({**config, "root": None, "budget": dict.fromkeys(("max_tokens", "max_usd"))})


def seeds(given: Any, key: str) -> list[int]:
    """The seeds of trainings; raises UsageError unless they are different whole numbers from 0."""
    listed = given if isinstance(given, list) else [given]
    whole = all(isinstance(seed, int) and not isinstance(seed, bool) for seed in listed)
    if not listed or not whole or min(listed) < 0 or len(set(listed)) < len(listed):
        raise UsageError(f"{key}={given}: different whole numbers from 0 are needed")
    return listed


def account(config: Mapping[str, Any]) -> Account:
    """The completions log and the budget's ceilings; raises UsageError that names a bad key."""
    ceilings, share = config["budget"], config.get("max_failed_share", 1.0)
    if not isinstance(ceilings, Mapping):
        raise UsageError(f"budget={ceilings}: max_tokens and max_usd are needed, null for none")
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise UsageError(f"max_failed_share={share}: a share from 0 to 1 is needed")
    for key, kinds in (("max_tokens", int), ("max_usd", (int, float))):
        value = ceilings[key]
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise UsageError(f"budget.{key}={value}: a number is needed")
        if value is not None and not value > 0:
            raise UsageError(f"budget.{key}={value}: a ceiling has to be positive")
    return Account(
        log=None if config["root"] is None else located(config["completions"]),
        fresh=config.get("retry_failed", False),
        max_lost_share=share,
        **ceilings,
    )


def runner(config: Mapping[str, Any]) -> Runner:
    """The runner of the profile."""
    made: Runner = make(config["profile"]["runner"], "profile.runner")
    return made


def resources(config: Mapping[str, Any], stage: str, run: Any = None) -> Resources:
    """The resources of a stage's worker: the profile's defaults, overridden by the stage's entry.

    For a stage whose step calls a model, the entry `calls` overrides the defaults too, since its
    workers mostly wait. Raises UsageError.
    """
    table = config["profile"]["resources"]
    calls = isinstance(run, Step) and bool(engines_of([run]))
    merged = {
        **table.get("default", {}),
        **(table.get("calls", {}) if calls else {}),
        **table.get(stage, {}),
    }
    made: Resources = make_as(Resources, merged, f"resources.{stage}")
    return made


def plan(config: Mapping[str, Any], reader: Any) -> Plan:
    """The plan of a build: its stages with their fingerprints; raises UsageError."""
    stages = []
    searched = searching(config["stages"], title_mode(reader))
    for name, entry in without_unread(kept_stages(searched)).items():
        run = make(entry["run"], f"stages.{name}")
        inputs = tuple(entry["inputs"])
        stages.append(Stage(name, run, inputs, resources(config, name, run)))
    source = fingerprint(spec(reader), RAW.to_string())
    try:
        return Plan("raw", source, stages)
    except ValueError as error:
        raise UsageError(str(error)) from error


def kept_stages(stages: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the stages that are null, and all stages that depend on them."""
    kept = {name: entry for name, entry in stages.items() if entry}
    gone = set(stages) - set(kept)
    while lost := {name for name, entry in kept.items() if gone & set(entry["inputs"])}:
        say(f"left out with {', '.join(sorted(gone))}: {', '.join(sorted(lost))}")
        kept = {name: entry for name, entry in kept.items() if name not in lost}
        gone = lost
    return kept


def ontology(name: str = "pico") -> Ontology:
    """The schema of a name in conf/schema."""
    made: Ontology = make(yaml.safe_load(choices("schema")[name].read_text("utf-8")), "schema")
    return made


FACTS = ("ExtractDocuments", "ListTriples", "ListFindings")
"""Classes whose rows are facts and findings."""


def without_unread(stages: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what rules would extract, without a tagger, where no stage reads it.

    *Across the studies* reads a model's findings; for rules it reads the few papers that it needs.
    """
    kept = dict(stages)
    runs = [entry["run"] for entry in kept.values()]
    ways = [
        (run["engine"]["_target_"], run["mentions"]["_target_"])
        for run in runs
        if run["_target_"] == "ExtractDocuments"
    ]
    if ways != [("Rules", "FindByRules")]:
        return kept
    while unread := [
        name
        for name, entry in kept.items()
        if entry["run"]["_target_"] in FACTS
        and not any(name in each["inputs"] for each in kept.values())
    ]:
        kept = {name: entry for name, entry in kept.items() if name not in unread}
    return kept


def answering(config: Mapping[str, Any]) -> Pipeline:
    """The pipeline of a job that needs answers; raises UsageError if it only ranks."""
    made = pipeline(config)
    if "answer" not in made.writes.names:
        raise UsageError("pipeline: none of its steps writes an answer")
    return made


def pipeline(config: Mapping[str, Any], key: str = "pipeline") -> Pipeline:
    """The pipeline of a job; with `answer: common` its ranking, answered as COMMON does.

    Raises UsageError that names the key under which it was chosen.
    """
    own: Pipeline = make(config["pipeline"], key)
    wanted = config.get("answer", "own")
    if wanted not in ("own", "common"):
        raise UsageError(f"answer={wanted}: own or common")
    if wanted == "own" or not own.rank:
        return own
    other = with_pipeline("evaluate", dict(config), COMMON)["pipeline"]
    common: Pipeline = make(other, "pipeline")
    written = {*Pipeline(rank=own.rank).writes.names, "reject"}
    steps = [each for each in common.answer if not set(each.writes.names) <= written]
    return Pipeline(rank=own.rank, answer=tuple(steps))


def pipeline_run(config: Mapping[str, Any], pipeline: Pipeline) -> PipelineRun:
    """Bind a pipeline to the build that a configuration names, as `bound` does."""
    given = config["root"], config["build"], pipeline, runner(config), partial(resources, config)
    return bound(*given)


def bound(
    root: str | None,
    build: str,
    pipeline: Pipeline,
    runner: Runner,
    resources: Callable[[str, Any], Resources],
) -> PipelineRun:
    """Bind a pipeline to a build of a root; raises UsageError if they do not fit."""
    if root is None:
        raise UsageError("root= is missing: the build that the pipeline reads")
    store = Store(root)
    store.check()
    check_pipeline(store, build, pipeline)
    return PipelineRun(store, build, pipeline, runner, resources)


def rankings(config: dict[str, Any]) -> dict[str, PipelineRun]:
    """Bind the rankings of `pipeline` and of each in `pool` to the build.

    Raises UsageError that names a failing one.
    """
    configs = {"pipeline": config}
    for name in config["pool"]:
        configs[f"pool.{name}"] = with_pipeline("make_benchmark", config, str(name))
    found = {}
    for name, each in configs.items():
        made: Pipeline = make(each["pipeline"], name)
        found[name] = pipeline_run(each, made.ranking())
    return found


_RAISE = re.compile(r"Raise (?P<key>[\w.]+) of (?P<step>\w+)")


def step_keys(config: Any, at: str = "pipeline") -> dict[str, str]:
    """The key of each step of a pipeline's configuration, by the name of its class."""
    found: dict[str, str] = {}
    if isinstance(config, Mapping):
        if isinstance(target := config.get("_target_"), str):
            found[target.rpartition(".")[2]] = at
        for name, item in config.items():
            found = step_keys(item, f"{at}.{name}") | found
    return found


def named(row: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return an answered row with the full configuration key in the fault of each lost step."""

    def whole(match: re.Match[str]) -> str:
        if match["key"].startswith("engine."):
            return f"Raise {match['key']}"
        return f"Raise {keys.get(match['step'], match['step'])}.{match['key']}"

    return {**row} | {
        name: [{**each, "fault": _RAISE.sub(whole, each.get("fault") or "")} for each in row[name]]
        for name in ("trace", "search_trace", "rounds")
        if row.get(name)
    }
