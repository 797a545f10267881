"""What the communities of a graph are about: the upper levels of the knowledge tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from srrag.export.titles import DIGITS, unique_titles
from srrag.graph import knowledge_tree
from srrag.graph.tree_layout import ROWS
from srrag.storage.mirror import pull_build


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
        communities = keywords = ROWS.empty_table()
    else:
        communities = knowledge_tree.read_topics(pull_build(tree))
        keywords = knowledge_tree.read_below(tree, ["keyword"])
    place = pc.index_in(ids, value_set=communities["ref_id"])
    names, summaries = (communities[name].combine_chunks() for name in ("name", "text"))
    return Topics(
        names=unique_titles(
            pc.coalesce(names.take(place), ids), pc.utf8_slice_codeunits(ids, 0, DIGITS), ids
        ),
        summaries=pc.fill_null(summaries.take(place), ""),
        keywords=pa.table(
            {
                "entity_id": keywords["ref_id"],
                "community_id": keywords["community_id"],
                "name": keywords["name"],
            }
        ),
    )
