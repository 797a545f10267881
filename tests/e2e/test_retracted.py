"""PubMed's files with retractions, concerns, corrections, updates and a deletion, end to end."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import jobs.ask
import jobs.status
from srrag.config.compose import configure
from srrag.runner.verify import verify
from srrag.storage.store import Store
from tests.conftest import run_build

CORPUS = Path(__file__).parents[3] / "shared/data/retracted"
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared data is not here")
RETRACTED = "Does blue-lamp therapy relieve knee pain?"


def built(root: Path, *more: str) -> dict[str, Any]:
    return run_build(configure("build", [
        f"root={root}", "corpus=pubmed", f"corpus.path={CORPUS}", "stages.vectors=null",
        "stages.extracts=null", *more,
    ]))  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("retracted") / "root"
    built(path)
    return path


def asked(root: Path, question: str, *more: str) -> dict[str, Any]:
    return jobs.ask.run(configure("ask", [
        f"root={root}", f"question={question}", "pipeline=bm25",
        "answering.Rules.gate=null", "answering.Rules.compose.gate=''", *more,
    ]))  # fmt: skip


def standings(root: Path) -> dict[str, dict[str, str]]:
    path = Store(root).artifacts("default")["standing"] / "standing.parquet"
    return {row["source_id"]: row for row in pq.read_table(path).to_pylist()}


def test_each_article_stands_as_expected(root: Path) -> None:
    told = standings(root)
    rejects = pq.read_table(root / "builds" / "default.rejects.parquet").to_pylist()
    deleted = {row["detail"].split()[2] for row in rejects if row["reason"] == "deleted"}
    texts = {}
    store = Store(root)
    entry = store.read_pointer("default")["stages"]["documents"]
    for part in entry["parts"]:
        for row in store.read_part("documents", entry["fingerprint"], part).to_pylist():
            if row["reject"] is None:
                texts[row["source_id"]] = row
    for line in (CORPUS / "expected.jsonl").read_text("utf-8").splitlines():
        want = json.loads(line)
        pmid = want["pmid"]
        if want["standing"] == "deleted":
            assert pmid in deleted and pmid not in texts and pmid not in told
            continue
        found = told.get(pmid, {"standing": "ok", "link": ""})
        assert found["standing"] == want["standing"], pmid
        assert found["link"] == (f"pmid:{want['linked_pmid']}" if want["linked_pmid"] else ""), pmid
        if pmid in texts:
            assert texts[pmid]["source"].startswith(want["record_in"]), pmid
        if want["text_holds"]:
            assert want["text_holds"] in texts[pmid]["text"]
    assert deleted == {"99900009"}, "99900099 was never there"


def test_a_retracted_paper_is_named_and_not_cited(root: Path) -> None:
    answer = asked(root, RETRACTED)
    shown = {item["source_id"] for item in answer["evidence"]}
    assert not shown & {"99900001", "99900007", "99900009"}
    assert [item["source_id"] for item in answer["left_out"]][:1] == ["99900001"]
    assert "retracted (PMID 99900010)" in answer["notes"][0]["text"]
    assert "31 points" not in answer["answer"]
    assert not shown & {"99900005"}, "its later version is here"


def test_status_show_cites_it_with_its_mark(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(root, RETRACTED, "status=show")
    assert "99900001" in {item["source_id"] for item in answer["evidence"]}
    assert "RETRACTED (PMID 99900010)" in capsys.readouterr().err


def test_a_paper_under_concern_is_cited_with_the_mark(root: Path) -> None:
    answer = asked(root, "Do warm sand packs lower disability in low back pain?")
    cited = {n for each in answer["sentences"] for n in each["citations"]}
    marked = {item["number"] for item in answer["evidence"] if item["standing"] == "concern"}
    assert cited & marked
    assert "expression of concern (PMID 99900011)" in answer["notes"][0]["text"]


def test_verify_and_status_tell(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof = verify(Store(root), "default")
    assert proof["ok"], proof["problems"]
    jobs.status.run(configure("status", [f"root={root}"]))
    assert "retracted 2" in capsys.readouterr().err


def test_a_list_repeats_the_standing_alone_and_hides_a_paper(tmp_path: Path) -> None:
    root, listed = tmp_path / "root", tmp_path / "list.csv"
    built(root)
    listed.write_text("pmid,standing\n99900002,retracted\n")
    again = built(root, f"statuses={listed}")
    made = {stage for stage, kept in again["reused"].items() if not kept}
    assert made == {"standing"}
    assert standings(root)["99900002"]["standing"] == "retracted"
    answer = asked(root, "Does heel tapping lengthen walking distance?")
    assert "99900002" not in {item["source_id"] for item in answer["evidence"]}
