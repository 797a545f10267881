"""Which hyper-relations a keyword may have, by its type (EbmKG, appendix A.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

KEYWORD_TYPES = ("Disease", "Drug")
"""The types of keywords; the paper's documents are guidelines and drug labels."""
REST = "general"
"""By rules, the label of a sentence without a cue."""


@dataclass(frozen=True, kw_only=True)
class HyperRelations:
    """The labels of each type of keyword; findings have no other combinations."""

    labels: dict[str, list[str]] = field(
        default_factory=lambda: {
            "Disease": ["symptoms", "causes", "diagnosis", "treatment", "prognosis"],
            "Drug": ["treatment", "usage", "adverse reactions", "contraindications",
                     "drug interactions", "precautions"],
        }
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Raise ValueError that names an unknown type, an empty list or an odd label."""
        for kind, labels in self.labels.items():
            if kind not in KEYWORD_TYPES:
                raise ValueError(f"hyperrelations: {kind!r} is none of {', '.join(KEYWORD_TYPES)}")
            if not labels or len(set(labels)) < len(labels):
                raise ValueError(f"hyperrelations: the labels of {kind} are none, or repeat")
            for label in labels:
                if not label.strip() or len(label) > 60 or not label.isprintable():
                    raise ValueError(f"hyperrelations: {label!r} is no label of {kind}")

    def of(self, kind: str) -> list[str]:
        """The labels of a type, none for an unknown one."""
        return self.labels.get(kind, [])
