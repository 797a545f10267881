"""Why a window is in the evidence: who found it, and where each ranking put it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]


def why(row: Mapping[str, Any]) -> list[Row]:
    """For each piece of evidence of an answered row, in order, its `found` and its `ranked`.

    `found` holds what a search says of the window: channel, track, round, rank and score, with
    the graph's entity, edge and community that led there. `ranked` maps each column of hits, in
    the order in which they were made, to the window's rank and score there.
    """
    rankings = {
        name: {hit["unit_id"]: hit for hit in hits}
        for name, hits in row.items()
        if name.startswith("hits") and all(isinstance(hit, Mapping) for hit in hits)
    }
    found: dict[str, list[Row]] = {}
    for find in row.get("found", ()):
        # Ids that are empty say nothing: only the graph has them.
        said = {k: v for k, v in find.items() if k != "unit_id" and v != ""}
        found.setdefault(find["unit_id"], []).append(said)
    return [
        {
            "unit_id": item["unit_id"],
            "found": found.get(item["unit_id"], []),
            "ranked": {
                name: {
                    "rank": hits[item["unit_id"]]["rank"],
                    "score": hits[item["unit_id"]]["score"],
                }
                for name, hits in rankings.items()
                if item["unit_id"] in hits
            },
        }
        for item in row["evidence"]
    ]
