"""Shared parts: the real data, a built sample, a Ray cluster; and in which order tests run."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import warm_worker

hypothesis.settings.register_profile("srrag", deadline=None)  # a busy machine is no fault
hypothesis.settings.load_profile("srrag")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Ray prints what it says of a job to stdout, and what it said twice seconds later: in another test.
os.environ["RAY_DEDUP_LOGS"] = "0"
# Ray starts its workers at niceness 15: on a busy machine its tests would wait for ever.
os.environ.setdefault("RAY_worker_niceness", "0")
# A raylet ends itself when an agent takes longer than 15 s to say where it listens.
os.environ.setdefault("RAY_agent_register_timeout_ms", "300000")
# Ray kills workers where a neighbour fills the machine's memory.
os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
# Else each Ray begins with a worker for every logical CPU, which tests have more of than cores.
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
# Ray Train looks every two seconds whether a worker has reported, and each report waits for it.
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
# What a server sets for its proxies: with it from the start, all workers are of one environment.
os.environ.setdefault("RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING", "0")
os.environ.setdefault("RAY_SERVE_PROXY_PREFER_LOCAL_AZ_ROUTING", "0")

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared" / "data"
NO_SHARED = "the shared data is not here"
SEED = 1
"""Of the order and of what tests draw, unless --randomly-seed says another."""

RAY, NODES = "ray", "nodes"
"""The groups of what shares a Ray, and of what starts its own: a process each runs them."""

WEIGHTS = {"ray": 0, "serve": 0, "vllm": 0, "e2e": 1, "contract": 2, "golden": 2}
"""Folders by what their tests cost; all others come last."""


# ---- order, groups and ceilings ----


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the same order each time, unless told otherwise; know groups without xdist too."""
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")
    if getattr(config.option, "randomly_seed", None) == "default":
        config.option.randomly_seed = SEED
    warm_worker.prepare()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[Any]:
    """Leave what was imported and collected to no search for garbage: it all stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Let the interpreter take all down at its end."""
    warm_worker.clean()
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Group tests for pytest-xdist, put long groups first, and hold each to its ceiling.

    A wrapper, since xdist reads the groups, and pytest-randomly draws the order, in this hook too.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
        _set_ceiling(item)
    if any(starts_ray(item) for item in items):
        warm_worker.install()
    yield
    items.sort(key=_weight)
    _keep_stories(items)


def _keep_stories(items: list[pytest.Item]) -> None:
    """Put the tests of a module that is marked `in_order` back into the order of its file."""
    stories: dict[Path, list[int]] = {}
    for place, item in enumerate(items):
        if item.get_closest_marker("in_order") is not None:
            stories.setdefault(item.path, []).append(place)
    for places in stories.values():
        told = sorted((items[place] for place in places), key=lambda item: item.location[1] or 0)
        for place, item in zip(places, told, strict=True):
            items[place] = item


def starts_ray(item: pytest.Item) -> bool:
    """Whether a test is marked so, asks for the cluster, or lies in Ray's folder."""
    marked = item.get_closest_marker("ray") is not None
    return marked or _shares_ray(item) or _folder(item) == "ray"


def _group(item: pytest.Item) -> str:
    """The tests of a module run in one process, but for those that start a Ray."""
    if not starts_ray(item):
        return _below(item.path).as_posix()
    return RAY if _shares_ray(item) else NODES


def _shares_ray(item: pytest.Item) -> bool:
    return "ray_cluster" in getattr(item, "fixturenames", [])


def _folder(item: pytest.Item) -> str:
    return _below(item.path).parts[1]


@cache
def _below(path: Path) -> Path:
    """From the repository on; asked for several times a test, of which there are thousands."""
    return path.relative_to(REPOSITORY)


def _weight(item: pytest.Item) -> tuple[int, int]:
    """The shared cluster's tests, then those with nodes of their own, which end it; the rest."""
    if not starts_ray(item):
        return 2 + WEIGHTS.get(_folder(item), 3), 0
    return int(not _shares_ray(item)), 0


