from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.schema import COMMUNITIES, EDGES, ENTITIES, FINDINGS, empty_value
from srrag.core.step import Place, PreviousVersion
from srrag.graph.knowledge_tree import BELOW, BuildKnowledgeTree, read_results, read_topics
from srrag.graph.tree_graph import TreeGraph
from srrag.index.standing import SAYINGS
from srrag.llm.completion import Completion, Engine, Fault, Prompt
from srrag.llm.read_answer import read
from tests.unit.index.graphs import ANKLE, DOSE, KNEE, PAIN, STUDY, TAPE, make
from tests.unit.index.tables import hashed

Row = dict[str, Any]


def tree(folder: Path, place: Place | None = None, **fields: Any) -> tuple[list[Row], Row]:
    paths = make(folder / "inputs")
    (folder / "tree").mkdir()
    job = BuildKnowledgeTree(**fields)
    figures = job.build(paths, folder / "tree", place or Place())
    return read_tree(folder / "tree"), dict(figures)


def read_tree(folder: Path) -> list[Row]:
    """The communities, then the nodes below them by kind and id."""
    communities = read_topics(folder).to_pylist()
    below = pq.read_table(folder / BELOW).sort_by([("kind", "ascending"), ("ref_id", "ascending")])
    return [{"kind": "community", **row} for row in communities] + below.to_pylist()


def of(rows: list[Row], kind: str) -> dict[str, Row]:
    return {row["ref_id"]: row for row in rows if row["kind"] == kind}


def test_the_levels_form_a_tree(tmp_path: Path) -> None:
    rows, figures = tree(tmp_path)
    assert len(rows) == figures["nodes"]
    for level, kind, parents in ((4, "keyword", "community"), (3, "entity", "keyword")):
        found = {f"{level}:{name}" for name in of(rows, parents)}
        assert {row["parent_id"] for row in of(rows, kind).values()} <= found
    assert {row["community_id"] for row in of(rows, "entity").values()} == {*of(rows, "community")}


def test_every_entity_has_its_one_place(tmp_path: Path) -> None:
    rows, _ = tree(tmp_path)
    assert set(of(rows, "entity")) == {ANKLE, KNEE, TAPE, PAIN, STUDY}
    assert of(rows, "entity")[STUDY]["name"] == "Title 0"


def test_keywords_are_the_central_members_and_no_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, figures = tree(tmp_path)
    # √2 of two members each, rounded up; the study is none of the ankles' keywords.
    assert set(of(rows, "keyword")) == {ANKLE, TAPE, KNEE, PAIN}
    assert figures["keywords"] == 4
    monkeypatch.setattr("srrag.graph.knowledge_tree.MAX_KEYWORDS", 1)
    one, _ = tree(tmp_path / "one")
    # Ankle and tape have an edge each and two mentions: the smaller id is first.
    assert set(of(one, "keyword")) == {min(ANKLE, TAPE), PAIN}
    assert of(one, "entity")[STUDY]["parent_id"] == f"3:{min(ANKLE, TAPE)}"


def test_large_communities_are_described_small_ones_bear_their_keywords(tmp_path: Path) -> None:
    rows, figures = tree(tmp_path)
    large, small = (of(rows, "community")[name] for name in ("ankles", "knees"))
    assert "taping treats ankle sprains." in large["text"]
    assert (small["name"], small["text"]) == ("pain, knee pain", "")
    assert (figures["calls"], figures["unanswered"]) == (1, 0)
    assert tree(tmp_path / "all", min_members=1)[1]["calls"] == 1, "no fact, no call"


@dataclass(frozen=True, kw_only=True)
class Named(Engine):
    @property
    def name(self) -> str:
        return "a model"


@dataclass
class Answering:
    """Answers every prompt alike, or with what no schema takes."""

    text: str
    fresh: bool = False
    asked: list[Prompt] = field(default_factory=list)

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        self.asked += [p for p, may in zip(prompts, may_call, strict=True) if may]
        return [
            read(self.text, prompt.schema) if may else Completion(fault=Fault("not_asked", ""))
            for prompt, may in zip(prompts, may_call, strict=True)
        ]


