"""Stored runs over HTTP: listed, filtered, compared; nothing outside their folders is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from srrag.serve.runs import find_runs
from tests.serve.stored import store_runs
from tests.unit.serve.serving import CAST, served, settings


@pytest.fixture(scope="module")
def root(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_runs(sample_root, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def client(root: Path) -> Iterator[TestClient]:
    with served(settings(root, "pipeline=bm25")) as (client, _):
        yield client


def runs(client: TestClient) -> dict[str, dict[str, Any]]:
    return {run["name"]: run for run in client.get("/v1/runs").json()["runs"]}


def test_runs_are_listed_with_their_counts_and_a_broken_one_with_its_fault(
    client: TestClient, root: Path
) -> None:
    broken = root / "jobs" / "broken"
    broken.mkdir()
    (broken / "answers.parquet").write_bytes(b"no parquet")
    found = runs(client)
    shutil.rmtree(broken)
    assert set(found) == {"jobs/words", "jobs/both", "jobs/broken"}
    words = found["jobs/words"]
    assert words["questions"] == words["answered"] + words["not"] + words["failed"] == 6
    assert words["failed"] == 1 and words["not"] == 1 and words["models"] == ["rules"]
    assert "fault" in found["jobs/broken"]
    reply = client.get(f"/v1/runs/{found['jobs/broken']['id']}")
    assert reply.status_code == 404, "it is gone by now"


def test_questions_are_filtered_by_text_grade_and_outcome(client: TestClient) -> None:
    run = runs(client)["jobs/words"]["id"]

    def asked(**choice: Any) -> list[str]:
        reply = client.get(f"/v1/runs/{run}", params=choice).json()
        assert reply["of"] == 6 and reply["total"] >= len(reply["answers"])
        return [row["query_id"] for row in reply["answers"]]

    assert len(asked()) == 6
    assert asked(text="ANKLE sprain be immobilised") == ["cast"]
    assert asked(state="failed") == ["empty"]
    assert asked(state="not") == ["unknown"]
    graded = {grade: asked(grade=grade) for grade in ("A", "B", "C", "D", "E", "none")}
    assert sorted(key for keys in graded.values() for key in keys) == sorted(asked())
    assert "cast" in graded["A"] and {"empty", "unknown"} <= set(graded["none"])
    assert asked(limit=2, offset=1) == asked()[1:3]
    wrong = client.get(f"/v1/runs/{run}", params={"grade": "Z"})
    assert wrong.status_code == 400 and wrong.json()["error"]["field"] == "query.grade"


def test_an_answer_is_read_with_its_citations_and_evidence(client: TestClient, root: Path) -> None:
    run = runs(client)["jobs/words"]["id"]
    told = client.get(f"/v1/runs/{run}/answer", params={"query_id": "cast"}).json()
    lines = (root / "jobs" / "words" / "answers.jsonl").read_text("utf-8").splitlines()
    known = next(row for row in map(json.loads, lines) if row["query_id"] == "cast")
    assert told["question"] == CAST and told["answer"] == known["answer"]
    assert told["sentences"] == known["sentences"]
    assert [item["unit_id"] for item in told["evidence"]] == [
        item["unit_id"] for item in known["evidence"]
    ]
    assert all(item["grade_source"] for item in told["evidence"])
    assert len(told["why"]) == len(told["evidence"])
    failed = client.get(f"/v1/runs/{run}/answer", params={"query_id": "empty"}).json()
    assert failed["state"] == "failed" and failed["reject"]["reason"] == "empty_question"
    absent = client.get(f"/v1/runs/{run}/answer", params={"query_id": "no such"})
    assert absent.status_code == 404


def test_two_runs_differ_in_what_they_say_cite_and_find(client: TestClient) -> None:
    found = runs(client)
    words, both = found["jobs/words"]["id"], found["jobs/both"]["id"]
    rows = client.get(f"/v1/runs/{words}", params={"against": both}).json()["answers"]
    changes = {row["query_id"]: row["changes"] for row in rows}
    assert changes["empty"] == [], "it fails the same way in both"
    assert changes["only-words"] == ["missing"]
    assert any("evidence" in kinds for kinds in changes.values())
    params = {"against": both, "differs": "true"}
    differing = client.get(f"/v1/runs/{words}", params=params).json()["answers"]
    other = {"missing", "state", "answer"}
    assert {row["query_id"] for row in differing} == {
        q for q, kinds in changes.items() if other & {*kinds}
    }, "the same words from other evidence are no other answer"
    same = client.get(f"/v1/runs/{words}", params={"against": words}).json()["answers"]
    assert all(row["changes"] == [] for row in same)


def test_several_runs_stand_beside_one_and_the_most_different_come_first(
    client: TestClient,
) -> None:
    found = runs(client)
    words, both = found["jobs/words"]["id"], found["jobs/both"]["id"]
    params = {"against": [both, words], "order": "difference"}
    rows = client.get(f"/v1/runs/{words}", params=params).json()["answers"]
    distances = [row["distance"] for row in rows]
    assert distances == sorted(distances, reverse=True) and distances[0] > 0
    for row in rows:
        lacking, itself = row["others"]
        assert itself["query_id"] == row["query_id"]
        assert (
            (lacking is None) == ("missing" in row["changes"]) == (row["query_id"] == "only-words")
        )
        assert 1 <= row["answers"] <= 2
        if not {"missing", "state", "answer"} & {*row["changes"]}:
            assert row["distance"] == 0, "the same words, or none, are not apart"
        assert (row["answers"] == 2) == bool({"state", "answer"} & {*row["changes"]})
    (missing,) = [row for row in rows if row["query_id"] == "only-words"]
    assert missing["distance"] == 0.5, "one of the two lacks it"
    many = client.get(f"/v1/runs/{words}", params={"against": [both] * 8})
    assert many.status_code == 400 and many.json()["error"]["field"] == "query.against"


def test_only_what_lies_in_the_folders_is_found(root: Path, tmp_path: Path) -> None:
    answers = root / "jobs" / "words" / "answers.parquet"
    folder, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    (folder / "sweep" / "answers").mkdir(parents=True)
    elsewhere.mkdir()
    shutil.copy(answers, elsewhere / "answers.parquet")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "answers.parquet").symlink_to(answers)
    shutil.copy(answers, folder / "sweep" / "answers" / "bm25.parquet")
    assert find_runs({"results": folder}) == {}, "without rows.json that is no folder of results"
    (folder / "sweep" / "rows.json").write_text("{}")
    assert [run.name for run in find_runs({"results": folder}).values()] == ["results/sweep/bm25"]
    assert find_runs({"gone": tmp_path / "gone"}) == {}


def test_a_path_is_no_run(client: TestClient, root: Path) -> None:
    for name in ("..", "%2e%2e%2fwords", "words", str(root), "jobs%2fwords"):
        assert client.get(f"/v1/runs/{name}").status_code == 404
        assert client.get(f"/v1/runs/{name}/answer?query_id=cast").status_code == 404


def test_configured_folders_are_shown_beside_the_roots_own(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "jobs" / "words", tmp_path / "old" / "march")
    with served(settings(root, "pipeline=bm25", f"runs=[{tmp_path / 'old'}]")) as (client, _):
        assert {"old/march", "jobs/words", "jobs/both"} == set(runs(client))


def test_a_table_of_something_else_is_named(root: Path, tmp_path: Path) -> None:
    table = pq.read_table(root / "jobs" / "words" / "answers.parquet").drop_columns(["evidence"])
    (tmp_path / "old").mkdir()
    pq.write_table(table, tmp_path / "old" / "answers.parquet")
    with served(settings(root, "pipeline=bm25", f"runs=[{tmp_path / 'old'}]")) as (client, _):
        run = runs(client)["old/."]
        assert "evidence" in run["fault"]
        reply = client.get(f"/v1/runs/{run['id']}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "run")
