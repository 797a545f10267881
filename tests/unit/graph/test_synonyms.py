from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from srrag.core.ids import file_sha256
from srrag.core.schema import EDGES, ENTITIES, TRIPLES
from srrag.core.step import Place
from srrag.graph.entities import MergeEntities
from srrag.graph.facts import ENDS, LINKS, entity_id
from srrag.graph.grouping import ungroup
from srrag.graph.synonyms import MergeSynonyms, leaders, read_synonyms, tells_apart
from srrag.model.encoder import Encoder
from srrag.reading.vocabulary import Vocabulary
from tests.unit.index.tables import row, write


def graph(folder: Path, *facts: tuple[str, str, str, str]) -> Path:
    """Merge facts (kind, head, relation, tail) of Drug and Pain."""
    rows = [
        row(
            TRIPLES, kind=kind, head=head, head_type="Drug", relation=relation, tail=tail,
            tail_type="Pain" if kind == "relation" else "dose", unit_id=f"u{n}", doc_id="d",
        )
        for n, (kind, head, relation, tail) in enumerate(facts)
    ]  # fmt: skip
    folder.mkdir()
    part = write(rows, TRIPLES, folder / "part.parquet")
    MergeEntities().build({"triples": [part]}, folder, Place())
    return folder


FACTS = [
    ("relation", "acetylsalicylic acid", "treats", "ache"),
    ("relation", "ASA", "treats", "ache"),
    ("relation", "asa", "treats", "fever"),
    ("relation", "aspirin", "treats", "ache"),
    ("attribute", "ASA", "has_attribute", "5 mg"),
    ("attribute", "aspirin", "has_attribute", "5 mg"),
    ("relation", "ibuprofen", "treats", "ache"),
]


def merged(tmp_path: Path, text: str) -> tuple[Path, Path]:
    source = graph(tmp_path / "graph", *FACTS)
    (tmp_path / "synonyms.csv").write_text(text, "utf-8")
    (tmp_path / "out").mkdir()
    step = MergeSynonyms(file=str(tmp_path / "synonyms.csv"))
    step.build({"entities": [source]}, tmp_path / "out", Place())
    return source, tmp_path / "out"


TEXT = "type,name,canonical\nDrug,ASA,Aspirin\nDrug,acetylsalicylic acid,asa\nDrug,nobody,aspirin\n"


def test_names_of_one_heading_or_of_the_same_words_are_one(tmp_path: Path) -> None:
    """Numbers tell apart; a short form stands for its long one, where the corpus defines it."""
    names = ["knee pain", "pain of the knee", "Knee pains", "type 2 pain", "type 1 pain", "ACL",
             "anterior cruciate ligament (ACL)", "anterior cruciate ligament", "XYZ",
             "hepatic cancer", "Liver Neoplasms", "ache",
             "low salt, high fat", "high salt, low fat"]  # fmt: skip
    source = graph(tmp_path / "graph", *(("relation", "d", "treats", name) for name in names))
    short, folder, out = (tmp_path / name for name in ("short", "mesh", "out"))
    for each in (short, folder, out):
        each.mkdir()
    (short / "abbreviations.json").write_text('{"ACL": "anterior cruciate ligament"}')
    (folder / "terms.tsv").write_text("mesh_id\tmesh_name\nD1\tLiver Neoplasms\n")
    (folder / "tree_numbers.tsv").write_text("mesh_id\tmesh_tree_number\nD1\tC04\n")
    step = MergeSynonyms(vocabulary=Vocabulary(folder=str(folder)), abbreviations="short")
    step.build({"entities": [source], "short": [short]}, out, Place())
    merged = pq.read_table(out / "entities.parquet")
    kept = merged.filter(pc.equal(merged["type"], "Pain"))
    sizes = sorted(len(each) for each in kept["mentions"].to_pylist())
    assert sizes == [1, 1, 1, 1, 1, 1, 2, 3, 3]
    was = pq.read_table(source / "entities.parquet")
    synonyms = pq.read_table(out / "synonyms.parquet")
    assert was.num_rows == merged.num_rows + synonyms.num_rows == len(names) + 1
    with pytest.raises(ValueError, match="abbreviations need a vocabulary"):
        MergeSynonyms(file="x.csv", abbreviations="short")


def test_synonyms_come_under_the_canonical_entity_with_every_mention(tmp_path: Path) -> None:
    source, out = merged(tmp_path, TEXT)
    entities = pq.read_table(out / "entities.parquet")
    edges = pq.read_table(out / "edges.parquet")
    assert entities.schema.equals(ENTITIES)
    assert edges.schema.equals(EDGES)
    drugs = {r["name"]: r for r in entities.to_pylist() if r["type"] == "Drug"}
    assert sorted(drugs) == ["aspirin", "ibuprofen"]
    assert drugs["aspirin"]["entity_id"] == entity_id("Drug", "aspirin")
    assert [m["unit_id"] for m in drugs["aspirin"]["mentions"]] == [
        "u0",
        "u1",
        "u2",
        "u3",
        "u4",
        "u5",
    ]
    assert [m["name"] for m in drugs["aspirin"]["mentions"]].count("ASA") == 2
    treats = [r for r in edges.to_pylist() if r["relation"] == "treats"]
    assert sorted(len(r["mentions"]) for r in treats) == [1, 1, 3]
    for name, flat in (("entities", ENDS), ("edges", LINKS)):
        before, after = (pq.read_table(f / f"{name}.parquet") for f in (source, out))
        assert len(ungroup(before, flat)) == len(ungroup(after, flat))


