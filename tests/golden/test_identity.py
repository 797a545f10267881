"""What stands and what was paid for goes on standing, wherever the code moves."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import jobs.ask
from srrag.config.compose import configure
from srrag.corpus.parse import ParseDocuments
from srrag.engine.call import _engine_json, _prefix, key_of
from srrag.engine.openai.engine import HttpEngine
from srrag.index.encode import EncodeWindows
from srrag.kinds import ADDRESSES, MODULES, class_of
from srrag.model.encoder import Encoder
from srrag.spec import build, fingerprint, spec
from srrag.storage.store import Store
from tests.conftest import run_build
from tests.golden.cases import CASES
from tests.golden.identities import FILE, identities

ROOT = Path(__file__).parent / "root_0_1.tar.gz"
"""Three documents, built by release 0.1.0 with the answers of a scripted endpoint."""
ADDED = {"abbreviations", "names", "notices", "standing", "titles"}
"""Stages that release 0.1 did not have; no other stage reads them."""
CHANGED = {"units", "communities", "tree", "graph", "tokens"}
"""Stages whose output has changed since: windows keep their section, token vectors lie once,
communities look at fewer resolutions."""
TITLED = {"dense", "sparse"}
"""Stages that read titles, unless `corpus.title=none`."""


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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with tarfile.open(ROOT) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "root"


def build_again(root: Path, *more: str) -> dict[str, Any]:
    """The command that built it, with nobody at the endpoint: a call that is missing fails it."""
    return run_build(configure("build", [
        f"root={root}", "corpus=jsonl", f"corpus.path={root.parent / 'documents.jsonl'}",
        "engine=http", "engine.model=scripted", "engine.base_url=http://127.0.0.1:9/v1",
        "engine.api_key_env=null", *more,
    ]))  # fmt: skip


@pytest.mark.parametrize(
    ("title", "added", "changed"),
    [("none", ADDED - {"titles"}, CHANGED), ("field", ADDED, CHANGED | TITLED)],
)
def test_a_root_of_release_0_1_stands(
    root: Path, title: str, added: set[str], changed: set[str]
) -> None:
    before = Store(root).read_pointer("default")["stages"]
    summary = build_again(root, f"corpus.title={title}")
    made = {stage for stage, counts in summary["reused"].items() if counts == 0}
    assert made == changed | added, "these stages were made again"
    after = fingerprints(Store(root).read_pointer("default")["stages"])
    assert {name for name, each in fingerprints(before).items() if after[name] != each} == changed


def test_a_root_of_release_0_1_answers(root: Path) -> None:
    argv = [f"root={root}", "question=Does supervised exercise reduce re-injury after a sprain?"]
    answer = jobs.ask.run(configure("ask", argv))
    assert answer["state"] == "answered"
    assert "risk ratio 0.60" in answer["answer"]


def test_answers_paid_for_under_release_0_1_are_found(root: Path) -> None:
    shutil.rmtree(root / "stages")
    shutil.rmtree(root / "builds")
    assert build_again(root)["spent"]["calls"] == 0


def fingerprints(stages: dict[str, Any]) -> dict[str, str]:
    return {name: entry["fingerprint"] for name, entry in stages.items()}


def test_what_release_0_1_wrote_can_be_made_again() -> None:
    """A spec with addresses gives the object that its kinds give."""
    encoder = Encoder(model="m", revision="r")
    now = spec(EncodeWindows(encoder=encoder))
    named = {kind: address for address, kind in ADDRESSES.items()}
    then = {**now, "_target_": named["EncodeWindows"]}
    then["encoder"] = {**now["encoder"], "_target_": named["Encoder"]}
    assert build(then) == build(now)
    assert fingerprint(then) == fingerprint(now)
