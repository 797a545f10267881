"""Configurations are composed by several threads, and beside a program's own Hydra."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from srrag.config.compose import configure


def test_four_threads_compose_at_once() -> None:
    barrier = Barrier(4)

    def run(number: int) -> int:
        barrier.wait()
        return int(configure("ask", ["root=R", "question=x", f"budget.max_tokens={number}"])
                   ["budget"]["max_tokens"])  # fmt: skip

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [0, 1, 2, 3]


def test_a_program_keeps_its_own_hydra(tmp_path: Path) -> None:
    with initialize_config_dir(str(tmp_path), version_base=None):
        own = GlobalHydra.instance().hydra
        configure("ask", ["root=R", "question=x"])
        assert GlobalHydra.instance().hydra is own
