from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.core.schema import VECTORS, conform
from srrag.core.spec import file_sha256, spec
from srrag.core.step import Place
from srrag.index.encode import EncodeWindows, VectorCache, packed_tokens, text_keys
from srrag.model.embed import TokenVectors, load
from srrag.model.encoder import Encoder
from srrag.storage.atomic_write import commit_json, write_parquet

STEP = EncodeWindows()


def batch(*texts: str, start: int = 0) -> pa.Table:
    ids = [f"u{start + n}" for n in range(len(texts))]
    return pa.table({"unit_id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.string())})


def num_encoded(step: EncodeWindows = STEP) -> int:
    return load(step.encoder, threads=1).num_texts


def stand(root: Path, fingerprint: str, table: pa.Table, step: EncodeWindows = STEP) -> None:
    """Put a part where a build of this root would."""
    folder = root / "stages" / "vectors" / fingerprint
    folder.mkdir(parents=True)
    write_parquet(conform(table, VECTORS), folder / "part-p.parquet")
    commit_json(folder / "part-p.json", {"sha256": file_sha256(folder / "part-p.parquet")})
    commit_json(folder / "manifest.json", {"spec": spec(step)})


def test_equal_texts_are_encoded_once(tmp_path: Path) -> None:
    run = STEP.open(Place(root=tmp_path))
    before = num_encoded()
    out = conform(run(batch("knee", "hip", "knee", "knee")), VECTORS)
    assert num_encoded() - before == 2
    assert out["unit_id"].to_pylist() == ["u0", "u1", "u2", "u3"]
    rows = out.drop_columns(["unit_id"]).to_pylist()
    assert rows[0] == rows[2] == rows[3]
    assert rows[0]["vector"] != rows[1]["vector"]
    assert out["text_key"].to_pylist() == text_keys(["knee", "hip", "knee", "knee"]).tolist()


def test_the_rows_hold_what_the_encoder_gives(tmp_path: Path) -> None:
    out = STEP.open(Place(root=tmp_path))(batch("hip", "", "knee pain"))
    vectors, tokens = load(STEP.encoder, threads=1).encode_tokens(["hip", "", "knee pain"])
    for row, stored in enumerate(out["vector"].to_pylist()):
        np.testing.assert_allclose(np.frombuffer(stored, np.float32), vectors[row], atol=1e-5)
    sizes = [len(scales) // 2 for scales in out["token_scales"].to_pylist()]
    assert sizes == np.diff(tokens.offsets).tolist() == [1, 0, 2]
    assert [len(values) for values in out["tokens"].to_pylist()] == [384 * n for n in sizes]


def test_another_build_of_the_root_encodes_only_what_is_new(tmp_path: Path) -> None:
    first = STEP.open(Place(root=tmp_path))(batch("knee", "hip", "ankle"))
    stand(tmp_path, "one", first)
    run = STEP.open(Place(root=tmp_path))
    before = num_encoded()
    known = run(batch("ankle", "knee", "ankle", start=10))
    assert num_encoded() == before
    expected = first.take([2, 0, 2])
    for name in ("text_key", "vector", "tokens", "token_scales", "cut"):
        assert known[name].to_pylist() == expected[name].to_pylist()
    assert known["unit_id"].to_pylist() == ["u10", "u11", "u12"]
    run(batch("hip", "wrist"))
    assert num_encoded() - before == 1


@pytest.mark.parametrize("damage", ["bit", "cut", "gone"])
def test_what_a_damaged_part_holds_is_encoded_again(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No window is at fault for a file of another build."""
    texts = "knee", "hip"
    first = STEP.open(Place(root=tmp_path))(batch(*texts))
    stand(tmp_path, "one", first)
    path = tmp_path / "stages" / "vectors" / "one" / "part-p.parquet"
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:50])
    run = STEP.open(Place(root=tmp_path))
    if damage == "bit":
        path.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    elif damage == "gone":
        path.unlink()
    before = num_encoded()
    again = conform(pa.concat_tables([run(batch(*texts)), run(batch(*texts))]), VECTORS)
    assert num_encoded() - before == 2 * len(texts)
    assert again["vector"].to_pylist() == first["vector"].to_pylist() * 2
    assert caplog.text.count("part-p.parquet") == 1


def test_vectors_of_another_encoder_are_not_taken(tmp_path: Path) -> None:
    stand(tmp_path, "one", STEP.open(Place(root=tmp_path))(batch("knee")))
    other = EncodeWindows(encoder=Encoder(max_tokens=16))
    assert len(VectorCache(tmp_path, STEP).keys) == 1
    assert len(VectorCache(tmp_path, other).keys) == 0
    assert len(VectorCache(None, STEP).keys) == 0


def test_several_parts_and_builds_are_one_cache(tmp_path: Path) -> None:
    empty = VECTORS.empty_table()
    texts = [f"text {n}" for n in range(7)]
    for place, some in enumerate((texts[:3], [], texts[3:])):
        keys = text_keys(some)
        rows = {
            "unit_id": [""] * len(some), "text_key": keys, "vector": [t.encode() for t in some],
            "tokens": [b"t"] * len(some), "token_scales": [b"s"] * len(some),
            "cut": [False] * len(some), "reject": pa.nulls(len(some), VECTORS.field("reject").type),
        }  # fmt: skip
        stand(tmp_path, f"f{place}", pa.table(rows).cast(VECTORS) if some else empty)
    cache = VectorCache(tmp_path, STEP)
    wanted = text_keys([texts[6], texts[0], "unknown", texts[3]])
    found = cache.find(wanted)
    assert [found[key][0] for key in wanted.tolist() if key in found] == [
        b"text 6", b"text 0", b"text 3",
    ]  # fmt: skip
    assert cache.find(text_keys([])) == {}


def test_a_text_longer_than_the_encoder_reads_is_marked(tmp_path: Path) -> None:
    out = STEP.open(Place(root=tmp_path))(batch("knee " * 510, "knee " * 511, ""))
    assert out["cut"].to_pylist() == [False, True, False]


def test_the_prefix_counts_towards_the_limit(tmp_path: Path) -> None:
    """With a prefix of two tokens ("passage", ":"), 29 words no longer fit into 32 - 2."""
    step = EncodeWindows(encoder=Encoder(max_tokens=32, passage_prefix="passage: "))
    out = step.open(Place(root=tmp_path))(batch("knee " * 28, "knee " * 29))
    assert out["cut"].to_pylist() == [False, True]


def test_no_window(tmp_path: Path) -> None:
    out = conform(STEP.open(Place(root=tmp_path))(batch()), VECTORS)
    assert out.num_rows == 0


def test_tokens_are_packed_text_by_text() -> None:
    tokens = TokenVectors(
        np.array([[1, 2], [3, 4], [5, 6]], np.int8),
        np.array([1, 2, 3], np.float16),
        np.array([0, 2, 2, 3]),
        np.zeros(3, bool),
    )
    packed = list(packed_tokens(tokens))
    assert [values for values, _ in packed] == [b"\x01\x02\x03\x04", b"", b"\x05\x06"]
    assert [np.frombuffer(s, np.float16).tolist() for _, s in packed] == [[1, 2], [], [3]]


@given(st.lists(st.text(max_size=20), max_size=10))
def test_equal_texts_have_equal_keys(texts: list[str]) -> None:
    keys = text_keys(texts)
    assert len(set(keys.tolist())) == len(set(texts))
    assert text_keys(texts[::-1]).tolist() == keys.tolist()[::-1]


@pytest.mark.parametrize("text", ["\ud800", "\x00", "e\u0301"])
def test_any_text_has_a_key(text: str) -> None:
    assert len(text_keys([text])) == 1
