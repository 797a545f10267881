"""Who finds the typed mentions that the rules make facts of: the rules, or a trained tagger."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from srrag.extract.rules.mentions import Mention, find_mentions, type_runs
from srrag.spec import place_field

if TYPE_CHECKING:
    from srrag.model.tagger import LoadedTagger


@dataclass(frozen=True, kw_only=True)
class FindMentions(abc.ABC):
    """A map from texts to typed mentions; its fields are its identity."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """How outputs name it."""

    @abc.abstractmethod
    def open(self, threads: int) -> None:
        """Load what is heavy, once a process; raises ValueError if it is not what it should be."""

    @abc.abstractmethod
    def find(
        self, texts: Sequence[str], sections: Sequence[str], leads: Sequence[bool]
    ) -> list[list[Mention]]:
        """Mentions of each text, by start; `leads` says which texts begin their document."""

    def read(self, text: str) -> list[tuple[str, int, int]]:
        """Typed spans (type, start, end) of one whole abstract: what `evaluate.pico` scores."""
        return [mention[:3] for mention in self.find([text], [""], [True])[0]]


@dataclass(frozen=True, kw_only=True)
class FindByRules(FindMentions):
    """The cue words and patterns of `srrag.extract.rules`."""

    @property
    def name(self) -> str:
        """The word "rules"."""
        return "rules"

    def open(self, threads: int) -> None:
        """Nothing to load."""

    def find(
        self, texts: Sequence[str], sections: Sequence[str], leads: Sequence[bool]
    ) -> list[list[Mention]]:
        """By `rules.mentions`."""
        return find_mentions(texts, sections, leads)


@dataclass(frozen=True, kw_only=True)
class FindByTagger(FindMentions):
    """A tagger of `srrag train_tagger` labels P, I and O; cue words and patterns type the rest.

    The rules split a labelled run (Population with its Condition, Intervention, Comparator, Arm,
    Device, Outcome, AdverseEvent) and add timepoints, recommendations and contraindications. The
    folder is known by its content, wherever it lies. It runs on the CPU.
    """

    model: str
    """Path of the tagger's folder; in the identity only its name."""
    revision: str | None = None
    """sha256 of its manifest; found in the folder if it is not given."""
    backend: str = "torch"
    """torch (float32), torch-bf16 or torch-int8."""
    folder: str | None = place_field(None)
    """Where the folder lies here, if `model` is not that place."""

    def __post_init__(self) -> None:
        """Turn a path into name, place and content; raises ValueError for what has none."""
        if self.folder is None and (self.revision is None or "/" in self.model):
            path = Path(self.model).expanduser().resolve()
            object.__setattr__(self, "folder", str(path))
            object.__setattr__(self, "model", path.name)
        if self.revision is None:
            from srrag.storage.sealed_folder import sealed_revision

            try:
                object.__setattr__(self, "revision", sealed_revision(Path(str(self.folder))))
            except ValueError as error:
                raise ValueError(f"mentions.model: {error}") from error

    @property
    def name(self) -> str:
        """The word "tagger", the folder's name, and 20 digits of its content."""
        return f"tagger: {self.model}@{str(self.revision)[:27]}"

    def open(self, threads: int) -> None:
        """Check the sha256 of every file and load."""
        import torch

        torch.set_num_threads(threads)
        self._loaded()

    def find(
        self, texts: Sequence[str], sections: Sequence[str], leads: Sequence[bool]
    ) -> list[list[Mention]]:
        """By the tagger, then `rules.mentions`."""
        return type_runs(texts, self._loaded().runs(texts))

    def label(self, text: str) -> list[tuple[str, int, int]]:
        """What the tagger alone labels, in the types that `evaluate.pico` counts as P, I and O."""
        kinds = {"P": "Population", "I": "Intervention", "O": "Outcome"}
        return [(kinds[run.label], run.start, run.end) for run in self._loaded().runs([text])[0]]

    def _loaded(self) -> LoadedTagger:
        from srrag.model.tagger import load_tagger

        if self.folder is None:
            raise ValueError(f"mentions.folder: where {self.name} lies is not known here")
        return load_tagger(Path(self.folder), self.backend, self.revision)
