from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.schema import COMMUNITIES, EDGES, ENTITIES, UNITS
from srrag.core.step import Place, PreviousVersion
from srrag.graph import name_vectors
from srrag.graph.knowledge_tree import BuildKnowledgeTree
from srrag.graph.name_vectors import NameVectors
from srrag.index.graph import TOPICS, BuildGraphIndex
from srrag.index.graph_reader import (
    PARTS,
    GraphIndex,
    GraphLimits,
    GraphQuestion,
    GraphWalk,
    GraphWeights,
    Reached,
    walk,
)
from srrag.index.units import BuildUnits
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.storage.atomic_write import write_parquet
from tests.unit.index.graphs import (
    ANKLE,
    AXES,
    DIMENSION,
    KNEE,
    PAIN,
    TAPE,
    axis,
    index,
    make,
    write_names,
)
from tests.unit.index.tables import documents, hashed, row, uid, write

OPEN = GraphLimits(off_type=1.0)
STRICT = GraphLimits(off_type=0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return index(tmp_path_factory.mktemp("graph"))


def towards(*keys: str) -> bytes:
    """One vector a key, (n, d)."""
    return np.eye(DIMENSION, dtype=np.float32)[[AXES[key] for key in keys]].tobytes()


def ask(
    folder: Path,
    weigh: str = "",
    text: str = "what?",
    k: int = 9,
    limits: GraphLimits = OPEN,
    grades: tuple[str, ...] = (),
    steps: GraphWalk | None = None,
    **asked: object,
) -> Reached:
    """Search by one part of the score, or by all."""
    weights = GraphWeights(**{part: float(part == weigh) for part in PARTS})
    given: dict[str, object] = {"entity": b"", "triple": b"", "community": b"", **asked}
    question = GraphQuestion(text, **given)  # type: ignore[arg-type]
    opened = GraphIndex(folder, weights if weigh else None, limits, steps)
    (found,) = opened.search(question, k, [grades])
    return found


def numbers(found: Reached, least: float = 1e-6) -> list[int]:
    """The windows with at least this score."""
    kept = found.unit_ids.filter(pa.array(found.scores >= least))
    return [int(key[:16], 16) for key in kept.to_pylist()]


def scores(found: Reached) -> dict[int, float]:
    return dict(zip(numbers(found, -1), found.scores.tolist(), strict=True))


def test_an_entity_leads_to_the_windows_that_mention_it(folder: Path) -> None:
    found = ask(folder, "entities", entity=towards(ANKLE))
    assert numbers(found) == [0, 1]
    assert found.scores[:2] == pytest.approx([0.5, 0.5], abs=0.01)
    assert found.entity_ids.to_pylist()[:2] == [ANKLE, ANKLE]


def test_of_several_vectors_the_nearest_counts(folder: Path) -> None:
    found = ask(folder, "entities", entity=towards(ANKLE, KNEE))
    assert numbers(found) == [0, 1, 2]
    assert found.entity_ids.to_pylist()[:3] == [ANKLE, ANKLE, KNEE]


def test_a_name_is_found_by_its_words(folder: Path) -> None:
    """The question holds all of "ankle sprains" and half of "knee pain"."""
    found = ask(folder, "entities", text="Do ankle sprains cause pain?")
    assert numbers(found)[0] == 1, "it mentions ankle sprains and pain"
    told = scores(found)
    assert told[1] > told[0] > told[3] > 0
    assert told[1] == pytest.approx(0.5, abs=1e-3), "every known word, each in a whole name"
    assert found.entity_ids[0].as_py() == ANKLE


def test_an_alias_and_an_abbreviation_are_names(tmp_path: Path) -> None:
    paths = make(tmp_path / "inputs")
    path = paths["entities"][0] / "entities.parquet"
    rows = pq.read_table(path).to_pylist()
    for entity in rows:
        if entity["entity_id"] == KNEE:
            entity["mentions"][0]["name"] = "gonalgia"
            entity["name"] = "knee pain syndrome (KPS)"
    write_parquet(pa.Table.from_pylist(rows, schema=ENTITIES), path)
    (tmp_path / "out").mkdir()
    BuildGraphIndex().build(paths, tmp_path / "out", Place())
    for text in ("Is gonalgia chronic?", "What is KPS?", "syndrome, knee pain"):
        assert numbers(ask(tmp_path / "out", "entities", text=text))[0] == 2, text


def test_a_triple_leads_to_the_window_that_states_it(folder: Path) -> None:
    assert set(numbers(ask(folder, "triples", triple=towards(TAPE)))) == {0, 1, 2}
    found = ask(folder, "triples", triple=towards(TAPE), text="taping for knee pain")
    assert numbers(found)[0] == 2
    assert found.edge_ids[0].as_py() == hashed("eases")


def test_the_relation_is_part_of_a_triple(folder: Path) -> None:
    (vector,) = load(Encoder(), "cpu", 1).encode(["reports outcome"], "query")
    found = ask(folder, "triples", triple=vector.astype(np.float32).tobytes())
    assert found.edge_ids[0].as_py() == hashed("reports")


def test_an_attribute_is_reached_through_its_entity(folder: Path) -> None:
    (vector,) = load(Encoder(), "cpu", 1).encode(["has attribute"], "query")
    asked = np.frombuffer(towards(TAPE), np.float32) + vector.astype(np.float32)
    found = ask(folder, "triples", triple=asked.tobytes())
    assert (numbers(found)[0], found.edge_ids.to_pylist()[0]) == (1, hashed("dosed"))


def test_a_document_holds_no_vector_of_its_windows(folder: Path) -> None:
    """Its node's vector is 0: what a window says comes in by the names in it."""
    types = np.load(folder / "node_types.npy")
    words = (folder / "node_types.json").read_text()
    document = types == json.loads(words).index("Document")
    assert document.sum() == 1
    assert not np.load(folder / "vectors-00000.npy")[document].any()


def test_a_community_is_found_by_its_description_and_its_keyword(folder: Path) -> None:
    (vector,) = load(Encoder(), "cpu", 1).encode(["knee pain, pain"], "query")
    asked = vector.astype(np.float32).tobytes()
    found = ask(folder, "communities", community=asked)
    assert set(numbers(found)[:3]) == {1, 2, 3}
    assert set(found.community_ids.to_pylist()[:3]) == {"knees"}
    by_keyword = ask(folder, "communities", community=asked, entity=towards(KNEE))
    assert by_keyword.scores[0] > found.scores[0]


def test_the_best_communities_filter_windows(folder: Path) -> None:
    (vector,) = load(Encoder(), "cpu", 1).encode(["knee pain, pain"], "query")
    asked = vector.astype(np.float32).tobytes()
    every = ask(folder, entity=towards(ANKLE), community=asked)
    only = GraphLimits(communities=1, off_type=1.0)
    kept = ask(folder, entity=towards(ANKLE), community=asked, limits=only)
    assert 0 in numbers(every)
    assert set(numbers(kept)) == {1, 2, 3}, "window 0 mentions no member of the best one"


def test_a_walk_finds_a_window_two_relations_away(folder: Path) -> None:
    """Ankle sprains ← taping → knee pain: window 2 names neither the ankle nor its neighbours."""
    one = ask(folder, "spread", text="ankle sprains", steps=GraphWalk(steps=1, seeds=1))
    assert numbers(one) == [0, 1]
    far = ask(folder, "spread", text="ankle sprains", steps=GraphWalk(steps=3, seeds=1))
    assert numbers(far)[:2] != [] and 2 in numbers(far)
    assert 2 not in numbers(ask(folder, "entities", text="ankle sprains"))
    none = ask(folder, "spread", text="ankle sprains", steps=GraphWalk(steps=0))
    assert numbers(none) == []


def test_a_walk_passes_from_a_window_to_others_of_its_paper(folder: Path) -> None:
    """Window 4 mentions nothing, and is of one paper (pmid 17) with windows 2 and 3."""
    found = ask(folder, "spread", text="knee pain", steps=GraphWalk(steps=3, seeds=1))
    assert 4 in numbers(found)
    assert found.entity_ids[numbers(found).index(4)].as_py() == ""


def test_types_and_grades_limit_what_is_found(folder: Path) -> None:
    both = towards(TAPE, KNEE)
    assert numbers(ask(folder, "entities", grades=("C",), entity=both)) == [2]
    asked = ask(folder, "entities", entity=both, types=("Condition",), limits=STRICT)
    assert numbers(asked) == [2]
    assert set(asked.entity_ids.to_pylist()) <= {ANKLE, KNEE, ""}


def test_a_node_of_another_type_counts_less(folder: Path) -> None:
    half = GraphLimits(off_type=0.5)
    plain = ask(folder, "entities", entity=towards(TAPE))
    typed = ask(folder, "entities", entity=towards(TAPE), types=("Condition",), limits=half)
    assert scores(typed)[0] == pytest.approx(scores(plain)[0] / 2, abs=1e-3)
    same = ask(folder, "entities", entity=towards(TAPE), types=("Intervention",), limits=half)
    assert scores(same)[0] == pytest.approx(scores(plain)[0])


def test_each_track_has_its_own_best_windows(folder: Path) -> None:
    """Windows 0 and 3 are A, 1 is B, 2 is C; pain is mentioned by 1, 2 and 3."""
    question = GraphQuestion("?", towards(PAIN), b"", b"")
    opened = GraphIndex(folder, GraphWeights(triples=0, communities=0, spread=0))
    tracks = [("A",), ("B", "C", "D", "E"), ("D",), ()]
    first, rest, nothing, every = opened.search(question, 1, tracks)
    assert [numbers(found) for found in (first, rest, nothing, every)] == [[3], [1], [], [1]]
    assert first.entity_ids.to_pylist() == [PAIN]
    assert len(nothing.entity_ids) == 0
    assert all(len(nothing.parts[name]) == 0 for name in PARTS)


def test_the_parts_add_up_to_the_score(folder: Path) -> None:
    found = ask(folder, text="knee pain", entity=towards(KNEE), triple=towards(KNEE))
    weights = GraphWeights()
    total = sum(getattr(weights, name) * found.parts[name] for name in PARTS)
    assert tuple(found.parts) == PARTS
    assert found.scores == pytest.approx(total, abs=1e-5)
    assert all((found.parts[name] >= 0).all() for name in PARTS)


def test_k_bounds_the_windows_and_ties_go_by_id(folder: Path) -> None:
    assert numbers(ask(folder, "entities", entity=towards(PAIN), k=2)) == [1, 2]


def test_the_index_does_not_depend_on_the_run(tmp_path: Path) -> None:
    first, second = index(tmp_path / "a"), index(tmp_path / "b")
    names, others = (
        sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        for folder in (first, second)
    )
    assert names == others
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_vectors_of_two_encoders_are_refused(tmp_path: Path) -> None:
    paths = make(tmp_path / "inputs")
    write_names(paths["names"][0], {key: axis(AXES[key])[:5] for key in AXES})
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="both need one encoder"):
        BuildGraphIndex().build(paths, tmp_path / "out", Place())


