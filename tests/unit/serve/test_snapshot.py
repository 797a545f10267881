"""What a snapshot does with a batch, and what it warms; its pipelines are those of the sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.pipeline import build_version
from srrag.core.step import Step
from srrag.llm.completion import BudgetSpent, EngineStopped
from srrag.model.encoder import Encoder
from srrag.serve import snapshot as module
from srrag.serve.batcher import Turns
from srrag.serve.errors import ApiError, Refused, busy
from srrag.serve.listeners import ClientGone, audience
from srrag.serve.settings import Deployment, ServeSettings
from srrag.serve.snapshot import (
    WARM_UP,
    PipelineJob,
    PipelineResult,
    SharedEngines,
    Snapshot,
    TextScores,
    opening_fault,
)
from srrag.storage.store import Store
from tests.engines import AskNumbers, ToyModel
from tests.unit.serve.serving import CAST, settings

SOON_S = 60.0


@dataclass
class Asked:
    """A ticket without a loop."""

    item: PipelineJob
    deadline: float
    left: bool = False
    caller: str = ""

    def gone(self) -> bool:
        return self.left


def asked(text: str = CAST, s: float = SOON_S, left: bool = False, **job: Any) -> Any:
    return Asked(PipelineJob({"text": text}, **job), time.monotonic() + s, left)


@pytest.fixture
def told(sample_root: Path) -> ServeSettings:
    return settings(sample_root, "pipeline=bm25")


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """What texts were scored for; each scores its length."""
    seen: list[tuple[str, list[str]]] = []

    def scores(self: TextScores, query: str, texts: Sequence[str]) -> Any:
        seen.append((query, list(texts)))
        return np.array([float(len(text)) for text in texts])

    monkeypatch.setattr(TextScores, "encoded", lambda self, query: query)
    monkeypatch.setattr(TextScores, "scores", scores)
    return seen


@pytest.fixture
def engines(told: ServeSettings) -> SharedEngines:
    return SharedEngines(told)


@pytest.fixture
def snapshot(
    told: ServeSettings, engines: SharedEngines, scored: list[tuple[str, list[str]]]
) -> Iterator[Snapshot]:
    opened = Snapshot(told, engines)
    yield opened
    opened.close()


def answering(snapshot: Snapshot, work: Callable[[pa.Table], pa.Table]) -> None:
    snapshot._answer["bm25"] = work


def raising(error: BaseException) -> Callable[[pa.Table], pa.Table]:
    def work(table: pa.Table) -> pa.Table:
        raise error

    return work


def test_engines_are_used_while_a_snapshot_stands(
    told: ServeSettings, engines: SharedEngines, snapshot: Snapshot
) -> None:
    assert engines._users == 1
    other = Snapshot(told, engines)
    assert engines._users == 2
    other.close()
    assert engines._users == 1
    assert snapshot.version == build_version(Store(told.root), "default") == other.version
    assert time.time() - 60 < snapshot.opened_at <= time.time()


def test_what_takes_long_at_first_is_done_before_the_first_question(
    told: ServeSettings, scored: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[list[dict[str, str]]] = []
    real = module.question_table
    monkeypatch.setattr(module, "question_table", lambda rows: tables.append(rows) or real(rows))
    Snapshot(told, SharedEngines(told))
    assert scored == [(WARM_UP, [WARM_UP])]
    assert tables == [[{"query_id": "0", "text": WARM_UP}]]
    others = {
        "first": Deployment(steps=("RerankMaxSim",)),
        "second": Deployment(steps=("EncodeQuestions",)),
    }
    unasked = raising(AssertionError())
    fake = SimpleNamespace(texts=SimpleNamespace(encoded=unasked, scores=unasked), _answer={})
    fake.settings = SimpleNamespace(apart=others)
    Snapshot._warm(fake)  # type: ignore[arg-type]
    fake.settings = SimpleNamespace(apart={"first": others["first"]})
    with pytest.raises(AssertionError):  # a query is encoded here
        Snapshot._warm(fake)  # type: ignore[arg-type]


def test_what_asks_a_model_is_warmed_up_to_its_ranking(told: ServeSettings) -> None:
    ranked: list[pa.Table] = []
    asks = SimpleNamespace(ranking=lambda: [])
    plans = SimpleNamespace(ranking=lambda: AskNumbers(engine=ToyModel()))
    fake: Any = SimpleNamespace(
        _answer=dict.fromkeys(("asks", "plans"), raising(AssertionError())),
        _rank={"asks": ranked.append, "plans": raising(AssertionError())},
        settings=SimpleNamespace(
            apart={"encoder": Deployment(steps=("EncodeQuestions",))},
            pipelines={"asks": asks, "plans": plans},
            asks_model=lambda name: True,
        ),
    )
    Snapshot._warm(fake)
    (table,) = ranked
    assert table["text"].to_pylist() == [WARM_UP]


def test_a_batch_is_answered_in_the_order_of_its_tickets(snapshot: Snapshot) -> None:
    texts = [CAST, "?", "Does zinc help against the common cold?"]
    found = snapshot.work("answer:bm25", [asked(text) for text in texts], Turns())
    good, bad, last = found
    assert isinstance(good, PipelineResult) and isinstance(last, PipelineResult)
    assert [good.row["text"], last.row["text"]] == [CAST, texts[2]]
    assert good.batch_rows == 3 and good.version == snapshot.version and good.row["answer"]
    assert good.units is snapshot.units and good.standings is snapshot.standings
    assert good.usage.calls == 0 and good.terms == snapshot.terms["bm25"]
    assert isinstance(bad, ApiError) and bad.status == 422 and bad.code == bad.code.lower() != ""
    assert ": " in bad.message
    (ranked,) = snapshot.work("search:bm25", [asked()], Turns())
    assert isinstance(ranked, PipelineResult) and ranked.row["hits"] and ranked.batch_rows == 1


def test_a_batch_is_wanted_while_anyone_waits_and_until_the_last_deadline(
    snapshot: Snapshot,
) -> None:
    seen: list[tuple[bool, float]] = []
    real = snapshot._answer["bm25"]

    def work(table: pa.Table) -> pa.Table:
        here = audience()
        assert here is not None
        seen.append((here.wanted(), here.left_s()))
        return real(table)

    answering(snapshot, work)
    for lefts in ((False, False), (True, False), (True, True)):
        snapshot.work(
            "answer:bm25",
            [asked(s=s, left=left) for s, left in zip((500, 9), lefts, strict=True)],
            Turns(),
        )
    assert [wanted for wanted, _ in seen] == [True, True, False]
    assert all(400 < left <= 500 for _, left in seen)


def test_who_listens_hears_the_whole_answer(snapshot: Snapshot) -> None:
    heard: list[list[tuple[str, Any]]] = [[], []]
    tickets = [asked(hear=heard[0].append), asked(), asked(hear=heard[1].append)]
    found = snapshot.work("answer:bm25", tickets, Turns())
    for number, events in zip((0, 2), heard, strict=True):
        said = "".join(data for name, data in events if name == "token")
        assert said.strip() == found[number].row["answer"].strip() != ""  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_s"),
    [
        (ClientGone("gone"), 504, "deadline", 0.0), (Refused(busy(7.0)), 503, "busy", 7.0),
        (EngineStopped("it\nfell over"), 503, "engine", 5.0),
        (BudgetSpent("budget.max_usd=20 is spent"), 503, "budget", 0.0),
    ],
)  # fmt: skip
def test_what_ends_a_batch_answers_all_of_it(
    snapshot: Snapshot, error: BaseException, status: int, code: str, retry_s: float
) -> None:
    answering(snapshot, raising(error))
    paid: list[str] = []
    found = snapshot.work("answer:bm25", [asked(), asked(), asked()], Turns(),
                          lambda kind, usage: paid.append(kind))  # fmt: skip
    assert len(found) == 3 and paid == ["answer:bm25"], "what it cost is counted"
    for each in found:
        assert isinstance(each, ApiError)
        assert (each.status, each.code, each.retry_s) == (status, code, retry_s)
        assert "\n" not in each.message
    answering(snapshot, raising(KeyError("a fault of ours")))
    with pytest.raises(KeyError):
        snapshot.work("answer:bm25", [asked()], Turns())


def test_the_reason_why_nothing_opens_is_one_line(
    told: ServeSettings, tmp_path: Path, scored: object
) -> None:
    assert opening_fault(told) == ""
    said = opening_fault(replace(told, root=tmp_path / "none"))
    assert "holds no build" in said and "\n" not in said


def test_a_pointer_that_is_swapped_while_it_is_read_is_read_again(
    told: ServeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = ["old", "new", "new", "new", "never"]
    monkeypatch.setattr(module, "build_version", lambda store, build: versions.pop(0))
    at, version = module.placed(told)
    assert version == "new" and versions == ["never"] and "sparse" in at.artifacts


def test_texts_are_encoded_as_the_first_pipeline_does() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Encodes(Step):
        encoder: Encoder | None = None

    Encodes.__abstractmethods__ = frozenset()
    one, two = Encoder(model="one"), Encoder(model="two")
    pipelines = {"a": [Encodes(), Encodes(encoder=one)], "b": [Encodes(encoder=two)]}
    fake: Any = SimpleNamespace(pipelines=pipelines)
    assert module._encoder_of(fake) is one
    assert module._encoder_of(SimpleNamespace(pipelines={"a": []})) == Encoder()  # type: ignore[arg-type]
