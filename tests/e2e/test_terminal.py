"""What a person sees: a job on a terminal writes text for reading, and JSON on request."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.e2e


def on_terminal(folder: Path, *arguments: str) -> str:
    """Run the command in `folder` with a terminal for all its streams; return what it shows."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(REPOSITORY)
        os.execv(sys.executable, [sys.executable, "-m", "srrag", *arguments])
    shown = b""
    while True:
        try:
            read = os.read(terminal, 65536)
        except OSError:  # Linux ends a terminal that nobody writes to with an error
            break
        shown += read
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown[-2000:]
    return shown.decode("utf-8")


def test_papers_are_built_and_asked_without_a_key_and_without_json(tmp_path: Path) -> None:
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "guideline.md").write_text(
        "---\nid: good\ngrade: A\n---\n# Ankle sprain guideline\n\n## Recommendations\n\n"
        "Early weight bearing is recommended for adults with an acute lateral ankle sprain.\n"
    )
    built = on_terminal(tmp_path, "build", "papers/")
    assert ".srrag: 1 documents, " in built and 'next: srrag ask "…"' in built
    assert "{" not in built and (tmp_path / ".srrag/builds/default.json").is_file()
    said = on_terminal(tmp_path, "ask", "Is early weight bearing recommended?")
    assert "grade A" in said and "{" not in said
    told = on_terminal(tmp_path, "ask", "Is early weight bearing recommended?", "format=json")
    assert json.loads(told.splitlines()[-1])["evidence"][0]["grade"] == "A"