def _set_ceiling(item: pytest.Item) -> None:
    """Turn `long` into pytest-timeout's mark, which no test sets itself."""
    if item.get_closest_marker("timeout") is not None:
        raise pytest.UsageError(f"{item.nodeid}: write long(seconds, reason), not timeout(seconds)")
    if (long := item.get_closest_marker("long")) is None:
        return
    seconds, reason = long.args
    if not reason:
        raise pytest.UsageError(f"{item.nodeid}: long({seconds}) without a reason")
    item.add_marker(pytest.mark.timeout(seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which folders, modules and workers took how many seconds, and what went untested."""
    folders, modules, workers = (defaultdict[str, float](float) for _ in range(3))
    for report in (each for stat in terminalreporter.stats.values() for each in stat):
        if not isinstance(report, pytest.TestReport):
            continue
        path = Path(report.nodeid.partition("::")[0])
        folders[str(path.parent.relative_to("tests"))] += report.duration
        modules[str(path.relative_to("tests"))] += report.duration
        node = getattr(report, "node", None)
        workers[node.gateway.id if node else "this process"] += report.duration
    for told, most in ((folders, 20), (modules, 40), (workers, 16)):
        longest = sorted(told.items(), key=lambda item: -item[1])[:most]
        said = ", ".join(f"{name} {seconds:.0f}" for name, seconds in longest if seconds >= 1)
        terminalreporter.write_line(f"seconds: {said}")
    if told := untested(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(told)


def untested(skipped: Iterable[pytest.TestReport]) -> str:
    """Name the modules whose tests had no shared data, with how many; empty if all had it."""
    missed = Counter(
        report.nodeid.partition("::")[0].removeprefix("tests/")
        for report in skipped
        if NO_SHARED in str(report.longrepr)
    )
    modules = ", ".join(f"{name} {count}" for name, count in sorted(missed.items()))
    return f"UNTESTED, as {NO_SHARED}: {missed.total()} tests of {modules}" if missed else ""


# ---- what tests share ----


@pytest.fixture(scope="session", autouse=True)
def compositions() -> Iterator[None]:
    """Compose each job and choice once a process; processes that tests start do as ever."""
    from hydra import compose
    from omegaconf import OmegaConf

    from tests.composed_once import composed_once, loaded_once

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("srrag.config.compose.compose", composed_once(compose))
        patch.setattr(OmegaConf, "load", staticmethod(loaded_once(OmegaConf.load)))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_power_cuts() -> Iterator[None]:
    """Write through to no disk: no test cuts the power, and a killed process loses nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real test data; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"{NO_SHARED} ({SHARED})")
    return SHARED


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Give a folder that the first process to ask for it fills, for all processes of this run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base

    def folder(name: str, fill: Callable[[Path], None]) -> Path:
        found = shared / f"once-{name}"
        with _locked(shared / f"once-{name}.lock"):
            if not (done := shared / f"once-{name}.done").exists():
                shutil.rmtree(found, ignore_errors=True)
                fill(found)
                done.touch()
        return found

    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def linked(source: Path, target: Path, *left_out: str) -> Path:
    """Copy a root by hard links, for tests that write new files and replace old ones.

    All that writes below a root does so beside and renames, so the source stays as it is; a file
    that a test appends to or overwrites in place has to be copied first. The lock is left out: a
    link to it would let a test of another process hold this root.
    """
    from srrag.storage.writer_lock import FILE

    ignored = shutil.ignore_patterns(FILE, *left_out)
    shutil.copytree(source, target, ignore=ignored, copy_function=os.link)
    return target


@pytest.fixture(scope="session")
def sample_root(built_once: Callable[..., Path]) -> Path:
    """The sample corpus with its graph, built once a run; tests read it and never write into it."""
    from srrag.config.compose import configure

    return built_once(
        "sample", lambda root: run_build(configure("build", [f"root={root}", "plan=graph"]))
    )


@pytest.fixture(scope="session")
def fitted_root(sample_root: Path, built_once: Callable[..., Path]) -> Path:
    """The sample with parameters of BETR for three pipelines, quickly fitted to a few questions.

    Tests read it and never write into it.
    """
    from srrag.config.compose import configure
    from srrag.lab.measure.references import resource_path

    def fill(root: Path) -> None:
        import jobs.fit_betr

        linked(sample_root, root, "jobs", "completions")
        rows = resource_path("pkg://srrag/sample/questions.jsonl").read_text("utf-8").splitlines()
        (few := root.with_suffix(".jsonl")).write_text("\n".join(rows[::3]), "utf-8")
        quick = ["train.objective=[posterior]", "train.tau=[1.0]", "train.draws=20"]
        no_colbert = [
            "pipeline=srrag_graph", "pipeline.rank.weigh=null",
            "+pipeline.rank.fine.reranker.computed=[dense]", f"out={root}/jobs/fit_betr/no_colbert",
        ]  # fmt: skip
        for chosen in (["pipeline=hybrid_maxsim"], ["pipeline=srrag"], no_colbert):
            argv = [f"root={root}", *chosen, f"bench.path={few}", *quick]
            jobs.fit_betr.run({**configure("fit_betr", argv), "command": "test"})

    return built_once("fitted", fill)


def run_build(config: dict[str, Any]) -> dict[str, Any]:
    """Run the build job in this process."""
    import jobs.build

    return jobs.build.run({**config, "command": "test"})


@pytest.fixture(autouse=True)
def _nothing_of_a_run_goes_on() -> Iterator[None]:
    """Fail a test that leaves an execution of Ray Data behind: later tests would pay for it."""
    yield
    going_on = [each for each in threading.enumerate() if each.name == "ray-data"]
    for each in going_on:
        each.join(100)  # what it has ended may not yet have ended it
    assert not [each for each in going_on if each.is_alive()]


@pytest.fixture(scope="module")
def ray_cluster() -> None:
    """A small Ray, kept up between modules: more logical CPUs than cores, as stages take shares.

    A module that needs a cluster of its own shuts it down, and the next one starts it again.
    """
    import ray

    if not ray.is_initialized():
        ray.init(
            address="local",
            num_cpus=8,
            object_store_memory=80 * 1024**2,
            include_dashboard=False,
            log_to_driver=False,
        )
