from __future__ import annotations

import pytest

from srrag.core.stage import Resources, Stage
from srrag.runner.ray.data import _check_listens, pools
from tests.toys import Double


@pytest.mark.parametrize("address", ["127.0.0.1:9", "auto"])
def test_a_ray_where_nobody_listens_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(RuntimeError, match=r"no Ray at [\d.]+:9: "):
        _check_listens(address)


def test_neighbours_with_equal_resources_share_a_pool() -> None:
    small, large = Resources(cpus=0.5), Resources(cpus=1.0, workers=2)
    stages = [
        Stage(name, Double(), ("numbers",), resources)
        for name, resources in zip("abcd", (small, small, large, small), strict=True)
    ]
    assert [[stage.name for stage in pool] for pool in pools(stages)] == [["a", "b"], ["c"], ["d"]]
