from __future__ import annotations

from pathlib import Path

import pytest

from srrag.core.errors import UsageError
from srrag.core.pipeline import Pipeline
from srrag.lab.experiment.gold_sets import betr_of, default_out, uncalibrated
from srrag.rerank.betr import RerankBETR
from srrag.retrieve.candidates import FuseRanks
from srrag.retrieve.search import SearchSparse

SPARSE = SearchSparse(into="hits_sparse")


def test_what_stands_in_betr_is_calibrated_and_no_file_is_read() -> None:
    fuse = FuseRanks(channels=("hits_sparse",), into="hits")
    betr = RerankBETR(reranker=fuse, model="nowhere/betr.json")
    pipeline = Pipeline(rank=(SPARSE, betr))
    assert betr_of(pipeline) == betr
    assert uncalibrated(pipeline) == Pipeline(rank=(SPARSE, fuse))


def test_a_fit_goes_where_its_pipeline_reads_it() -> None:
    fuse = FuseRanks(channels=("hits_sparse",), into="hits")
    for named in ({"model": "S/betr.json", "own": "R/betr.json"}, {"own": "S/betr.json"}):
        pipeline = Pipeline(rank=(SPARSE, RerankBETR(reranker=fuse, **named)))
        assert default_out(pipeline, "R", None) == Path("S")


def test_without_betr_the_last_step_is_calibrated() -> None:
    fuse = FuseRanks(channels=("hits_sparse",), into="hits")
    pipeline = Pipeline(rank=(SPARSE, fuse))
    assert betr_of(pipeline) is None
    assert uncalibrated(pipeline) == pipeline


def test_steps_behind_betr_are_left_out() -> None:
    first = FuseRanks(channels=("hits_sparse",), into="hits_calibrated")
    betr = RerankBETR(reranker=first, model="nowhere/betr.json", into="hits_calibrated")
    after = FuseRanks(channels=("hits_calibrated",), into="hits")
    with pytest.raises(UsageError, match=r"up to the reranker of BETR: .* column 'hits'"):
        uncalibrated(Pipeline(rank=(SPARSE, betr, after)))
