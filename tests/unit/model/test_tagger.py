from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.lab.experiment.train_tagger import write_tagger
from srrag.lab.train.tagger.task import TaggerSettings, TaggerTask, fingerprint_of, read_abstracts
from srrag.lab.train.tagger.training import run_plain
from srrag.model.passes import budgeted
from srrag.model.tagger import (
    LoadedTagger,
    Pieces,
    Reading,
    load_tagger,
    runs_of,
    windows,
    words_of,
)
from srrag.storage.manifest import MANIFEST, check_sealed, seal, sealed_revision
from tests.tagger_toys import tiny_encoder, write_abstracts

TEXT = "We gave aspirin to adults and measured blood pressure . O improved in children ."


def make_tagger(folder: Path, kind: str) -> Path:
    crowd = write_abstracts(folder / "crowd.jsonl", 40)
    settings = TaggerSettings(
        encoder=str(tiny_encoder(folder / "encoder", kind)), epochs=2, learning_rate=0.01,
        head_factor=1, batch_tokens=512, window=32, context=4, frozen_layers=0,
    )  # fmt: skip
    task = TaggerTask(
        crowd=str(crowd), fingerprint=fingerprint_of(read_abstracts(crowd)), settings=settings,
        share=0.2, split_seed=0, seed=0, device="cpu", state=str(folder),
    )  # fmt: skip
    found = run_plain(task.plain())
    facts = {
        "seed": 0, "lean": found["lean"], "held_out": found["held_out"], "expert": None,
        "training_abstracts": 32, "held_out_abstracts": 8, "command": "test",
    }  # fmt: skip
    write_tagger(folder / "model", settings, folder / found["weights"], found["lean"], facts)
    return folder / "model"


