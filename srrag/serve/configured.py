"""The settings of a server from the configuration of `srrag serve`, and its Serve application."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.core.pipeline import Pipeline
from srrag.serve.settings import Deployment, Limits, ServeSettings, read_keys
from srrag.serve.telemetry import traces_to

_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


def settings_of(config: dict[str, Any]) -> ServeSettings:
    """Read the server's settings; raises UsageError that names a wrong key."""
    pipelines: dict[str, Pipeline] = {}
    arguments = shlex.split(config["command"])[2:]
    others = {name: configure("serve", _with(arguments, name)) for name in config["also"]}
    for name, chosen in {_chosen(config["overrides"]): config, **others}.items():
        if chosen["build"] != config["build"]:
            theirs, ours = chosen["build"], config["build"]
            raise UsageError(f"also: {name} asks build {theirs!r}, this server {ours!r}")
        pipelines[name] = factory.make(chosen["pipeline"], "pipeline")
        factory.pipeline_run(config, pipelines[name])
    limits = factory.make_as(Limits, config["limits"], "limits")
    at = factory.place(config)
    try:
        keys = read_keys(Path(config["api_keys"])) if config["api_keys"] else {}
        if len(keys) > 1 and not config["profile"]["threads"]:
            # Arithmetic on all cores waits for the one that another key's request keeps busy.
            at = replace(at, threads=max(1, at.threads // 2))
        if tried := traces_to(config["traces"]):  # what it needs is said before Ray has started
            tried.close()
        return ServeSettings(
            root=Path(config["root"]).expanduser().resolve(),
            pipelines=pipelines,
            build=config["build"],
            at=at,
            host=config["host"],
            port=config["port"],
            keys=keys,
            limits=limits,
            log=_log_file(config["log"]),
            log_questions=config["log_questions"],
            apart=_apart(config["deployments"] or {}, config["profile"]["device"]),
            traces=config["traces"],
            runs=tuple(Path(folder).expanduser().resolve() for folder in config["runs"]),
        )
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error


def _apart(deployments: Mapping[str, Any], device: str) -> dict[str, Deployment]:
    """The deployments beside that of the ingress."""
    made = {}
    for name, given in deployments.items():
        if not _NAME.fullmatch(name):
            raise UsageError(f"deployments.{name}: a name is small letters, digits and _")
        made[name] = factory.make_as(Deployment, {"device": device, **given}, f"deployments.{name}")
    return made


def application(args: dict[str, Any]) -> Any:
    """The application for `serve deploy`: `args.overrides` are those of `srrag serve`.

    There the host is that of the cluster's HTTP options, which only a key can guard: without
    api_keys, the overrides have to say that host is a loopback address.
    """
    from srrag.serve.ray.deployments import Cluster
    from srrag.serve.ray.deployments import application as on_ray

    overrides = [str(each) for each in args.get("overrides", ())]
    config = {
        **configure("serve", overrides),
        "command": shlex.join(["srrag", "serve", *overrides]),
    }
    if not config["api_keys"] and not any(each.startswith("host=") for each in overrides):
        raise UsageError("api_keys=FILE is needed, or host=127.0.0.1 as http_options has it")
    cluster = factory.make_as(Cluster, config["ray"], "ray")
    return on_ray(settings_of(config), cluster)


def _log_file(path: str | None) -> Path | None:
    if path is None:
        return None
    file = Path(path).expanduser().resolve()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        said = f"{error.strerror}; log=FILE elsewhere, or log=null for stderr"
        raise UsageError(f"log={file}: {said}") from error
    return file


def _chosen(arguments: Sequence[str]) -> str:
    """The name under which the command, or the file beside the root, chose its pipeline."""
    names = [text.partition("=")[2] for text in arguments if text[:9] == "pipeline="]
    return names[-1] if names else "hybrid_maxsim"


def _with(arguments: Sequence[str], pipeline: str) -> list[str]:
    """Return the same command with another pipeline."""
    rest = [text for text in arguments if not text.lstrip("+~").startswith("pipeline")]
    return [*rest, f"pipeline={pipeline}"]
