"""Every command that README and docs show composes: no key is misspelt, none lacks its `+`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import JOBS
from srrag.config.compose import configure
from srrag.errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(?:console|bash|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ENDS = {"&&", "||", "|", ";", ">", "2>", "&", "→"}


def commands(page: Path) -> list[list[str]]:
    """The arguments of each whole `srrag` command in the blocks of a page."""
    found = []
    for block in _BLOCK.findall(page.read_text("utf-8")):
        for line in whole_lines(block.replace("\\\n", " ")):
            words = shlex.split(line, comments=True)
            starts = [n for n, word in enumerate(words) if word == "srrag"]
            for start in starts:
                ends = (n for n in range(start, len(words)) if words[n] in _ENDS)
                said = words[start + 1 : next(ends, len(words))]
                if said and not any("…" in word for word in said if word != "question=…"):
                    found.append(said)
    return found


def whole_lines(block: str) -> Iterator[str]:
    """The lines of a block, a quote that goes over several as one."""
    begun = ""
    for line in block.splitlines():
        begun += line
        try:
            shlex.split(begun, comments=True)
        except ValueError:
            begun += "\n"
            continue
        yield begun
        begun = ""
    assert not begun, f"a quote is not closed: {begun[:80]}"


def keys(words: list[str]) -> tuple[str, ...]:
    """A command by what it sets: values count where they choose a file of conf."""
    return tuple(sorted(word if "." not in word.partition("=")[0] else word.partition("=")[0]
                        for word in words))  # fmt: skip


SHOWN = {(page.name, keys(words)): (page.name, words) for page in PAGES for words in commands(page)}


def test_many_are_found() -> None:
    assert len(SHOWN) > 100
    assert {words[0] for _, words in SHOWN.values()} >= {"build", "ask", "serve", "sweep"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "words"),
    SHOWN.values(),
    ids=[f"{name}-{n}" for n, (name, _) in enumerate(SHOWN.values())],
)
def test_a_command_composes(page: str, words: list[str]) -> None:
    job, *arguments = words
    assert job in JOBS, " ".join(words)
    try:
        configure(job, [each for each in arguments if "=" in each and not each.startswith("--")])
    except UsageError as error:
        pytest.fail(f"srrag {' '.join(words)}: {error}")
