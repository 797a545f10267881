"""What a refusal costs by Ray alone: the load of perf.serve_load on an endpoint that only refuses.

    python -m perf.serve_floor --seconds 30

Each client is refused at once, and waits exactly the seconds that the server would say for a queue
of `--wait` seconds: by default three to six; `--wait 0` for always one. Processes have the server's
niceness. The last line on stdout is one JSON object: seconds of a refusal at p50 and p95, and
milliseconds of processor time of the proxy and of the replica a request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

import psutil
import ray
from ray import serve
from ray.serve.config import HTTPOptions

from perf.serve_load import figures, load
from srrag.serve.errors import busy
from srrag.serve.ray.deployments import prepare

PORT = 8157
PROCESSES = {"proxy": "ProxyActor", "replica": "ServeReplica"}


@serve.deployment(max_ongoing_requests=500, max_queued_requests=500)
class Refusing:
    """Answers every request with 503."""

    def __init__(self, wait_s: float) -> None:
        """Set the seconds that a queue would take; 0 always answers one second."""
        self._wait_s = wait_s

    async def __call__(self, request: Any) -> Any:
        """Say when to come back."""
        from starlette.responses import Response

        told = busy(self._wait_s).headers() if self._wait_s else {"Retry-After": "1"}
        return Response("{}", 503, {**told, "x-content-type-options": "nosniff"})


def cpu_s(name: str) -> float:
    """Processor time of the processes of Ray whose command holds a name."""
    spent = 0.0
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # some end meanwhile
            if name in " ".join(each.cmdline()):
                times = each.cpu_times()
                spent += times.user + times.system
    return spent


def measured(clients: int, seconds: float) -> dict[str, Any]:
    """One load."""
    before = {name: cpu_s(text) for name, text in PROCESSES.items()}
    seen = asyncio.run(load(f"http://127.0.0.1:{PORT}", clients, seconds))
    number = len(seen.outcomes["refused"])
    spent = {name: 1000 * (cpu_s(text) - before[name]) for name, text in PROCESSES.items()}
    cpu_ms = {name: round(each / number, 2) for name, each in spent.items()}
    return {**figures(seen, seconds)["refused_s"], "requests": number, "cpu_ms": cpu_ms}


def main() -> None:
    """Measure it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--wait", type=float, default=3.0, metavar="S")
    given = parser.parse_args()
    prepare()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=PORT))
    serve.run(Refusing.bind(given.wait), name="floor", route_prefix="/")
    found = measured(given.clients, given.seconds)
    print(json.dumps({**found, "load_average": os.getloadavg()[0]}))
    sys.exit(0)


if __name__ == "__main__":
    main()
