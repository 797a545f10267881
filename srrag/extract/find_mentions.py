"""Find the typed mentions that the rules turn into facts, by the rules or by a trained tagger."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from srrag.core.provenance import Fitted
from srrag.core.spec import place_field
from srrag.reading.mentions import Mention, find_mentions, type_runs
from srrag.reading.tagger import shipped_fitted

if TYPE_CHECKING:
    from srrag.model.tagger import LoadedTagger


@dataclass(frozen=True, kw_only=True)
class FindMentions(abc.ABC):
    """A map from texts to typed mentions; its fields are its identity."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name in outputs."""

    @abc.abstractmethod
    def open(self, threads: int) -> None:
        """Load the model, once a process; raises ValueError if its files are not as expected."""

    @abc.abstractmethod
    def find(
        self, texts: Sequence[str], sections: Sequence[str], leads: Sequence[bool]
    ) -> list[list[Mention]]:
        """Return the mentions of each text, by start; `leads` marks texts that begin a document."""

    @abc.abstractmethod
    def fitted(self) -> Fitted:
        """The abstracts that it was learned from."""

    def read(self, text: str) -> list[tuple[str, int, int]]:
        """Return typed spans (type, start, end) of an abstract; `evaluate.pico` scores them."""
        return [mention[:3] for mention in self.find([text], [""], [True])[0]]


@dataclass(frozen=True, kw_only=True)
class FindByRules(FindMentions):
    """The cue words and patterns of `srrag.reading`."""

    @property
    def name(self) -> str:
        """The word "rules"."""
        return "rules"

    def open(self, threads: int) -> None:
        """Load nothing."""

    def find(
        self, texts: Sequence[str], sections: Sequence[str], leads: Sequence[bool]
    ) -> list[list[Mention]]:
        """Find mentions by `rules.mentions`."""
        return find_mentions(texts, sections, leads)

    def fitted(self) -> Fitted:
        """The abstracts that the lexicon was learned from."""
        return shipped_fitted()


@dataclass(frozen=True, kw_only=True)
class FindByTagger(FindMentions):
    """A tagger of `srrag train_tagger` labels P, I and O; cue words and patterns assign the types.

    The rules split a labelled run (Population with its Condition, Intervention, Comparator, Arm,
    Device, Outcome, AdverseEvent) and add timepoints, recommendations and contraindications. The
    content of the folder is its identity, not its path. The tagger runs on the CPU.
    """

    model: str
    """Path of the tagger's folder; the identity contains only its name."""
    revision: str | None = None
    """sha256 of its manifest; read from the folder by default."""
    backend: str = "torch"
    """torch (float32), torch-bf16 or torch-int8."""
    folder: str | None = place_field(None)
    """The local folder, if it differs from `model`."""

    def __post_init__(self) -> None:
        """Derive name, folder and revision from the path; raises ValueError for a bad folder."""
        if self.folder is None and (self.revision is None or "/" in self.model):
            path = Path(self.model).expanduser().resolve()
            object.__setattr__(self, "folder", str(path))
            object.__setattr__(self, "model", path.name)
        if self.revision is None:
            from srrag.storage.manifest import sealed_revision

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
        from srrag.model.passes import use_threads

        self._loaded()
        use_threads(threads)

    def find(
        self, texts: Sequence[str], sections: Sequence[str], leads: Sequence[bool]
    ) -> list[list[Mention]]:
        """Label runs by the tagger, then type them by `rules.mentions`."""
        return type_runs(texts, self._loaded().runs(texts))

    def fitted(self) -> Fitted:
        """The abstracts that the tagger was trained on."""
        from srrag.model.tagger import tagger_fitted

        return tagger_fitted(Path(str(self.folder)))

    def label(self, text: str) -> list[tuple[str, int, int]]:
        """Return the tagger's own labels, in types that `evaluate.pico` counts as P, I and O."""
        kinds = {"P": "Population", "I": "Intervention", "O": "Outcome"}
        return [(kinds[run.label], run.start, run.end) for run in self._loaded().runs([text])[0]]

    def _loaded(self) -> LoadedTagger:
        from srrag.model.tagger import load_tagger

        if self.folder is None:
            raise ValueError(f"mentions.folder: where {self.name} lies is not known here")
        return load_tagger(Path(self.folder), self.backend, self.revision)
