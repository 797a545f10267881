from __future__ import annotations

import sys
from pathlib import Path

import pytest

from srrag.core.errors import UsageError
from srrag.serve.settings import ApiKey, Limits, is_loopback
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
