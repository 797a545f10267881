from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.schema import DOCUMENTS, UNITS
from srrag.core.spec import file_sha256
from srrag.core.step import Place, PreviousVersion
from srrag.llm.completion import Engine
from srrag.model.encoder import Encoder
from srrag.reading.vocabulary import Vocabulary
from srrag.storage.atomic_write import write_parquet
from srrag.systems.ideprag.build_hypergraph import BuildHypergraph, grams_of
from srrag.systems.ideprag.hypergraph import Hypergraph
from tests.unit.graph.test_knowledge_tree import Answering
from tests.unit.index.hypergraphs import GraphStages, build_of, stages_of
from tests.unit.index.small_graph import TEXTS
from tests.unit.index.tables import hashed, row
from tests.unit.reading.vocabularies import vocabulary_folder


def part(names: str, folder: Path) -> tuple[pa.Table, Path]:
    documents = [
        row(DOCUMENTS, doc_id=hashed(n), title=n.upper(), text=TEXTS[n], grade="B") for n in names
    ]
    windows = [
        row(UNITS, unit_id=hashed((n, 0)), doc_id=hashed(n), text=TEXTS[n], char_end=len(TEXTS[n]))
        for n in names
    ]
    path = folder / f"windows-{names}.parquet"
    write_parquet(pa.Table.from_pylist(windows, schema=UNITS), path)
    return pa.Table.from_pylist(documents, schema=DOCUMENTS), path


def made(names: list[str], folder: Path) -> GraphStages:
    folder.mkdir()
    vocabulary = Vocabulary(folder=str(vocabulary_folder(folder)))
    return stages_of([part(each, folder) for each in names], vocabulary, folder)


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: file_sha256(path) for path in folder.iterdir()}


def test_topics_hold_the_evidence_that_names_their_entity_under_one_label(tmp_path: Path) -> None:
    graph = Hypergraph(made(["abcd"], tmp_path / "s").graph(tmp_path / "g", grams=None, least=1))
    topics = graph.topics.to_pylist()
    names = graph.entities["name"].to_pylist()
    assert names == ["Aspirin", "Exercise Therapy", "Fever", "Tendinopathy"]
    held = {
        (names[t["entity"]], t["label"]): {
            graph.evidence["text"][int(e)].as_py() for e in graph.members_of([n])
        }
        for n, t in enumerate(topics)
    }
    assert all(
        "treat" in text.lower() or "fever" in text.lower() for text in held["Fever", "treatment"]
    )
    assert held["Tendinopathy", "treatment"] >= {TEXTS["d"]}
    assert held["Tendinopathy", "diagnosis"] == {"Tendinopathy is diagnosed by imaging."}
    assert (graph.weights.data > 0).all()
    assert (graph.weights.data <= 1).all()
    for n, topic in enumerate(topics):
        assert graph.weights[n, topic["entity"]] == 1
        assert topic["text"].startswith(f"{names[topic['entity']]}: {topic['label']}. ")


def test_every_finding_has_its_span_and_a_window_that_shows_it(tmp_path: Path) -> None:
    graph = Hypergraph(made(["abcd"], tmp_path / "s").graph(tmp_path / "g"))
    owner = {hashed(name): name for name in TEXTS}
    for finding in graph.evidence.to_pylist():
        name = owner[finding["doc_id"]]
        assert finding["window_id"] == hashed((name, 0))
        assert TEXTS[name][finding["char_start"] : finding["char_end"]] == finding["text"]


def test_an_updated_build_is_that_from_nothing_and_encodes_new_names_only(tmp_path: Path) -> None:
    stages = made(["ab", "cd"], tmp_path / "s")
    build = build_of(stages.vocabulary)
    first = {name: paths[:1] for name, paths in stages.inputs.items()}
    for folder in ("former", "updated", "anew", "less"):
        (tmp_path / folder).mkdir()
    build.build(first, tmp_path / "former", Place())
    former = PreviousVersion(tmp_path / "former", frozenset())
    told = build.update(stages.inputs, tmp_path / "updated", Place(), former)
    turned = {name: paths[::-1] for name, paths in stages.inputs.items()}
    assert build.build(turned, tmp_path / "anew", Place())["names_encoded"] == 4
    assert told["names_encoded"] == 2
    assert hashes(tmp_path / "updated") == hashes(tmp_path / "anew")
    whole = PreviousVersion(tmp_path / "anew", frozenset())
    assert build.update(first, tmp_path / "less", Place(), whole)["names_encoded"] == 0
    assert hashes(tmp_path / "less") == hashes(tmp_path / "former")


