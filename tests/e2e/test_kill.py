"""Runs that are killed, stopped or cut off, and then equal one that was left in peace.

The moments are counted in calls that arrived at the endpoint, whose gate holds the later ones
until the test has struck: on any machine a run is hit in the middle of its work. What a kill costs
is counted in calls in flight, so a small corpus proves it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from srrag.lab.measure.references import resource_path
from tests.e2e.answered import (
    GRAPH,
    again,
    assert_equal_tables,
    build,
    counts,
    ended,
    held,
    hold,
    logged,
    release,
    sends,
    start,
    tables,
    wait_for,
    write_rehab,
)
from tests.e2e.command import srrag, srrag_process
from tests.endpoint_process import started
from tests.forked import Forked
from tests.warm_worker import titled

pytestmark = pytest.mark.e2e
CONCURRENCY = 8
OPTIONS = [*GRAPH, f"engine.concurrency={CONCURRENCY}", "max_failed_share=1.0"]
SLIPS = ["--script", "more_slips"]
SMALL = "--segment-rows=40"
"""Two parts."""
ON_RAY = [
    "profile=ray", "profile.resources.default.workers=2", "profile.resources.calls.workers=2",
    "profile.resources.calls.cpus=0.5",
]  # fmt: skip
"""With two workers in all: stages that want the same share them."""
ABSTRACTS, PASSAGES = 30, 50
RECEIPTS = "stages/*/*/part-*.json"
"""A part counts once its receipt stands."""


@dataclass(frozen=True)
class Undisturbed:
    """A build that nobody disturbed, and the number of its calls."""

    corpus: Path
    root: Path
    calls: int


@pytest.fixture(scope="module")
def undisturbed(shared_data: Path, built_once: Callable[..., Path]) -> Undisturbed:
    """Built once a run: the test on Ray has a process of its own."""

    def fill(folder: Path) -> None:
        corpus = write_rehab(shared_data, folder / "rehab.jsonl", ABSTRACTS, PASSAGES)
        with started(folder, *SLIPS) as (_, url):
            # As users start it, with a hash seed of its own: all others are forks of one process.
            command = [sys.executable, "-m", "tests.gate", SMALL]
            srrag_process(*build(folder / "root", corpus, url, *OPTIONS), command=command)
            seen = counts(url)
        summary = summary_of(folder / "root")
        assert summary["triples"] > 100
        assert {"invalid_json", "wrong_type"} <= {*summary["rejects"]["extracts"]}
        assert min(summary["usage"][name]["calls"] for name in ("documents", "extracts")) >= 20
        assert len({name for name in tables(folder / "root") if name.startswith("chunks/")}) == 2
        keys = logged(folder / "root")
        assert set(keys.values()) == set(seen["calls"].values()) == {1}
        assert len(keys) == len(seen["calls"]) == summary["calls"]

    folder = built_once("undisturbed", fill)
    root = folder / "root"
    return Undisturbed(folder / "rehab.jsonl", root, summary_of(root)["calls"])


def summary_of(root: Path) -> dict[str, Any]:
    """What a build said last."""
    found: dict[str, Any] = json.loads((root / "jobs/build/summary.json").read_text("utf-8"))
    return found


def finish(command: list[str]) -> None:
    """Run a build to its end."""
    code, error = ended(start(command, SMALL))
    assert code == 0, error


def moments(calls: int, count: int, seed: int) -> list[int]:
    """When to strike: calls that have arrived by then, each well after the one before."""
    apart = 3 * CONCURRENCY
    room = calls - (count + 1) * apart
    drawn = sorted(random.Random(seed).choices(range(CONCURRENCY, room), k=count))
    drawn = [moment + number * apart for number, moment in enumerate(drawn)]
    print(f"seed {seed}: struck after {drawn} of {calls} calls")
    return drawn


def reach(moment: int, url: str, process: Forked) -> None:
    """Let so many calls of a run through, and wait until the next ones are held."""
    hold(url, moment)
    wait_for(lambda: held(url) > 0, process)


def assert_as_undisturbed(root: Path, url: str, undisturbed: Undisturbed, kills: int) -> None:
    """Tables, log and endpoint tell of the same answers, and of few that were paid for twice."""
    assert_equal_tables(root, undisturbed.root)
    proof, _ = srrag("verify", f"root={root}")
    paid = proof["completions"]
    keys = logged(root)
    assert keys.keys() == logged(undisturbed.root).keys()
    assert paid["completions"] + sum(paid["faults"].values()) == keys.total()
    assert keys.total() - paid["paid_twice"] == len(keys) == undisturbed.calls
    assert len(counts(url)["calls"]) == len(keys), "no prompt but those of the undisturbed run"
    print(f"{again(url)} calls sent twice, {paid['paid_twice']} logged twice, in {kills} kills")
    assert paid["paid_twice"] <= again(url) <= CONCURRENCY * kills


def kill(process: Forked) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def killed_and_resumed(undisturbed: Undisturbed, tmp_path: Path, kills: int, seed: int) -> None:
    root = tmp_path / "root"
    with started(tmp_path, *SLIPS) as (_, url):
        command = build(root, undisturbed.corpus, url, *OPTIONS)
        for moment in moments(undisturbed.calls, kills, seed):
            hold(url, moment)
            process = start(command, SMALL)
            reach(moment, url, process)
            kill(process)
        release(url)
        finish(command)
        assert_as_undisturbed(root, url, undisturbed, kills)
    assert summary_of(root)["usage"]["extracts"]["cached"] > 0


def test_a_run_killed_twice_equals_an_undisturbed_one(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    killed_and_resumed(undisturbed, tmp_path, 2, seed=1)


def test_a_build_of_the_packaged_abstracts_is_killed_and_pays_once(tmp_path: Path) -> None:
    """It runs wherever the program does: the others want the shared data."""
    rows = resource_path("pkg://srrag/sample/open_access.jsonl").read_text("utf-8").splitlines()
    documents = [
        {"id": row["pmid"], "text": "\n\n".join(each["text"] for each in row["sections"])}
        for row in map(json.loads, rows[:90])
    ]
    (corpus := tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, documents)), "utf-8")
    (folder := tmp_path / "undisturbed").mkdir()
    with started(folder, *SLIPS) as (_, url):
        finish(build(folder / "root", corpus, url, *OPTIONS))
    calls = summary_of(folder / "root")["calls"]
    killed_and_resumed(Undisturbed(corpus, folder / "root", calls), tmp_path, 1, seed=1)


@pytest.mark.rounds
@pytest.mark.parametrize("round_", range(3))
def test_a_run_killed_at_any_moments_equals_an_undisturbed_one(
    undisturbed: Undisturbed, tmp_path: Path, round_: int
) -> None:
    killed_and_resumed(undisturbed, tmp_path, 3, seed=time.time_ns() + round_)


@pytest.mark.ray
def test_kills_of_driver_worker_and_host_and_an_interrupt_on_ray(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """It is finished without Ray: `test_three_nodes.py` builds to the end on one."""
    root = tmp_path / "root"
    with started(tmp_path, *SLIPS, "--lifetime", "600") as (_, url):
        command = build(root, undisturbed.corpus, url, *ON_RAY, *OPTIONS)
        first, second, third = moments(undisturbed.calls, 3, seed=1)
        hold(url, first)
        process = start(command, SMALL)
        reach(first, url, process)
        kill(process)
        made = [receipt.with_suffix(".parquet") for receipt in root.glob(RECEIPTS)]
        stood = {part: part.stat().st_mtime_ns for part in made}
        hold(url, second)
        process = start(command, SMALL)
        for moment, name in ((second, "PartWorker"), (third, "DispatcherActor")):
            reach(moment, url, process)
            for actor in actors_of(process, name):
                with suppress(psutil.NoSuchProcess):
                    actor.kill()
        reach(third + CONCURRENCY, url, process)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 1
        assert stderr.splitlines()[-1] == "error: interrupted; the same command resumes"
        release(url)
        finish([item for item in command if item not in ON_RAY])
        assert_as_undisturbed(root, url, undisturbed, kills=4)
        assert stood and {part: part.stat().st_mtime_ns for part in stood} == stood


def actors_of(process: Forked, name: str) -> list[psutil.Process]:
    """The processes of an actor of the Ray that a command has started, once there are any.

    One that was killed takes a while to come back.
    """
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended too soon"
        if found := titled(name, process.pid):
            return found
        time.sleep(0.1)
    raise AssertionError(f"no process of {name}")


def test_budget_sigterm_and_outage_stop_a_run_in_one_line_and_it_goes_on(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    with started(tmp_path, *SLIPS) as (endpoint, url):
        command = build(root, undisturbed.corpus, url, *OPTIONS)
        code, error = ended(start([*command, "budget.max_tokens=60000"], SMALL))
        assert (code, "budget.max_tokens=60000 is spent" in error) == (1, True), error
        moment = sends(url) + 3 * CONCURRENCY
        hold(url, moment)
        process = start(command, SMALL)
        reach(moment, url, process)
        process.send_signal(signal.SIGTERM)
        release(url)  # what is in flight is waited for
        asked = time.monotonic()
        assert ended(process) == (1, "error: interrupted; the same command resumes")
        print(f"SIGTERM: ended after {time.monotonic() - asked:.1f} s")
        moment = sends(url) + 3 * CONCURRENCY
        hold(url, moment)
        process = start(command, SMALL)
        reach(moment, url, process)
        endpoint.kill()
        gone = time.monotonic()
        code, error = ended(process)
        print(f"outage: ended after {time.monotonic() - gone:.1f} s: {error}")
        assert code == 1
        assert url in error
        assert "gone" in error
    port = url.split(":")[2].partition("/")[0]
    (tmp_path / "port").unlink()
    with started(tmp_path, *SLIPS, "--port", port) as (_, same):
        assert same == url
        finish(command)
    assert_equal_tables(root, undisturbed.root)
    proof, _ = srrag("verify", f"root={root}")
    assert proof["completions"]["paid_twice"] == 0
    assert logged(root) == logged(undisturbed.root)


def test_faults_of_the_endpoint_leave_no_trace_but_in_the_usage(
    shared_data: Path, tmp_path: Path
) -> None:
    corpus = write_rehab(shared_data, tmp_path / "rehab.jsonl", 24, 60)
    sent = ("rate_limit", "error", "drop", "half_body", "half_json", "garbage")
    answered = ("empty", "nonsense")
    faults = ",".join(f"{kind}=0.03" for kind in (*sent, *answered))
    patient = [f"+stages.{name}.run.again=3" for name in ("documents", "extracts")]
    summaries, struck = [], []
    for name, options in (("whole", []), ("faulty", ["--faults", faults, "--retry-after", "0.2"])):
        folder = tmp_path / name
        folder.mkdir()
        with started(folder, "--script", "rules", *options) as (_, url):
            summary, _ = srrag(*build(folder / "root", corpus, url, *OPTIONS, *patient))
            summaries.append(summary)
            struck.append(Counter(counts(url)["faults"]))
    whole, faulty = summaries
    print(f"{dict(struck[1])} in {faulty['calls']} calls: {faulty['retries']} retries")
    assert struck[1].keys() == {*sent, *answered}
    assert whole["retries"] == struck[0].total() == 0
    assert faulty["retries"] == sum(struck[1][kind] for kind in sent)
    bad = sum((Counter(usage["faults"]) for usage in faulty["usage"].values()), Counter())
    assert bad == {"empty": struck[1]["empty"], "invalid_json": struck[1]["nonsense"]}
    assert faulty["calls"] == whole["calls"] + bad.total()
    assert_equal_tables(tmp_path / "faulty" / "root", tmp_path / "whole" / "root")
