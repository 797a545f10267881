from __future__ import annotations

import hashlib
from pathlib import Path

from srrag.core.ids import content_id, evidence_id, file_sha256, segment_id


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
