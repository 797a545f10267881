"""The engine of published answers: read from a file, never made by a model."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from srrag.core.errors import UsageError, reading
from srrag.core.spec import place_field
from srrag.engine.base import Call, Model, Reply
from srrag.llm.completion import Fault

_STEP_CHARS = {"choose": 400, "rationale": 300}
_MAX_STEPS = {"choose": 24, "rationale": 8}

Key = tuple[str, str, tuple[str, ...] | None]
"""Task, sha256 of the question's text, and the options (None: whatever they are)."""


@dataclass(frozen=True, kw_only=True)
class RecordedEngine(Model):
    """Answers of `model` in `setting`, found by task and the sha256 of the question's text.

    `path` is a file of JSON lines or a folder of them. A row has a `task` (the slot of the prompt),
    `question` or `question_sha256`, and `answer` (the JSON of the task's schema, or its text); or
    it is of MIRAGE's predictions, {id, rationale, choice}, whose question stands under its id in
    `questions`, and then serves the tasks `choose` and `rationale`. Rows of another model or
    setting are passed over. If a question is recorded twice, as some of MMLU are under two ids, the
    first answer counts, and the second has to choose the same option.

    A question without an answer, or with a `fault`, is a fault of the row that asked; no other
    engine is called. The identity is the sha256 of both sets of files.
    """

    origin: ClassVar[str] = "recorded"
    """The name of the model in reports, before its revision."""

    model: str
    setting: str = ""
    revision: str | None = None
    """The sha256 of the files; null: computed from them."""
    path: str | None = place_field(None)
    questions: str | None = place_field(None)
    usd_per_mtok_in: float | None = place_field(0.0)
    usd_per_mtok_out: float | None = place_field(0.0)

    def __post_init__(self) -> None:
        """Take the sha256 of the files; raises ValueError without files or for other ones."""
        super().__post_init__()
        if self.path is None:
            if self.revision is None:
                raise ValueError("engine recorded: path is missing: a file of recorded answers")
            return
        found = hashlib.sha256()
        for file in (*_files(self.path), *(_files(self.questions) if self.questions else ())):
            found.update(hashlib.sha256(file.read_bytes()).digest())
        if self.revision not in (None, found.hexdigest()):
            raise ValueError(f"engine recorded: {self.path} is not revision {self.revision}")
        object.__setattr__(self, "revision", found.hexdigest())

    @property
    def name(self) -> str:
        """The model, and that its answers are recorded."""
        return f"{self.model} (recorded)"

    async def open(self) -> RecordedSession:
        """Read the files; raises UsageError that names file and line of a bad row."""
        return RecordedSession(str(self.path), self.answers())

    def answers(self) -> dict[Key, str | Fault]:
        """The recorded answers as JSON texts, or their faults, by key."""
        if self.path is None:
            raise UsageError("engine.path is missing: a file of recorded answers")
        questions = read_questions(self.questions) if self.questions else {}
        found: dict[Key, str | Fault] = {}
        others: set[str] = set()
        for place, row in _rows(self.path):
            of = str(row.get("model", self.model)), str(row.get("setting", self.setting))
            if of != (self.model, self.setting):
                others.add(" ".join(of).strip())
                continue
            try:
                made = dict(_answers(row, questions))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise UsageError(f"{place}: no recorded answer ({error})") from error
            for key, answer in made.items():
                if _choice(found.setdefault(key, answer)) != _choice(answer):
                    raise UsageError(f"{place}: this question has another answer before")
        found |= _without_options(found)
        if not found:
            known = ", ".join(sorted(others)) or "nothing"
            asked = f"{self.model} {self.setting}".strip()
            raise UsageError(f"{self.path}: no answer of {asked}; there is {known}")
        return found