def test_an_engine_names_and_summarises(tmp_path: Path) -> None:
    client = Answering(json.dumps({"name": "Taping", "summary": "Tape is used for sprains."}))
    place = Place(clients={Named(): client})
    rows, _ = tree(tmp_path, place, engine=Named())
    large = of(rows, "community")["ankles"]
    assert (large["name"], large["text"]) == ("Taping", "Tape is used for sprains.")
    (prompt,) = client.asked
    assert '"taping treats ankle sprains [study 1' in prompt.user
    assert '"taping: dose 3 weeks [study 1' in prompt.user


def test_a_community_without_an_answer_is_named_by_its_keywords_and_says_so(
    tmp_path: Path,
) -> None:
    client = Answering("{}")
    rows, figures = tree(tmp_path, Place(clients={Named(): client}), engine=Named())
    large = of(rows, "community")["ankles"]
    assert large["text"] == ""
    assert figures["unanswered"] == 1
    assert len(client.asked) == 2, "asked once more"


def test_an_engine_that_is_not_up_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no other is used"):
        tree(tmp_path, engine=Named())


def test_the_tree_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    first, _ = tree(tmp_path / "a")
    paths = make(tmp_path / "b")
    for path in (*paths["entities"][0].glob("*.parquet"), *paths["communities"][0].glob("c*")):
        table = pq.read_table(path)
        pq.write_table(table.take([*range(table.num_rows)][::-1]), path)
    (tmp_path / "tree").mkdir()
    BuildKnowledgeTree().build(paths, tmp_path / "tree", Place())
    assert read_tree(tmp_path / "tree") == first


def test_a_bound_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="min_members"):
        BuildKnowledgeTree(min_members=0)


def test_an_empty_graph_has_an_empty_tree(tmp_path: Path) -> None:
    paths = make(tmp_path)
    for stage, name, schema in (
        ("entities", "entities", ENTITIES),
        ("entities", "edges", EDGES),
        ("communities", "communities", COMMUNITIES),
    ):
        pq.write_table(schema.empty_table(), paths[stage][0] / f"{name}.parquet")
    (tmp_path / "empty").mkdir()
    figures = BuildKnowledgeTree().build(paths, tmp_path / "empty", Place())
    assert figures["nodes"] == figures["calls"] == 0


def grow(paths: dict[str, list[Path]]) -> None:
    """The ankles have one more relation, which changes what is told of them alone."""
    path = paths["entities"][0] / "edges.parquet"
    rows = pq.read_table(path).to_pylist()
    more = {**rows[0], "edge_id": hashed("more"), "head_id": TAPE, "tail_id": STUDY}
    pq.write_table(pa.Table.from_pylist([*rows, more], schema=EDGES), path)


def test_an_update_is_the_tree_of_a_build_and_asks_for_what_changed_alone(tmp_path: Path) -> None:
    paths = make(tmp_path)
    client = Answering(json.dumps({"name": "Taping", "summary": "Tape is used for sprains."}))
    job = BuildKnowledgeTree(engine=Named(), min_members=2)
    outs = [tmp_path / name for name in ("before", "same", "after", "once")]
    for out in outs:
        out.mkdir()
    place = Place(clients={Named(): client})

    def written(out: Path) -> tuple[list[Row], bytes]:
        return read_tree(out), (out / "descriptions.parquet").read_bytes()

    reverse_edge(paths)
    assert job.build(paths, outs[0], place)["calls"] == 2
    figures = job.update(paths, outs[1], place, PreviousVersion(outs[0], frozenset()))
    assert (figures["kept"], figures["calls"], len(client.asked)) == (2, 0, 2)
    assert written(outs[1]) == written(outs[0])
    grow(paths)
    figures = job.update(paths, outs[2], place, PreviousVersion(outs[1], frozenset()))
    assert (figures["kept"], figures["calls"], len(client.asked)) == (1, 1, 3)
    assert '"taping treats A study [study 1' in client.asked[-1].user
    assert not any("Title" in prompt.user for prompt in client.asked), "no title leads to a topic"
    assert job.build(paths, outs[3], place)["calls"] == 2
    assert written(outs[2]) == written(outs[3])


