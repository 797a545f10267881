"""Composes the configuration of a job from conf/ and its overrides; only this file uses Hydra."""

from __future__ import annotations

import dataclasses
import difflib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from srrag.config.words import CONF, CONFS, choices, in_full
from srrag.core.errors import UsageError, first_line
from srrag.core.kinds import class_of
from srrag.runner.pipeline_run import keeps_graph, settled_embedder
from srrag.storage import mirror

FREE_TEXT = ("question", "entity")
"""Keys whose values are literal text, never parsed by Hydra."""

PATHS = (
    "root", "out", "results", "bench.path", "bench.answers", "bench.answerable", "graph.path",
    "completions", "statuses",
)  # fmt: skip
"""Keys whose value is a single file or folder, in every job that has them."""

NAMES = (
    *PATHS, "doc_id", "source_id", "forgotten", "build", "queries", "team", "run_name", "community",
    "corpus.path", "engine.model", "choose.model",
)  # fmt: skip
"""Keys whose values are names: what looks like a number (12_3, 1.10) is kept as it is typed."""

_ONE_AT_A_TIME = threading.Lock()
_QUOTED = (str(folder).replace("'", r"\'") for folder in CONFS[1:])
SEARCHED = "hydra.searchpath=[" + ",".join(f"'{folder}'" for folder in _QUOTED) + "]"
"""Where Hydra also looks for choices."""
_GROUPS = "output", "launcher", "sweeper", "help", "hydra_help", "hydra_logging", "job_logging"
_UNREAD = [f"~hydra/{group}" for group in _GROUPS]
"""Hydra's choices for itself, composed with each job and read by nobody: a quarter of the time."""
_LITERAL = tuple(f"{key}=" for key in FREE_TEXT)
_NUMBER = re.compile(r"(^|[\[,])(\s*)([+-]?\.?\d[\w.+-]*)(?=\s*(?:[\],]|$))")
"""A bare value, or an item of a list, that Hydra may take for a number."""


def configure(name: str, argv: Sequence[str]) -> dict[str, Any]:
    """Compose conf/<name>.yaml with overrides; raises UsageError in one line."""
    argv = in_full(name, argv)
    literal = dict(item.split("=", 1) for item in argv if item.startswith(_LITERAL))
    overrides = [item for item in argv if not item.startswith(_LITERAL)]
    if name == "sweep":
        overrides = list(_of_all_rows(overrides))
    try:
        composed = _composed(name, overrides, literal)
        if settled := _settled(name, composed, overrides):
            composed = _composed(name, [*settled, *overrides], literal)
        config = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        if isinstance(error, UsageError):
            raise
        if isinstance(error, MissingMandatoryValue):
            raise UsageError(
                f"{error.full_key}=… is needed; srrag {name} --help says more"
            ) from error
        text = re.sub(r"^\w+ raised while resolving interpolation: ", "", first_line(error))
        if found := re.search(r"Missing mandatory value: (\S+)", text):
            text = f"{found[1]}=… is needed; srrag {name} --help says more"
        if found := re.match(r"Could not override '([^']+)'\.", text):
            text = f"{found[0]} {_hint(name, found[1], overrides)}"
        if isinstance(error, MissingConfigException) and error.options:
            asked = str(error.missing_cfg_file).rpartition("/")[2]
            near = difflib.get_close_matches(asked, error.options, n=1)
            meant = f"did you mean {near[0]}? There" if near else "there"
            text = f"{text}; {meant} is {', '.join(error.options)}"
        raise UsageError(text) from error
    assert isinstance(config, dict)
    for key in PATHS:
        if isinstance(value := value_at(config, key), (list, dict)):
            hint = "; `srrag sweep` puts several systems in one table" * (key == "results")
            raise UsageError(f"{key}={value}: one path is needed{hint}")
    composed_of = {"overrides": list(argv)}
    return {**{str(key): value for key, value in config.items()}, **literal, **composed_of}


def _of_files(name: str, overrides: list[str]) -> DictConfig:
    """Compose files of conf/, one thread at a time: Hydra keeps one state in a process.

    That of a program which uses Hydra itself is put aside meanwhile.
    """
    with _ONE_AT_A_TIME:
        whole = GlobalHydra.instance()
        others, whole.hydra = whole.hydra, None
        try:
            with initialize_config_dir(str(CONF), version_base=None):
                return compose(name, overrides=_searching(overrides))
        finally:
            whole = GlobalHydra.instance()
            whole.hydra = others


def _searching(overrides: Sequence[str]) -> list[str]:
    """The overrides with the folders of the systems, after those that a command searches itself."""
    key = "hydra.searchpath=["
    own = [item[len(key) : -1] for item in overrides if item.startswith(key)]
    rest = [item for item in overrides if not item.startswith(key)]
    searched = f"{key}{','.join([*own, SEARCHED[len(key) : -1]])}]" if own else SEARCHED
    return [searched, *_UNREAD, *rest]


def _composed(name: str, overrides: Sequence[str], literal: Iterable[str]) -> DictConfig:
    """The configuration before it is resolved, with local folders in place of addresses."""
    composed = _of_files(name, [*map(quoted, overrides), *(f"{key}=_" for key in literal)])
    for key in ("root", "results", "out"):
        if isinstance(value := composed.get(key), str) and "://" in value:
            composed[key] = str(mirror.located(value))
    return composed


