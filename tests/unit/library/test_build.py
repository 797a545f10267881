from __future__ import annotations

import json
from pathlib import Path

import pytest

import srrag
from srrag.core.errors import UsageError
from srrag.library.root import Root

CHEAP = ["stages.extracts=null", "stages.vectors=null", "stages.titles=null"]
"""BM25 alone: nothing is encoded."""


def folder(path: Path, **texts: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, text in texts.items():
        (path / f"{name}.md").write_text(text)
    return path


def test_a_folder_becomes_a_root_that_answers_and_grows(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    papers = folder(
        tmp_path / "papers",
        sprain="# Ankle sprains\n\nA cast for more than ten days delays return to work.",
        empty="",
    )
    root = srrag.build(tmp_path / "R", path=papers, overrides=CHEAP)
    assert isinstance(root, Root)
    made = root.status()
    assert (made.documents, made.rejected) == (1, 1)
    assert "empty.md" in made.rejects["detail"][0].as_py() and "empty.md" in str(made)
    assert "empty.md" in made._repr_html_() and ">documents<" in made._repr_html_()
    assert dict(zip(*made.to_arrow().to_pydict().values(), strict=True))["documents"] == 1
    assert list(made.to_pandas()["stage"])[-1] == "rejected"
    assert [each.title for each in root.search("cast", pipeline="bm25")] == ["Ankle sprains"]

    folder(papers, knee="# Knees\n\nA cast after knee surgery was not needed.")
    again = root.build(path=papers, overrides=CHEAP)
    assert again.documents == 2 and again.json["reused"]["parsed"] == 1
    found = {each.title for each in root.search("cast", pipeline="bm25")}
    assert found == {"Ankle sprains", "Knees"}, "the opened root answers from its new build"
    assert "in the place of" not in capfd.readouterr().err
    other = folder(tmp_path / "other", hip="# Hips\n\nNo cast was used.")
    assert root.build(path=other, overrides=CHEAP).documents == 1
    assert f"in the place of what `srrag build root={tmp_path / 'R'}" in capfd.readouterr().err


def test_what_builds_nothing_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        srrag.build(tmp_path / "R", path=tmp_path / "nowhere", overrides=CHEAP)
    with pytest.raises(UsageError, match="estimate"):
        srrag.build(tmp_path / "R", corpus="sample", overrides=["estimate=true"])


@pytest.mark.parametrize("damaged", [False, True])
def test_a_command_that_names_no_papers_does_not_build_the_sample_over_others(
    tmp_path: Path, damaged: bool
) -> None:
    papers = folder(tmp_path / "papers", hip="# Hips\n\nNo cast was used after the operation.")
    root = srrag.build(tmp_path / "R", path=papers, overrides=CHEAP)
    pointer = tmp_path / "R" / "builds" / "default.json"
    if damaged:
        pointer.write_text("{")
    stood = pointer.read_bytes()
    for more in ("repair=true", "estimate=true", "corpus.title=text"):
        with pytest.raises(UsageError, match="name its papers, or corpus=sample"):
            srrag.run("build", f"root={tmp_path / 'R'}", *CHEAP, "repair=true", more)
    assert pointer.read_bytes() == stood
    if not damaged:
        assert root.build(path=papers, overrides=CHEAP).documents == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [([], []), (["corpus=sample"], []), (["corpus.title=none"], ["corpus.title=none"])],
)
def test_a_root_of_the_sample_is_built_on_without_its_name(
    tmp_path: Path, first: list[str], then: list[str]
) -> None:
    root = f"root={tmp_path / 'R'}"
    srrag.run("build", root, *CHEAP, *first)
    assert srrag.run("build", root, *CHEAP, *then)["rows"]["documents"] > 1


def test_an_evaluation_has_metrics_and_a_difference(sample_root: Path) -> None:
    with srrag.open(sample_root) as root:
        found = root.evaluate(
            bench="sample", pipeline="bm25", baseline="dense", overrides=["resamples=20"]
        )
    assert (found.system, found.baseline) == ("bm25", "dense")
    best = found["nDCG@10"]
    assert best.value is not None and best.low is not None and best.low <= best.value <= 1
    assert best.value == found.json["metrics"]["nDCG@10"]["value"]
    values = {each.system: each.value for each in found.measured if each.metric == "nDCG@10"}
    assert values["bm25 − dense"] == pytest.approx(values["bm25"] - values["dense"], abs=2e-3)
    assert "nDCG@10" in str(found) and "<td" in found._repr_html_()
    assert found.to_arrow().num_rows == len(found.measured) == len(found.to_pandas())
    with pytest.raises(KeyError):
        _ = found["nothing"]


def test_any_job_runs_from_python_and_returns_what_the_command_prints(
    sample_root: Path, tmp_path: Path
) -> None:
    proof = srrag.run("verify", f"root={sample_root}")
    assert proof["job"] == "verify" and proof["ok"] and proof["checked"] > 0
    arguments = [f"root={sample_root}", "format=json", f"out={tmp_path / 'graph'}"]
    exported = srrag.run("export", *arguments)
    assert json.loads((tmp_path / "graph" / "summary.json").read_text()) == exported
    with pytest.raises(UsageError, match="there is no job 'verfy'; did you mean verify"):
        srrag.run("verfy")
    with pytest.raises(UsageError, match="rooot"):
        srrag.run("verify", "rooot=R")