def reverse_edge(paths: dict[str, list[Path]]) -> None:
    """Let the knees have a fact of their own too."""
    path = paths["entities"][0] / "edges.parquet"
    rows = pq.read_table(path).to_pylist()
    more = {**rows[0], "edge_id": hashed("own"), "head_id": KNEE, "tail_id": PAIN}
    pq.write_table(pa.Table.from_pylist([*rows, more], schema=EDGES), path)


def test_a_community_without_an_answer_is_asked_again_by_an_update(tmp_path: Path) -> None:
    paths = make(tmp_path)
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    job = BuildKnowledgeTree(engine=Named())
    silent, speaking = Answering("{}"), Answering('{"name": "Taping", "summary": "Tape."}')
    job.build(paths, tmp_path / "before", Place(clients={Named(): silent}))
    before = PreviousVersion(tmp_path / "before", frozenset())
    figures = job.update(paths, tmp_path / "after", Place(clients={Named(): speaking}), before)
    assert (figures["kept"], figures["calls"], figures["unanswered"]) == (0, 1, 0)


def test_facts_name_their_studies_and_leave_out_the_units_of_times(tmp_path: Path) -> None:
    paths = make(tmp_path)
    names = paths["entities"][0] / "entities.parquet"
    rows = pq.read_table(names).to_pylist()
    for row in rows:
        if row["entity_id"] == DOSE:
            row["type"] = "timepoint_unit"
    pq.write_table(pa.Table.from_pylist(rows, schema=ENTITIES), names)
    edges = paths["entities"][0] / "edges.parquet"
    rows = pq.read_table(edges).to_pylist()
    most = {**rows[0]["mentions"][0]}
    rows[0]["mentions"] = [{**most, "doc_id": f"doc-{n}"} for n in range(5)]
    pq.write_table(pa.Table.from_pylist(rows, schema=EDGES), edges)
    graph = TreeGraph.read(paths["entities"][0], paths["communities"][0], paths["units"][0])
    facts = [fact for c in range(len(graph.community_ids)) for fact in graph.facts_by_study(c, {})]
    plain = [fact for c in range(len(graph.community_ids)) for fact in graph.facts(c)]
    assert facts and all(" [study " in fact for fact in facts)
    assert {fact.partition(" [")[0] for fact in facts} <= {*plain}
    assert not any("timepoint" in fact or "3 weeks" in fact for fact in facts)
    assert any(fact.endswith("; 2 more]") for fact in facts)


def test_a_model_reads_results_first_and_not_that_a_study_has_what_they_name(
    tmp_path: Path,
) -> None:
    paths = make(tmp_path)
    edges = paths["entities"][0] / "edges.parquet"
    rows = pq.read_table(edges).to_pylist()
    said = next(row for row in rows if row["relation"] == "reports_outcome")
    (doc,) = {each["doc_id"] for each in said["mentions"]}
    for name in ("improves", "makes_no_difference_in"):
        rows.append({**said, "edge_id": hashed(name), "head_id": TAPE, "relation": name})
    pq.write_table(pa.Table.from_pylist(rows, schema=EDGES), edges)
    graph = TreeGraph.read(paths["entities"][0], paths["communities"][0], paths["units"][0])
    (at,) = [
        c for c in range(len(graph.community_ids)) if any("improves" in f for f in graph.facts(c))
    ]
    blank = {field.name: empty_value(field.type) for field in FINDINGS} | {"reject": None}
    result = {
        "kind": "found",
        "interventions": ["Taping"],
        "comparators": ["rest"],
        "outcome": "pain",
    }
    found = (
        blank | result | {"doc_id": doc, "direction": "better", "effect": "2 vs. 4", "p": "0.01"}
    )
    later, same = found | {"times": ["week 9"]}, found | {"direction": "no difference", "p": ""}
    refused = found | {"effect": "9", "reject": {"stage": "s", "reason": "r", "detail": ""}}
    silent = found | {"direction": ""}
    pq.write_table(
        pa.Table.from_pylist([found, later, same, refused, silent], schema=FINDINGS),
        tmp_path / "part.parquet",
    )
    results = read_results([tmp_path / "part.parquet"])
    facts = graph.facts_by_study(at, results)
    (told,) = [fact for fact in facts if "improves" in fact or "difference" in fact]
    assert told.startswith("taping improves / makes no difference in pain [study ")
    results = ": better against rest, 2 vs. 4, p 0.01 / no difference against rest, 2 vs. 4]"
    assert told.endswith(results), "one of each direction, though better was found twice"
    assert any("reports outcome pain" in fact for fact in graph.facts(at))
    assert not any("reports outcome pain" in fact for fact in facts)


