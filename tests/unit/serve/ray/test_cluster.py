"""Numbers of `ray.*` that mean nothing are refused before a Ray starts."""

from __future__ import annotations

from typing import Any

import pytest

from srrag.serve.ray.deployments import Cluster


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, -1) for name in (
            "min_replicas", "min_engine_replicas", "max_engine_replicas", "engine_target_calls",
            "cpus", "gpus", "upscale_delay_s", "downscale_delay_s",
        )),
        *((name, 0) for name in (
            "num_cpus", "object_store_mb", "max_replicas", "target_requests", "look_back_s",
            "report_s", "start_s",
        )),
    ],
)  # fmt: skip
def test_a_number_that_means_nothing_is_refused_by_name(name: str, number: int) -> None:
    told: dict[str, Any] = {name: number}
    with pytest.raises(ValueError, match=rf"^{name} is {number}: "):
        Cluster(**told)


def test_nothing_else_is_refused() -> None:
    Cluster(min_replicas=0, min_engine_replicas=0, upscale_delay_s=0, cpus=0, max_replicas=3)
    Cluster(min_replicas=2, max_replicas=2)
    with pytest.raises(ValueError, match="max_replicas is 2: less than min_replicas"):
        Cluster(min_replicas=3, max_replicas=2)