@pytest.fixture(scope="module", params=["bert", "distilbert"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tagger(tmp_path_factory.mktemp(request.param), request.param)


def test_runs_are_whole_words_of_the_text(model: Path) -> None:
    (runs,) = load_tagger(model, "torch").runs([TEXT])
    found = {TEXT[run.start : run.end]: run.label for run in runs}
    assert found["aspirin"] == "I"
    assert found["adults"] == found["children"] == "P"
    assert found["blood pressure"] == "O"
    assert all(0.25 < run.confidence <= 1 for run in runs)


def test_a_texts_runs_do_not_depend_on_its_neighbours(model: Path) -> None:
    tagger = load_tagger(model, "torch")
    texts = [TEXT * n for n in (1, 12, 2, 1, 30)] + ["", "   ", "…", "Aspirin"]
    together = tagger.runs(texts)
    assert together == [tagger.runs([text])[0] for text in texts]
    assert together[5:7] == [[], []]
    assert together[0] == together[3]


def test_backends_agree(tmp_path: Path) -> None:
    model = make_tagger(tmp_path, "bert")
    plain = load_tagger(model, "torch").runs([TEXT])[0]
    for backend in ("torch-int8", "torch-bf16"):
        other = load_tagger(model, backend).runs([TEXT])[0]
        assert [run[:3] for run in other] == [run[:3] for run in plain]
    with pytest.raises(ValueError, match=r"mentions\.backend=onnx"):
        load_tagger(model, "onnx")


def test_int8_is_for_plain_bert(tmp_path: Path) -> None:
    model = make_tagger(tmp_path, "distilbert")
    with pytest.raises(ValueError, match="needs a BERT-shaped model"):
        load_tagger(model, "torch-int8")


@given(st.integers(0, 3000), st.integers(3, 300), st.integers(0, 100))
def test_windows_label_each_piece_once_and_see_enough_around_it(
    size: int, window: int, context: int
) -> None:
    context = min(context, (window - 1) // 2)
    found = list(windows(size, Reading(window=window, context=context)))
    assert [n for w in found for n in range(w.first, w.last)] == list(range(size))
    for w in found:
        assert 0 < w.stop - w.start <= window + 1
        assert w.start == max(0, w.first - context) or len(found) == 1
        assert w.stop == min(size, w.last + context) or len(found) == 1


@given(st.lists(st.integers(1, 50), max_size=40))
def test_batches_hold_every_row_once_longest_first(lengths: list[int]) -> None:
    found = [some.tolist() for some in budgeted(lengths, 60)]
    assert sorted(row for some in found for row in some) == list(range(len(lengths)))
    assert all(sum(lengths[row] for row in some) <= 60 for some in found)
    sizes = [lengths[row] for some in found for row in some]
    assert sizes == sorted(sizes, reverse=True)


def test_a_word_has_the_mean_of_its_pieces_and_the_lean_tips_it() -> None:
    text = "new pills help\npain"
    pieces = Pieces(
        ids=np.arange(5), word=np.array([0, 1, 1, 2, 3]), start=np.array([0, 4, 6, 10, 15]),
        end=np.array([3, 6, 9, 14, 19]),
    )  # fmt: skip
    share = np.array(
        [[.6, 0, .4, 0], [.1, 0, .9, 0], [.4, 0, .6, 0], [.1, 0, .8, .1], [.2, 0, .8, 0]],
        np.float32,
    )  # fmt: skip
    scores = np.log(share + 1e-6)
    words = words_of(pieces, scores)
    assert [run[:3] for run in runs_of(text, words, (0, 0, 0))] == [
        ("I", 4, 14), ("I", 15, 19),
    ]  # fmt: skip
    leaning = runs_of(text, words, (0, 0.5, 0))
    assert [run[:3] for run in leaning] == [("I", 0, 14), ("I", 15, 19)]
    # Mean over the words "pills" (log-mean of its two pieces) and "help", of P(I).
    pills = np.sqrt([0.1 * 0.4, 0.9 * 0.6])
    expected = (pills[1] / pills.sum() + 0.8) / 2
    assert runs_of(text, words, (0, 0, 0))[0].confidence == pytest.approx(expected, abs=0.002)


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    shutil.copytree(model, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "tagger.json"]
)
def test_a_tampered_file_is_named(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(ValueError, match="is not what was written") as caught:
        LoadedTagger(copy, "torch")
    assert str(copy / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_no_manifest(copy: Path) -> None:
    (copy / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        LoadedTagger(copy, "torch")
    (copy / MANIFEST).unlink()
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        LoadedTagger(copy, "torch")


def test_a_manifest_names_files_of_its_folder_alone(copy: Path) -> None:
    for wrong in ({}, {"files": {}}, {"files": {"../x": "0"}}, {"files": [1]}, []):
        (copy / MANIFEST).write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=r"manifest\.json: "):
            sealed_revision(copy)


def test_another_revision_than_the_one_asked_for(copy: Path) -> None:
    before = check_sealed(copy)
    assert LoadedTagger(copy, "torch", before).revision == before
    (copy / "tagger.json").write_text((copy / "tagger.json").read_text() + "\n")
    after = seal(copy)
    assert after != before
    with pytest.raises(ValueError, match="the model is sha256:"):
        LoadedTagger(copy, "torch", before)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({}, "'classes'"),
        ({"classes": ["P", "O"], "reading": {}}, "classes"),
        ({"classes": ["P", "I", "O"], "reading": {"width": 3}}, "width"),
        ({"classes": ["P", "I", "O"], "reading": {"window": 4, "context": 2}}, "window 4"),
        ({"classes": ["P", "I", "O"], "reading": {"lean": [0.5]}}, "lean"),
    ],
)
def test_what_tagger_json_must_say(copy: Path, stated: object, message: str) -> None:
    (copy / "tagger.json").write_text(json.dumps(stated))
    seal(copy)
    with pytest.raises(ValueError, match=rf"tagger\.json: .*{message}"):
        LoadedTagger(copy, "torch")
