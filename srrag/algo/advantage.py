"""The advantage of one retriever over another by pairwise preferences (EbmKG, Eq. 12 and 13)."""

from __future__ import annotations

from typing import NamedTuple


class Preference(NamedTuple):
    """Shares of comparisons that the first system won and that were ties, 0 to 1."""

    win: float
    tie: float


def advantage(recall: Preference, precision: Preference) -> float | None:
    """Return 4rp / (r + p) − 1 with r, p = win / (1 − tie): −1 to 1, above 0 for the better.

    None if all comparisons of either kind were ties; −1 if the first system won no comparison of
    either kind. Raises ValueError for shares outside 0…1 or whose sum exceeds 1.
    """
    for share in (recall, precision):
        if not (share.win >= 0 and share.tie >= 0 and share.win + share.tie <= 1 + 1e-9):
            raise ValueError(f"{share}: shares of wins and ties lie in 0…1, and so does their sum")
    if recall.tie >= 1 or precision.tie >= 1:
        return None
    r, p = (share.win / (1 - share.tie) for share in (recall, precision))
    return 4 * r * p / (r + p) - 1 if r + p else -1.0