def test_values_of_attributes_stay_apart_and_every_edge_has_its_ends(tmp_path: Path) -> None:
    _, out = merged(tmp_path, TEXT)
    entities = pq.read_table(out / "entities.parquet").to_pylist()
    edges = pq.read_table(out / "edges.parquet").to_pylist()
    assert sum(r["type"] == "dose" for r in entities) == 2
    ids = {r["entity_id"] for r in entities}
    assert {r[side] for r in edges for side in ("head_id", "tail_id")} == ids


def test_the_graph_read_stays_and_the_table_says_what_became_of_whom(tmp_path: Path) -> None:
    source = graph(tmp_path / "before", *FACTS)
    again, out = merged(tmp_path, TEXT)
    for file in ("entities.parquet", "edges.parquet"):
        assert file_sha256(source / file) == file_sha256(again / file)
    mapping = pq.read_table(out / "synonyms.parquet").to_pylist()
    assert {r["entity_id"]: r["canonical_id"] for r in mapping} == {
        entity_id("Drug", name): entity_id("Drug", "aspirin")
        for name in ("asa", "acetylsalicylic acid")
    }


def test_a_canonical_name_of_the_file_serves_where_the_graph_lacks_it(tmp_path: Path) -> None:
    _, out = merged(tmp_path, "type,name,canonical\nDrug,ASA,Aspirin sodium\n")
    assert "Aspirin sodium" in pq.read_table(out / "entities.parquet")["name"].to_pylist()


def test_no_synonym_changes_nothing(tmp_path: Path) -> None:
    source, out = merged(tmp_path, "type,name,canonical\n")
    for file in ("entities.parquet", "edges.parquet"):
        assert file_sha256(source / file) == file_sha256(out / file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind,name\nDrug,a\n", "first line must name the columns type, name, canonical"),
        ("type,name,canonical\nDrug,,b\n", "line 2: a value is missing"),
        ("type,name,canonical\nDrug,a\n", "line 2: a value is missing"),
        ("type,name,canonical\nDrug,a,b\nDrug,A,c\n", "line 3: 'A' has two canonical names"),
        ("type,name,canonical\nDrug,a,b\nDrug,b,a\n", "line 3: 'b' leads back to itself"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "synonyms.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=words) as caught:
        read_synonyms(path)
    assert str(path) in str(caught.value)


def test_a_row_follows_the_nearest_leader_and_no_follower() -> None:
    angles = np.array([0, 20, 10, 30, 90])
    turns = np.deg2rad(angles)
    vectors = np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)
    leader, score = leaders(vectors, float(np.cos(np.deg2rad(15))))
    # Row 3 is 10° from row 1, itself a leader: 20° from row 0. Row 2 is as near to 0 as to 1.
    assert leader.tolist() == [0, 1, 0, 1, 4]
    assert score == pytest.approx(np.cos(np.deg2rad([0, 0, 10, 10, 0])), abs=1e-4)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_blocks_change_no_leader(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    whole, _ = leaders(vectors, 0.8)
    monkeypatch.setattr("srrag.graph.synonyms._BLOCK_ROWS", block)
    assert leaders(vectors, 0.8)[0].tolist() == whole.tolist()
    assert 1 < len(set(whole.tolist())) < 40


def test_names_alike_by_an_encoder_are_merged_within_their_type(tmp_path: Path) -> None:
    source = graph(
        tmp_path / "graph",
        ("relation", "knee brace", "treats", "knee brace"),
        ("relation", "a knee brace", "treats", "fever"),
        ("relation", "knee brace", "treats", "ache"),
        ("attribute", "knee brace", "has_attribute", "a knee brace"),
        ("relation", "penicillin", "treats", "fever"),
        ("relation", "knee brace 2", "treats", "fever"),
    )
    (tmp_path / "out").mkdir()
    step = MergeSynonyms(encoder=Encoder(), threshold=0.9)
    step.build({"entities": [source]}, tmp_path / "out", Place())
    (found,) = pq.read_table(tmp_path / "out" / "synonyms.parquet").to_pylist()
    assert found["entity_id"] == entity_id("Drug", "a knee brace")
    assert found["canonical_id"] == entity_id("Drug", "knee brace")
    assert found["canonical"] == "knee brace"
    assert 0.9 <= found["score"] < 1


@pytest.mark.parametrize("settings", [{}, {"file": "x.csv", "encoder": Encoder()}])
def test_exactly_one_source_is_given(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one of file, encoder and vocabulary"):
        MergeSynonyms(**settings)


def test_the_content_of_the_file_is_its_identity_not_its_place(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(TEXT, "utf-8")
    one, two = (MergeSynonyms(file=str(tmp_path / name)).identity() for name in ("a.csv", "b.csv"))
    assert one == two
    (tmp_path / "b.csv").write_text(TEXT + "Drug,x,y\n", "utf-8")
    assert MergeSynonyms(file=str(tmp_path / "b.csv")).identity() != one


def test_an_empty_graph_has_no_synonyms(tmp_path: Path) -> None:
    source = graph(tmp_path / "graph")
    (tmp_path / "out").mkdir()
    figures = MergeSynonyms(encoder=Encoder()).build(
        {"entities": [source]}, tmp_path / "out", Place()
    )
    assert figures == {"synonyms": 0, "entities": 0, "edges": 0}
    assert isinstance(pq.read_table(tmp_path / "out" / "entities.parquet"), pa.Table)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("5 mg aspirin", "Aspirin 5mg", False),
        ("5 mg aspirin", "5.5 mg aspirin", True),
        ("disc with HIZ", "disc without HIZ", True),
        ("knotted rope", "rope", False),
    ],
)
def test_numbers_and_negations_tell_names_apart(one: str, other: str, apart: bool) -> None:
    assert (tells_apart(one) != tells_apart(other)) is apart
