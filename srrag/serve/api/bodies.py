"""The bodies of HTTP requests, and those of responses, made of a pipeline's result."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from srrag.answer.clinical import clinical_reading
from srrag.answer.evidence import told
from srrag.answer.record import AnswerRecord, StepTime, step_times
from srrag.core.standing import Standings, mark
from srrag.core.units import Units
from srrag.retrieve.passages import FoundPassage, found_passages
from srrag.retrieve.questions import MAX_QUESTION_CHARS
from srrag.serve.snapshot import PipelineResult

EXAMPLE = "How long may an acute lateral ankle sprain be immobilised in a cast?"
TRIED = "Does varenicline help people stop smoking?"
MAX_HITS = 100
MAX_MESSAGES = 10_000
"""Only the last message of the user counts; the size of the body is bounded elsewhere."""

MAX_HISTORY = 100
MAX_ANSWER_CHARS = 20_000

FIXED = frozenset(
    ["temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "user", "metadata",
     "store", "service_tier", "reasoning_effort", "parallel_tool_calls", "prompt_cache_key",
     "safety_identifier", "verbosity"]
)  # fmt: skip
"""Options of OpenAI's that a pipeline fixes; an answer names those that it did not follow."""

Grade = Literal["A", "B", "C", "D", "E"]


class Request(BaseModel):
    """Base of all requests."""

    model_config = ConfigDict(extra="forbid")


class AnswerOptions(Request):
    """What an answer is to hold beside itself."""

    trace: bool = Field(False, description="why each piece of evidence is there, and each step")
    clinical: bool = Field(False, description="bottom line, certainty, limits, references")


class AnsweredTurn(Request):
    """A question that was asked before, and what was answered."""

    question: str = Field(max_length=MAX_QUESTION_CHARS)
    answer: str = Field(
        max_length=MAX_ANSWER_CHARS,
        description="as a chat shows it, with the lines of its sources; other texts do too",
    )


class AnswerRequest(Request):
    """One clinical question."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"question": EXAMPLE, "options": {"trace": True}}]},
    )

    question: str = Field(max_length=MAX_QUESTION_CHARS)
    history: list[Annotated[str, Field(max_length=MAX_QUESTION_CHARS)] | AnsweredTurn] = Field(
        [], max_length=MAX_HISTORY, description="what was said before, the oldest first"
    )
    pipeline: str | None = Field(None, max_length=100, description="default: the server's first")
    options: AnswerOptions = AnswerOptions(trace=False, clinical=False)


class SearchRequest(Request):
    """Windows for a question, ranked by a pipeline without its answer steps."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"query": EXAMPLE, "k": 5}]}
    )

    query: str = Field(max_length=MAX_QUESTION_CHARS)
    k: int = Field(10, ge=1, le=MAX_HITS)
    pipeline: str | None = Field(None, max_length=100)


class ToldPassage(Request):
    """A passage of a paper that an answer rests on."""

    doc_id: str = Field(max_length=200)
    text: str = Field(max_length=20_000)