def test_a_corpus_without_a_vocabulary_has_its_own_words_as_entities(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    stages = stages_of([part("abcd", tmp_path / "s")], Vocabulary(), tmp_path / "s")
    graph = Hypergraph(stages.graph(tmp_path / "g"))
    assert {"aspirin", "fever", "exercise therapy"} <= set(graph.entities["name"].to_pylist())
    assert not len(graph.name_vectors)
    assert grams_of("The Eccentric loading of 12 tendons") == [
        "eccentric", "loading", "tendon", "eccentric loading",
    ]  # fmt: skip


def test_a_finding_of_two_units_is_one_piece_of_evidence(tmp_path: Path) -> None:
    stages = made(["abcd"], tmp_path / "s")
    alone = stages.graph(tmp_path / "alone")
    twice = {name: [*paths] for name, paths in stages.inputs.items()}
    for name in ("keyword_findings", "finding_vectors"):
        table = pq.read_table(twice[name][0])
        twice[name] = [tmp_path / f"{name}.parquet"]
        write_parquet(pa.concat_tables([table, table]), twice[name][0])
    (tmp_path / "twice").mkdir()
    build_of(stages.vocabulary).build(twice, tmp_path / "twice", Place())
    assert hashes(tmp_path / "twice") == hashes(alone)
    few = pq.read_table(stages.inputs["finding_vectors"][0]).slice(1)
    write_parquet(pa.concat_tables([few, few]), twice["finding_vectors"][0])
    with pytest.raises(ValueError, match="1 findings have no vector"):
        build_of(stages.vocabulary).build(twice, tmp_path / "twice", Place())


def test_nothing_and_impossible_bounds_are_refused(tmp_path: Path) -> None:
    stages = made(["a"], tmp_path / "s")
    empty = tmp_path / "empty.parquet"
    write_parquet(pq.read_table(stages.inputs["keyword_findings"][0]).slice(0, 0), empty)
    with pytest.raises(ValueError, match="there is no finding"):
        build_of(stages.vocabulary).build(
            {**stages.inputs, "keyword_findings": [empty]}, tmp_path, Place()
        )
    with pytest.raises(ValueError, match="one piece of evidence at least"):
        BuildHypergraph(encoder=Encoder(), least=0)
    with pytest.raises(ValueError, match="the least and most documents"):
        BuildHypergraph(encoder=Encoder(), grams=(5, 2))


def test_members_come_once_in_order_of_their_first_topic(tmp_path: Path) -> None:
    graph = Hypergraph(made(["abcd"], tmp_path / "s").graph(tmp_path / "g"))
    found = graph.members_of(np.arange(len(graph.topics)))
    assert len(set(found.tolist())) == len(found)
    assert not len(graph.members_of([]))


@dataclass(frozen=True, kw_only=True)
class Model(Engine):
    @property
    def name(self) -> str:
        return "a model"


def test_a_model_summarises_topics_and_an_update_asks_for_new_evidence_alone(
    tmp_path: Path,
) -> None:
    stages = made(["ab", "cd"], tmp_path / "s")
    build = build_of(stages.vocabulary, engine=Model(), least=1, grams=None)
    client = Answering(json.dumps({"name": "Any", "summary": "What all of it says."}))
    place = Place(clients={Model(): client})
    first = {name: paths[:1] for name, paths in stages.inputs.items()}
    for folder in ("former", "updated", "anew"):
        (tmp_path / folder).mkdir()
    told = build.build(first, tmp_path / "former", place)
    assert told["topics_calls"] == told["topics"] == len(client.asked) > 0
    topics = Hypergraph(tmp_path / "former").topics.to_pylist()
    names = Hypergraph(tmp_path / "former").entities["name"].to_pylist()
    for topic in topics:
        name, label = names[topic["entity"]], topic["label"]
        assert topic["text"] == f"{name}: {label}. What all of it says."
    evidence = Hypergraph(tmp_path / "former").evidence["text"].to_pylist()
    for topic, prompt in zip(topics, client.asked, strict=True):
        facts = prompt.user.partition("Evidence, one piece a line:")[2].strip().splitlines()
        assert facts[0] == f"- {json.dumps(evidence[topic['central']])}"
        assert names[topic["entity"]] in prompt.user
        assert topic["label"] in prompt.user
    former = PreviousVersion(tmp_path / "former", frozenset())
    updated = build.update(stages.inputs, tmp_path / "updated", place, former)
    assert updated["topics_kept"] > 0
    assert updated["topics_kept"] + updated["topics_calls"] == updated["topics"]
    build.build(stages.inputs, tmp_path / "anew", place)
    assert hashes(tmp_path / "updated") == hashes(tmp_path / "anew")


def test_a_topic_without_an_answer_shows_its_most_central_evidence(tmp_path: Path) -> None:
    stages = made(["abcd"], tmp_path / "s")
    place = Place(clients={Model(): Answering("{}")})
    (tmp_path / "g").mkdir()
    build = build_of(stages.vocabulary, engine=Model(), least=1, grams=None)
    told = build.build(stages.inputs, tmp_path / "g", place)
    assert told["topics_unanswered"] == told["topics"] > 0
    rules = Hypergraph(stages.graph(tmp_path / "r", least=1, grams=None))
    assert Hypergraph(tmp_path / "g").topics.equals(rules.topics)


def test_the_prompt_is_of_the_identity_only_if_a_model_is_asked(tmp_path: Path) -> None:
    vocabulary = Vocabulary(folder=str(vocabulary_folder(tmp_path)))
    assert build_of(vocabulary).identity() == {}
    assert list(build_of(vocabulary, engine=Model()).identity()) == ["topic.md"]
    with pytest.raises(ValueError, match="max_chars is 10"):
        build_of(vocabulary, max_chars=10)
