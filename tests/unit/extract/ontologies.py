"""The schemas of extraction that come with the package."""

from __future__ import annotations

from pathlib import Path

import yaml

from srrag.core.ontology import Ontology
from srrag.core.spec import build

SCHEMAS = Path(__file__).parents[3] / "conf" / "schema"


def ontology(name: str = "pico") -> Ontology:
    made = build(yaml.safe_load((SCHEMAS / f"{name}.yaml").read_text("utf-8")))
    assert isinstance(made, Ontology)
    return made
