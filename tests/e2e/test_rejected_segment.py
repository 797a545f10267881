"""A segment of which every document is rejected joins every plan, at first and in an update."""

from pathlib import Path

import pytest

from tests.e2e.command import srrag

PAPER = """---
title: A brace for the {part}
year: 2010
---

# Exercise for the {part}

A randomised trial found that exercise reduced pain of the {part} at 12 weeks in 80 adults.
"""


def papers(folder: Path, parts: tuple[str, ...]) -> None:
    """Write a document for each part of the body."""
    folder.mkdir(exist_ok=True)
    for part in parts:
        (folder / f"{part}.md").write_text(PAPER.format(part=part))


@pytest.mark.parametrize("plan", ["forest", "systems"])  # which hold all stages of the others
def test_an_update_with_nothing_but_rejects_ends_well_(plan: str, tmp_path: Path) -> None:
    corpus, root = tmp_path / "corpus", tmp_path / "root"
    choice = ("corpus=folder", f"corpus.path={corpus}", f"root={root}", f"plan={plan}")
    papers(corpus, ("knee", "hip", "elbow"))
    srrag("build", *choice)
    (corpus / "z.md").write_text("\n")
    told, _ = srrag("build", *choice)
    assert told["rejected"] == 1 and told["documents"] == 3


def test_a_first_build_of_two_segments_of_which_one_is_all_rejects_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srrag.runner.ingest.SEGMENT_ROWS", 3)
    corpus, root = tmp_path / "corpus", tmp_path / "root"
    papers(corpus, ("knee", "hip", "elbow"))
    (corpus / "z.md").write_text("\n")
    choice = ("corpus=folder", f"corpus.path={corpus}", f"root={root}")
    told, _ = srrag("build", *choice)
    assert told["rejected"] == 1 and told["documents"] == 3
