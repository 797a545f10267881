"""`srrag serve root=… pipeline=…`: the HTTP API over a build, until it is stopped."""

from __future__ import annotations

import json
import shlex
import sys
import time
from typing import Any

from srrag.config import factory
from srrag.runner.progress import say
from srrag.serve.configured import settings_of
from srrag.serve.library_facts import example_questions
from srrag.storage.mirror import shown
from srrag.storage.store import Store

_POLL_S = 1.0


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Serve until interrupted."""
    settings = settings_of(config)
    from srrag.serve.ray.deployments import Cluster, served
    from srrag.serve.ray.starting import Health

    cluster = factory.make_as(Cluster, config["ray"], "ray")
    up = time.monotonic()
    url = ""
    say(f"starting on {settings.host}:{settings.port} …")
    try:
        with served(settings, cluster) as url:
            up = time.monotonic()
            say(f"{url} answers from {shown(settings.root)} by {', '.join(settings.pipelines)}.")
            asked = own_question(Store(settings.root), settings.build)
            say(example(url, asked, keyed=bool(settings.keys)))
            # Not by `say`, which would name the store: a log stays on its node.
            print(f"log: {settings.log or 'in the folder of Ray'}", file=sys.stderr, flush=True)
            health = Health(cluster.start_s)
            try:
                while True:
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


def own_question(store: Store, build: str) -> str:
    """A question that a title of a build asks, of its first part of documents; else a place."""
    documents = store.read_pointer(build)["stages"]["documents"]
    for part in documents["parts"][:1]:
        titles = store.read_part("documents", documents["fingerprint"], part, ["title", "grade"])
        if found := example_questions(titles.to_pylist()):
            return found[0]
    return "YOUR QUESTION"


def example(url: str, question: str, *, keyed: bool) -> str:
    """A command that asks the server, with the place of a key where it needs one."""
    key = "-H 'authorization: Bearer KEY' " if keyed else ""
    body = shlex.quote(json.dumps({"question": question}, ensure_ascii=False))
    return f"  curl {url}/v1/answers {key}-H 'content-type: application/json' \\\n       -d {body}"
