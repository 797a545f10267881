"""The jobs on three nodes: what one process makes, also when a node is lost under them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from ray.cluster_utils import Cluster

import jobs.build
import jobs.evaluate
import jobs.fit_betr
import jobs.serve
import jobs.sweep
import srrag.config.factory
import srrag.runner.ingest
import srrag.runner.pipeline_run
from srrag.config.compose import configure
from srrag.core.spec import file_sha256
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store
from tests.e2e.answered import GRAPH
from tests.endpoint import Endpoint, serve
from tests.endpoint_script import answer_by_rules
from tests.ray.nodes import (
    PATIENCE_S,
    Running,
    actors,
    delete_server,
    ids,
    losable,
    lose,
    node,
    nodes_up,
    serving,
)
from tests.unit.serve.serving import CAST, free_port, settings
from tests.unit.serve.serving import served as served_here

pytestmark = pytest.mark.ray
CONCURRENCY = 16
CPUS = 1
"""Of a node."""
ALONE = 0.6
"""CPUs of a worker that leave no room for a second one on its node: Ray fills a node by half
before it turns to the next, so that smaller workers may all sit on two of three."""

HERE = ["profile.threads=1", "profile.resources.vectors.batch_rows=256"]
QUICK = ["train.objective=[posterior]", "train.tau=[1.0]", "train.draws=20", "pipeline=srrag"]
SHARDS = ["plan=graph", "+stages.dense.run.shard_rows=10"]
CUT = {"ReadError", "RemoteProtocolError"}


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> Iterator[None]:
    """The sample comes in several parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(srrag.runner.ingest, "SEGMENT_ROWS", 6)
        yield


