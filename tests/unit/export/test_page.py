from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.export.graph import open_graph
from srrag.export.page import place, write_page
from srrag.export.select import MAX_CHARS, Passages, quote, select_community, select_entity
from tests.unit.export.graphs import SCRIPT, TEXT, Written, key


def content(path: Path) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>',
                      path.read_text("utf-8"), re.DOTALL)  # fmt: skip
    assert found
    return json.loads(found[1])  # type: ignore[no-any-return]


def test_a_node_carries_its_sentences_documents_and_grades(
    written: Written, tmp_path: Path
) -> None:
    graph, path = written.graph, tmp_path / "page.html"
    counts = write_page(graph, select_community(graph, key("right")), path)
    assert counts == {"entities": 5, "edges": 6, "left_out": 0}
    page = content(path)
    quoted = next(node for node in page["nodes"] if node["id"] == key("quoted"))
    sources = [page["documents"][m["document"]] for m in quoted["mentions"]]
    assert [source["grade"] for source in sources] == ["A", "C"], "best evidence first"
    assert (
        "".join(quoted["mentions"][0]["quote"]) == "The exercise of d1 was done daily by 40 adults."
    )
    assert quoted["grades"] == [1, 0, 1, 0, 0, 0]
    assert {edge["relation"] for edge in page["edges"]} >= {"affects", "worsens"}


def test_texts_are_data(written: Written, tmp_path: Path) -> None:
    graph, path = written.graph, tmp_path / "page.html"
    write_page(graph, select_entity(graph, SCRIPT), path)
    text = path.read_text("utf-8")
    assert text.count("</script>") == 2, "the content's and the page's own"
    assert "<img" not in text
    assert any(node["name"] == SCRIPT for node in content(path)["nodes"])
    assert any(SCRIPT in document["title"] for document in content(path)["documents"])


def test_the_page_needs_nothing_from_elsewhere(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(written.graph, select_community(written.graph), path)
    text = re.sub(r'id="content">.*?</script>', "", path.read_text("utf-8"), flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(|fetch\(|innerHTML|eval\(""", text)
    assert "default-src 'none'" in text


def test_the_most_central_stay_and_the_page_says_so(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    counts = write_page(written.graph, select_community(written.graph), path, max_nodes=2)
    assert counts["left_out"] == 3
    assert content(path)["total"] == 5
    assert {node["id"] for node in content(path)["nodes"]} == {key("quoted"), key("trial")}


def test_the_same_graph_makes_the_same_page(written: Written, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_page(written.graph, select_community(written.graph), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_build_without_sentences_is_an_error(written: Written, tmp_path: Path) -> None:
    graph = open_graph({"entities": written.artifacts["entities"]})
    with pytest.raises(ValueError, match="'units'"):
        write_page(graph, select_entity(graph, "daily"), tmp_path / "page.html")


STAR = [(0, n) for n in range(1, 40)]


@pytest.mark.parametrize(
    ("num_nodes", "edges"),
    [(1, []), (7, []), (40, STAR), (45, STAR), (6, [(0, 1), (1, 2), (2, 0), (3, 4), (3, 3)])],
)
def test_no_node_lies_over_another(num_nodes: int, edges: list[tuple[int, int]]) -> None:
    radii = np.full(num_nodes, 9.0)
    points = place(num_nodes, edges, radii)
    assert points.shape == (num_nodes, 2)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(gaps, np.inf)
    assert gaps.min() > 18.0
    assert np.array_equal(points, place(num_nodes, edges, radii)), "the same every time"


def test_linked_nodes_are_nearer_than_others() -> None:
    path = [(n, n + 1) for n in range(9)]
    points = place(10, path, np.full(10, 5.0))
    linked = [np.linalg.norm(points[a] - points[b]) for a, b in path]
    assert max(linked) < np.linalg.norm(points[0] - points[9]) / 3


def test_nothing_to_place() -> None:
    assert place(0, [], np.zeros(0)).shape == (0, 2)


@pytest.mark.parametrize(
    ("text", "mention", "sentence"),
    [
        ("One. Two is here. Three.", "is", "Two is here."),
        ("## Results\nIt fell by 2.5 vs. rest. More.", "rest", "It fell by 2.5 vs. rest."),
        ("As Smith et al. Showed it fell. So.", "fell", "As Smith et al. Showed it fell."),
        ("Intro:\n- first item\n- second **bold** item\n\nEnd", "second", "second bold item"),
        ("a line\nbroken in two. Next", "two", "a line broken in two."),
        ("only words", "words", "only words"),
    ],
)  # fmt: skip
def test_the_sentence_around_a_mention(text: str, mention: str, sentence: str) -> None:
    start = text.index(mention)
    found = quote(text, start, start + len(mention))
    assert "".join(found).strip() == sentence
    assert found.text == mention


@given(st.text(alphabet="ab .?!\n#-1Z*", max_size=900), st.integers(0, 900), st.integers(0, 900))
@settings(deadline=None)
def test_a_quote_is_bounded_and_keeps_the_mention(text: str, one: int, other: int) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    found = quote(text, start, end)
    assert len("".join(found)) <= max(MAX_CHARS, end - start + 80) + 4
    assert "\n" not in "".join(found)


def test_a_span_of_the_document_is_found_in_its_window(written: Written) -> None:
    assert written.graph.units is not None
    passages = Passages(written.graph.units, [key("d1")])
    start = TEXT.index("exercise")
    found = passages.find(key("d1"), start, start + 8)
    assert found is not None
    quoted, section = found
    assert quoted == ("The ", "exercise", " of d1 was done daily by 40 adults.")
    assert section == "Results"
    assert passages.find(key("d2"), start, start + 8) is None
    assert passages.find(key("d1"), 10_000, 10_010) is None
