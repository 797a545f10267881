"""What communities will ask is foretold from facts: each told once, calls as the rate says."""

from __future__ import annotations

import pyarrow as pa

from srrag.graph.estimate_prompts import foretold
from srrag.schema import TRIPLES
from tests.unit.index.tables import row


def facts(
    *triples: tuple[str, str, str], kind: str = "relation", head_type: str = "Drug"
) -> pa.Table:
    rows = [
        row(TRIPLES, kind=kind, head=head, head_type=head_type, relation=relation, tail=tail,
            tail_type="Outcome")
        for head, relation, tail in triples
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=TRIPLES)


def told(table: pa.Table, max_chars: int = 12_000) -> str:
    return "\n".join(prompt.user for prompt in foretold([table], max_chars)[0])


def test_each_fact_is_told_once_however_it_is_written() -> None:
    text = told(facts(("Rest", "treats", "pain"), ("rest ", "treats", "Pain"), ("Rest", "is", "x")))
    assert text.count("Rest treats pain") == 1
    assert text.count("Rest is x") == 1


def test_calls_follow_the_entities_of_all_parts() -> None:
    half = [
        facts(*((f"drug {n}", "treats", f"pain {n}") for n in range(k, k + 100))) for k in (0, 100)
    ]
    prompts, guesses = foretold(half, 12_000)
    assert len(prompts) == len(guesses) == 18, "400 entities, 45 a 1,000"
    again, _ = foretold([*half, *half], 12_000)
    assert [prompt.user for prompt in again] == [prompt.user for prompt in prompts]


def test_values_are_nodes_of_their_entity_and_documents_are_studies() -> None:
    values = facts(*((f"drug {n}", "dose", "5 mg") for n in range(100)), kind="attribute")
    assert len(foretold([values], 12_000)[0]) == 9, "200 nodes"
    text = told(
        facts(("0a1b2c", "reports", "pain"), ("3d4e5f", "reports", "pain"), head_type="Document")
    )
    assert "0a1b2c" not in text.split("Facts")[1]
    assert text.count("A study reports pain") == 2


def test_no_prompt_is_longer_than_a_community_s_may_be() -> None:
    long = facts(*(("d", "treats", f"{n} " + "pain " * 60) for n in range(50)))
    assert all(len(prompt.user) < 2_500 for prompt in foretold([long], 2_000)[0])


def test_a_corpus_without_a_fact_asks_nothing() -> None:
    assert foretold([facts()], 12_000) == ([], [])
    assert foretold([], 12_000) == ([], [])
