from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from srrag.core.spec import build, spec
from srrag.core.step import Place
from srrag.model.cross_encoder import RankLlamaModel, load_cross_encoder
from srrag.rerank.cross_encoder import RerankCrossEncoder
from tests.tiny_models import make_rankllama
from tests.unit.rerank.test_cross_encoder import TEXTS, asked, at, reranked

__all__ = ["at"]
QUESTION = "How long is a cast worn?"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> RankLlamaModel:
    base, adapter = make_rankllama(tmp_path_factory.mktemp("rankllama"))
    return RankLlamaModel(base=str(base), adapter=str(adapter), max_tokens=128, batch_pairs=2)


def reference(model: RankLlamaModel, passage: str) -> float:
    """One pair through PEFT and transformers, as the model card does it."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model.base)
    bare = AutoModelForSequenceClassification.from_pretrained(model.base, num_labels=1)
    network = PeftModel.from_pretrained(bare, model.adapter).merge_and_unload().eval()
    pair = tokenizer(f"query: {QUESTION}", f"document: {passage}", return_tensors="pt")
    with torch.no_grad():
        ids, mask = pair["input_ids"], pair["attention_mask"]
        return float(network(input_ids=ids, attention_mask=mask).logits[0][0])


def test_scores_are_those_of_the_adapted_model_in_any_batch(model: RankLlamaModel) -> None:
    loaded = load_cross_encoder(model)
    passages = [*TEXTS[:3], "A word. " * 12]
    together = loaded.logits(QUESTION, passages)
    alone = [loaded.logits(QUESTION, [each])[0] for each in passages]
    assert np.allclose(together, alone, atol=1e-4)
    assert np.allclose(together, [reference(model, each) for each in passages], atol=1e-4)
    assert len(set(np.round(together, 3))) == len(passages)
    assert len(loaded.logits(QUESTION, [])) == 0


def test_a_long_passage_is_cut_and_the_question_is_not(model: RankLlamaModel) -> None:
    loaded = load_cross_encoder(model)
    long = "A word. " * 400
    assert np.isfinite(loaded.logits(QUESTION, [long])).all()
    assert loaded.logits(QUESTION, [long]) != loaded.logits("Another?", [long])


def test_it_reranks_where_a_cross_encoder_does(model: RankLlamaModel, at: Place) -> None:
    step = RerankCrossEncoder(cross_encoder=model)
    (row,) = reranked(step, asked((QUESTION, [0, 1, 2])), at)
    loaded = load_cross_encoder(model)
    wanted = loaded.logits(QUESTION, [f"Ankle {TEXTS[0]}", f"Ankle {TEXTS[1]}", TEXTS[2]])
    assert [row[n] for n in (0, 1, 2)] == pytest.approx(wanted, abs=1e-4)
    assert build(spec(step)) == step


def test_an_adapter_without_a_head_is_refused(tmp_path: Path) -> None:
    base, adapter = make_rankllama(tmp_path, head=False)
    with pytest.raises(ValueError, match="holds no head 'score'"):
        load_cross_encoder(RankLlamaModel(base=str(base), adapter=str(adapter), max_tokens=64))


def test_what_cannot_be_read_is_named(model: RankLlamaModel, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="adapter 'some/adapter' is no folder here"):
        load_cross_encoder(RankLlamaModel(base=model.base, adapter="some/adapter"))
    with pytest.raises(ValueError, match="RankLLaMA"):
        load_cross_encoder(RankLlamaModel(base=model.base, adapter=str(tmp_path)))
    with pytest.raises(ValueError, match="base is missing"):
        RankLlamaModel(base="", adapter="a")
    with pytest.raises(ValueError, match="positions"):
        load_cross_encoder(RankLlamaModel(base=model.base, adapter=model.adapter))
