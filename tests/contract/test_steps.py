"""The contract that every Step keeps: it may be pickled, batched, split and tried again."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pickle
import pkgutil
import random
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import srrag
from srrag.answer.gate.answerable import JudgeAnswerable
from srrag.answer.select.evidence import SelectEvidence
from srrag.answer.select.papers import GatherPapers
from srrag.answer.select.snippets import FindSnippets
from srrag.answer.support.check_answer import CheckAnswer
from srrag.answer.write.read_and_answer import ReadAndAnswer, SearchAgain
from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.pipeline import Pipeline, PipelineSlice
from srrag.core.schema import ROUNDS
from srrag.core.spec import build, canonical, spec
from srrag.core.step import LLMStep, Place, Step, StepWrapper, within
from srrag.core.units import Units
from srrag.corpus.chunk import ChunkBySections
from srrag.expand.decompose import DecomposeQuestion
from srrag.expand.hyde import WriteHyde
from srrag.expand.picot_anchors import FindAnchors
from srrag.expand.read_follow_up import ReadFollowUp
from srrag.lab.benchmark.filter_dense import FilterDense
from srrag.lab.benchmark.grade_support import GradeSupport
from srrag.lab.benchmark.sample import SampleSeeds, pooled
from srrag.lab.benchmark.split_nuggets import SplitNuggets
from srrag.lab.benchmark.write_question import WriteQuestion
from srrag.lab.benchmark.write_reference import WriteReference
from srrag.lab.experiment.judging import judges, sources
from srrag.lab.experiment.preference import pair_evidence
from srrag.lab.judges.accuracy import JudgePreference
from srrag.lab.judges.citations import MeasureGoldCitations
from srrag.lab.measure.cases import make_cases, read_gold_answers
from srrag.lab.measure.references import resource_path
from srrag.lab.train.filter.judge import write_model
from srrag.llm.read_answer import read
from srrag.model.cross_encoder import CrossEncoderModel
from srrag.model.encoder import Encoder
from srrag.model.filter import Base, Decision
from srrag.reading.vocabulary import Vocabulary
from srrag.rerank.cross_encoder import RerankCrossEncoder
from srrag.retrieve.branches import SearchBranches
from srrag.retrieve.ircot import SHOWN, Reflect
from srrag.retrieve.iterate import IterateRetrieval
from srrag.retrieve.questions import question_table
from srrag.retrieve.search import SearchSparse
from srrag.runner.part import live
from srrag.storage.store import Store
from srrag.systems.rasrag.text_units import CutBigUnits, CutSmallUnits
from srrag.systems.rasrag.textbook_tree import BuildTextbookTree
from srrag.systems.rethinking.filter_evidence import FilterEvidence, JudgeEvidence
from srrag.systems.rethinking.rationale import WriteRationale
from tests.sample_json import sample_json
from tests.tiny_models import make_cross_encoder
from tests.unit.index.hypergraphs import stages_of
from tests.unit.lab.train.filter_toys import tiny_encoder
from tests.unit.reading.vocabularies import vocabulary_folder

QUESTIONS = [
    {"query_id": "1", "text": "How long may an acute lateral ankle sprain be immobilised?"},
    {"query_id": "2", "text": "Should bed rest be prescribed for acute low back pain?"},
    {"query_id": "3", "text": "Does eccentric loading help Achilles tendinopathy?"},
    {"query_id": "4", "text": "What is the capital of the moon?"},
]
PIPELINES = [
    "bm25", "dense", "hybrid", "hybrid_maxsim", "hybrid_betr",
    "hybrid_graph", "srrag_graph", "unaided", "mcq",
    "biogen_b", "biogen_c",
]  # fmt: skip


def all_steps() -> Iterator[type[Step]]:
    """Every concrete Step class of the package."""
    for module in pkgutil.walk_packages(srrag.__path__, "srrag."):
        for _, item in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(item, Step) and not inspect.isabstract(item):
                if item.__module__ == module.name and not issubclass(item, StepWrapper):
                    yield item


@dataclasses.dataclass
class Example:
    step: Step
    table: pa.Table
    at: Place

    @cached_property
    def out(self) -> pa.Table:
        """What the step makes of the table, run once for all tests that look at it."""
        return self.step.open(self.at)(self.table)


@pytest.fixture(scope="session")
def examples(
    fitted_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[type[Step], Example]:
    """A real input for each Step: its stage's input in the sample build, or a pipeline's table."""
    found: dict[type[Step], Example] = {}
    config = configure("build", [f"root={fitted_root}"])
    plan = factory.plan(config, factory.make(config["corpus"], "corpus"))
    store = Store(fitted_root)
    pointer = store.read_pointer("default")["stages"]
    at = Place(artifacts=store.artifacts("default"), threads=1)
    for stage in plan.steps:
        source = pointer[stage.inputs[0]]
        table = store.read_part(stage.inputs[0], source["fingerprint"], source["parts"][0])
        found[type(stage.step)] = Example(stage.step, live(table).slice(0, 12), at)
    big = CutBigUnits(size_chars=900)
    found[CutBigUnits] = Example(big, found[ChunkBySections].table, at)
    found[CutSmallUnits] = Example(
        CutSmallUnits(encoder=Encoder(), size_chars=200), big.open(at)(found[CutBigUnits].table), at
    )
    for name in PIPELINES:
        asked = configure("ask", [f"pipeline={name}", f"root={fitted_root}", "question=x"])
        pipeline: Pipeline = factory.make(asked["pipeline"], "pipeline")
        table = question_table(QUESTIONS)
        found.setdefault(Pipeline, Example(pipeline, table, at))
        found.setdefault(PipelineSlice, Example(pipeline.whole, table, at))
        add_examples(found, pipeline.steps, table, at)
    rounds = found[IterateRetrieval]  # the slowest step: two rows have neighbours too
    found[IterateRetrieval] = Example(rounds.step, rounds.table.slice(0, 2), at)
    forest = forest_of(store, tmp_path_factory.mktemp("forest"))
    wooded = Place(artifacts={**at.artifacts, "forest": forest}, threads=1)
    for name in ("rasrag", "rasrag_soft"):
        asked = configure("ask", [f"pipeline={name}", f"root={fitted_root}", "question=x"])
        made: Pipeline = factory.make(asked["pipeline"], "pipeline")
        add_examples(found, made.steps, question_table(QUESTIONS), wooded)
    add_hypergraph(found, store, at, tmp_path_factory.mktemp("hypergraph"))
    folder = make_cross_encoder(tmp_path_factory.mktemp("cross_encoder"))
    model = CrossEncoderModel(model=str(folder), max_tokens=64)
    cross = RerankCrossEncoder(cross_encoder=model, hits="hits", into="hits_cross")
    found[RerankCrossEncoder] = Example(cross, found[SelectEvidence].table, at)
    filters = tmp_path_factory.mktemp("filter")
    base = Base(model=str(tiny_encoder(filters / "base")), max_tokens=48)
    decision = Decision(bias=1.0, threshold=0.5)
    write_model(filters / "model", base, {}, decision, {})
    trained = str(filters / "model")
    judge = JudgeEvidence(model=trained, hits="hits")
    found[JudgeEvidence] = Example(judge, found[SelectEvidence].table, at)
    kept = FilterEvidence(model=trained, hits="hits", into="hits_kept")
    found[FilterEvidence] = Example(kept, judge.open(at)(found[SelectEvidence].table), at)
    found[Reflect] = Example(Reflect(), weighed(found[SelectEvidence].table), at)
    search = Pipeline(rank=(SearchSparse(into="hits"),))
    again = SearchAgain(search=search, papers=GatherPapers(), read=ReadAndAnswer())
    reading = (GatherPapers(), ReadAndAnswer(searches=True), again, CheckAnswer())
    add_examples(found, reading, found[SelectEvidence].table, at)
    found[FindSnippets] = Example(FindSnippets(), found[JudgeAnswerable].table, at)
    ontology = factory.make(config["schema"], "schema")
    apart = (FindAnchors(), DecomposeQuestion(ontology=ontology), WriteHyde(), WriteRationale())
    add_examples(found, apart, question_table(QUESTIONS), at)
    said = {"asked": "Why?", "turns": [{"question": "Is it?", "answer": "Yes."}], "papers": []}
    told = [each | {"conversation": said} for each in QUESTIONS]
    found[ReadFollowUp] = Example(ReadFollowUp(), question_table(told), at)
    add_judges(found, at, tmp_path_factory.mktemp("gold") / "qrels.tsv")
    add_branches(found, at)
    add_benchmark(found, at)
    return found


def forest_of(store: Store, folder: Path) -> Path:
    """The forest of the sample, whose documents are roots of their own."""
    stages = store.read_pointer("default")["stages"]
    inputs = {
        name: [
            store.part_path(name, stages[name]["fingerprint"], part)
            for part in stages[name]["parts"]
        ]
        for name in ("documents", "chunks", "windows", "vectors")
    }
    BuildTextbookTree(encoder=Encoder()).build(inputs, folder, Place(threads=1))
    return folder


def add_hypergraph(found: dict[type[Step], Example], store: Store, at: Place, folder: Path) -> None:
    """The steps of EbmKG over the sample's first documents, and IdepRAG's over their graph."""
    stages = store.read_pointer("default")["stages"]
    documents, windows = (
        [store.part_path(name, stages[name]["fingerprint"], p) for p in stages[name]["parts"]]
        for name in ("documents", "windows")
    )
    first = pq.read_table(documents[0]).slice(0, 8)
    vocabulary = Vocabulary(folder=str(vocabulary_folder(folder)))
    made = stages_of([(first, windows[0])], vocabulary, folder)
    for kind, (step, table) in made.tables.items():
        found[kind] = Example(step, live(table).slice(0, 12), at)
    graph = made.graph(folder / "graph")
    wide = Place(artifacts={**at.artifacts, "hypergraph": graph}, threads=1)
    asked = configure("ask", ["pipeline=ideprag", "root=R", "question=x"])
    pipeline: Pipeline = factory.make(asked["pipeline"], "pipeline")
    add_examples(found, pipeline.steps, question_table(QUESTIONS), wide)


def weighed(table: pa.Table) -> pa.Table:
    """Questions after their first round, with something shown for each."""
    texts = table["text"].to_pylist()
    note = {"round": 1, "new_windows": 1, "reflection": "", "sufficient": False}
    shown = [[{"grade": "A", "title": "Ankle sprains", "text": text[:20]}] for text in texts]
    rounds = pa.array([[{**note, "question": text}] for text in texts], ROUNDS)
    return table.append_column("rounds", rounds).append_column("shown", pa.array(shown, SHOWN))


def add_branches(found: dict[type[Step], Example], at: Place) -> None:
    """A search of several wordings."""
    versions = [["What is an ankle?"], [], [" ", "Tendon pain and exercise"], ["Moon"]]
    table = question_table(QUESTIONS)
    worded = table.append_column("reformulations", pa.array(versions, pa.list_(pa.string())))
    search = Pipeline(rank=(SearchSparse(k=5, into="hits"),))
    branches = SearchBranches(search=search, key="document")
    found[SearchBranches] = Example(branches, worded, at)


def add_judges(found: dict[type[Step], Example], at: Place, qrels: Path) -> None:
    """The judges, on answers to questions of the sample."""
    gold = list(read_gold_answers(resource_path("pkg://srrag/sample/questions.jsonl")))[:6]
    gold = [row | {"options": ["yes", "no"], "gold_option": "no"} for row in gold]
    gold[-1] |= {"nuggets": []}
    answers = found[Pipeline].step.open(at)(question_table(gold))
    cases = make_cases(gold, answers).table
    for bench in ("answers", "stages"):
        steps = judges(configure("evaluate", [f"bench={bench}"])["bench"]["judges"])
        made = {"cases": cases}
        for (name, step), source in zip(steps.items(), sources(steps).values(), strict=True):
            made[name] = step.open(at)(made[source])
            found[type(step)] = Example(step, made[source], at)
    paired = pair_evidence(cases, cases.slice(0, 0))
    found[JudgePreference] = Example(JudgePreference(), paired, at)
    documents = [f"{row['query_id']}\tdoc\t1" for row in gold]
    qrels.write_text("\n".join(["query-id\tcorpus-id\tscore", *documents]))
    found[MeasureGoldCitations] = Example(MeasureGoldCitations(qrels=str(qrels)), cases, at)


def add_benchmark(found: dict[type[Step], Example], at: Place) -> None:
    """The steps that make a benchmark, each on what the one before makes by rules."""
    units = Units(at.artifact("units"))
    table = SampleSeeds(windows=24).draw(units)
    ranking = found[Pipeline].step.ranking()  # type: ignore[attr-defined]
    steps = (FilterDense(), WriteQuestion(), GradeSupport(), WriteReference(), SplitNuggets())
    for step in steps:
        if isinstance(step, GradeSupport):
            asked = question_table(table.select(["query_id", "text"]).to_pylist())
            ranked = ranking.open(at)(asked)
            table = pooled(table, units, ranked, [ranked], 12, 6)
        found[type(step)] = Example(step, table.slice(0, 12), at)
        table = live(step.open(at)(table))


def add_examples(
    found: dict[type[Step], Example], steps: Iterable[Step], table: pa.Table, at: Place
) -> None:
    """What each step of a chain gets; a step that holds others hands its own input to them."""
    for step in steps:
        for inner in within(step):
            if isinstance(inner, Pipeline):
                add_examples(found, inner.steps, table, at)
            elif set(inner.reads) <= set(table.column_names):
                found.setdefault(type(inner), Example(inner, table, at))
        table = step.open(at)(table)


def _params() -> Iterator[Any]:
    """Every step; the slowest, which runs rounds of search, is left to `make test`."""
    for step in sorted(all_steps(), key=lambda step: step.__name__):
        yield pytest.param(step, marks=[pytest.mark.slow] * (step is IterateRetrieval))


@pytest.fixture(params=_params(), ids=lambda s: s.__name__)
def example(request: pytest.FixtureRequest, examples: dict[type[Step], Example]) -> Example:
    assert request.param in examples, "a Step that no stage and no pipeline uses has no place here"
    return examples[request.param]


def written(step: Step, table: pa.Table) -> pa.Table:
    timings = ("trace", "search_trace")
    return table.select([name for name in step.writes.names if name not in timings])


def assert_close(step: Step, left: pa.Table, right: pa.Table) -> None:
    assert left.num_rows == right.num_rows
    assert left.schema.equals(right.schema)
    packed = {key: value for item in within(step) for key, value in item.packed.items()}
    for name in left.column_names:
        found, again = (table[name].to_pylist() for table in (left, right))
        compare(found, again, packed, step.atol, name)


Packed = dict[str, tuple[str, float]]


def compare(left: Any, right: Any, packed: Packed, atol: float, name: str) -> None:
    if name in packed and isinstance(left, bytes):
        kind, atol = packed[name]
        a, b = np.frombuffer(left, kind), np.frombuffer(right, kind)
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a.astype(float), b.astype(float), atol=atol, err_msg=name)
    elif isinstance(left, float):
        assert left == pytest.approx(right, abs=atol), name
    elif isinstance(left, list):
        assert len(left) == len(right), name
        for a, b in zip(left, right, strict=True):
            compare(a, b, packed, atol, name)
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), name
        for key in left:
            compare(left[key], right[key], packed, atol, name)
    else:
        assert left == right, name


def test_pickles_and_rebuilds_from_its_spec(example: Example) -> None:
    step = example.step
    assert pickle.loads(pickle.dumps(step)) == step
    again = build(spec(step))
    assert again == step
    assert canonical(spec(again)) == canonical(spec(step))


def test_keeps_its_schema(example: Example) -> None:
    out = example.out
    for item in example.step.writes:
        assert item.name in out.column_names
        assert out.schema.field(item.name).type == item.type
        if item.name not in ("reject",):
            assert out[item.name].null_count == 0
    if example.step.keeps_rows:
        assert out.num_rows == example.table.num_rows


def test_reads_only_what_it_declares(example: Example) -> None:
    missing = [name for name in example.step.reads if name not in example.table.column_names]
    assert not missing


def test_accepts_an_empty_table(example: Example) -> None:
    out = example.step.open(example.at)(example.table.slice(0, 0))
    assert out.num_rows == 0
    assert set(example.step.writes.names) <= set(out.column_names)


def test_is_deterministic_and_rows_do_not_know_their_neighbours(example: Example) -> None:
    """f(a + b) = f(a) + f(b), f unpickled: exactly, floats within the declared tolerance."""
    function = pickle.loads(pickle.dumps(example.step)).open(example.at)
    middle = example.table.num_rows // 2
    assert middle > 0
    halves = pa.concat_tables(
        [function(example.table.slice(0, middle)), function(example.table.slice(middle))]
    )
    assert_close(example.step, written(example.step, example.out), written(example.step, halves))


def test_an_llm_step_survives_any_answer(example: Example) -> None:
    step = example.step
    if not isinstance(step, LLMStep):
        pytest.skip("no prompts")
    prompts = step.prompts(example.table)
    garbage = ("", "null", "{", '{"x": 1}', "[]", "I cannot help with that.", "{}" * 500)
    texts = [[text] * len(prompts) for text in garbage]
    # Nonsense that fits the schema.
    draw = random.Random(0)
    texts += [
        [json.dumps(sample_json(p.schema.model_json_schema(), p.user, draw)) for p in prompts]
        for _ in range(3)
    ]
    for answers in texts:
        completions = [read(text, p.schema) for text, p in zip(answers, prompts, strict=True)]
        for prompt, completion in zip(prompts, completions, strict=True):
            if completion.value is not None:
                fault = step.check(example.table, prompt, completion.value)
                assert fault is None or 0 < len(fault.detail) < 2000
        out = step.parse(example.table, prompts, completions)
        assert set(step.writes.names) <= set(out.column_names)
        if step.keeps_rows:
            assert out.num_rows == example.table.num_rows
