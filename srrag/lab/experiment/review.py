"""Draw a review: a sheet with the answers of every system, and apart from them the key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, reading
from srrag.lab.measure.cases import STRATA, read_answers, read_gold_answers
from srrag.lab.review.forms import form_of
from srrag.lab.review.kit import Shown, make_kit
from srrag.lab.review.summary import write_sheet
from srrag.runner.progress import say


def draw_review(
    systems: Mapping[str, Path],
    gold: Path | None,
    out: Path,
    *,
    form: str,
    questions: int,
    strata: str | None,
    shown: Shown,
    seed: int,
) -> dict[str, Any]:
    """Draw the questions, and write the sheets and, apart from them, the key.

    `systems` are files of answers by name, `gold` a file with references. Raises UsageError for a
    setting that does not fit the answers.
    """
    references: list[dict[str, Any]] = []
    if gold is not None:
        with reading(gold):
            references = list(read_gold_answers(gold))
    with reading(*systems.values()):
        answers = {name: read_answers(path, STRATA) for name, path in systems.items()}
    try:
        chosen = form_of(form)
        kit = make_kit(
            {name: table.to_pylist() for name, table in answers.items()},
            references,
            form=chosen.name,
            questions=questions,
            strata=strata,
            shown=shown,
            seed=seed,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    sheet = write_sheet(kit, chosen, out)
    say(f"Give {sheet} to the raters, and keep {out / 'key.json'}.")
    return {
        "sample": kit.sample,
        "form": chosen.name,
        "questions": len(kit.questions()),
        "items": len(kit.items),
        "num_systems": len(kit.systems),
        "without_reference": sum(not each.reference for each in kit.items),
        "sheet": str(sheet),
        "key": str(out / "key.json"),
    }
