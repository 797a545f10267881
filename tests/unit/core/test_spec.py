from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from srrag.core import kinds
from srrag.core.spec import (
    build,
    canonical,
    content_id,
    evidence_id,
    file_sha256,
    fingerprint,
    place_field,
    segment_id,
    spec,
)


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    size: float = 1.0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    version = 3
    k: int
    inner: Inner = field(default_factory=Inner)
    colour: Colour = Colour.RED
    label: str | None = None
    path: str = place_field("")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with two kinds, of which entry points tell."""
    found = {"Outer": f"{__name__}:Outer", "Inner": f"{__name__}:Inner", "Gone": f"{__name__}:No"}
    monkeypatch.setattr(kinds, "extensions", lambda: found)


def test_only_what_differs_from_the_default_is_identity() -> None:
    assert spec(Outer(k=2)) == {"_target_": "Outer", "_version_": 3, "k": 2}
    assert spec(Outer(k=2, inner=Inner(size=2)))["inner"]["size"] == 2.0


def test_equal_values_of_other_types_are_one_identity() -> None:
    one = Outer(k=1, inner=Inner(size=1, names=["a"]))  # type: ignore[arg-type]
    two = Outer(k=1, inner=Inner(size=1.0, names=("a",)))
    assert canonical(spec(one)) == canonical(spec(two))


def test_a_place_is_no_identity() -> None:
    assert spec(Outer(k=1, path="/a")) == spec(Outer(k=1, path="/b"))


def test_builds_what_it_rendered() -> None:
    outer = Outer(k=2, inner=Inner(names=("x", "y")), label="é")
    assert build(spec(outer)) == outer


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_without_a_value_raise(value: float) -> None:
    with pytest.raises(ValueError, match="identity"):
        spec(Inner(size=value))


@pytest.mark.parametrize("value", [Path("x"), {1, 2}, len, b"x", object()])
def test_other_types_raise(value: object) -> None:
    with pytest.raises(TypeError, match="identity"):
        spec({"key": value})
    with pytest.raises(TypeError):
        spec({1: "x"})


def test_unknown_and_missing_fields_are_named() -> None:
    target = "Outer"
    with pytest.raises(ValueError, match="'z'"):
        build({"_target_": target, "k": 1, "z": 1})
    with pytest.raises(ValueError, match="'k' is missing"):
        build({"_target_": target})
    with pytest.raises(ValueError, match="No"):
        build({"_target_": "Gone"})


@pytest.mark.parametrize(
    "target",
    ["os.system", "subprocess.Popen", "Nothing", f"{__name__}.Outer", "srrag.core.spec.build"],
)
def test_what_nobody_registered_is_refused(target: str) -> None:
    with pytest.raises(ValueError, match="no kind"):
        build({"_target_": target})


def test_a_wrong_name_is_told_the_right_one() -> None:
    with pytest.raises(ValueError, match="there is SearchSparse"):
        build({"_target_": "SearchSparce"})


def test_fingerprints_tell_argument_borders_apart() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    assert fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"k": "three"}, "k='three' is no int"),
        ({"k": True}, "k=True is no int"),
        ({"k": 1, "label": 5}, "label=5"),
        ({"k": 1, "inner": {"size": 2}}, "inner="),
        ({"k": 1, "inner": {"_target_": "Inner", "names": ["a", 1]}}, "names="),
    ],
)
def test_a_value_of_another_type_is_named(fields: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named.replace("'", ".")):
        build({"_target_": "Outer", **fields})


def test_none_fits_where_it_may_stand() -> None:
    made = build({"_target_": "Outer", "k": 1, "label": None})
    assert made == Outer(k=1)


def test_an_id_is_the_hash_of_its_parts_and_their_borders() -> None:
    assert content_id("ab", "c") == content_id("ab", "c")
    assert content_id("ab", "c") != content_id("a", "bc")
    assert len(content_id("é", "")) == 32
    assert content_id("\ud800")  # a lone surrogate is still content


def test_evidence_is_known_by_kind_unit_and_text() -> None:
    ids = {
        evidence_id(kind, unit, text)
        for kind in ("bullet", "finding")
        for unit in "ab"
        for text in ("x", "y")
    }
    assert len(ids) == 8
    assert evidence_id("window", "a", "x") == evidence_id("window", "a", "y")


def test_a_segment_is_named_by_its_rows_in_order() -> None:
    assert segment_id(["a", "b"]) != segment_id(["b", "a"])


def test_file_sha256(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"y" * 3_000_000)
    assert file_sha256(path) == hashlib.sha256(b"y" * 3_000_000).hexdigest()
