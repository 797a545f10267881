"""What a refusal costs by Ray alone: the load of bench.serve_load on an endpoint that only refuses.

    python -m bench.serve_floor --seconds 12

Each client is refused at once and waits a second, all alike; then, in a second round, between half
and one and a half of it. The last line on stdout is one JSON object: seconds of a refusal at p50
and p95, and milliseconds of processor time of the proxy and of the replica a request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from typing import Any

import aiohttp
import psutil
import ray
from ray import serve
from ray.serve.config import HTTPOptions

from bench import serve_load
from bench.serve_load import Seen, figures, load, refused

PORT = 8157
PROCESSES = {"proxy": "ProxyActor", "replica": "ServeReplica"}


@serve.deployment(max_ongoing_requests=500, max_queued_requests=500)
class Refusing:
    """Answers every request with 503."""

    async def __call__(self, request: Any) -> Any:
        """Say when to come back."""
        from starlette.responses import Response

        return Response("{}", 503, {"retry-after": "1", "x-content-type-options": "nosniff"})


async def refused_unevenly(response: aiohttp.ClientResponse, began: float, seen: Seen) -> float:
    """Count a refusal; wait about as long as it says."""
    return random.uniform(0.5, 1.5) * await refused(response, began, seen)


def cpu_s(name: str) -> float:
    """Processor time of the processes of Ray whose command holds a name."""
    found = psutil.Process().children(recursive=True)
    times = [each.cpu_times() for each in found if name in " ".join(each.cmdline())]
    return sum(each.user + each.system for each in times)


def measured(clients: int, seconds: float) -> dict[str, Any]:
    """One round of load."""
    before = {name: cpu_s(text) for name, text in PROCESSES.items()}
    seen = asyncio.run(load(f"http://127.0.0.1:{PORT}", clients, seconds))
    number = len(seen.outcomes["refused"])
    spent = {name: 1000 * (cpu_s(text) - before[name]) for name, text in PROCESSES.items()}
    cpu_ms = {name: round(each / number, 2) for name, each in spent.items()}
    return {**figures(seen, seconds)["refused_s"], "requests": number, "cpu_ms": cpu_ms}


def main() -> None:
    """Measure both kinds of clients."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=12.0)
    given = parser.parse_args()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=PORT))
    serve.run(Refusing.bind(), name="floor", route_prefix="/")
    alike = measured(given.clients, given.seconds)
    serve_load.refused = refused_unevenly
    print(json.dumps({"alike": alike, "unevenly": measured(given.clients, given.seconds)}))
    sys.exit(0)


if __name__ == "__main__":
    main()