@pytest.fixture(scope="module")
def started() -> Iterator[Cluster]:
    with nodes_up(CPUS, CPUS, CPUS) as cluster:
        yield cluster


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """Three nodes, whatever the test before has taken away."""
    while len(started.list_all_nodes()) < 3:
        started.add_node(**node(CPUS))
    return started


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose jobs were run in this process."""
    root = tmp_path_factory.mktemp("here")
    run("build", f"root={root}", *SHARDS, *HERE)
    run("fit_betr", f"root={root}", *QUICK, *HERE)
    return root


def told(job: str, *argv: str) -> Callable[[], dict[str, Any]]:
    """What `srrag` does with these arguments."""
    config = {**configure(job, argv), "command": " ".join(["srrag", job, *argv])}
    return partial(getattr(jobs, job).run, config)


def run(job: str, *argv: str) -> dict[str, Any]:
    """Do it here and now."""
    return told(job, *argv)()


def begin(job: str, *argv: str) -> Running:
    """Do it beside this thread."""
    return Running(told(job, *argv))


def there(cluster: Cluster, cpus: float = 0.25) -> list[str]:
    """The profile that joins the cluster: workers that ask for little, three of each kind."""
    small = f"cpus: {cpus}, threads: 1, workers: 3"
    return [
        "profile=ray",
        f"profile.runner.address={cluster.address}",
        "+profile.runner.stall_s=300",
        f"profile.resources.default={{{small}, batch_rows: 256}}",
        f"profile.resources.vectors={{{small}, batch_rows: 256}}",
        "profile.resources.ranking={cpus: 0.25, threads: 1, workers: 1}",
        f"profile.resources.calls={{cpus: {cpus}, workers: 3}}",
    ]


def test_build_and_fit_are_those_of_one_process(
    cluster: Cluster, here: Path, tmp_path: Path
) -> None:
    small = ["+stages.entities.run.bucket_facts=50", *SHARDS, *there(cluster, cpus=ALONE)]
    run("build", f"root={tmp_path}", *small)
    assert actors(cluster, "PartWorker") >= ids(cluster), "also those of nodes that are gone"
    assert contents(tmp_path) == contents(here)
    assert all(run("build", f"root={tmp_path}", *small)["reused"].values())
    fitted = run("fit_betr", f"root={tmp_path}", "train.workers=3", *QUICK, *there(cluster))
    assert len(actors(cluster, "RayTrainWorker")) > 1
    alone = read_json(here / "jobs/fit_betr/srrag/betr.json")["parameters"]
    assert fitted["a"] == pytest.approx(alone["a"], abs=1e-6)
    assert fitted["u"] == pytest.approx(alone["u"], abs=1e-6)


def test_a_server_on_three_nodes_answers_also_when_one_is_lost(
    cluster: Cluster, here: Path
) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}/v1/answers"

    def asked() -> Any:
        try:
            reply = httpx.post(url, json={"question": CAST}, verify=False, timeout=100)
        except httpx.TransportError as error:
            return type(error).__name__
        return shown(reply.json()) if reply.status_code == 200 else reply.status_code

    with served_here(settings(here, "pipeline=srrag")) as (client, _):
        alone = shown(client.post("/v1/answers", json={"question": CAST}).json())
    asks = [f"root={here}", f"port={port}", "pipeline=srrag", "profile.threads=1", "log=null",
            "ray.min_replicas=3", "ray.max_replicas=3"]  # fmt: skip
    with serving(cluster, *asks) as job:
        assert job.stderr is not None
        assert any(line.startswith("log:") for line in job.stderr), "up"
        until = time.monotonic() + PATIENCE_S
        while not all(asked() == alone for _ in range(12)):
            assert time.monotonic() < until, "some replica answers otherwise"
        assert actors(cluster, "ServeReplica", alive=True) == ids(cluster)
        lose(cluster, "ServeReplica")
        replies = [asked() for _ in range(30)]
        cut = [reply for reply in replies if reply != alone]
        assert len(cut) <= 2 and set(cut) <= CUT, "what the lost proxy had in hand"
        assert replies[-20:] == [alone] * 20
        assert job.poll() is None
        delete_server(cluster)
        said = job.stderr.read()
        assert job.wait() == 1 and "error: the server is gone" in said, said
    until = time.monotonic() + PATIENCE_S
    while actors(cluster, "Proxy", alive=True):
        assert time.monotonic() < until, "something is left on the cluster"
        time.sleep(0.2)


def shown(reply: dict[str, Any]) -> dict[str, Any]:
    return {name: reply[name] for name in ("answer", "sentences", "evidence", "version")}


def test_extraction_goes_on_when_a_node_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    whole, root = tmp_path / "whole", tmp_path / "lost"
    with serve(Endpoint(script=answer_by_rules)) as endpoint:
        asks = [*GRAPH, "engine=http", "engine.model=toy", f"engine.base_url={endpoint.url}",
                f"engine.concurrency={CONCURRENCY}"]  # fmt: skip
        calls = run("build", f"root={whole}", *asks, *HERE)["calls"]
        endpoint.calls.clear()
        endpoint.hold_after = 2 * calls // 3
        building = begin("build", f"root={root}", *asks, *there(cluster, cpus=ALONE))
        building.wait_for(lambda: endpoint.held > 0 and losable(cluster, "PartWorker"))
        stood = written(root)
        lose(cluster, "PartWorker")
        endpoint.hold_after = sys.maxsize
        building.ended()
        assert len(endpoint.calls) == calls
        assert sum(endpoint.calls.values()) <= calls + CONCURRENCY
    assert 0 < len(stood) < len(written(root))
    assert stood.items() <= written(root).items(), "what stood was not made again"
    assert contents(root) == contents(whole)


def written(root: Path) -> dict[str, int]:
    """When each part of a build was written."""
    receipts = (root / "stages").glob("*/*/part-*.json")  # a part counts once its receipt stands
    found = [receipt.with_suffix(".parquet") for receipt in receipts]
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in found}


def contents(root: Path) -> dict[tuple[str, str], Any]:
    """The sha256 of all that stands in a build, by stage and part or name of the file."""
    store = Store(root)
    found: dict[tuple[str, str], Any] = {}
    for name, entry in store.read_pointer("default")["stages"].items():
        fingerprint = entry["fingerprint"]
        for part in entry.get("parts", []):
            found[name, part] = store.read_receipt(name, fingerprint, part).sha256
        folder = store.stage_dir(name, fingerprint)
        if not entry.get("parts"):
            # Tantivy draws the names of its files, and shards.json lists them.
            found[name, ""] = frozenset(
                (path.suffix, file_sha256(path))
                for path in folder.rglob("*")
                if path.is_file()
                and path.name
                not in (
                    "manifest.json",
                    "meta.json",
                    "shards.json",
                    ".managed.json",
                    ".tantivy-meta.lock",
                    ".tantivy-writer.lock",
                )
            )
    return found
