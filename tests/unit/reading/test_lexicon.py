import csv
import re
from collections import Counter

from srrag.reading.lexicon import lexicon
from tests.conftest import REPOSITORY

SRRAG = REPOSITORY / "srrag"
ROWS = [
    *csv.DictReader(
        (SRRAG / "reading" / "lexicon.tsv").read_text("utf-8").splitlines(),
        delimiter="\t",
        quoting=csv.QUOTE_NONE,
    )
]


def test_each_class_is_read_somewhere_and_compiles() -> None:
    code = "\n".join(path.read_text("utf-8") for path in SRRAG.rglob("*.py"))
    for name in {row["class"] for row in ROWS}:
        assert re.search(rf"[\"']{name}[\"']", code), f"no code reads the class {name}"
        assert lexicon(name).search("") is None


def test_no_word_stands_twice_in_a_class() -> None:
    words = Counter(
        (row["class"], word)
        for row in ROWS
        if "(" not in row["pattern"]
        for word in row["pattern"].split("|")
    )
    assert [each for each, times in words.items() if times > 1] == []