def test_an_index_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="another version"):
        GraphIndex(tmp_path)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="restart"):
        GraphWalk(restart=1.5)
    with pytest.raises(ValueError, match="off_type"):
        GraphLimits(off_type=2.0)


def test_a_graph_without_entities_is_searched_in_vain(tmp_path: Path) -> None:
    paths = make(tmp_path / "inputs")
    for folder, name, schema in (
        (paths["entities"][0], "entities", ENTITIES),
        (paths["entities"][0], "edges", EDGES),
        (paths["communities"][0], "communities", COMMUNITIES),
    ):
        write_parquet(schema.empty_table(), folder / f"{name}.parquet")
    write_names(paths["names"][0], {})
    BuildKnowledgeTree().build(paths, paths["tree"][0], Place())
    (tmp_path / "out").mkdir()
    figures = BuildGraphIndex().build(paths, tmp_path / "out", Place())
    assert figures["windows_reached"] == 0
    assert len(ask(tmp_path / "out", entity=towards(ANKLE), triple=towards(ANKLE)).unit_ids) == 0


BRACE = hashed("brace")


def add(paths: dict[str, list[Path]], folder: Path) -> None:
    """One more paper: its window mentions knee pain, by another name, and a brace that eases it."""
    place = {"unit_id": "chunk", "doc_id": hashed("document 3"), "char_start": 10, "char_end": 15}
    mention = {"name": "", "confidence": 1.0, **place}
    graph, groups = paths["entities"][0], paths["communities"][0]
    entities = pq.read_table(graph / "entities.parquet").to_pylist()
    (knee,) = (each for each in entities if each["entity_id"] == KNEE)
    knee["mentions"].append({**mention, "name": "gonalgia"})
    brace = {
        "entity_id": BRACE,
        "name": "knee brace",
        "type": "Intervention",
        "mentions": [mention],
    }
    edges = pq.read_table(graph / "edges.parquet").to_pylist()
    eases = {
        "edge_id": hashed("braced"), "kind": "relation", "head_id": BRACE, "relation": "treats",
        "tail_id": KNEE, "confidence": 1.0, "mentions": [mention],
    }  # fmt: skip
    write_parquet(
        pa.Table.from_pylist([*entities, brace], schema=ENTITIES), graph / "entities.parquet"
    )
    write_parquet(pa.Table.from_pylist([*edges, eases], schema=EDGES), graph / "edges.parquet")
    write_names(paths["names"][0], {BRACE: axis(7)}, number=1)
    members = pq.read_table(groups / "communities.parquet").to_pylist()
    members.append({"entity_id": BRACE, "community_id": "knees"})
    write_parquet(pa.Table.from_pylist(members, schema=COMMUNITIES), groups / "communities.parquet")
    window = row(
        UNITS, unit_id=uid(5), doc_id=hashed("document 3"), grade="B", char_start=0, char_end=100
    )
    paper = [{"doc_id": hashed("document 3"), "title": "Title 3", "pmid": "17"}]
    paths["windows"] = [*paths["windows"], write([window], UNITS, folder / "more-windows.parquet")]
    paths["documents"] = [*paths["documents"], documents(paper, folder / "more-documents.parquet")]
    for name, job in (("units", BuildUnits()), ("tree", BuildKnowledgeTree())):
        paths[name] = [folder / name]
        paths[name][0].mkdir()
        job.build(paths, paths[name][0], Place())


