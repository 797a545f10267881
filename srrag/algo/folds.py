"""Folds of questions: a fit to some folds is measured on the others."""

from __future__ import annotations

import hashlib

FOLDS = 5


def question_fold(text: str) -> int:
    """The fold of a question, 0 … FOLDS - 1, by a hash of its words, so repeats share it."""
    words = "".join(c if c.isalnum() else " " for c in text.casefold()).split()
    return int(hashlib.sha256(" ".join(words).encode()).hexdigest()[:8], 16) % FOLDS
