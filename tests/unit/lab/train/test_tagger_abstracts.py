from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srrag.lab.train.tagger.task import fingerprint_of, read_abstracts, split
from tests.tagger_toys import write_abstracts

ROW = {
    "id": "1",
    "text": "Aspirin for  adults .",
    "spans": [{"label": "I", "start": 0, "end": 7}, {"label": "P", "start": 13, "end": 19}],
}


def written(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "crowd.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


def test_spans_become_a_class_a_token(tmp_path: Path) -> None:
    (abstract,) = read_abstracts(written(tmp_path, ROW))
    assert abstract.text.split(" ") == ["Aspirin", "for", "", "adults", "."]
    assert abstract.labels.tolist() == [2, 0, 0, 1, 0]


def test_the_real_files_read_as_their_tokens_say(shared_data: Path) -> None:
    for name, count in (("crowd_dev", 658), ("expert_test", 140)):
        path = shared_data / "pico" / f"ebmnlp_{name}.jsonl"
        abstracts = read_abstracts(path)
        assert len(abstracts) == count
        first = json.loads(path.read_text("utf-8").split("\n", 1)[0])
        labels = ["" for _ in first["text"].split(" ")]
        for span in first["spans"]:
            for token in range(*span["tok"]):
                labels[token] = span["label"]
        assert [("", "P", "I", "O")[n] for n in abstracts[0].labels] == labels


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{", ":2: not an abstract"),
        ([], r":2: .*no JSON object"),
        ({"id": None}, r":2: .*'id' is missing"),
        ({"spans": None}, r":2: .*'spans' is missing"),
        ({"text": " "}, ":2: 'text' holds no text"),
        ({"spans": {}}, ":2: 'spans' is not a list"),
        ({"spans": [7]}, r":2, spans\[0\]: not a JSON object"),
        ({"spans": [{"label": "I", "start": 0}]}, r":2, spans\[0\]: 'end' is missing"),
        ({"spans": [{"label": "X", "start": 0, "end": 7}]}, "label 'X' is not one of P, I, O"),
        ({"spans": [{"label": ["P"], "start": 0, "end": 7}]}, "is not one of P, I, O"),
        ({"spans": [{"label": "I", "start": 0, "end": 22}]}, r"\[0, 22\) lies outside the text"),
        ({"spans": [{"label": "I", "start": -1, "end": 2}]}, r"\[-1, 2\) lies outside"),
        ({"spans": [{"label": "I", "start": 2, "end": 2}]}, r"\[2, 2\) lies outside"),
        ({"spans": [{"label": "I", "start": 0.0, "end": 7}]}, r"lies outside"),
        ({"spans": [{"label": "I", "start": 0, "end": 7, "text": "x"}]}, "is not its 'text'"),
        ({"id": "1"}, ":2: id '1' came before"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, change: Any, message: str) -> None:
    second: Any = change
    if isinstance(change, dict):
        second = {**ROW, "id": "2", **change}
        second = {key: value for key, value in second.items() if value is not None}
    path = written(tmp_path, ROW, second)
    with pytest.raises(ValueError, match=message) as caught:
        read_abstracts(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_an_empty_file_and_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no abstracts"):
        read_abstracts(written(tmp_path))
    with pytest.raises(ValueError, match="there is no such file"):
        read_abstracts(tmp_path / "nowhere.jsonl")


def test_the_split_depends_on_ids_and_seed_alone(tmp_path: Path) -> None:
    abstracts = read_abstracts(write_abstracts(tmp_path / "a.jsonl", 40))
    training, held = split(abstracts, 0.25, 7)
    assert (len(training), len(held)) == (30, 10)
    assert not {a.abstract_id for a in training} & {a.abstract_id for a in held}
    again = split(abstracts[::-1], 0.25, 7)
    assert {a.abstract_id for a in again[1]} == {a.abstract_id for a in held}
    assert {a.abstract_id for a in split(abstracts, 0.25, 8)[1]} != {a.abstract_id for a in held}


@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
def test_a_split_with_an_empty_side_is_refused(tmp_path: Path, share: float) -> None:
    abstracts = read_abstracts(write_abstracts(tmp_path / "a.jsonl", 10))
    with pytest.raises(ValueError, match=r"train.validation_share=.*of 10 abstracts"):
        split(abstracts, share, 0)


def test_another_label_is_another_fingerprint(tmp_path: Path) -> None:
    one = fingerprint_of(read_abstracts(written(tmp_path, ROW)))
    other = {**ROW, "spans": [{"label": "O", "start": 0, "end": 7}, *ROW["spans"][1:]]}
    assert fingerprint_of(read_abstracts(written(tmp_path, other))) != one
