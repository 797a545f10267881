from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from srrag.core.spec import build, spec
from srrag.extract.find_mentions import FindByRules, FindByTagger
from srrag.reading.mentions import find_mentions, label_runs, type_runs
from srrag.storage.manifest import seal

TEXTS = [
    "Ibuprofen versus placebo in patients with knee osteoarthritis. Nausea after 12 weeks.",
    "",
    "Guidelines recommend exercise for adults.",
]


def types(text: str, runs: list[tuple[str, int, int, float]]) -> dict[str, str]:
    (found,) = type_runs([text], [runs])
    return {text[m.start : m.end]: m.type for m in found}


def test_runs_of_any_tagger_are_typed_by_the_rules() -> None:
    text = TEXTS[0]
    runs = [
        ("I", 0, text.index(" in patients"), 0.9),
        ("P", text.index("patients"), text.index(". Nausea"), 0.8),
        ("O", text.index("Nausea"), text.index(" after"), 0.7),
    ]
    assert types(text, runs) == {
        "Ibuprofen": "Intervention",
        "placebo": "Comparator",
        "patients with knee osteoarthritis": "Population",
        "knee osteoarthritis": "Condition",
        "Nausea": "AdverseEvent",
        "12 weeks": "Timepoint",
    }


def test_without_runs_the_patterns_still_find_what_is_theirs() -> None:
    assert types(TEXTS[0], []) == {"Nausea": "AdverseEvent", "12 weeks": "Timepoint"}


def test_the_rules_are_their_own_runs_typed() -> None:
    sections, leads = ["", "", "Conclusion"], [True, False, False]
    found = FindByRules().find(TEXTS, sections, leads)
    assert found == find_mentions(TEXTS, sections, leads)
    assert found == type_runs(TEXTS, label_runs(TEXTS, sections, leads))
    assert FindByRules().name == "rules"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sealed folder; the identity reads its manifest alone."""
    (tmp_path / "pico").mkdir()
    (tmp_path / "pico" / "tagger.json").write_text("{}")
    seal(tmp_path / "pico")
    return tmp_path / "pico"


def test_its_identity_is_the_content_and_the_name_not_the_place(folder: Path) -> None:
    here = FindByTagger(model=str(folder))
    elsewhere = shutil.copytree(folder, folder.parent / "x" / "pico")
    assert spec(FindByTagger(model=str(elsewhere))) == spec(here)
    assert str(folder.parent) not in str(spec(here))
    assert here.name == f"tagger: pico@{here.revision[:27]}"  # type: ignore[index]
    assert pickle.loads(pickle.dumps(here)) == here
    (folder / "tagger.json").write_text("{ }")
    seal(folder)
    assert spec(FindByTagger(model=str(folder))) != spec(here)


def test_a_manifest_of_a_build_is_read_without_the_folder(folder: Path) -> None:
    """`forget` makes the step again from the build's manifest, on any machine."""
    made = spec(FindByTagger(model=str(folder), backend="torch-int8"))
    shutil.rmtree(folder)
    again = build(made)
    assert spec(again) == made
    with pytest.raises(ValueError, match=r"mentions\.folder: where tagger: pico@"):
        again.open(1)


def test_what_is_no_tagger_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"mentions\.model: .*nowhere: no manifest\.json"):
        FindByTagger(model=str(folder / "nowhere"))
    with pytest.raises(ValueError, match="the model is sha256:"):
        FindByTagger(model=str(folder), revision="sha256:0").open(1)
