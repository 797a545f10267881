import json
from pathlib import Path

import numpy as np
import pytest

from srrag.lab.fits.lexicon import (
    expectations,
    learn,
    main,
    read_examples,
    with_pieces,
)
from srrag.reading.tagger import best_path, emissions, parse_lexicon
from srrag.reading.tokens import tokenise


def corpus(path: Path) -> Path:
    """Twenty texts in which what follows "took" is I and what follows "felt" is O."""
    drugs, feelings = (
        ["aspirin", "codeine", "iron", "zinc"],
        ["pain", "fear", "cold", "calm", "joy"],
    )
    lines = []
    for drug in drugs:
        for feeling in feelings:
            text = f"They took {drug} . They felt {feeling} ."
            spans = [
                {"label": "I", "start": 10, "end": 10 + len(drug)},
                {"label": "O", "start": text.index(feeling), "end": len(text) - 2},
            ]
            lines.append(json.dumps({"id": len(lines), "text": text, "spans": spans}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_learned_table_labels_unseen_words_by_their_context(tmp_path: Path) -> None:
    lexicon = parse_lexicon(learn(read_examples(corpus(tmp_path / "crowd.jsonl"))))
    tokens = tokenise(["They took qqq . They felt zzz ."], [0], [True], lexicon.values)
    labels = best_path(emissions(tokens, lexicon), tokens.first, lexicon.moves)
    assert labels.tolist() == [0, 0, 2, 0, 0, 0, 3, 0]


def test_the_command_writes_the_same_table_each_time(tmp_path: Path) -> None:
    source = str(corpus(tmp_path / "crowd.jsonl"))
    for name in ("one.tsv", "two.tsv"):
        main([source, str(tmp_path / name)])
    assert (tmp_path / "one.tsv").read_bytes() == (tmp_path / "two.tsv").read_bytes()
    with pytest.raises(ValueError, match="usage"):
        main([source])


def test_pieces_hold_every_token_again(tmp_path: Path) -> None:
    examples = read_examples(corpus(tmp_path / "crowd.jsonl"))
    whole = with_pieces(examples)
    assert whole.texts == examples.texts * 2
    assert whole.leads == [True] * 20 + [False] * 20


def test_expectations_are_those_of_all_paths() -> None:
    rng = np.random.default_rng(3)
    scores, moves = rng.normal(size=(1, 3, 4)), rng.normal(size=(4, 4))
    paths = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)
    energy = scores[0, np.arange(3), paths].sum(1) + moves[paths[:, :-1], paths[:, 1:]].sum(1)
    chance = np.exp(energy) / np.exp(energy).sum()
    node, edge = expectations(scores, np.ones((1, 3), bool), moves)
    for place in range(3):
        wanted = np.bincount(paths[:, place], chance, 4)
        np.testing.assert_allclose(node[0, place], wanted, rtol=1e-9)
    wanted_moves = np.zeros((4, 4))
    for place in range(2):
        np.add.at(wanted_moves, (paths[:, place], paths[:, place + 1]), chance)
    np.testing.assert_allclose(edge, wanted_moves, rtol=1e-9)