class SynthesisRequest(Request):
    """A question to the findings of all papers, which no pipeline chooses from."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"question": TRIED}]})

    question: str = Field(max_length=MAX_QUESTION_CHARS)
    answer: str = Field("", max_length=MAX_QUESTION_CHARS, description="its first sentences")
    told: list[ToldPassage] = Field(
        [],
        max_length=100,
        description="what an answer rests on: a model's findings in it say what is compared",
    )


class ChatPart(BaseModel):
    """A part of a message; only text can be read."""

    type: Literal["text"]
    text: str = Field(max_length=MAX_QUESTION_CHARS)


class ChatMessage(BaseModel):
    """A turn of a chat; keys that a client adds are ignored."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ChatPart] | None = None

    def text(self) -> str:
        """The words of the message."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class ChatFormat(BaseModel):
    """The format of the reply: only text."""

    type: Literal["text"]


class ChatRequest(BaseModel):
    """OpenAI's chat completion: the last message of the user is the question.

    `model` names a pipeline. Options of sampling are the pipeline's own: `srrag.ignored` names
    those that were given. An option that would change the reply (max_tokens, stop, tools, a
    response_format) is refused by name.
    """

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [{"model": "srrag", "messages": [{"role": "user", "content": EXAMPLE}]}]
        },
    )

    model: str = Field(max_length=100)
    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    n: Literal[1] | None = None
    response_format: ChatFormat | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        """Refuse an option that would change the reply."""
        given = {name for name, value in (self.model_extra or {}).items() if value is not None}
        if unknown := sorted(given - FIXED):
            raise ValueError(f"{unknown[0]} is not supported; leave it out")
        return self

    @property
    def ignored(self) -> list[str]:
        """The options that were given and that the pipeline does not follow."""
        extra = self.model_extra or {}
        return sorted(name for name, value in extra.items() if value is not None)

    def counts_usage(self) -> bool:
        """Whether a stream is to end with its usage."""
        return bool((self.stream_options or {}).get("include_usage"))


class Hits(BaseModel):
    """Windows, the best first."""

    id: str
    query: str
    hits: list[FoundPassage]
    trace: list[StepTime]
    pipeline: str
    version: str


class WindowJson(BaseModel):
    """A window with its document."""

    unit_id: str
    doc_id: str
    section: str
    char_start: int
    char_end: int
    text: str
    grade: str
    title: str
    year: int
    grade_source: str
    source: str
    source_id: str
    pmid: str
    status: Annotated[
        str,
        told('what a reader must know of its publication, as "retracted (PMID 1)"; "" for nothing'),
    ]
    version: str


class Alive(BaseModel):
    """No batch is stuck."""

    status: Literal["ok"]


class Ready(BaseModel):
    """A build is open."""

    status: Literal["ready"]
    version: str
    stale: str | None = Field(None, description="where there is a newer one that cannot be opened")


class Reloaded(BaseModel):
    """The build that answers from now on."""

    version: str


def answer(
    found: PipelineResult, *, explained: bool, clinical: bool = False, **known: Any
) -> AnswerRecord:
    """The answer of a pipeline's result; `known` are fields that its row does not hold.

    `explained` adds the reasons, `clinical` what a clinician reads first.
    """
    made = AnswerRecord.of(
        found.row, units=found.units, explained=explained or clinical, terms=found.terms,
        usage=found.usage.as_dict(), batch_rows=found.batch_rows, version=found.version, **known,
    )  # fmt: skip
    if clinical:
        made = replace(made, clinical=clinical_reading(made))
    return made if explained else replace(made, why=None, expansion=None)


def hits(found: PipelineResult, *, id: str, k: int, pipeline: str) -> Hits:
    """The k best windows of a pipeline's result as JSON."""
    row = found.row
    ranked = row["hits"][:k]
    ids, scores = [hit["unit_id"] for hit in ranked], [hit["score"] for hit in ranked]
    return Hits(
        id=id,
        query=row["text"],
        hits=list(found_passages(ids, scores, found.units, found.standings)),
        trace=list(step_times(row["trace"])),
        pipeline=pipeline,
        version=found.version,
    )


def window(unit_id: str, units: Units, standings: Standings, version: str) -> WindowJson | None:
    """The window with exactly this id as JSON, or None."""
    try:
        item = units.take([unit_id]).to_pylist()[0]
    except ValueError:
        return None
    if item["unit_id"] != unit_id:  # the lookup compares only the first 64 bits
        return None
    document = units.take_documents([item["doc_id"]]).to_pylist()[0]
    (standing,), (link,) = standings.find([item["doc_id"]])
    status = mark({"standing": standing, "standing_link": link})
    joined = {**document, **item, "status": status, "version": version}
    return WindowJson(**{name: joined[name] for name in WindowJson.model_fields})
