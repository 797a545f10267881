import numpy as np

from srrag.reading.tagger import best_path, emissions, parse_lexicon, shipped_lexicon
from srrag.reading.tokens import TOKEN, shape, tokenise

LEXICON = shipped_lexicon()


def test_joined_and_plain_text_have_the_same_tokens() -> None:
    plain = "Pain (n=45, 0.05) improved in beta2-blockers, didn't it?"
    joined = "Pain ( n = 45 , 0.05 ) improved in beta2-blockers , didn't it ?"
    assert TOKEN.findall(plain) == TOKEN.findall(joined)


def test_shapes_tell_spellings_apart() -> None:
    tokens = ["45", "0.5", "(", "METHODS", "A", "Pain", "pH", "beta2", "low-dose", "pain"]
    assert [shape(token) for token in tokens] == [1, 2, 3, 9, 10, 11, 12, 13, 14, 15]


def test_offsets_point_into_each_text() -> None:
    texts = ["Knee pain.", "", "Fifty  men ran"]
    tokens = tokenise(texts, [0, 0, 0], [True] * 3, LEXICON.values)
    assert tokens.first.tolist() == [0, 3, 3, 6]
    words = [
        texts[text][tokens.start[i] : tokens.end[i]]
        for text in range(3)
        for i in range(tokens.first[text], tokens.first[text + 1])
    ]
    assert words == ["Knee", "pain", ".", "Fifty", "men", "ran"]
    assert tokens.opens.tolist() == [True, False, False, True, False, False]


def test_a_blank_line_ends_a_sentence_and_a_wrapped_line_does_not() -> None:
    texts = ["# Pain\n\nfifty\nmen\n \n", "x"]
    tokens = tokenise(texts, [0, 0], [True, True], LEXICON.values)
    assert tokens.opens.tolist() == [True, True, False, True]


def test_a_heading_opens_its_zone_until_the_next() -> None:
    texts = ["Title here. METHODS We ran. Results: fine.", "Plain text.", "## Aim\n\nTo run"]
    tokens = tokenise(texts, [0, 5, 4], [False] * 3, LEXICON.values)
    zones = (tokens.place["zone"] - 1) // 7
    assert zones.tolist() == [0] * 3 + [3] * 4 + [4] * 4 + [5] * 3 + [2] * 3


def test_best_path_is_the_best_of_all_paths() -> None:
    rng = np.random.default_rng(7)
    scores = rng.integers(-20, 20, (5, 4))
    moves = rng.integers(-20, 20, (4, 4))
    paths = np.stack(np.meshgrid(*[np.arange(4)] * 5, indexing="ij"), -1).reshape(-1, 5)
    totals = scores[np.arange(5), paths].sum(1) + moves[paths[:, :-1], paths[:, 1:]].sum(1)
    found = best_path(scores, np.array([0, 5]), moves)
    total = scores[np.arange(5), found].sum() + moves[found[:-1], found[1:]].sum()
    assert total == totals.max()


def test_labels_do_not_depend_on_the_batch() -> None:
    texts = [
        "Aspirin versus placebo in patients with stroke. METHODS Forty men took aspirin daily.",
        "",
        "Pain and quality of life were measured.",
        "x",
    ]
    together = tokenise(texts, [0] * 4, [True] * 4, LEXICON.values)
    labels = best_path(emissions(together, LEXICON), together.first, LEXICON.moves)
    for i, text in enumerate(texts):
        alone = tokenise([text], [0], [True], LEXICON.values)
        own = best_path(emissions(alone, LEXICON), alone.first, LEXICON.moves)
        assert labels[together.first[i] : together.first[i + 1]].tolist() == own.tolist()


def test_a_broken_lexicon_names_its_line() -> None:
    for line in ("w+0\tpain\t1\t2", "q\tpain\t1\t2\t3", "move\t0\tx\t1", "w+0\tpain\t1\t2\tz"):
        try:
            parse_lexicon(f"# remark\n{line}\n")
        except ValueError as error:
            assert "line 2" in str(error)
        else:
            raise AssertionError(line)
