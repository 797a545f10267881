"""A root whose papers a model has read: the sample with findings that are written here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.schema import FINDINGS
from srrag.storage.store import Store
from tests.conftest import linked
from tests.unit.synthesis.made import finding

PREVENTS = "Does exercise prevent recurrence in adults?"
_TOLD: dict[str, dict[str, Any]] = {
    "lbp-walking-recurrence-trial": {
        "quote": "The median time to recurrence", "interventions": ["walking exercise"],
        "effect": "hazard ratio 0.71", "interval": "95% CI 0.57 to 0.88", "times": ["12 months"],
    },
    "np-deep-flexor-trial": {
        "quote": "At 12 months the two groups", "interventions": ["neck exercise"],
        "direction": "no difference", "effect": "HR 0.9", "interval": "95% CI 0.6 to 1.35",
    },
    "pfp-cadence-retraining-trial": {
        "quote": "Calf soreness was reported", "interventions": ["running exercise"],
        "direction": "worse", "effect": "HR 1.9", "interval": "95% CI 1.1 to 3.28",
        "people": ["boys aged 12 to 14"],
    },
    "lbp-exercise-types-network-meta-analysis": {
        "quote": "Effects were larger", "interventions": ["exercise"], "effect": "33% vs. 18%",
    },
}  # fmt: skip
"""The beginning of a sentence of each paper, and what it is said to tell."""


def with_findings(source: Path, root: Path) -> Path:
    """A copy of the sample in which four papers tell whether exercise prevents recurrence."""
    store = Store(linked(source, root))
    pointer = store.read_pointer("default")
    documents = pointer["stages"]["documents"]
    rows = []
    for part in documents["parts"]:
        for paper in store.read_part("documents", documents["fingerprint"], part).to_pylist():
            if told := _TOLD.get(paper["source_id"]):
                start = paper["text"].index(told["quote"])
                end = start + re.search(r"\.\s", paper["text"][start:]).start() + 1
                known = {"comparators": ["control"], "outcome": "recurrence"}
                placed = {
                    "quote": paper["text"][start:end], "places": [{"start": start, "end": end}],
                }  # fmt: skip
                rows.append(finding(paper["doc_id"], **known, **told | placed))
    table = pa.Table.from_pylist(rows, FINDINGS)
    with store.lock():
        entry = pointer["stages"]["findings"] | {"fingerprint": "f" * 20, "parts": ["a" * 32]}
        store.write_part("findings", "f" * 20, "a" * 32, table)
        stages = pointer["stages"] | {"findings": entry}
        store.write_pointer("default", {**pointer, "stages": stages})
    return root
