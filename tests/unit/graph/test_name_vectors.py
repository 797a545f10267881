"""Vectors of names in shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.spec import fingerprint, spec
from srrag.core.step import Place
from srrag.graph import name_vectors
from srrag.graph.name_vectors import ENCODER, NameVectors, encode_names, vectors_of
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.storage.atomic_write import commit_json
from srrag.storage.mapped_table import read_shards

NAMES = {"a": "low back pain", "b": "aspirin", "c": "", "d": "aspirin", "e": "knee", "f": "stroke"}


def encoded(
    out: Path, names: dict[str, str], former: Path | None = None, **options: Any
) -> tuple[dict[str, np.ndarray], int]:
    """The vector of each id, and how many names were encoded."""
    out.mkdir()
    table = pa.table({"id": pa.array([*names]), "name": pa.array([*names.values()], pa.string())})
    place = options.pop("place", Place())
    count = encode_names(table, Encoder(), out, place, former, **options)
    return vectors(out), count


def vectors(folder: Path) -> dict[str, np.ndarray]:
    held = NameVectors(folder)
    return dict(zip(held.ids.to_pylist(), held.take(np.arange(len(held))), strict=True))


def test_equal_names_are_encoded_once_and_none_has_zeros(tmp_path: Path) -> None:
    found, count = encoded(tmp_path / "names", NAMES)
    assert count == 4
    assert found.keys() == NAMES.keys()
    for key, name in NAMES.items():
        expected = load(Encoder()).encode([name])[0] if name else np.zeros(384)
        np.testing.assert_allclose(found[key], expected, atol=2e-3)


def test_products_are_those_of_the_vectors(tmp_path: Path) -> None:
    found, _ = encoded(tmp_path / "names", NAMES, shard_names=2)
    held = NameVectors(tmp_path / "names")
    assert len(held.shards) == 3
    queries = load(Encoder()).encode(["back ache", "heart"])
    rows = np.stack([found[key] for key in held.ids.to_pylist()])
    np.testing.assert_allclose(held.products(queries), queries @ rows.T, atol=1e-5)
    backwards = np.arange(len(held))[::-1].copy()
    np.testing.assert_array_equal(held.take(backwards), rows[::-1])


def test_an_update_links_what_stands_and_encodes_what_is_new(tmp_path: Path) -> None:
    first, _ = encoded(tmp_path / "1", NAMES, shard_names=6)
    second, count = encoded(tmp_path / "2", {**NAMES, "g": "gout"}, tmp_path / "1", shard_names=6)
    assert count == 1
    assert [shard.rows for shard in read_shards(tmp_path / "2")] == [6, 1]
    for name in name_vectors.FILES:
        paths = [folder / f"{name.replace('.', '-00000.')}" for folder in tmp_path.iterdir()]
        assert paths[0].samefile(paths[1]), name
    assert all((second[key] == first[key]).all() for key in NAMES)
    numbers = [NameVectors(tmp_path / name).ids.to_pylist() for name in "12"]
    assert numbers[1][:6] == numbers[0], "a name keeps its number"


def test_small_shards_are_joined_and_nothing_is_encoded_again(tmp_path: Path) -> None:
    names = dict(NAMES)
    encoded(tmp_path / "0", names)
    for number, name in enumerate(["gout", "asthma", "eczema", "psoriasis"], 1):
        names[name] = name
        found, count = encoded(tmp_path / f"{number}", names, tmp_path / f"{number - 1}")
        assert (found.keys(), count) == (names.keys(), 1)
    assert len(read_shards(tmp_path / "4")) < 5
    once, _ = encoded(tmp_path / "once", names)
    for key in names:
        np.testing.assert_allclose(found[key], once[key], atol=2e-3)


def test_who_is_gone_is_in_no_file(tmp_path: Path) -> None:
    first, _ = encoded(tmp_path / "1", NAMES, shard_names=2)
    left = {key: name for key, name in NAMES.items() if key != "b"}
    found, count = encoded(tmp_path / "2", left, tmp_path / "1", shard_names=2)
    assert (found.keys(), count) == (left.keys(), 0)
    assert all((found[key] == first[key]).all() for key in left)


def test_a_changed_name_has_a_new_vector(tmp_path: Path) -> None:
    encoded(tmp_path / "1", NAMES, shard_names=6)
    other = {**NAMES, "e": "knees of runners"}
    found, count = encoded(tmp_path / "2", other, tmp_path / "1", shard_names=6)
    assert (len(NameVectors(tmp_path / "2")), count) == (6, 1)
    np.testing.assert_allclose(found["e"], load(Encoder()).encode([other["e"]])[0], atol=2e-3)


def test_several_shards_are_encoded_on_the_workers_of_the_place(tmp_path: Path) -> None:
    handed: list[int] = []

    def spread(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        handed.append(len(items))
        return [call(item) for item in items]

    place = Place(spread=spread)
    found, _ = encoded(tmp_path / "many", NAMES, shard_names=2, place=place)
    one, _ = encoded(tmp_path / "one", NAMES, place=place)
    assert handed == [3], "one shard stays in this process"
    assert found.keys() == one.keys()
    for key in NAMES:
        np.testing.assert_allclose(found[key], one[key], atol=2e-3)


def test_no_names_have_no_vectors(tmp_path: Path) -> None:
    found, count = encoded(tmp_path / "names", {})
    assert (found, count) == ({}, 0)
    assert NameVectors(tmp_path / "names").products(np.ones((1, 384), np.float32)).shape == (1, 0)


def test_nothing_new_needs_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded(tmp_path / "1", NAMES)
    monkeypatch.setattr(name_vectors, "load", None)
    assert encoded(tmp_path / "2", NAMES, tmp_path / "1")[1] == 0


def test_what_a_build_encoded_is_found_by_name_if_its_encoder_is_the_same(tmp_path: Path) -> None:
    encoded(tmp_path / "names", NAMES, shard_names=2)
    commit_json(tmp_path / "names" / ENCODER, {"encoder": fingerprint(spec(Encoder()))})
    find = vectors_of(tmp_path / "names", Encoder())
    assert find is not None
    found = find(["Aspirin", "nothing", "", "Low  back pain."])
    assert found.keys() == {"Aspirin", "Low  back pain."}
    expected = load(Encoder()).encode(["aspirin", "low back pain"])
    np.testing.assert_allclose(np.stack([*found.values()]), expected, atol=2e-3)
    assert vectors_of(tmp_path / "names", Encoder(max_tokens=99)) is None
