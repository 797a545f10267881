from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.corpus.blocks import split_sections
from tests.timing import cpu_seconds

MARKDOWN = """# Ankle sprain

Lead paragraph
on two lines
- bullet
- bullet two

  continued

1. one
2. two

Table 1. Groups

| a | b |
|---|---|
| 1 | 2 |

Setext
------
body

```
# no heading
```
## Methods
### Participants
Adults, seen in
2012. Then more.
"""

PIECES = ["# h", "## i", "#", "```", "~~~~", "- a", "1. b", "7) x", "| a |", "|-|", "a | b", "---",
          "===", "  ", "\n", "\n\n", "    ", "text", "\u2028", "\u3000", "\x00", "é"]  # fmt: skip


def shown(text: str, title: str = "") -> list[tuple[str, list[tuple[str, str]]]]:
    return [
        (s.path, [(b.kind, text[b.start : b.end]) for b in s.blocks])
        for s in split_sections(text, title)
    ]


def assert_covers(text: str) -> None:
    position = 0
    for section in split_sections(text):
        assert section.blocks
        for block in section.blocks:
            assert position <= block.start < block.end
            assert not text[position : block.start].strip()
            assert text[block.start : block.end].strip() == text[block.start : block.end]
            position = block.end
    assert not text[position:].strip()


def test_sections_and_blocks_of_a_document() -> None:
    assert shown(MARKDOWN, "Ankle  Sprain") == [
        (
            "",
            [
                ("paragraph", "# Ankle sprain\n\nLead paragraph\non two lines"),
                ("list", "- bullet\n- bullet two\n\n  continued\n\n1. one\n2. two"),
                ("paragraph", "Table 1. Groups"),
                ("table", "| a | b |\n|---|---|\n| 1 | 2 |"),
            ],
        ),
        ("Setext", [("paragraph", "Setext\n------\nbody"), ("code", "```\n# no heading\n```")]),
        (
            "Methods > Participants",
            [("paragraph", "## Methods\n### Participants\nAdults, seen in\n2012. Then more.")],
        ),
    ]


def test_title_that_differs_stays_in_the_path() -> None:
    assert shown("# A\n\n## B\n\nc", "other")[0][0] == "A > B"


def test_plain_text_is_one_section() -> None:
    assert shown("one\n\ntwo") == [("", [("paragraph", "one"), ("paragraph", "two")])]


def test_heading_without_text_before_a_sibling_is_a_block_of_its_own() -> None:
    assert shown("## Funding\n## Results\nr") == [
        ("Funding", [("heading", "## Funding")]),
        ("Results", [("paragraph", "## Results\nr")]),
    ]


def test_unclosed_fence_does_not_hide_headings() -> None:
    assert [path for path, _ in shown("```\ncode\n\n# Results\n\ntext")] == ["", "Results"]


def test_thematic_break_ends_with_the_block_before_it() -> None:
    assert shown("a\n\n---\nb") == [("", [("paragraph", "a\n\n---"), ("paragraph", "b")])]


def test_hash_without_blank_and_deep_hashes_are_text() -> None:
    assert shown("#5 of 7\n\n####### seven") == [
        ("", [("paragraph", "#5 of 7"), ("paragraph", "####### seven")])
    ]


@pytest.mark.parametrize("text", ["", " \n\t\n\u3000"])
def test_blank_text_has_no_sections(text: str) -> None:
    assert split_sections(text) == []


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_every_character_is_in_one_block(text: str) -> None:
    assert_covers(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["a\n", "\n", "```\n", "|\n", "- a\n\n", "# a\n", "- ", "a\n===\n", "#", "---\n"]
)
def test_time_is_linear_on_hostile_text(piece: str) -> None:
    def growth() -> float:
        small, large = (
            cpu_seconds(partial(split_sections, piece * (size // len(piece))), runs=1)
            for size in (20_000, 200_000)
        )
        return large / max(small, 0.01)

    # Ten times the text; quadratic work would be a hundred times the time.
    assert any(growth() < 40 for _ in range(3))
