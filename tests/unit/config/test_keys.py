from __future__ import annotations

import pytest

from jobs import JOBS
from srrag.config.keys import choices, keys_of, reference


@pytest.mark.parametrize("job", JOBS)
def test_every_key_says_what_it_means(job: str) -> None:
    keys = keys_of(job)
    assert keys and [key.name for key in keys if not key.meaning] == []


def test_every_choice_says_what_it_is() -> None:
    assert [(group, choice) for group, choice, said, _ in choices() if not said] == []


def test_keys_are_named_as_they_are_typed() -> None:
    found = {key.name: key for key in keys_of("serve")}
    assert found["limits.max_rows"].default == "16"
    assert found["budget.max_tokens"].meaning.startswith("ceiling")
    assert found["deployments"].meaning.endswith("resources}"), "a comment goes on below its key"
    assert {"ray", "limits", "_target_", "_self_"} & set(found) == set()


def test_the_reference_has_every_key_and_every_field() -> None:
    page = reference(JOBS)
    for job in JOBS:
        assert f"## srrag {job}\n" in page
        assert all(f"| `{key.name}` |" in page for key in keys_of(job))
    assert "**`corpus=jsonl`**" in page and "`title_keys` = ('title',)" in page
