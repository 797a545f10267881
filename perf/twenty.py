"""Twenty answers as they are: `python -m perf.twenty ROOT NEAR_TOPIC REHAB [PIPELINE]`.

Of the blind half of `bench=near_topic` the first twelve questions by hash that the corpus of ROOT
answers, and the first eight that it does not: first paragraph and note of each, as Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from srrag.config import factory
from srrag.config.compose import configure
from srrag.evaluate.near_topic import NearTopic, read_near_topic
from srrag.ids import content_id
from srrag.retrieve.questions import question_table

ANSWERABLE, OTHERS = 12, 8


def first(questions: Sequence[NearTopic]) -> list[NearTopic]:
    """The twenty, those that the corpus answers first."""
    ordered = sorted(questions, key=lambda each: content_id("show", each.query_id))
    held = [each for each in ordered if each.answerable][:ANSWERABLE]
    return held + [each for each in ordered if not each.answerable][:OTHERS]


def main(root: str, near_topic: str, rehab: str, pipeline: str = "hybrid_maxsim") -> None:
    """Ask them and print the answers."""
    chosen = first(read_near_topic(Path(near_topic), Path(rehab), "blind"))
    arguments = [f"root={root}", f"bench.path={near_topic}", f"pipeline={pipeline}"]
    config = configure("evaluate", arguments)
    bound = factory.pipeline_run(config, factory.answering(config))
    asked = question_table({"query_id": each.query_id, "text": each.text} for each in chosen)
    rows = {row["query_id"]: row for row in bound.run(asked, factory.place(config)).to_pylist()}
    for number, each in enumerate(chosen, 1):
        row = rows[each.query_id]
        mark = "" if each.answerable else " *(the corpus does not answer it)*"
        print(f"{number}. **{each.text}**{mark}\n   > {row['answer'].splitlines()[0]}")
        if row["answer_note"]:
            print(f"   > *{row['answer_note']}*")


if __name__ == "__main__":
    main(*sys.argv[1:])
