"""Feedback over HTTP: one line each in a file of the root, and nowhere else."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

import srrag.serve.feedback as feedback
from tests.unit.serve.serving import served, settings

VERDICT = {"answer_id": "abc-1", "verdict": "not_helpful"}


@pytest.fixture(scope="module")
def root(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of its own, as feedback is written into it."""
    folder = tmp_path_factory.mktemp("feedback") / "root"
    shutil.copytree(sample_root, folder)
    return folder


def lines(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / feedback.FILE).read_text("utf-8").splitlines()]


def test_each_verdict_is_a_line_without_the_question_unless_it_is_given(
    root: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    with served(settings(root, "pipeline=bm25", f"log={log}")) as (client, _):
        first = client.post("/v1/feedback", json=VERDICT)
        assert first.json() == {"kept_in": "jobs/serve/feedback.jsonl"}
        comment = {**VERDICT, "comment": "a\nb <b>", "question": "Is Mr Miller's knee sprained?"}
        assert client.post("/v1/feedback", json=comment).status_code == 200
    without, with_question = lines(root)
    assert set(without) == {"time", "answer_id", "verdict"}
    assert with_question["comment"] == "a\nb <b>" and "Miller" in with_question["question"]
    assert "Miller" not in log.read_text("utf-8"), "the log holds no question"
    assert stat.S_IMODE((root / feedback.FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"verdict": "great"}, "verdict"),
        ({"answer_id": "../x"}, "answer_id"),
        ({"comment": "x" * 2001}, "comment"),
        ({"file": "x"}, "file"),
    ],
)
def test_what_is_not_feedback_is_refused_and_nothing_is_kept(
    root: Path, change: dict[str, str], field: str
) -> None:
    before = (root / feedback.FILE).read_bytes() if (root / feedback.FILE).exists() else b""
    with served(settings(root, "pipeline=bm25")) as (client, _):
        reply = client.post("/v1/feedback", json={**VERDICT, **change})
        huge = client.post("/v1/feedback", json={**VERDICT, "comment": "x" * 300_000})
    assert reply.status_code == 400 and reply.json()["error"]["field"] == field
    assert huge.status_code == 413
    after = (root / feedback.FILE).read_bytes() if (root / feedback.FILE).exists() else b""
    assert after == before


def test_a_full_file_takes_no_more_and_a_key_is_named(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {hashlib.sha256(b'secret').hexdigest()}\n")
    with served(settings(root, "pipeline=bm25", f"api_keys={keys}")) as (client, _):
        assert client.post("/v1/feedback", json=VERDICT).status_code == 401
        allowed = {"authorization": "Bearer secret"}
        assert client.post("/v1/feedback", json=VERDICT, headers=allowed).status_code == 200
        assert lines(root)[-1]["key"] == "clinic"
        monkeypatch.setattr(feedback, "MAX_FILE_BYTES", 10)
        full = client.post("/v1/feedback", json=VERDICT, headers=allowed)
    assert full.status_code == 503 and "full" in full.json()["error"]["message"]
