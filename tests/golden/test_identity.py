"""What stands and what was paid for goes on standing, wherever the code moves."""

from __future__ import annotations

import json
import sys

import pytest

from srrag.corpus.parse import ParseDocuments
from srrag.engine.call import _engine_json, _prefix, key_of
from srrag.engine.openai.engine import HttpEngine
from srrag.index.encode import EncodeWindows
from srrag.kinds import ADDRESSES, MODULES, class_of
from srrag.model.encoder import Encoder
from srrag.spec import build, fingerprint, spec
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
    assert set(ADDRESSES.values()) <= set(MODULES)


@pytest.mark.parametrize("address", sorted(ADDRESSES))
def test_an_address_of_release_0_1_names_its_class(address: str) -> None:
    assert class_of(address) is class_of(ADDRESSES[address])


def test_what_release_0_1_wrote_can_be_made_again() -> None:
    """A spec with addresses gives the object that its kinds give."""
    encoder = Encoder(model="m", revision="r")
    now = spec(EncodeWindows(encoder=encoder))
    named = {kind: address for address, kind in ADDRESSES.items()}
    then = {**now, "_target_": named["EncodeWindows"]}
    then["encoder"] = {**now["encoder"], "_target_": named["Encoder"]}
    assert build(then) == build(now)
    assert fingerprint(then) == fingerprint(now)
