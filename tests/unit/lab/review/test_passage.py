from __future__ import annotations

import pytest

from srrag.lab.review.passage import passage


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## Results\nIt helped.", "It helped."),
        ("#1 of all\nIt helped.", "#1 of all\nIt helped."),
        ("It helped.\n\n### Harms\nNone.", "It helped.\n\nHarms\nNone."),
        ("*Made up.* So **bold**, __so__ (*here*) and `a`.", "Made up. So bold, so (here) and a."),
        ("5*3*2 and 2 * 3 * 4; *p < .05, a_b__c.", "5*3*2 and 2 * 3 * 4; *p < .05, a_b__c."),
        ("* one\n* two", "* one\n* two"),
    ],
)  # fmt: skip
def test_marks_of_markdown_are_not_shown(text: str, shown: str) -> None:
    assert passage({"text": text}) == shown
