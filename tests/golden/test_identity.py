"""What stands and what was paid for goes on standing, wherever the code moves."""

from __future__ import annotations

import json
import sys

import pytest

from srrag.core.kinds import MODULES, class_of
from srrag.core.spec import fingerprint, spec
from srrag.corpus.parse import ParseDocuments
from srrag.engine.base import _engine_json, _prefix, key_of
from srrag.engine.openai.engine import HttpEngine
from tests.golden.cases import CASES
from tests.golden.identities import FILE, identities


def test_fingerprints_and_keys_are_the_golden_ones() -> None:
    stored = json.loads(FILE.read_text("utf-8"))
    assert identities() == stored, "python -m tests.golden.regenerate, if it was meant"


def test_a_step_and_an_engine_that_move_keep_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HttpEngine(model="m", revision="r", seed=1)
    prompt = CASES["hyde"](lambda text: text)[0]
    before = fingerprint(spec(ParseDocuments())), key_of(engine, prompt)
    monkeypatch.setitem(sys.modules, "srrag.reading.parse", sys.modules[ParseDocuments.__module__])
    monkeypatch.setitem(sys.modules, "srrag.models.remote", sys.modules[HttpEngine.__module__])
    monkeypatch.setattr(ParseDocuments, "__module__", "srrag.reading.parse")
    monkeypatch.setattr(HttpEngine, "__module__", "srrag.models.remote")
    _engine_json.cache_clear()
    _prefix.cache_clear()
    assert (fingerprint(spec(ParseDocuments())), key_of(engine, prompt)) == before


def test_every_kind_lies_where_the_table_says() -> None:
    for kind in MODULES:
        assert class_of(kind).__name__ == kind
