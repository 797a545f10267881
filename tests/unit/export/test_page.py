from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from srrag.export.graph import open_graph
from srrag.export.page import write_page
from srrag.export.select import select_community, select_entity
from tests.unit.export.graphs import SCRIPT, Written, key


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
