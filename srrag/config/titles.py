"""Whether titles are searched: `corpus.title` decides which stages of a build read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srrag.core.errors import UsageError
from srrag.corpus.read_beir import ReadBeir
from srrag.runner.progress import say

MODES = ("field", "text", "none")
READERS = {
    "BuildDenseIndex": ("titles",),
    "BuildSparseIndex": ("titles",),
    "BuildLanceDense": ("titles",),
    "BuildLanceSparse": ("titles",),
    "BuildTokenIndex": ("titles", "windows"),
}
"""Classes that read titles, and their fields that name the stages with the titles."""
OWN_FIELD = ("BuildSparseIndex", "BuildLanceSparse")
"""Classes that can search titles as a separate field."""


def title_mode(reader: Any) -> str:
    """How a reader's titles are searched: as a separate field, before the text, or not at all.

    "auto", of a BEIR folder, is "field" unless its own questions are titles, and says so. Raises
    UsageError for another word.
    """
    mode = getattr(reader, "title", "none")
    if mode == "auto" and isinstance(reader, ReadBeir):
        if count := reader.asked_titles():
            say(f"corpus.title=none, since {count} of its questions are titles")
        return "none" if count else "field"
    if mode not in MODES:
        raise UsageError(f"corpus.title={mode}: {', '.join(MODES)} are known")
    return str(mode)


def searching(stages: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """The stages of a plan for a mode; with "none" no stage reads titles.

    So a root that was built before titles could be searched stays as it is with "none".
    """
    made: dict[str, Any] = {}
    for name, entry in stages.items():
        kind = entry["run"]["_target_"] if entry else ""
        if mode == "none" and kind in READERS:
            lost = [entry["run"][key] for key in READERS[kind] if key in entry["run"]]
            inputs = [each for each in entry["inputs"] if each not in lost]
            run = {key: value for key, value in entry["run"].items() if key not in READERS[kind]}
            made[name] = {**entry, "inputs": inputs, "run": run}
        elif mode == "text" and kind in OWN_FIELD and entry["run"].get("titles"):
            made[name] = {**entry, "run": {**entry["run"], "own_field": False}}
        elif not (mode == "none" and kind == "EncodeTitles"):
            made[name] = entry
    return made
