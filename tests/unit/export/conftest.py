from __future__ import annotations

import pytest

from tests.unit.export.graphs import Written, write


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The small graph; tests read it and never write into it."""
    return write(tmp_path_factory.mktemp("graph"))
