from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from srrag.core.kinds import class_of
from srrag.corpus.record import RawRecord

CONF = Path(__file__).parents[3] / "conf/corpus"


@pytest.mark.parametrize("name", ["folder", "jsonl", "beir", "pubmed", "sample"])
def test_every_corpus_file_names_a_reader_and_its_fields(name: str) -> None:
    config = yaml.safe_load((CONF / f"{name}.yaml").read_text("utf-8"))
    reader = class_of(config.pop("_target_"))
    assert set(config) <= {field.name for field in fields(reader)}
    assert "path" in config


def test_the_packaged_sample_is_read_without_a_refusal() -> None:
    config = yaml.safe_load((CONF / "sample.yaml").read_text("utf-8"))
    reader = class_of(config.pop("_target_"))
    records: list[RawRecord] = list(reader(**config).scan())
    assert len(records) > 20
    assert {record.reason for record in records} == {""}
