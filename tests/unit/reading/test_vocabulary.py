from __future__ import annotations

from pathlib import Path

import pytest

from srrag.reading.vocabulary import Vocabulary, key, type_of
from tests.unit.reading.vocabularies import vocabulary_folder


def names(text: str, vocabulary: Vocabulary) -> list[str]:
    return [each.term.name for each in vocabulary.open().find(text)]


def test_the_longest_name_is_found_in_any_order_spelling_and_number(tmp_path: Path) -> None:
    vocabulary = Vocabulary(folder=str(vocabulary_folder(tmp_path)))
    text = (
        "Breast cancers, type 2 diabetes mellitus and chronic renal failure; tumours of the breast."
    )
    assert names(text, vocabulary) == [
        "Breast Neoplasms",
        "Diabetes Mellitus, Type 2",
        "Kidney Failure, Chronic",
        "Breast Neoplasms",
    ]
    (first, *_) = vocabulary.open().find(text)
    assert text[first.start : first.end] == "Breast cancers"
    assert (first.term.type, first.term.mesh) == ("Disease", "D1")


def test_synonyms_lead_to_the_heading_of_their_disease_only_where_there_is_one(
    tmp_path: Path,
) -> None:
    folder = str(vocabulary_folder(tmp_path))
    text = "Adult-onset diabetes and nowhere disease."
    assert names(text, Vocabulary(folder=folder)) == ["Diabetes Mellitus, Type 2"]
    assert names(text, Vocabulary(folder=folder, synonyms=False)) == []


def test_entry_terms_of_the_users_descriptors_are_names(tmp_path: Path) -> None:
    folder = vocabulary_folder(tmp_path)
    before = Vocabulary(folder=str(folder)).revision
    (folder / "desc2026.xml").write_text(
        "<S><DescriptorRecord><DescriptorUI>D4</DescriptorUI><ConceptList><Concept><TermList>"
        "<Term><String>ASA</String></Term></TermList></Concept></ConceptList></DescriptorRecord></S>"
    )
    vocabulary = Vocabulary(folder=str(folder))
    assert vocabulary.revision != before
    (folder / "other").mkdir()
    moved = vocabulary_folder(folder / "other")
    (moved / "desc2026.xml").write_bytes((folder / "desc2026.xml").read_bytes())
    assert names("ASA", Vocabulary(folder=str(moved))) == ["Aspirin"]
    (folder / "desc2026.xml").write_text("<S><Des")
    with pytest.raises(ValueError, match=r"desc2026.xml: not MeSH's XML"):
        Vocabulary(folder=str(folder / "." / ".")).open()


def test_types_follow_the_tree() -> None:
    assert type_of(["C04.1", "C23.888.1"]) == "Symptom"
    assert type_of(["D03.1"]) == "Drug"
    assert type_of(["Z01"]) == "Other"
    assert key("Diabetes Mellitus, Type 2") == key("type 2 diabetes")


def test_a_vocabulary_without_a_folder_has_no_name_and_a_damaged_one_is_named(
    tmp_path: Path,
) -> None:
    assert Vocabulary().open().find("Aspirin") == []
    with pytest.raises(ValueError, match=r"there is no file terms.tsv"):
        Vocabulary(folder=str(tmp_path))
    with pytest.raises(ValueError, match="is not known"):
        Vocabulary(revision="0" * 32).open()
    folder = vocabulary_folder(tmp_path)
    (folder / "terms.tsv").write_text("mesh_id\tmesh_name\nD1\n")
    with pytest.raises(ValueError, match=r"terms.tsv:2: a row has 2 columns"):
        Vocabulary(folder=str(folder)).open()


def test_a_vocabulary_whose_files_changed_is_read_anew_or_refused(tmp_path: Path) -> None:
    folder = vocabulary_folder(tmp_path)
    before = Vocabulary(folder=str(folder))
    assert before.open().find("aspirin")
    terms = (folder / "terms.tsv").read_text().replace("Aspirin", "Colchicine")
    (folder / "terms.tsv").write_text(terms)
    after = Vocabulary(folder=str(folder))
    assert after.open().find("colchicine") and not after.open().find("aspirin")
    assert before.open().find("aspirin"), "what is read stays read"
    planned = Vocabulary(folder=str(folder), revision="0" * 32)
    with pytest.raises(ValueError, match="its files have changed"):
        planned.open()
