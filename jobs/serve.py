"""`srrag serve root=… pipeline=…`: the HTTP API over a build, until it is stopped."""

from __future__ import annotations

import sys
import time
from typing import Any

from srrag.config import factory
from srrag.runner.progress import say
from srrag.serve.configured import settings_of
from srrag.storage.mirror import shown

_POLL_S = 1.0


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Serve until interrupted, or for `stop_after_s`."""
    settings = settings_of(config)
    from srrag.serve.ray.deployments import Cluster, served
    from srrag.serve.ray.health import Health

    cluster = factory.make_as(Cluster, config["ray"], "ray")
    up = time.monotonic()
    url = ""
    say(f"starting on {settings.host}:{settings.port} …")
    try:
        with served(settings, cluster) as url:
            up = time.monotonic()
            say(f"{url} answers from {shown(settings.root)} by {', '.join(settings.pipelines)}.")
            say(example(url, keyed=bool(settings.keys)))
            # Not by `say`, which would name the store: a log stays on its node.
            print(f"log: {settings.log or 'in the folder of Ray'}", file=sys.stderr, flush=True)
            health = Health(cluster.start_s)
            until = up + (config["stop_after_s"] or float("inf"))
            try:
                while time.monotonic() < until:
                    if reason := health.failed():
                        raise RuntimeError(reason)
                    time.sleep(_POLL_S)
            finally:
                say("stopping; what is in hand is answered")
    except KeyboardInterrupt:
        if not url:
            raise
        say("stopped")
    seconds = round(time.monotonic() - up, 1)
    return {"url": url, "pipelines": list(settings.pipelines), "seconds": seconds}


def example(url: str, *, keyed: bool) -> str:
    """A command that asks the server, with the place of a key where it needs one."""
    key = "-H 'authorization: Bearer KEY' " if keyed else ""
    return (
        f"  curl {url}/v1/answers {key}-H 'content-type: application/json' \\\n"
        """       -d '{"question": "Does varenicline help people stop smoking?"}'"""
    )
