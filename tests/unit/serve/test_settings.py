from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from srrag.config.words import CHOICES
from srrag.core.errors import UsageError
from srrag.serve.settings import ROLES, ApiKey, Limits, Rate, is_loopback, owner, read_keys
from tests.conftest import linked
from tests.unit.serve.serving import settings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "", "localhost.x"])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_the_command_names_its_pipelines(sample_root: Path) -> None:
    found = settings(sample_root, "pipeline=bm25", "also=[hybrid,dense]")
    assert list(found.pipelines) == ["bm25", "hybrid", "dense"]
    assert found.default == "bm25"
    assert settings(sample_root).default == "hybrid_maxsim"


def test_the_pipeline_beside_the_root_has_its_own_name(sample_root: Path, tmp_path: Path) -> None:
    root = linked(sample_root, tmp_path / "R")
    (tmp_path / CHOICES).write_text("pipeline: bm25\n")
    found = settings(root, "also=[hybrid_maxsim]")
    assert list(found.pipelines) == ["bm25", "hybrid_maxsim"] and found.default == "bm25"
    assert len(found.pipelines["bm25"].rank) == 1 < len(found.pipelines["hybrid_maxsim"].rank)


def test_a_start_that_is_open_to_others_needs_a_key(sample_root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="api_keys"):
        settings(sample_root, "host=0.0.0.0")
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {'0' * 64}\n")
    assert settings(sample_root, "host=0.0.0.0", f"api_keys={keys}").keys == {
        "clinic": ApiKey("0" * 64)
    }
    with pytest.raises(UsageError, match="nowhere"):
        settings(sample_root, "api_keys=/nowhere")


@pytest.mark.parametrize("port", [0, -1, 99999, "80x", "true"])
def test_a_port_that_there_is_not(sample_root: Path, port: int | str) -> None:
    given = str(port).replace("true", "True")
    with pytest.raises(UsageError, match=f"^port={given}: a whole number from 1 to 65535$"):
        settings(sample_root, f"port={port}")


def test_limits_have_to_let_something_pass(sample_root: Path) -> None:
    with pytest.raises(ValueError, match="max_waiting"):
        Limits(max_waiting=0)
    with pytest.raises(UsageError, match="limits"):
        settings(sample_root, "limits.timeout_s=-1")


def test_with_several_keys_arithmetic_leaves_cores_to_others(
    sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srrag.config.factory.usable_cpus", lambda: 6)
    line = "{} " + "0" * 64 + "\n"
    for names, threads, given in (("a", 6, 0), ("ab", 3, 0), ("ab", 5, 5)):
        (keys := tmp_path / "keys").write_text("".join(map(line.format, names)), "utf-8")
        told = settings(sample_root, f"api_keys={keys}", f"profile.threads={given}")
        assert told.at.threads == threads


def test_what_traces_need_is_said_before_anything_starts(
    sample_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(UsageError, match=r"traces=… needs: pip install 'srrag\[traces\]'"):
        settings(sample_root, "traces=http://127.0.0.1:9/v1/traces")


def sha(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def test_a_file_of_hashes_names_the_owner_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# who may ask\nclinic {sha('one')}\n\nlab.2  {sha('two')}  # since May\n")
    keys = read_keys(path)
    assert owner(keys, "one") == "clinic"
    assert owner(keys, "two") == "lab.2"
    assert owner(keys, "three") is None
    assert owner(keys, "") is None
    assert owner(keys, sha("one")) is None, "the hash is no key"
    assert owner(keys, "\udcff") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("clinic one", "line 1"),
        (f"{sha('one')}", "line 1"),
        (f"a {sha('one')}\na {sha('two')}", "line 2"),
        ("# nobody\n", "no key"),
        (f"a {sha('one')} owner", "line 1: 'owner' is none of reader, runs, admin"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(ValueError, match=says) as caught:
        read_keys(path)
    assert str(path) in str(caught.value)


def test_a_role_holds_those_before_it(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"a {sha('a')}\nb {sha('b')} runs\nc {sha('c')} admin\n")
    may = {name: [key.may(role) for role in ROLES] for name, key in read_keys(path).items()}
    assert may == {"a": [True, False, False], "b": [True, True, False], "c": [True, True, True]}


def test_a_bucket_gives_a_burst_and_then_its_rate() -> None:
    rate = Rate(per_minute=60, burst=2)
    assert [rate.wait_s("a", now) for now in (0.0, 0.0, 0.0, 0.5, 1.0)] == [0, 0, 1, 0.5, 0]
    assert rate.wait_s("b", 1.0) == 0, "each caller has its own"
    assert [rate.wait_s("a", 100.0) for _ in range(3)] == [0, 0, 1], "no more than the burst"


def test_replicas_share_a_rate() -> None:
    rates = [Rate(per_minute=60, burst=4, replicas=2) for _ in range(2)]
    given = [sum(not rate.wait_s("a", at / 4) for at in range(401)) for rate in rates]
    assert given == [52, 52], "two at once, and every other second one, of 100 seconds"
    few = Rate(per_minute=60, burst=1, replicas=4)
    assert [few.wait_s("a", now) for now in (0.0, 0.0, 4.0)] == [0, 4, 0]
    few.replicas = 1
    assert [few.wait_s("a", now) for now in (4.5, 5.0)] == [0.5, 0]


def test_without_a_rate_nobody_waits() -> None:
    assert {Rate(per_minute=0, burst=1).wait_s("a", 0.0) for _ in range(5)} == {0}


def test_folders_of_runs_with_one_name_are_all_shown(sample_root: Path) -> None:
    runs = tuple(Path(f"/{name}") for name in ("a/results", "b/results", "c/jobs", "b/other"))
    assert replace(settings(sample_root, "pipeline=bm25"), runs=runs).run_folders == {
        "jobs": sample_root / "jobs", "results": runs[0], "results (2)": runs[1],
        "jobs (2)": runs[2], "other": runs[3],
    }  # fmt: skip
