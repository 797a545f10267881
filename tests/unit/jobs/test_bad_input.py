"""A file that cannot be taken is wrong usage in every job: exit code 2, its place in one line."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import OF_LAB
from jobs.cli import main
from tests.judged import answers

GOOD = json.dumps({"query_id": "a", "text": "Does rest help?", "nuggets": ["rest"], "gold": []})
DECISION = json.dumps({"query_id": "a", "decision": "accept"})
NOT_UTF8 = b'{"query_id": "b", "text": "caf\xe9", "gold": []}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of which the second line, row or rating is at fault, and the parts they need."""
    for name, lines in {
        "json.jsonl": [GOOD, "{broken"],
        "bytes.jsonl": [GOOD, NOT_UTF8.decode("latin-1")],
        "twice.jsonl": [GOOD, GOOD],
        "half.jsonl": [GOOD, '{"query_id": "b", "text": "\\ud83e?", "gold": []}'],
        "decided.jsonl": [DECISION, DECISION.replace("accept", "perhaps")],
        "beir/queries.jsonl": [GOOD, "{broken"],
        "beir/qrels/test.tsv": ["query-id\tcorpus-id\tscore", "a\td\t1"],
        "qrels/queries.jsonl": [GOOD],
        "qrels/qrels/test.tsv": ["query-id\tcorpus-id\tscore", "a\td\tmuch"],
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines), "latin-1" if name == "bytes.jsonl" else "utf-8")
    pq.write_table(answers({"query_id": "a", "answer": "Rest."}), tmp_path / "answers.parquet")
    pq.write_table(pa.table({"query_id": ["a"]}), tmp_path / "cut.parquet")
    pairs = {"query_id": ["a", "a"], "delta_s": [0.1, 0.2], "grade_pos": ["A", "A"]}
    pq.write_table(pa.table({**pairs, "grade_neg": ["B", "Z"]}), tmp_path / "pairs.parquet")
    form = {"form": "likert", "sample": "s", "items": {"1": {"query_id": "a", "system": "one"}}}
    (tmp_path / "key.json").write_text(json.dumps(form))
    (tmp_path / "sheet.json").write_text("{")
    return tmp_path


JUDGED = "evaluate bench=answers bench.answers={F}/answers.parquet bench.path={F}/"
RANKED = "evaluate bench=sample root={R} bench.path={F}/"
SWEPT = "sweep root={R} pipeline=bm25,dense bench=answers bench.path={F}/"
CASES = [
    ("answer root={R} queries={F}/json.jsonl", "json.jsonl:2:"),
    ("answer root={R} queries={F}/bytes.jsonl", "bytes.jsonl:2:"),
    *((f"{JUDGED}{name}", f"{name}:2:") for name in ("json.jsonl", "half.jsonl")),
    *((f"{RANKED}{name}", f"{name}:2:") for name in ("bytes.jsonl", "twice.jsonl")),
    *((f"{SWEPT}{name}", f"{name}:2:") for name in ("bytes.jsonl", "twice.jsonl")),
    ("sweep root={R} pipeline=bm25,dense bench=sample bench.path={F}/json.jsonl", "json.jsonl:2:"),
    ("evaluate bench=beir root={R} bench.path={F}/beir", "queries.jsonl:2:"),
    ("evaluate bench=beir root={R} bench.path={F}/qrels", "test.tsv:2:"),
    ("evaluate bench=nli bench.path={F}/json.jsonl", "json.jsonl:1:"),
    ("evaluate bench=ebmnlp bench.path={F}/json.jsonl", "json.jsonl:2:"),
    ("evaluate bench=filter bench.model={F} bench.path={F}/json.jsonl", "json.jsonl:1:"),
    ("evaluate bench=answers bench.answers={F}/cut.parquet", "cut.parquet: column 'text'"),
    ("review answers={F}/cut.parquet", "cut.parquet: column 'text'"),
    ("review answers={F}/answers.parquet gold={F}/json.jsonl", "json.jsonl:2:"),
    ("review import={F}/sheet.json key={F}/key.json", "sheet.json: not valid JSON"),
    ("review import={F}/sheet.json key={F}/sheet.json", "sheet.json: not valid JSON"),
    ("fit_betr train.pairs={F}/pairs.parquet", "pairs.parquet: row 2, column 'grade_neg'"),
    ("fit_betr train.pairs={F}/cut.parquet", "cut.parquet: column 'delta_s'"),
    ("fit_betr root={R} bench.path={F}/bytes.jsonl", "bytes.jsonl:2:"),
    ("make_benchmark root={R} decisions={F}/decided.jsonl", "decided.jsonl:2:"),
    ("make_benchmark root={R} decisions={F}/bytes.jsonl", "bytes.jsonl:2:"),
    ("make_benchmark root={R} rebuild={F}/json.jsonl", "json.jsonl:1:"),
    ("organize root={F}/new graph.path={F}/sheet.json", "sheet.json: not valid JSON"),
    ("train_filter train.pairs={F}/json.jsonl train.test={F}/json.jsonl", "json.jsonl:1:"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "place"), CASES)
def test_a_file_that_cannot_be_taken_is_wrong_usage(
    command: str, place: str, folder: Path, sample_root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    argv = command.format(F=folder, R=sample_root).split()
    own = [] if argv[0] == "organize" else [f"out={folder}/out"]
    assert main([*argv, *own]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    (line,) = [each for each in captured.err.splitlines() if "error" in each]
    assert place in line
    assert not (folder / "out" / "rows.json").exists()


ALONE = """
import importlib, sys
sys.modules |= dict.fromkeys({lacking})
for job in ("build", "ask", "synthesise", "evaluate", "serve"):
    importlib.import_module(f"jobs.{{job}}")
from jobs.cli import main
sys.exit(main(["review", "folder=F"]))
"""


def test_of_build_ask_and_review_only_review_says_what_to_install() -> None:
    code = ALONE.format(lacking=[*OF_LAB])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: srrag review needs: pip install 'srrag[lab]'\n"


def test_the_extra_has_what_its_jobs_lack() -> None:
    told = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    extra = {
        each.split(">")[0].split("=")[0] for each in told["project"]["optional-dependencies"]["lab"]
    }
    assert extra == {*OF_LAB}