def test_an_update_is_a_build_that_encodes_only_what_it_tells_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = make(tmp_path / "inputs")
    outs = [tmp_path / name for name in ("before", "after", "once")]
    for out in outs:
        out.mkdir()
    BuildGraphIndex().build(paths, outs[0], Place())
    (tmp_path / "grown").mkdir()
    add(paths, tmp_path / "grown")
    former = PreviousVersion(outs[0], frozenset())
    figures = BuildGraphIndex().build(paths, outs[2], Place())
    known = NameVectors(outs[0] / TOPICS).names.to_pylist()
    told = [each for each in NameVectors(outs[2] / TOPICS).names.to_pylist() if each not in known]
    model, encoded = load(Encoder()), []

    class Counting:
        dim = model.dim

        def encode(self, texts: Sequence[str]) -> np.ndarray:
            encoded.extend(texts)
            return model.encode(texts)

    monkeypatch.setattr(name_vectors, "load", lambda *_: Counting())
    assert BuildGraphIndex().update(paths, outs[1], Place(), former) == figures
    assert sorted(encoded) == sorted(each["name"] for each in told) != []
    for file in sorted(outs[2].glob("*.*")):
        assert (outs[1] / file.name).read_bytes() == file.read_bytes(), file.name
    assert 5 in numbers(ask(outs[1], "entities", text="gonalgia"))


