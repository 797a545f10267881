from __future__ import annotations

import pytest

from srrag.runner.ray.data import _check_listens


@pytest.mark.parametrize("address", ["127.0.0.1:9", "auto"])
def test_a_ray_where_nobody_listens_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(RuntimeError, match=r"no Ray at [\d.]+:9: "):
        _check_listens(address)
