"""PubMed's files with retractions, concerns, corrections, updates and a deletion, end to end."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import jobs.ask
import jobs.status
import srrag
from srrag.config.compose import configure
from srrag.library.retrievers import langchain_retriever, llama_index_retriever
from srrag.runner.summary import read_rejects
from srrag.runner.verify import verify
from srrag.storage.store import Store
from tests.conftest import NO_SHARED, run_build
from tests.unit.serve.serving import served, settings

CORPUS = Path(__file__).parents[3] / "shared/data/retracted"
RETRACTED = "Does blue-lamp therapy relieve knee pain?"


def built(root: Path, *more: str, corpus: Path = CORPUS) -> dict[str, Any]:
    if not corpus.is_dir():
        pytest.skip(NO_SHARED)
    return run_build(configure("build", [
        f"root={root}", "corpus=pubmed", f"corpus.path={corpus}", "stages.vectors=null",
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
    rejects = read_rejects(Store(root), "default").to_pylist()
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


def article(pmid: str, title: str, kind: str, text: str, link: str = "") -> str:
    told = f"<Abstract><AbstractText>{text}</AbstractText></Abstract>" if text else ""
    return f"""<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article>
<Journal><JournalIssue><PubDate><Year>2020</Year></PubDate></JournalIssue></Journal>
<ArticleTitle>{title}</ArticleTitle>{told}<PublicationTypeList>
<PublicationType UI="">{kind}</PublicationType></PublicationTypeList></Article>{link}
</MedlineCitation></PubmedArticle>"""


def test_a_notice_in_one_file_marks_the_answer_from_a_paper_in_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two papers and a notice, written here: it runs wherever the program does."""
    (corpus := tmp_path / "corpus").mkdir()
    lamp, trial = "Blue-lamp therapy for knee pain", "Randomized Controlled Trial"
    told = "Blue-lamp therapy relieved knee pain in this trial"
    of_paper = (
        '<CommentsCorrectionsList><CommentsCorrections RefType="RetractionOf">'
        '<PMID Version="1">99900001</PMID></CommentsCorrections></CommentsCorrectionsList>'
    )
    files = {
        "pubmed25n0001.xml": article("99900001", lamp, trial, f"{told} by 31 points.")
        + article("99900002", f"{lamp} in nurses", trial, f"{told} by 5 points."),
        "pubmed25n0002.xml": article(
            "99900010", f"Retraction: {lamp}", "Retraction of Publication", "", of_paper
        ),
    }
    for name, articles in files.items():
        (corpus / name).write_text(f"<PubmedArticleSet>{articles}</PubmedArticleSet>", "utf-8")
    built(tmp_path / "root", corpus=corpus)
    answer = asked(tmp_path / "root", RETRACTED)
    assert {item["source_id"] for item in answer["evidence"]} == {"99900002"}
    assert [item["source_id"] for item in answer["left_out"]] == ["99900001"]
    assert "retracted (PMID 99900010)" in answer["notes"][0]["text"]
    assert "31 points" not in answer["answer"] and "5 points" in answer["answer"]
    shown = asked(tmp_path / "root", RETRACTED, "status=show")
    assert "99900001" in {item["source_id"] for item in shown["evidence"]}
    assert "RETRACTED (PMID 99900010)" in capsys.readouterr().err


SHOWN = ("status=show", "answering.Rules.gate=null", "answering.Rules.compose.gate=''")
IS_RETRACTED = "retracted (PMID 99900010)"


def test_python_and_the_retrievers_say_that_a_paper_is_retracted(root: Path) -> None:
    with srrag.open(root) as opened:
        hidden = opened.ask(RETRACTED, pipeline="bm25", overrides=SHOWN[1:])
        assert IS_RETRACTED in hidden.notes[0].text and IS_RETRACTED in " ".join(
            str(hidden).split()
        )
        reply = opened.ask(RETRACTED, pipeline="bm25", overrides=SHOWN)
        assert IS_RETRACTED in {paper.status for paper in reply.papers}
        assert IS_RETRACTED.upper() in str(reply) and IS_RETRACTED.upper() in reply._repr_html_()
        found = opened.search(RETRACTED, pipeline="bm25", k=12)
        assert IS_RETRACTED in found.to_arrow()["status"].to_pylist()
        assert IS_RETRACTED.upper() in str(found) and IS_RETRACTED.upper() in found._repr_html_()
        pytest.importorskip("langchain_core", reason="without the extra langchain")
        documents = langchain_retriever(opened, k=12, pipeline="bm25").invoke(RETRACTED)
        assert IS_RETRACTED in {each.metadata["status"] for each in documents}
        pytest.importorskip("llama_index.core", reason="without the extra llamaindex")
        nodes = llama_index_retriever(opened, k=12, pipeline="bm25").retrieve(RETRACTED)
        assert IS_RETRACTED in {each.node.metadata["status"] for each in nodes}


def test_the_api_says_that_a_paper_is_retracted(root: Path) -> None:
    with served(settings(root, "pipeline=bm25", *SHOWN)) as (client, _):
        answer = client.post("/v1/answers", json={"question": RETRACTED}).json()
        found = client.post("/v1/search", json={"query": RETRACTED, "k": 12}).json()
        body = {"model": "bm25", "messages": [{"role": "user", "content": RETRACTED}]}
        chat = client.post("/v1/chat/completions", json=body).json()
    assert IS_RETRACTED in {each["status"] for each in answer["papers"]}
    assert IS_RETRACTED in {each["status"] for each in found["hits"]}
    assert IS_RETRACTED in chat["choices"][0]["message"]["content"]
    python = srrag.open(root).ask(RETRACTED, pipeline="bm25", overrides=SHOWN).json
    command = asked(root, RETRACTED, "status=show")
    varying = {"id": 0, "trace": 0}
    assert {**answer, **varying} == {**python, **varying} == {**command, **varying}


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