def told_of_the_ankles(paths: dict[str, list[Path]], silent: Sequence[str] = ()) -> list[str]:
    """What a model reads of the ankles, whose facts stand in documents 0 to 2."""
    edges = paths["entities"][0] / "edges.parquet"
    rows = pq.read_table(edges).to_pylist()
    (treats,) = [row for row in rows if row["tail_id"] == ANKLE]
    some = treats["mentions"][0]
    treats["mentions"] = [{**some, "doc_id": hashed(f"document {n}")} for n in range(3)]
    pq.write_table(pa.Table.from_pylist(rows, schema=EDGES), edges)
    folder, groups, units = (paths[name][0] for name in ("entities", "communities", "units"))
    graph = TreeGraph.read(folder, groups, units, silent)
    (at,) = [c for c, name in enumerate(graph.community_ids.to_pylist()) if name == "ankles"]
    found = {(hashed("document 2"), "taping", "ankle sprains"): "better, p 0.01"}
    return graph.facts_by_study(at, found)


def test_two_documents_of_one_pmid_are_one_study(tmp_path: Path) -> None:
    told = told_of_the_ankles(make(tmp_path))
    assert told[:3] == [
        "taping treats ankle sprains [study 1; study 2: better, p 0.01]",
        "taping treats knee pain [study 2]",
        "taping: dose 3 weeks [study 1]",
    ]


def test_copies_and_retracted_documents_tell_nothing(tmp_path: Path) -> None:
    told = told_of_the_ankles(make(tmp_path), [hashed("document 0"), hashed("document 1")])
    assert told == ["taping treats ankle sprains [study 1: better, p 0.01]"]


@pytest.mark.parametrize(
    ("standing", "calls"), [("retracted", 0), ("copy", 0), ("deleted", 0), ("corrected", 1)]
)
def test_the_tree_reads_who_is_silent(tmp_path: Path, standing: str, calls: int) -> None:
    """Documents 0 and 1 alone state what is told of the ankles."""
    paths = make(tmp_path)
    (tmp_path / "standing").mkdir()
    rows = [
        dict.fromkeys(SAYINGS.names, "") | {"doc_id": hashed(f"document {n}"), "standing": standing}
        for n in range(2)
    ]
    said = pa.Table.from_pylist(rows, schema=SAYINGS)
    pq.write_table(said, tmp_path / "standing" / "standing.parquet")
    paths["standing"] = [tmp_path / "standing"]
    job = BuildKnowledgeTree(standing="standing")
    (tmp_path / "out").mkdir()
    figures = job.build(paths, tmp_path / "out", Place())
    ankles = of(read_tree(tmp_path / "out"), "community")["ankles"]
    assert (figures["calls"], bool(ankles["text"])) == (calls, bool(calls))


def test_a_result_tells_what_was_given_together_and_in_whom(tmp_path: Path) -> None:
    blank = {field.name: empty_value(field.type) for field in FINDINGS} | {"reject": None}
    found = blank | {
        "doc_id": "d",
        "kind": "found",
        "interventions": ["exercise", "TENS", "heat"],
        "comparators": ["placebo"],
        "outcome": "pain",
        "people": ["women", "adults over 60"],
        "direction": "better",
        "p": "0.01",
    }
    path = tmp_path / "part.parquet"
    pq.write_table(pa.Table.from_pylist([found], schema=FINDINGS), path)
    results = read_results([path])
    for name, others in (("tens", "exercise and heat"), ("exercise", "TENS and heat")):
        assert results["d", name, "pain"] == (
            f"better with {others}, against placebo, in women and adults over 60, p 0.01"
        )
