"""Every command that README and docs show composes; figures stand on their page alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import JOBS, SHORT
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from tests.bucket import s3_server

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(?:console|bash|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DECIMALS = re.compile(r"^\|.*(?<![\w.])\.\d{3}\b", re.MULTILINE)
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
    assert len(SHOWN) > 80
    assert {words[0] for _, words in SHOWN.values()} >= {"build", "ask", "serve", "sweep"}


@pytest.fixture(scope="module")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A store that lacks the buckets of the pages: composing asks what was settled for a root."""
    with pytest.MonkeyPatch.context() as patch, s3_server(patch, tmp_path_factory.mktemp("cache")):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("object_store")
@pytest.mark.parametrize(
    ("page", "words"),
    SHOWN.values(),
    ids=[f"{name}-{n}" for n, (name, _) in enumerate(SHOWN.values())],
)
def test_a_command_composes(page: str, words: list[str]) -> None:
    job, *arguments = (*SHORT.get(words[0], words[:1]), *words[1:])
    assert job in JOBS, " ".join(words)
    try:
        configure(job, [each for each in arguments if not each.startswith("--")])
    except UsageError as error:
        pytest.fail(f"srrag {' '.join(words)}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_table_of_figures_stands_on_the_page_of_figures_alone(page: Path) -> None:
    assert bool(_DECIMALS.search(page.read_text("utf-8"))) == (page.name == "figures.md")
