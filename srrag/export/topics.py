"""What the communities of a graph are about: the upper levels of the knowledge tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.export.titles import DIGITS, unique_titles
from srrag.schema import TREE
from srrag.storage.mirror import pull_build

_COLUMNS = ["level", "parent_id", "node_id", "ref_id", "name", "text"]


@dataclass(frozen=True, kw_only=True)
class Topics:
    """Names and summaries in the order of the communities' ids, and their keywords by rank.

    Names are unique. Keywords are rows of entity_id, community_id and name. Without a tree the name
    of a community is its id, and it has no summary.
    """

    names: pa.Array
    summaries: pa.Array
    keywords: pa.Table


def read_topics(tree: Path | None, community_ids: Sequence[str]) -> Topics:
    """Read them from the folder of the tree, if there is one."""
    ids = pa.array(community_ids, pa.string())
    if tree is None:
        rows = TREE.empty_table().select(_COLUMNS)
    else:
        path = pull_build(tree) / "tree.parquet"
        rows = pq.read_table(
            path, columns=_COLUMNS, filters=[("level", ">=", 3)], partitioning=None
        )
    communities = rows.filter(pc.equal(rows["level"], 4))
    place = pc.index_in(ids, value_set=communities["ref_id"])
    names, summaries = (communities[name].combine_chunks() for name in ("name", "text"))
    keywords = rows.filter(pc.equal(rows["level"], 3))
    above = pc.index_in(keywords["parent_id"], value_set=communities["node_id"])
    return Topics(
        names=unique_titles(
            pc.coalesce(names.take(place), ids), pc.utf8_slice_codeunits(ids, 0, DIGITS), ids
        ),
        summaries=pc.fill_null(summaries.take(place), ""),
        keywords=pa.table(
            {
                "entity_id": keywords["ref_id"],
                "community_id": communities["ref_id"].take(above),
                "name": keywords["name"],
            }
        ),
    )
