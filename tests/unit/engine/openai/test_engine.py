"""The engine's fields: what is identity, what is refused, and that keys stay unseen."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
import yaml

from srrag.core.spec import build, spec
from srrag.engine.openai.engine import HttpEngine
from srrag.llm.completion import EngineStopped


def test_only_what_decides_an_answer_is_identity() -> None:
    here = HttpEngine(model="m", base_url="http://a/v1", api_key_env="KEY", concurrency=3)
    assert spec(here) == {"_target_": "HttpEngine", "model": "m"}
    assert spec(HttpEngine(model="m", strict=False)) != spec(here)
    assert pickle.loads(pickle.dumps(here)) == here


def test_thinking_is_identity_and_how_the_endpoint_is_reached_is_not() -> None:
    azure = HttpEngine(model="m", headers=("api-key: $AZURE_KEY",), query="api-version=2024-10-21")
    assert spec(azure) == spec(HttpEngine(model="m")) != spec(HttpEngine(model="m", thinking=9))


def test_names() -> None:
    assert HttpEngine(model="m").name == "http: m"
    assert HttpEngine(model="m", revision="r1").name == "http: m@r1"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", " "), ("structured", "xml"), ("concurrency", 0), ("timeout_s", 0.0),
        ("max_retries", -1), ("usd_per_mtok_in", -1.0), ("thinking", -1),
        ("tokens_per_s_out", 0.0), ("base_url", "ftp://h/v1"), ("base_url", "h:8000/v1"),
        ("base_url", "http://user:SECRET@h/v1"), ("base_url", "https://h/v1?key=SECRET"),
        ("base_url", "http://h:port/v1"), ("base_url", "http:///v1"), ("api_key_env", "sk-SECRET"),
        ("headers", ("api-key: SECRET",)), ("headers", ("Authorization: Bearer SECRET",)),
        ("headers", ("Authorization: Bearer SECRET-1 $HOME",)), ("query", "key=SECRET$HOME"),
        ("headers", ("api-key: $HOME SECRET",)), ("headers", ("no header",)),
        ("headers", ("X-A: a\r\nX-B: b",)),
        ("query", "key=SECRET"), ("query", "api-version"), ("query", "a=1#SECRET"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_and_no_secret_shown(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^engine http: {field} ") as caught:
        HttpEngine(**{"model": "m", field: value})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("value", ["$KEY", "Bearer $KEY", "Api-Key $KEY"])
def test_a_secret_is_a_variable_after_the_word_of_its_scheme(value: str) -> None:
    assert HttpEngine(model="m", headers=(f"Authorization: {value}",)).headers


@pytest.mark.parametrize("value", ["", "  ", "kéy", "a\nb"])
def test_a_key_that_is_missing_or_cannot_be_sent(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", value)
    for fields in ({"api_key_env": "SOME_KEY"}, {"headers": ("api-key: $SOME_KEY",)}):
        with pytest.raises(EngineStopped, match="SOME_KEY") as caught:
            asyncio.run(HttpEngine(model="m", **fields).open())  # type: ignore[arg-type]
        assert value.strip() == "" or value not in str(caught.value)


@pytest.mark.parametrize("key", ["abc", 'a"b/c\\d e&f', "sk-$x.*[1]", "%41+"])
def test_a_secret_is_hidden_in_every_spelling(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", key)
    monkeypatch.setenv("PART", key[:2])
    engine = HttpEngine(model="m", query="key=$SOME_KEY&code=$PART")
    spelt = [key, quote(key), quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1]]
    spelt += [json.dumps(key)[1:-1].replace("/", r"\/"), "".join(rf"\u{ord(c):04X}" for c in key)]
    for each in spelt:
        assert engine.address().hide(f"[{each}]") == "[***]"


def test_the_conf_file_builds() -> None:
    path = Path(__file__).resolve().parents[4] / "conf" / "engine" / "http.yaml"
    assert isinstance(build(yaml.safe_load(path.read_text("utf-8"))), HttpEngine)