Floats = npt.NDArray[np.float32]

WEIGHTS = np.array([[0, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]], np.float32)
"""0 – 1 – 2 with weights 1 and 3; 3 is alone."""
SHARES = WEIGHTS / np.maximum(WEIGHTS.sum(axis=0), 1)


def step(place: Floats) -> Floats:
    found: Floats = SHARES @ place
    return found


def test_a_walk_by_hand() -> None:
    """From 0, restart ½: after one step ½ at 0 and at 1; after two ½ + 1/16, ¼, 3/16."""
    seeds = np.array([2.0, 0, 0, 0], np.float32)
    both = np.array([1.0, 1.0, 0, 0], np.float32)
    assert walk(step, both, 0.5, 1) == pytest.approx([0.3125, 0.5, 0.1875, 0])
    assert walk(step, seeds, 0.5, 1) == pytest.approx([0.5, 0.5, 0, 0])
    assert walk(step, seeds, 0.5, 2) == pytest.approx([0.5625, 0.25, 0.1875, 0])


def test_nothing_further_than_the_steps_is_reached() -> None:
    seeds = np.array([1.0, 0, 0, 0], np.float32)
    assert walk(step, seeds, 0.15, 1)[2] == 0
    assert walk(step, seeds, 0.15, 2)[2] > 0
    assert walk(step, seeds, 0.15, 9)[3] == 0


def test_without_a_seed_there_is_no_walk() -> None:
    assert not walk(step, np.zeros(4, np.float32)).any()
