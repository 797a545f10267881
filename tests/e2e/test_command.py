"""The installed command as users run it: exit codes, the last line, bad input in one line."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from jobs import JOBS
from jobs.cli import main
from srrag.config.run_job import launch
from srrag.runner.summary import read_rejects
from srrag.storage.store import Store
from tests.conftest import REPOSITORY, linked
from tests.e2e.answered import start, wait_for
from tests.e2e.command import SRRAG, fault, srrag
from tests.forked import Forked

pytestmark = pytest.mark.e2e
NOT_ENCODED = [f"stages.{name}=null" for name in ("vectors", "dense", "tokens")]


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as people have them: some good files and every kind of bad one."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "good.md").write_text(
        "---\nid: good\ngrade: A\n---\n# Ankle sprain guideline\n\n## Recommendations\n\n"
        "Early weight bearing is recommended for adults with an acute lateral ankle sprain.\n"
    )
    (folder / "page.html").write_text(
        "<html><head><title>Heel pain</title></head><body><h1>Heel pain</h1>"
        "<p>Plantar fascia stretching reduced morning heel pain in 40 adults.</p></body></html>"
    )
    (folder / "cp1252.txt").write_bytes("Café patients improved – by 5 points.".encode("cp1252"))
    (folder / "broken.xml").write_text("<article><body><p>never closed")
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 64)
    (folder / "empty.md").write_text("")
    (folder / "slides.pptx").write_bytes(b"PK")
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(200 * 1024**2)
    return folder


def test_help_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run([*SRRAG, "--help"], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) <= 12
    assert main(["help", "all"]) == 0
    every = capsys.readouterr().out
    assert len(every.splitlines()) <= 42
    for job in JOBS:
        assert f"  {job} " in every
        assert main([job, "--help"]) == 0
        assert f"srrag {job} [key=value …]" in capsys.readouterr().out


def test_a_reader_that_has_gone_is_no_fault() -> None:
    shown = (
        "set -o pipefail; srrag_() { " + " ".join([sys.executable, "-m", "srrag"]) + ' "$@"; }; '
    )
    done = subprocess.run(
        ["bash", "-c", shown + "srrag_ --help | (exec <&-; sleep 1)"], capture_output=True,
        text=True, cwd=REPOSITORY,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_console_without_a_letter_shows_its_number(tmp_path: Path) -> None:
    shown = {**os.environ, "PYTHONIOENCODING": "cp1252:strict"}
    done = subprocess.run(
        [sys.executable, "-m", "srrag", "status", f"root={tmp_path}/≤5μg"], capture_output=True,
        text=True, cwd=REPOSITORY, env=shown, encoding="cp1252",
    )  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert r"/\u22645\u03bcg" in done.stderr


def test_a_summary_is_json_on_any_console(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="cp1252"))
    said = {"answer": "≤5 μg, 20 \U0001d707g"}
    assert launch("status", lambda config: dict(said), [f"root={tmp_path}"]) == 0
    assert json.loads(shown.getvalue())["answer"] == said["answer"]


def test_bad_files_are_rejected_and_the_rest_is_built(papers: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    summary, stderr = srrag("build", "corpus=folder", f"corpus.path={papers}", f"root={root}")
    assert "Traceback" not in stderr
    assert summary["documents"] == 3
    assert summary["rejected"] == 5
    assert json.loads((root / "jobs/build/summary.json").read_text()) == summary
    rejects = read_rejects(Store(root), "default").to_pylist()
    assert {row["source"] for row in rejects} == {
        "binary.txt", "broken.xml", "empty.md", "huge.txt", "slides.pptx",
    }  # fmt: skip
    assert all(row["reason"] and row["detail"] for row in rejects)
    proof, _ = srrag("verify", f"root={root}")
    assert proof["ok"], proof["problems"]
    again, _ = srrag("build", "corpus=folder", f"corpus.path={papers}", f"root={root}")
    assert again["reused"] == dict.fromkeys(again["reused"], 1)
    answer, shown = srrag(
        "ask", f"root={root}", "question=Is early weight bearing recommended, e.g. (for adults)?"
    )
    assert answer["sentences"][0]["citations"] == [1]
    assert answer["evidence"][0]["grade"] == "A"
    assert "grade A" in shown
    nothing, _ = srrag("ask", f"root={root}", "question=What is the capital of Mongolia?")
    assert nothing["state"] == "not"
    assert nothing["sentences"] == []


def test_a_tampered_part_is_found(papers: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    srrag("build", "corpus=folder", f"corpus.path={papers}", f"root={root}")
    part = next((root / "stages" / "windows").rglob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-1] + b"!")
    index = next((root / "stages" / "dense").rglob("shard-*.faiss"))
    index.write_bytes(index.read_bytes() + b"!")
    proof, _ = srrag("verify", f"root={root}", code=1)
    assert len(proof["problems"]) == 2
    assert "sha256" in fault("ask", f"root={root}", "question=Is weight bearing recommended?")
    part.write_bytes(part.read_bytes()[:-10])
    next((root / "stages" / "parsed").rglob("part-*.json")).unlink()
    srrag("build", "corpus=folder", f"corpus.path={papers}", f"root={root}")
    assert srrag("verify", f"root={root}")[0]["ok"], "building again mends what is broken"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["build", "root=R", "corpsu=x"], "corpsu"),
        (["build", "root=R", "papers/", "corpus.path=x/"], "corpus.path"),
        (["ask", "root=R", "question="], "question"),
        (["ask", "root=R", "question=???"], "question"),
        (["ask", "root=R", "question=" + "why " * 25_000], "100000 characters"),
        (["nothing"], "nothing"),
        (["evaluate", "bench=ebmnlp", "bench.path=/nowhere"], "/nowhere"),
        (["build", "root=R", "engine=gpt"], "gpt"),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_wrong_usage_exits_2(arguments: list[str], hint: str, tmp_path: Path) -> None:
    arguments = [a.replace("root=R", f"root={tmp_path / 'root'}") for a in arguments]
    assert hint in fault(*arguments, code=2)


def test_faults_of_the_data_exit_1(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    root = f"root={tmp_path / 'root'}"
    assert str(empty) in fault("build", "corpus=folder", f"corpus.path={empty}", root)
    other = tmp_path / "other"
    other.mkdir()
    (other / "srrag.json").write_text('{"layout": 99}')
    assert "layout 99" in fault("ask", f"root={other}", "question=Is there anything here?")


def test_what_is_not_there_exits_2(tmp_path: Path) -> None:
    root = f"root={tmp_path / 'root'}"
    assert "/nowhere" in fault("build", "corpus=beir", "corpus.path=/nowhere", root, code=2)
    assert "corpus.path=… is needed" in fault("build", "corpus=folder", root, code=2)
    assert "holds no build" in fault("status", f"root={tmp_path / 'none'}", code=2)


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "pubmed26n0001.xml.gz"
    with gzip.open(bomb, "wb") as file:
        for _ in range(300):
            file.write(b" " * 1024**2)
    error = fault("build", "corpus=pubmed", f"corpus.path={bomb}", f"root={tmp_path / 'root'}")
    assert bomb.name in error


def killed_when(process: Forked, found: Callable[[], bool]) -> None:
    """Kill a process, and it alone, as soon as something is found; wait for those below it."""
    wait_for(found, process)
    below = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    workers = [each for each in below if not is_agent(each)]
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive, "the actors of a driver that died end by themselves"
    for agent in below:  # they may outlive their Ray for a while, and write nothing
        with suppress(psutil.NoSuchProcess):
            agent.kill()


def is_agent(process: psutil.Process) -> bool:
    try:
        return "Agent" in process.name() or "agent" in " ".join(process.cmdline())
    except psutil.Error:
        return True


def test_a_killed_build_resumes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    command = ["build", f"root={root}", *NOT_ENCODED]
    killed_when(
        start(command, "--never-ends"),
        lambda: bool(list(root.glob("stages/chunks/*/part-*.parquet"))),
    )
    receipts = root.glob("stages/*/*/part-*.json")  # a part counts once its receipt stands
    stood = {p: p.stat().st_mtime_ns for p in (each.with_suffix(".parquet") for each in receipts)}
    summary, _ = srrag(*command)
    assert summary["documents"] == 55
    assert {p: p.stat().st_mtime_ns for p in stood} == stood
    assert srrag("verify", f"root={root}")[0]["ok"]


def test_a_report_for_maintainers_counts_and_quotes_nothing(
    sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = linked(sample_root, tmp_path / "R")
    (tmp_path / "srrag.yaml").write_text(
        "model: http://user:key@host.example/v1#NAME\nbuild: default\n"
    )
    monkeypatch.chdir(tmp_path)
    with suppress(SystemExit):
        main(["report-bug", f"root={root}", "engine=rules"])
    text = (tmp_path / "srrag-bug-report" / "summary.json").read_text("utf-8")
    told = json.loads(text)
    assert told["build"]["rows"]["documents"] == 55
    assert told["build"]["versions"] and told["packages"]["torch"]
    assert told["choices"]["build"] == "default"
    for private in ("ankle", "host.example", "user:key"):
        assert private not in text
