"""A model under vLLM behind the API: a deployment of its own, whose tokens stream to the client."""

from __future__ import annotations

from pathlib import Path

import httpx
import psutil
import pytest

from srrag.engine.log.completion_log import CompletionLog
from srrag.serve.ray.deployments import Cluster, served
from tests.unit.serve.serving import CAST, events, free_port, settings
from tests.warm_worker import titled

pytestmark = pytest.mark.ray


def title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def test_a_model_has_a_deployment_of_its_own(
    ray_cluster: None, sample_root: Path, tmp_path: Path
) -> None:
    from tests.vllm.tiny_model import make_tiny_model

    model = make_tiny_model(tmp_path / "model", context=16_384)
    told = settings(
        sample_root, "pipeline=bm25", f"port={free_port()}", f"completions={tmp_path}/completions",
        "engine=vllm", f"engine.model={model}", "engine.device=cpu", "engine.dtype=float32",
        "engine.enforce_eager=true", "engine.kv_cache_gb=0.5", "engine.max_num_seqs=8",
        "limits.timeout_s=240",
    )  # fmt: skip
    with served(told, Cluster(start_s=500)) as url, httpx.Client(timeout=250) as client:
        (engine,) = titled("ServeReplica:srrag:engine")
        assert any("EngineCore" in title(each) for each in engine.children(recursive=True))
        heard = events(client.post(f"{url}/v1/answers/stream", json={"question": CAST}).text)
        names = [name for name, _ in heard]
        # A model of random weights may end in no usable answer: then the fault says so.
        assert names[-1] in ("final", "error")
        if names[-1] == "final":
            assert heard[-1][1]["model"].startswith("vllm: ")
        else:
            assert heard[-1][1]["error"]["code"] not in ("engine", "internal"), heard[-1]
    totals = CompletionLog(tmp_path / "completions").totals()
    assert totals.completions + sum(totals.faults.values()) >= 1
