from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from srrag.config.compose import configure
from srrag.core.pipeline import Pipeline
from srrag.core.spec import build, spec
from srrag.core.step import Place, within
from srrag.llm.completion import NOT_ASKED, Completion, EngineStopped, Fault, Prompt
from srrag.llm.read_answer import read
from srrag.retrieve.ircot import Reflect, Reflection
from srrag.retrieve.iterate import IterateRetrieval
from srrag.retrieve.questions import question_table
from srrag.retrieve.search import SearchSparse
from srrag.retrieve.tracks import SearchTracks
from srrag.storage.store import Store
from tests.conftest import run_build
from tests.engines import ToyModel

QUESTION = "Which compound helps in Zeta syndrome?"
TEXTS = {
    "one": "Zeta syndrome arises when kappamin is lacking in the blood of patients.",
    "two": "Kappamin is made by the Marlow organ, as biopsies of that tissue have shown.",
    "three": "Xylotrin restores the Marlow organ in adults.",
    "four": "Ankle sprains heal with early exercise, and taping prevents them from recurring.",
}
NOT_A_CALL = Completion(fault=NOT_ASKED)
BRIDGES = {"zeta syndrome arises": "kappamin", "made by the marlow": "Marlow organ"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A build of four documents, three of them a chain."""
    folder = tmp_path_factory.mktemp("hops")
    (folder / "corpus").mkdir()
    for name, text in TEXTS.items():
        (folder / "corpus" / f"{name}.md").write_text(f"# Report {name}\n\n{text}\n")
    overrides = ["corpus=folder", f"corpus.path={folder / 'corpus'}", f"root={folder / 'root'}"]
    overrides += ["stages.vectors=null", "stages.extracts=null"]
    run_build(configure("build", overrides))
    return Place(artifacts=Store(folder / "root").artifacts("default"))


@dataclass
class Bridging:
    """A client that asks for what the newest evidence speaks of; notes what it was shown."""

    answer: Any = None
    fresh: bool = False
    shown: list[str] = field(default_factory=list)

    def complete(
        self, prompts: Sequence[Prompt], attempt: int, may_call: Sequence[bool]
    ) -> list[Completion]:
        self.shown += [prompt.user for prompt in prompts]
        answers = [self.answer or reflected(prompt.user) for prompt in prompts]
        return [a if may else NOT_A_CALL for a, may in zip(answers, may_call, strict=True)]


def reflected(shown: str) -> Completion:
    known = [asks for text, asks in BRIDGES.items() if text in shown.casefold()]
    left = [each for each in known if f'"{each}"' not in shown]
    value = Reflection(
        reflection=f"Known: {known}",
        state="open" if left else "answered",
        next_question=next(iter(left), ""),
    )
    return read(value.model_dump_json(), Reflection)


def step(**fields: Any) -> IterateRetrieval:
    search = Pipeline(rank=(SearchSparse(k=1, into="hits"),))
    return IterateRetrieval(search=search, **{"reflect": Reflect(engine=ToyModel()), **fields})


def found_by(
    made: IterateRetrieval, place: Place, client: Any, texts: Sequence[str] = (QUESTION,)
) -> list[dict[str, Any]]:
    questions = question_table({"query_id": str(n), "text": text} for n, text in enumerate(texts))
    at = replace(place, clients={ToyModel(): client})
    rows: list[dict[str, Any]] = made.open(at)(questions).to_pylist()
    return rows


def titles(row: dict[str, Any], place: Place) -> set[str]:
    from srrag.core.units import open_units

    ids = [hit["unit_id"] for hit in row["hits_fused"]]
    return set(open_units(place).take_evidence(ids)["title"].to_pylist())


def test_two_hops_find_what_the_question_does_not_name(place: Place) -> None:
    (once,) = found_by(step(rounds=1), place, Bridging())
    assert titles(once, place) == {"Report one"}
    client = Bridging()
    (row,) = found_by(step(), place, client)
    assert titles(row, place) == {"Report one", "Report two", "Report three"}
    asked = [each["question"] for each in row["rounds"]]
    assert asked == [QUESTION, "kappamin", "Marlow organ"]
    assert [each["new_windows"] for each in row["rounds"]] == [1, 1, 1]
    assert len(client.shown) == 2, "after the last round nothing is asked"
    assert [entry["step"] for entry in row["search_trace"]] == ["SearchSparse"] * 3
    assert [hit["rank"] for hit in row["hits_fused"]] == [1, 2, 3]


def test_a_question_that_is_answered_drops_out_and_others_go_on(place: Place) -> None:
    rows = found_by(step(), place, Bridging(), (QUESTION, "Do ankle sprains heal?"))
    assert [len(row["rounds"]) for row in rows] == [3, 1]
    (alone,) = found_by(step(), place, Bridging())
    apart = {"search_trace", "query_id"}
    assert {k: v for k, v in rows[0].items() if k not in apart} == {
        k: v for k, v in alone.items() if k not in apart
    }


def test_a_repeated_question_ends_the_rounds(place: Place) -> None:
    again = Reflection(reflection="Open.", state="open", next_question=QUESTION.upper())
    (row,) = found_by(step(), place, Bridging(read(again.model_dump_json(), Reflection)))
    assert len(row["rounds"]) == 1
    assert row["reject"] is None


def test_after_a_reflection_that_fails_the_question_goes_on_and_says_so(place: Place) -> None:
    (row,) = found_by(step(), place, Bridging(Completion(fault=Fault("refusal", "No."))))
    assert row["reject"] is None
    (only,) = row["rounds"]
    assert only["fault"] == "refusal: No. Raise again of Reflect (now 1)."


def test_an_engine_that_stops_ends_the_run(place: Place) -> None:
    class Gone(Bridging):
        def complete(self, *args: Any) -> list[Completion]:
            raise EngineStopped("gone")

    with pytest.raises(EngineStopped):
        found_by(step(), place, Gone())


def test_rules_do_not_reflect_and_one_round_needs_none_to(place: Place) -> None:
    (row,) = found_by(step(reflect=Reflect()), place, None)
    assert len(row["rounds"]) == 1
    (once,) = found_by(step(reflect=None, rounds=1), place, None)
    assert (once["rounds"], once["hits_fused"]) == (row["rounds"], row["hits_fused"])
    with pytest.raises(ValueError, match="rounds is 2: a second one needs `reflect`"):
        step(reflect=None, rounds=2)


def test_no_question_and_no_hit(place: Place) -> None:
    made = step()
    at = replace(place, clients={ToyModel(): Bridging()})
    assert made.open(at)(question_table([])).num_rows == 0
    (row,) = found_by(made, place, Bridging(), ("quux",))
    assert row["hits_fused"] == []
    assert len(row["rounds"]) == 1


def test_finds_are_numbered_by_round(place: Place) -> None:
    search = Pipeline(rank=(SearchTracks(channels={"sparse": SearchSparse(k=1)}),))
    made = replace(step(), search=search)
    (row,) = found_by(made, place, Bridging())
    assert [(each["round"], each["rank"]) for each in row["found"]] == [(1, 1), (2, 1), (3, 1)]


def test_its_spec_makes_it_again_and_its_engine_is_found() -> None:
    made = step(rounds=2)
    assert build(spec(step(reflect=Reflect(max_tokens=9)))) == step(reflect=Reflect(max_tokens=9))
    assert ToyModel() in [getattr(each, "engine", None) for each in within(made)]


@pytest.mark.parametrize("fields", [{"rounds": 0}, {"shown": 0}, {"into": "trace"}])
def test_settings_that_cannot_work(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        step(**fields)


def test_check_asks_for_a_new_question() -> None:
    table = pa.table({"rounds": [[{"question": "Knee pain?"}]]})
    prompt = Prompt(0, "reflect", "", "", Reflection)
    reflection = Reflection(reflection="x", state="open", next_question="knee  pain")
    assert Reflect().check(table, prompt, reflection).kind == "repeated"  # type: ignore[union-attr]
    reflection.next_question = ""
    assert Reflect().check(table, prompt, reflection).kind == "no_question"  # type: ignore[union-attr]
    reflection.state = "hopeless"
    assert Reflect().check(table, prompt, reflection) is None


def test_no_round_hides_what_another_found(place: Place) -> None:
    search = Pipeline(rank=(SearchSparse(k=4, into="hits"),))
    on = Reflection(reflection="", state="open", next_question="Kappamin Marlow organ tissue")
    client = Bridging(read(on.model_dump_json(), Reflection))
    made = replace(step(shown=2), search=search)
    found_by(made, place, client, ("Does taping help?",))
    first, second, *_ = client.shown
    assert "Report four" in first
    assert "Report four" in second, "its score is lower than those of two of the second round"
    assert "Report two" in second
