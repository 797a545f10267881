"""A root on a real S3 server, by the real commands, each on a machine that never saw the root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from srrag.storage.mirror import join, located
from tests.bucket import Bucket, s3_server
from tests.conftest import linked
from tests.e2e.answered import assert_equal_tables, start, wait_for
from tests.e2e.command import fault, srrag
from tests.unit.lab.report.toy_results import write_toy
from tests.unit.runner.forgetting import WITHOUT_ENCODER, write_papers
from tests.unit.serve.serving import served, settings

pytestmark = pytest.mark.e2e
QUESTION = "question=Should adolescents return to sport nine months after ACL reconstruction?"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def bucket(cache: Path) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch, s3_server(patch, cache) as found:
        yield found


@pytest.fixture(scope="module")
def root(bucket: Bucket, sample_root: Path) -> str:
    """The sample, on the store; what is killed or forgets there is smaller."""
    return stored(bucket, sample_root, "graph")


@dataclass(frozen=True)
class Small:
    """A root of a few papers without vectors, and the settings that it was built with."""

    root: Path
    made_of: list[str]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    folder = tmp_path_factory.mktemp("small")
    papers = write_papers(folder / "papers")
    made_of = ["corpus=folder", f"corpus.path={papers}", *WITHOUT_ENCODER, "stages.names=null"]
    srrag("build", f"root={folder / 'root'}", *made_of)
    return Small(folder / "root", made_of)


def stored(bucket: Bucket, root: Path, name: str) -> str:
    """Put a root on the store under this name."""
    here = located(address := f"s3://{bucket.name}/{name}")
    linked(root, here, "jobs", "answers-*", "questions")
    join(here)
    return f"root={address}"


@pytest.fixture(autouse=True)
def another_machine(root: str, cache: Path) -> None:
    """Nothing of any root is here."""
    for folder in cache.iterdir():
        shutil.rmtree(folder)


def document(cache: Path) -> str:
    """One of the documents that are here."""
    part = next(cache.glob("*/stages/documents/*/part-*.parquet"))
    first: str = pq.read_table(part, columns=["doc_id"])["doc_id"][3].as_py()
    return first


def test_what_one_machine_built_another_goes_on_with(root: str, sample_root: Path) -> None:
    again, _ = srrag("build", root)
    assert all(again["reused"].values()) and f"root={again['root']}" == root
    here, _ = srrag("ask", f"root={sample_root}", QUESTION)
    there, _ = srrag("ask", root, QUESTION)
    assert there["answer"] == here["answer"] and there["evidence"] == here["evidence"]
    assert srrag("verify", root)[0]["ok"]


def test_a_server_elsewhere_answers_and_keeps_feedback_on_the_store(
    root: str, bucket: Bucket
) -> None:
    told = settings(root.removeprefix("root="), "pipeline=bm25")
    with served(told) as (client, _):
        answer = client.post("/v1/answers", json={"question": QUESTION.partition("=")[2]}).json()
        assert answer["sentences"] and answer["evidence"]
        said = {"answer_id": answer["id"], "verdict": "helpful"}
        kept = client.post("/v1/feedback", json=said).json()["kept_in"]
    assert answer["id"].encode() in bucket.read(f"graph/{kept}")


def test_a_build_killed_on_one_machine_is_finished_on_another(
    bucket: Bucket, cache: Path, small: Small
) -> None:
    """Killed when its facts are merged: by then parts, and files of builds, are on the store."""
    command = ["build", f"root=s3://{bucket.name}/killed", *small.made_of]
    process = start(command, "--never-ends")
    wait_for(
        lambda: any(
            each.endswith("manifest.json") for each in bucket.names("killed/stages/entities")
        ),
        process,
    )
    process.kill()
    process.wait()
    stand = {each for each in bucket.names("killed") if "/part-" in each}
    bodies = {each: bucket.read(each) for each in stand}
    assert not bucket.names("killed/builds"), "no pointer yet"
    for folder in cache.iterdir():
        shutil.rmtree(folder)
    built, _ = srrag(*command)
    assert all(built["reused"][stage] == 1 for stage in ("parsed", "chunks"))
    assert {each: bucket.read(each) for each in stand} == bodies, "nothing was done again"
    assert srrag("verify", command[1])[0]["ok"]
    assert_equal_tables(next(cache.iterdir()), small.root)


def test_what_is_forgotten_is_gone_from_the_store(
    bucket: Bucket, small: Small, cache: Path
) -> None:
    root = stored(bucket, small.root, "forgets")
    gone = document(cache)
    before = set(bucket.names("forgets"))
    srrag("forget", root, f"doc_id={gone}")
    assert srrag("verify", root, f"forgotten={gone}")[0]["ok"]
    after = set(bucket.names("forgets"))
    assert not [name for name in after if gone.encode() in bucket.read(name)]
    assert before - after, "what held it was deleted there"
    assert not any(name.endswith("forgetting.json") for name in after)


def test_a_report_is_made_of_results_on_the_store(bucket: Bucket, cache: Path) -> None:
    address = f"s3://{bucket.name}/found"
    write_toy(located(address))
    shutil.rmtree(located(address))
    _, said = srrag("report", f"results={address}")
    assert "found/report/report.html" in bucket.names("found")
    assert f"{address}/report/report.html" in said and str(cache) not in said
    shutil.rmtree(located(address))
    bucket.write("found/gold.parquet", b"cut")
    cut = fault("report", f"results={address}", code=2)
    assert f"{address}/gold.parquet is not what was written" in cut
    nowhere = f"s3://{bucket.name}/nowhere"
    assert f"results={nowhere}: there is no" in fault("report", f"results={nowhere}", code=2)


def test_what_a_store_cannot_do_is_said_in_one_line(root: str, bucket: Bucket) -> None:
    model = ["engine=http", "engine.base_url=http://127.0.0.1:9/v1", "engine.model=x"]
    assert "the log of answers is appended to" in fault("build", root, *model)
    assert "NO_SUCH_BUCKET" in fault("build", "root=s3://not-there/x")
    no_bucket = "s3://not-there/x: there is no bucket 'not-there'"
    assert no_bucket in fault("ask", "root=s3://not-there/x", QUESTION)
    disks = [
        next(check for check in srrag("doctor", asked, code=code)[0]["checks"]
             if check["check"] == "disk")
        for asked, code in ((root, 0), ("root=s3://not-there/x", 1))
    ]  # fmt: skip
    assert disks[0]["ok"] and "is written and read" in disks[0]["detail"]
    assert not disks[1]["ok"] and "NO_SUCH_BUCKET" in disks[1]["detail"]
    assert not [name for name in bucket.names() if ".doctor" in name]
    assert "the environment" in fault("build", "root=s3://key:secret@b/x", code=2)
    assert os.environ["SRRAG_CACHE"]
