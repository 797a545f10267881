"""The published chain, end to end, on tiny models made on the spot."""

from __future__ import annotations

from pathlib import Path

import pytest

from srrag.lab.measure.references import resource_path
from srrag.lab.train.filter.judge import write_model
from srrag.model.filter import Base, Decision
from tests.conftest import linked
from tests.e2e.command import fault, srrag
from tests.tiny_models import make_bert, make_colbert, make_cross_encoder
from tests.unit.lab.train.filter_toys import tiny_encoder

pytestmark = pytest.mark.e2e
QUESTION = "How long may an acute lateral ankle sprain be immobilised?"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "cross": make_cross_encoder(folder / "cross"),
        "colbert": make_colbert(folder / "colbert"),
        "query": make_bert(folder / "query", seed=1),
        "article": make_bert(folder / "article", seed=2),
    }


def chain(models: dict[str, Path]) -> list[str]:
    """The settings that name the models of both stages, none with a +."""
    coarse, cross = "pipeline.rank.coarse.encoder", "pipeline.rank.fine.reranker.cross_encoder"
    return [
        "pipeline=srrag_paper",
        f"{coarse}.model={models['colbert']}", f"{coarse}.max_tokens=64",
        f"{cross}.model={models['cross']}", f"{cross}.max_tokens=64",
    ]  # fmt: skip


def towers(models: dict[str, Path]) -> list[str]:
    """MedCPT's file with tiny models in the place of the two towers."""
    return [
        "embedder=medcpt", f"embedder.model={models['article']}",
        f"embedder.query_model={models['query']}", "+embedder.max_tokens=64",
    ]  # fmt: skip


def few(folder: Path) -> list[str]:
    """Some of the sample's questions, and a fit that is soon done."""
    rows = resource_path("pkg://srrag/sample/questions.jsonl").read_text("utf-8").splitlines()
    (path := folder / "few.jsonl").write_text("\n".join(rows[::6]), "utf-8")
    quick = ["train.objective=[posterior]", "train.tau=[1.0]", "train.draws=20"]
    return [f"bench.path={path}", *quick]


def test_the_published_chain_runs_by_one_word(
    models: dict[str, Path], sample_root: Path, tmp_path: Path
) -> None:
    root = linked(sample_root, tmp_path / "root")
    late = [f"late.model={models['colbert']}", "late.max_tokens=64"]
    srrag("build", f"root={root}", "late=colbert", *late, *towers(models))
    settings = [*chain(models), *towers(models)]
    srrag("fit_betr", f"root={root}", *few(tmp_path), *settings)
    assert (root / "jobs" / "fit_betr" / "srrag_paper" / "betr.json").is_file()
    told, _ = srrag("ask", f"root={root}", f"question={QUESTION}", "trace=true", *settings)
    steps = [each["step"] for each in told["trace"]]
    assert steps[:3] == ["IterateRetrieval", "RerankMaxSim", "RerankBETR"]
    assert 0 < len(told["evidence"]) <= 12
    for item in told["why"]:
        names = ["hits_fused", "hits_coarse", "hits_uncalibrated", "hits"]
        assert list(item["ranked"]) == names and item["betr"]


def test_a_root_without_the_colbert_says_so(models: dict[str, Path], fitted_root: Path) -> None:
    error = fault("ask", f"root={fitted_root}", f"question={QUESTION}", *chain(models))
    assert "colbert_tokens" in error or "betr.json" in error


def test_the_chain_runs_on_a_plain_root_with_a_trained_filter(
    sample_root: Path, tmp_path: Path
) -> None:
    root = linked(sample_root, tmp_path / "root")
    base = Base(model=str(tiny_encoder(tmp_path / "base")), max_tokens=48)
    decision = Decision(bias=1.0, threshold=0.5)
    write_model(root / "jobs" / "train_filter" / "model", base, {}, decision, {})
    coarse, fine = "pipeline.rank.coarse", "pipeline.rank.fine.reranker"
    settings = [
        f"root={root}", "pipeline=srrag_paper", f"{coarse}.encoder=null", f"{coarse}.index=tokens",
        f"{coarse}.encoded=vectors", f"+{fine}.titles=false", f"{fine}.cross_encoder.max_tokens=48",
        f"{fine}.cross_encoder.model={root}/jobs/train_filter/model",
    ]  # fmt: skip
    srrag("fit_betr", *few(tmp_path), *settings)
    told, _ = srrag("ask", f"question={QUESTION}", "trace=true", *settings)
    steps = [each["step"] for each in told["trace"]]
    assert steps[:3] == ["IterateRetrieval", "RerankMaxSim", "RerankBETR"]
    assert 0 < len(told["evidence"]) <= 12
    scores = [item["ranked"]["hits_uncalibrated"]["score"] for item in told["why"]]
    assert len(set(scores)) > 1
