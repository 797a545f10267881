"""Two stored runs over the sample, with a question that fails and one that has no answer."""

from __future__ import annotations

import json
from pathlib import Path

import jobs.answer
from srrag.config.compose import configure
from tests.conftest import linked
from tests.unit.serve.serving import CAST

QUESTIONS = {
    "cast": CAST,
    "rest": "Does bed rest help acute low back pain?",
    "sport": "When should adolescents return to sport after ACL reconstruction?",
    "unknown": "Do ketamine lozenges cure hiccups of astronauts?",
    "empty": "?",
    "only-words": "Does stretching help plantar heel pain?",
}


def store_runs(built: Path, folder: Path) -> Path:
    """A root with the runs `words` (BM25) and `both` (hybrid, which lacks one question)."""
    root = linked(built, folder / "root", "jobs")
    for run, pipeline in (("words", "bm25"), ("both", "hybrid")):
        queries = folder / f"{run}.jsonl"
        asked = [item for item in QUESTIONS.items() if run in item[0] or "only" not in item[0]]
        lines = [json.dumps({"query_id": key, "text": text}) for key, text in asked]
        queries.write_text("\n".join(lines), "utf-8")
        overrides = [f"root={root}", f"queries={queries}", f"out={root}/jobs/{run}"]
        config = configure("answer", [*overrides, f"pipeline={pipeline}", "profile.threads=1"])
        jobs.answer.run({**config, "command": "test"})
    return root
