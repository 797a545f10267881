"""What topics state on a question under a search condition, and its usefulness (EbmKG, Eq. 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from srrag.core.hits import best_places
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.schema import FEATURES, REJECT
from srrag.core.spec import content_id
from srrag.core.step import Function, LLMStep, Place, Step
from srrag.llm.completion import (
    Answer,
    Completion,
    Fault,
    Prompt,
    PromptFile,
    Rules,
    fenced,
    quoted,
)
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.systems.ideprag.hypergraph import Hypergraph
from srrag.systems.ideprag.search_topics import told

CONDITIONS = Path(__file__).parent / "prompts" / "conditions"
MAX_FEATURES = 20
TOP_SCORE = 10
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Feature(Answer):
    """Something of use for a question."""

    text: Annotated[str, Text(40, "one sentence that keeps to what is stated there")]
    score: Annotated[
        float,
        Field(ge=0, le=TOP_SCORE, allow_inf_nan=False),
        Means("how useful it is, from 0 (not at all) over 5 (it bears on it) to 10 (it decides)"),
    ]


class Features(Answer):
    """What a package of topics has of use."""

    example: ClassVar[dict[str, Any] | None] = {
        "features": [
            {"text": "Fluoride varnish lowers caries increment in young children.", "score": 9},
            {"text": "Caries of deciduous teeth is common in preschool children.", "score": 3},
        ]
    }

    features: Annotated[
        list[Feature], Items(MAX_FEATURES, "the most useful first", "nothing is of use")
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "features.md", Features)


@dataclass(frozen=True, kw_only=True)
class ExtractFeatures(LLMStep):
    """Find the features of a question's topics: one call a package of them.

    The distinct topics are put into `packages` (n_p) in an order by hash, and `condition` names
    what counts as useful. Lost packages are left out, and if all are lost, the row is rejected.

    By rules a feature is the best piece of each topic by the logit of `scorer`, a reranker of
    windows, and the cosine; its usefulness is 10 σ(z), with z the standardised logit plus `walk`
    times the standardised logarithm of the topic's score. The paper knows neither.
    """

    scorer: Step
    packages: int = 1
    condition: str = "neutral"
    walk: float = 0.3
    graph: str = "hypergraph"
    max_tokens: int = most_tokens(Features)

    writes: ClassVar[pa.Schema] = pa.schema(
        [pa.field("features", FEATURES, nullable=False), pa.field("reject", REJECT)]
    )
    auxiliary: ClassVar[bool] = True
    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown condition, or a scorer that scores no windows."""
        known = sorted(path.stem for path in CONDITIONS.glob("*.md"))
        if self.condition not in known:
            raise ValueError(f"condition is {self.condition!r}: one of {', '.join(known)}")
        if self.packages < 1 or not 0 <= self.walk <= 100:
            raise ValueError("packages is at least 1, and walk lies between 0 and 100")
        if not hasattr(self.scorer, "scorer"):
            raise ValueError(f"scorer: {type(self.scorer).__name__} scores no windows")

    @property
    def prompt_files(self) -> tuple[Path, ...]:  # type: ignore[override]
        """The prompt and the condition."""
        return (PROMPT.path, CONDITIONS / f"{self.condition}.md")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question and its topics; by rules also the scorer's columns of a question."""
        own = ("text", "options", "topics")
        if not isinstance(self.engine, Rules):
            return own
        hits = getattr(self.scorer, "hits", "")
        others = (name for name in self.scorer.reads if name != hits)
        return tuple(dict.fromkeys((*own, "query_vector", *others)))

    def needs(self) -> tuple[str, ...]:
        """By rules the hypergraph, and what the scorer needs."""
        return (self.graph, *self.scorer.needs()) if isinstance(self.engine, Rules) else ()

    def identity(self) -> dict[str, Any]:
        """The prompts, and the scorer's own."""
        return super().identity() | {"scorer": self.scorer.identity()}

    def open(self, at: Place) -> Function:
        """Bind the engine, or map what rules score by."""
        if not isinstance(self.engine, Rules):
            return super().open(at)
        graph = Hypergraph(at.artifact(self.graph))
        score = self.scorer.scorer(at)  # type: ignore[attr-defined]

        def run(batch: pa.Table) -> pa.Table:
            made = {}
            for number, row in live(batch, ("topics", "query_vector")):
                query = np.frombuffer(row["query_vector"], np.float32)
                question = batch.slice(number, 1)
                made[number] = {
                    "features": self._by_rules(row["topics"], query, question, graph, score)
                }
            return filled(batch, self.writes, made)

        return run

    def _by_rules(
        self, topics: Sequence[Row], query: npt.NDArray[np.float32], question: pa.Table,
        graph: Hypergraph, score: Any,
    ) -> list[Row]:  # fmt: skip
        if not topics:
            return []
        numbers = [each["topic"] for each in topics]
        lists = [graph.members[slice(*graph.first_member[t : t + 2])] for t in numbers]
        owner = np.repeat(np.arange(len(lists)), [len(each) for each in lists])
        pieces = np.concatenate(lists)
        logits = window_logits(pieces, question, graph, score)
        cosines = graph.evidence_vectors[pieces] @ query
        worth = np.round(logits + 4 * cosines, 5)
        best = np.unique(best_places(worth, np.zeros(len(owner), np.int64), owner))
        found: dict[int, tuple[float, float]] = {}
        heard_all = np.log(np.maximum([each["score"] for each in topics], 1e-30))
        for place in best.tolist():
            piece, heard = int(pieces[place]), float(heard_all[owner[place]])
            former = found.get(piece, (0.0, -np.inf))
            found[piece] = (float(logits[place]), max(heard, former[1]))
        values = np.array(list(found.values()))
        z = _standardised(values[:, 0]) + self.walk * _standardised(values[:, 1])
        useful = TOP_SCORE / (1 + np.exp(-z))
        return [
            {"text": "", "score": u, "evidence": e}
            for e, u in zip(found, useful.tolist(), strict=True)
        ]

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a package of topics that have a text."""
        condition = (CONDITIONS / f"{self.condition}.md").read_text("utf-8").strip()
        system = PROMPT.system(condition=condition)
        return [
            Prompt(
                number,
                f"features {place}",
                system,
                PROMPT.user(
                    question=fenced("question", row["text"]),
                    options=told(row["options"]),
                    topics="\n".join(quoted(each["text"]) for each in package),
                ),
                Features,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, ("text", "options", "topics"))
            for place, package in enumerate(self._packages(row["topics"]))
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The topics of a package as they are, by their score among the question's."""
        topics = batch["topics"].to_pylist()
        answers = []
        for prompt in prompts:
            top = max(each["score"] for each in topics[prompt.row]) or 1.0
            package = self._packages(topics[prompt.row])[_place(prompt)][:MAX_FEATURES]
            found = [
                Feature(text=each["text"], score=TOP_SCORE * each["score"] / top)
                for each in package
            ]
            answers.append(Features(features=found).model_dump_json())
        return answers

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """The features of all packages, in order."""
        made: dict[int, Row] = {}
        faults: dict[int, Fault] = {}
        for prompt, answer in zip(prompts, completions, strict=True):
            if answer.fault is not None:
                faults.setdefault(prompt.row, answer.fault)
                continue
            row = made.setdefault(prompt.row, {"features": []})
            row["features"] += [
                {"text": each.text, "score": each.score, "evidence": -1}
                for each in answer.value.features
            ]
        lost = {n: rejected("features", fault) for n, fault in faults.items() if n not in made}
        return filled(batch, self.writes, made | lost)

    def _packages(self, topics: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
        """The topics with a text, each text once, by their hash, in at most `packages` parts."""
        distinct = {each["text"]: each for each in topics if each["text"]}
        shown = sorted(distinct.values(), key=lambda each: content_id(each["text"]))
        parts = [shown[n :: self.packages] for n in range(self.packages)]
        return [part for part in parts if part]


def window_logits(pieces: Ints, question: pa.Table, graph: Hypergraph, score: Any) -> Floats:
    """The logit of the window that shows each piece; the lowest for a piece without one."""
    windows = graph.windows_of(pieces).to_pylist()
    distinct = sorted({window for window in windows if window})
    offsets = np.array([0, len(distinct)])
    logits = np.asarray(score(question, pa.array(distinct, pa.string()), offsets), np.float64)
    known = dict(zip(distinct, np.round(logits, 5).tolist(), strict=True))
    lowest = min(known.values(), default=0.0)
    return np.array([known.get(window, lowest) for window in windows])


def _standardised(values: Floats) -> Floats:
    """Values less their median, over their standard deviation (0 where all are equal)."""
    spread = float(values.std())
    found: Floats = (
        (values - np.median(values)) / spread if spread > 1e-9 else np.zeros(len(values))
    )
    return found


def _place(prompt: Prompt) -> int:
    return int(prompt.slot.rpartition(" ")[2])