class RecordedSession:
    """Looks answers up."""

    def __init__(self, path: str, answers: Mapping[Key, str | Fault]) -> None:
        """Bind the answers."""
        self._path, self._answers = path, answers

    async def complete(self, call: Call) -> Reply:
        """The recorded answer, or the fault of the row that asked."""
        prompt = call.prompt
        sha256 = sha256_of(prompt.question)
        found = self._answers.get((prompt.slot, sha256, prompt.options))
        found = found or self._answers.get((prompt.slot, sha256, None))
        if found is None:
            detail = f"{self._path} holds no answer to task {prompt.slot!r} of this question"
            return Reply(fault=Fault("not_recorded", detail))
        return Reply(fault=found) if isinstance(found, Fault) else Reply(found)

    async def close(self) -> None:
        """Nothing is open."""


def sha256_of(question: str) -> str:
    """The sha256 of a question's text, in hex."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()


def read_questions(path: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Text and options by label of each question, by id; a repeated id raises UsageError."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for place, row in _rows(path):
        try:
            name, asked = str(row["id"]), (str(row["question"]), {**row["options"]})
        except (KeyError, TypeError) as error:
            raise UsageError(f"{place}: no question with an id and options") from error
        if found.setdefault(name, asked) != asked:
            raise UsageError(f"{place}: id {name!r} is another question before")
    return found


def _answers(
    row: Mapping[str, Any], questions: Mapping[str, tuple[str, dict[str, str]]]
) -> Iterator[tuple[Key, str | Fault]]:
    """The answers of a row, by key."""
    fault = Fault("recorded_fault", str(row["fault"])) if row.get("fault") else None
    if "task" in row:
        sha256 = row.get("question_sha256") or sha256_of(row["question"])
        options = tuple(map(str, row["options"])) if row.get("options") else None
        answer = row.get("answer")
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        yield (str(row["task"]), str(sha256), options), fault or text
        return
    if str(row["id"]) not in questions:
        raise ValueError(f"engine.questions has no question {row['id']!r}")
    question, labels = questions[str(row["id"])]
    options = tuple(map(str, labels.values()))
    for task in _STEP_CHARS:
        made = fault or json.dumps(_mirage(task, row, list(labels)), ensure_ascii=False)
        yield (task, sha256_of(question), options), made


def _mirage(task: str, row: Mapping[str, Any], labels: list[str]) -> dict[str, Any]:
    """A prediction of MIRAGE as the answer to a task; labels are those of our prompts, A, B, …"""
    text = " ".join(str(row["rationale"]).split())
    steps = textwrap.wrap(text, _STEP_CHARS[task], break_on_hyphens=False)[: _MAX_STEPS[task]]
    choice = row["choice"]
    label = "" if choice is None else chr(ord("A") + labels.index(choice))
    if task == "rationale":
        return {"steps": steps, "answer": label}
    return {"steps": steps, "choice": label, "citations": []}


def _without_options(found: Mapping[Key, str | Fault]) -> dict[Key, str | Fault]:
    """The answers for prompts without options: of questions recorded with one set of them."""
    sets = Counter((task, sha256) for task, sha256, options in found if options)
    return {
        (task, sha256, ()): answer
        for (task, sha256, options), answer in found.items()
        if options and sets[task, sha256] == 1
    }


def _choice(answer: str | Fault) -> object:
    """What two records of a question have to share: the choice, or else the whole answer."""
    if isinstance(answer, Fault):
        return answer.kind
    try:
        told = json.loads(answer)
    except json.JSONDecodeError:
        return answer
    if not isinstance(told, dict):
        return answer
    return told["choice"] if "choice" in told else told.get("answer", answer)


def _rows(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON lines, or of the files of a folder, each with its place."""
    for file in _files(path):
        with reading(file), file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except json.JSONDecodeError as error:
                    raise UsageError(f"{file}:{number}: not JSON") from error
                if not isinstance(row, dict):
                    raise UsageError(f"{file}:{number}: not an object")
                yield f"{file}:{number}", row


def _files(path: str) -> list[Path]:
    """The file, or the *.jsonl of a folder; raises ValueError if there is none."""
    given = Path(path)
    files = sorted(given.glob("*.jsonl")) if given.is_dir() else [given]
    if not files or not files[0].is_file():
        raise ValueError(f"engine recorded: {path}: there is no such file, nor *.jsonl in it")
    return files
