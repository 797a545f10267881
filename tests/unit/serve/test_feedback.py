"""Feedback over HTTP: one line each in a file of the root, and nowhere else."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import time
from pathlib import Path
from typing import Any

import pytest

import srrag.serve.feedback as feedback
from srrag.serve.errors import ApiError
from srrag.storage import mirror
from tests.bucket import s3_server
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
    *_, without, with_question = lines(root)  # tests before this one may have left others
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


@pytest.mark.parametrize("kind", ["503", "hang"])
def test_a_store_that_is_away_keeps_nobody_waiting_and_no_line_comes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    told = feedback.Feedback.model_validate(VERDICT)
    monkeypatch.setattr(feedback, "_keeper", feedback._Keeper())
    with s3_server(monkeypatch, tmp_path) as bucket:
        root = mirror.located(f"s3://{bucket.name}/R")
        kept = feedback.keep_feedback(root, told, "").kept_in
        monkeypatch.setattr(feedback, "_PUT_S", 0.5)
        bucket.faults.set(kind, "PUT", "feedback", times=1000, seconds=10.0)
        began = time.monotonic()
        with pytest.raises(ApiError) as away:
            feedback.keep_feedback(root, told, "")
        with pytest.raises(ApiError):
            feedback.keep_feedback(root, told, "")
        assert time.monotonic() - began < 18, "each was given half a second"
        assert (away.value.status, away.value.code) == (503, "feedback")
        assert away.value.message == f"{kept} cannot be written now; try again later"
        assert int(away.value.headers()["Retry-After"]) <= 20
        bucket.faults.set("", "", times=0)
        monkeypatch.setattr(feedback, "_PUT_S", 60.0)
        assert again(root, told) == kept
        (file,) = [name for name in bucket.names() if "feedback" in name]
        assert len(bucket.read(file).splitlines()) == len((root / kept).read_bytes().splitlines())
        assert len(bucket.read(file).splitlines()) == 2


def test_what_the_store_no_longer_has_does_not_come_back_with_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = feedback.Feedback.model_validate(VERDICT)
    with s3_server(monkeypatch, tmp_path) as bucket:
        root = mirror.located(f"s3://{bucket.name}/R")
        kept = feedback.keep_feedback(root, told.model_copy(update={"comment": "Paper P"}), "")
        (name,) = [name for name in bucket.names() if "feedback" in name]
        mirror.store_at(root).remove(root / kept.kept_in)  # as a forgetting elsewhere does
        feedback.keep_feedback(root, told, "")
        assert b"Paper P" not in bucket.read(name) and bucket.read(name).count(b"\n") == 1


def again(root: Path, told: feedback.Feedback) -> str:
    """Send feedback until it is taken."""
    until = time.monotonic() + 60
    while True:
        try:
            return feedback.keep_feedback(root, told, "").kept_in
        except ApiError:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_why_feedback_is_not_kept_is_for_the_log(root: Path, tmp_path: Path) -> None:
    (file := root / feedback.FILE).unlink(missing_ok=True)
    file.mkdir(parents=True)  # so that nothing can be appended
    log = tmp_path / "log.jsonl"
    with served(settings(root, "pipeline=bm25", f"log={log}")) as (client, _):
        refused = client.post("/v1/feedback", json=VERDICT)
    file.rmdir()
    assert refused.status_code == 503 and str(root) not in refused.text
    (line,) = [json.loads(each) for each in log.read_text("utf-8").splitlines()]
    assert line["code"] == "feedback" and "directory" in line["error"]
