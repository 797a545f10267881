from __future__ import annotations

from jobs import JOBS
from srrag.config.keys import choices, reference
from srrag.config.places import CONF


def test_every_choice_says_what_it_is() -> None:
    assert [(group, choice) for group, choice, said, _ in choices() if not said] == []


def test_the_reference_has_every_job_and_every_field() -> None:
    page = reference(JOBS)
    for job in JOBS:
        assert f"## srrag {job}\n" in page
        assert (CONF / f"{job}.yaml").read_text("utf-8").strip() in page
    assert "**`corpus=jsonl`**" in page and "`title_keys` = ('title',)" in page
