"""A document is forgotten by the command, whenever it is killed, and nothing is paid again."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from srrag.storage.store import Store
from tests.e2e.answered import GRAPH, build, ended, logged, sends, start, write_rehab
from tests.e2e.command import fault, srrag
from tests.endpoint_process import started

pytestmark = pytest.mark.e2e
ABSTRACTS = 12
CHANGES = (9, 81)
"""Files that are renamed or removed until a kill: what is killed early goes on from there."""


def test_forget_survives_kills_and_costs_no_call(shared_data: Path, tmp_path: Path) -> None:
    corpus = write_rehab(shared_data, tmp_path / "rehab.jsonl", ABSTRACTS)
    name = json.loads(corpus.read_text("utf-8").splitlines()[3])["id"]
    root = tmp_path / "root"
    with started(tmp_path, "--script", "slips", "--lifetime", "900") as (_, url):
        command = build(root, corpus, url, *GRAPH)
        srrag(*command)
        document = _document(root, name)
        assert srrag("verify", f"root={root}", f"forgotten='{document}'", code=1)[0]["traces"]
        before, keys = sends(url), logged(root)
        source = f"source_id={name}"
        for change in CHANGES:
            process = start(["forget", f"root={root}", source], f"--dies-at={change}")
            process.communicate()
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL
        assert change > CHANGES[0], "it was killed at least once"
        code, error = ended(start(["forget", f"root={root}", source]))
        assert code == 0, error
        proof, _ = srrag("verify", f"root={root}", f"forgotten='{document}'")
        assert proof["ok"], proof["problems"]
        assert logged(root).keys() < keys.keys()
        again, _ = srrag(*command)
        assert (again["documents"], again["skipped_as_forgotten"]) == (ABSTRACTS - 1, 1)
        assert set(again["reused"].values()) == {1}
        # Answers that stay are those of the others, bad ones and their second tries included.
        shutil.copytree(root / "completions", tmp_path / "log")
        srrag(*build(tmp_path / "once", _without(corpus, name), url, *GRAPH,
                     f"completions={tmp_path / 'log'}"))  # fmt: skip
        assert sends(url) == before
    assert "unknown" in fault("forget", f"root={root}", "doc_id=unknown")
    assert "doc_id" in fault("forget", f"root={root}", code=2)


def _document(root: Path, name: str) -> str:
    store = Store(root)
    entry = store.read_pointer("default")["stages"]["documents"]
    for part in entry["parts"]:
        for row in store.read_part("documents", entry["fingerprint"], part).to_pylist():
            if row["source_id"] == name:
                return str(row["doc_id"])
    raise AssertionError(name)


def _without(corpus: Path, name: str) -> Path:
    lines = [line for line in corpus.read_text("utf-8").splitlines() if f'"{name}"' not in line]
    assert len(lines) == ABSTRACTS - 1
    fewer = corpus.with_name("fewer.jsonl")
    fewer.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return fewer