def _settled(name: str, composed: DictConfig, overrides: Sequence[str]) -> list[str]:
    """What the job's root settles and the command does not name: embedder, graph of a build."""
    root, embedder = (OmegaConf.select(composed, key) for key in ("root", "embedder"))
    if not isinstance(root, str):
        return []
    folder, settled = mirror.located(root), None
    if isinstance(embedder, DictConfig) and not _named("embedder", overrides):
        settled = settled_embedder(folder)
    planned = name != "build" or _named("plan", overrides)
    graph = not planned and keeps_graph(folder, str(composed["build"]))
    return [f"embedder={settled}"] * bool(settled) + ["plan=graph"] * graph


def _named(key: str, overrides: Sequence[str]) -> bool:
    return any(re.match(rf"[+~]*{key}(=|$)", item) for item in overrides)


def _hint(name: str, key: str, overrides: Sequence[str]) -> str:
    """A hint for an override whose key no file names."""
    holder, _, last = key.rpartition(".")
    below = f"{holder}." if holder else f"{key}="
    others = [item for item in overrides if not item.lstrip("+~").startswith(below)]
    held: Any = None
    with suppress(HydraException, OmegaConfBaseException):
        composed = _of_files(name, list(map(quoted, others)))
        held = OmegaConf.select(composed, holder) if holder else composed
    if not isinstance(held, DictConfig):
        return f"Nothing is called {holder or key!r}."
    target = OmegaConf.to_container(held, resolve=False).get("_target_")  # type: ignore[union-attr]
    if target is None:
        keys = [str(each) for each in held] + ["model"] * (not holder and "engine" in held)
        if near := difflib.get_close_matches(last, keys, n=1):
            return f"Did you mean {'.'.join(filter(None, (holder, near[0])))}?"
        return f"It has {', '.join(keys)}; put + before a key that is to be new."
    fields = [each.name for each in dataclasses.fields(class_of(str(target))) if each.init]
    if not fields:
        return f"{target} has no fields; name another {holder} first" + (
            ", as model=… or engine=http do." if holder == "engine" else "."
        )
    if last in fields:
        return f"The file does not name it: put + before the key (+{key}=…)."
    return f"{target} has no field {last!r}; it has {', '.join(fields)}."


def value_at(config: Any, key: str) -> Any:
    """The value of a dotted key, or None."""
    for name in key.split("."):
        config = config.get(name) if isinstance(config, Mapping) else None
    return config


def with_pipeline(name: str, config: dict[str, Any], pipeline: str) -> dict[str, Any]:
    """Compose a job again with the same overrides but another pipeline; raises UsageError."""
    kept = [
        item for item in config["overrides"] if not re.match(r"[+~]*(pipeline\b|baseline=)", item)
    ]
    return configure(name, [*kept, f"pipeline={pipeline}"])


def listed(override: str) -> list[str]:
    """Expand an override with a list of values (key=a,b) to single ones; [] for other overrides."""
    named = _with_names(override)
    try:
        parsed = OverridesParser.create().parse_override(named)
    except HydraException:
        return []
    if not parsed.is_sweep_override():
        return []
    values = parsed.sweep_string_iterator()
    if named != override:  # its quotes were not typed
        values = (value.replace("'", "") for value in values)
    return [f"{parsed.get_key_element()}={value}" for value in values]


def _of_all_rows(overrides: Sequence[str]) -> Iterator[str]:
    """Yield the overrides for the sweep itself, without lists and pipelines, which make its rows.

    Quotes a list below `sweep.`, since it is a text.
    """
    for item in overrides:
        if item.startswith("sweep.") and listed(item):
            key, _, values = item.partition("=")
            yield f"{key}='{values}'"
        elif not (listed(item) or re.match(r"[+~]*pipeline\b", item)):
            yield item


def quoted(override: str) -> str:
    """Quote an override's value if Hydra cannot parse it, or would read a number for a name.

    Raises UsageError without a `=`.
    """
    key, equals, value = override.partition("=")
    if override.startswith("~"):
        return override
    if not equals:
        raise UsageError(f"{override!r} is not an override; write key=value")
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return f"{key}='" + re.sub(r"(\\*)('|$)", _escaped, value) + "'"
    return _with_names(override)


def _with_names(override: str) -> str:
    """Quote the numbers in the value of a key whose values are names."""
    key, equals, value = override.partition("=")
    if key.lstrip("+") not in NAMES or "'" in value or '"' in value:
        return override
    return key + equals + _NUMBER.sub(r"\1\2'\3'", value)


def _escaped(match: re.Match[str]) -> str:
    """Double the backslashes before a quote or the end, and escape the quote."""
    return 2 * match[1] + ("\\'" if match[2] else "")


def describe(name: str) -> str:
    """The help text of a job: its YAML file with all defaults, and the choices of each group."""
    groups = dict.fromkeys(_groups(name))
    listed = [f"  {group}: {', '.join(choices(group))}" for group in groups]
    text = (CONF / f"{name}.yaml").read_text("utf-8")
    shown = "\nGroups (group=choice):\n" + "\n".join(listed) if listed else ""
    return f"srrag {name} [key=value …]\n\n{text}{shown}"


def _groups(name: str) -> Iterator[str]:
    """The groups in the defaults list of a job's file and of the files that it extends."""
    stated: Any = OmegaConf.to_container(OmegaConf.load(CONF / f"{name}.yaml"))
    for chosen in stated.get("defaults", []):
        if isinstance(chosen, dict):
            yield str(next(iter(chosen))).partition("@")[0]
        elif chosen != "_self_":
            yield from _groups(chosen)
