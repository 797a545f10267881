"""`srrag export` on the sample: every format opened by its own library, the page by a browser."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import networkx
import pyarrow.parquet as pq
import pytest

import srrag.export.page as drawn
from srrag.export.graph import open_graph
from srrag.export.select import select_community
from srrag.storage.store import Store
from tests.e2e.browser import CHROMIUM, Tab, browser
from tests.e2e.command import fault, srrag
from tests.unit.export.graphs import SCRIPT, write

pytestmark = pytest.mark.e2e


def test_every_format_holds_the_same_graph(sample_root: Path, tmp_path: Path) -> None:
    counts = {}
    for name in ("graphml", "graphrag", "neo4j", "youtu", "json"):
        summary, _ = srrag("export", f"root={sample_root}", f"format={name}", f"out={tmp_path}")
        counts[name] = (summary["entities"], summary["edges"])
        assert all((tmp_path / file).exists() for file in summary["files"])
        assert summary["out"] == str(tmp_path)
    assert len(set(counts.values())) == 1, counts
    size = counts["graphml"]
    graph = networkx.read_graphml(tmp_path / "graph.graphml")
    assert (graph.number_of_nodes(), graph.number_of_edges()) == size
    assert pq.read_metadata(tmp_path / "entities.parquet").num_rows == size[0]
    with (tmp_path / "nodes.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file, strict=True))) == size[0]
    read = json.loads((tmp_path / "graph.json").read_text())
    assert (len(read["nodes"]), len(read["edges"])) == size
    assert not list(tmp_path.parent.glob(f".{tmp_path.name}.*")), "nothing is left beside it"


def test_a_second_export_replaces_the_first_and_is_the_same(
    sample_root: Path, tmp_path: Path
) -> None:
    arguments = ("export", f"root={sample_root}", "format=html", f"out={tmp_path}")
    srrag(*arguments)
    first = (tmp_path / "graph.html").read_bytes()
    (tmp_path / "graph.html").write_text("old")
    srrag(*arguments)
    assert (tmp_path / "graph.html").read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["format=gexf"], 2, "graphml, graphrag, neo4j, youtu, json, html"),
        ([], 2, "format"),
        (["format=html", "community=a", "entity=b"], 2, "one of them"),
        (["format=html", "community=zz"], 1, "is no community"),
        (["format=html", "entity=patelofemoral pain"], 1, "nearest: 'patellofemoral pain"),
        (["format=html", "entity=ankle sprain"], 1, "nearest: 'recurrent lateral ankle sprain'"),
        (["format=graphml", "build=other"], 2, "other"),
        (["format=html", "hops=-1"], 2, "hops=-1: a whole number, at least 0"),
        (["format=html", "max_nodes=0"], 2, "max_nodes=0: a whole number, at least 1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    sample_root: Path, tmp_path: Path, arguments: list[str], code: int, hint: str
) -> None:
    out = tmp_path / "out"
    said = fault("export", f"root={sample_root}", f"out={out}", *arguments, code=code)
    assert hint in said
    assert not out.exists()


def test_out_that_is_a_file_is_refused(sample_root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    said = fault(
        "export", f"root={sample_root}", "format=youtu", f"out={tmp_path / 'file'}", code=2
    )
    assert "is a file" in said
    assert (tmp_path / "file").read_text() == "mine"


# ---- the page in a browser ----


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page")
    srrag("export", f"root={sample_root}", "format=html", f"out={out}")
    return out / "graph.html"


MIDDLE = """(() => {
  const box = document.querySelector(%s).getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""


def middle(tab: Tab, selector: str) -> tuple[float, float]:
    x, y = tab.run(MIDDLE % json.dumps(selector))
    return x, y


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_click_on_a_node_shows_its_sentences_and_grades(
    tab: Tab, page: Path, width: int, height: int, scheme: str
) -> None:
    tab.open(page, width, height, prefers_color_scheme=scheme)
    content = json.loads(tab.run("document.getElementById('content').textContent"))
    number = max(
        (n for n, node in enumerate(content["nodes"]) if node["type"] != "Document"),
        key=lambda n: content["nodes"][n]["r"],
    )
    node = content["nodes"][number]
    assert tab.run("document.querySelectorAll('.mention').length") == 0
    tab.click(*middle(tab, f'[data-node="{number}"]'))
    assert tab.run("document.querySelector('#panel h2').textContent").endswith(node["name"])
    assert tab.run("document.querySelectorAll('.mention').length") == len(node["mentions"]) > 0
    first = node["mentions"][0]
    shown = "".join(first["quote"])
    assert tab.run("document.querySelector('.mention blockquote').textContent").startswith(shown)
    assert tab.run("document.querySelector('.mention mark').textContent") == first["quote"][1]
    source = content["documents"][first["document"]]
    assert source["title"] in tab.run("document.querySelector('.mention .source').textContent")
    assert tab.run("document.querySelector('.mention .badge').textContent") == source["grade"]
    assert tab.run("document.documentElement.scrollWidth") <= width, "nothing runs off the page"
    assert tab.faults == []
    assert all(url.startswith("file:") for url in tab.requests), "nothing from the network"


def test_keys_types_and_lines_work_too(tab: Tab, page: Path) -> None:
    tab.open(page)
    assert tab.run("choose({edge: 0}), document.querySelectorAll('.mention').length") >= 1
    assert tab.run("document.querySelectorAll('.link.chosen').length") == 1
    tab.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert tab.run("document.querySelectorAll('.chosen').length") == 0
    tab.run(
        "document.querySelector('[data-node]').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))"
    )
    assert tab.run("document.querySelectorAll('.point.chosen').length") == 1
    every = tab.run("document.querySelectorAll('.point:not(.gone)').length")
    tab.run("document.querySelector('#legend button').click()")
    assert tab.run("document.querySelectorAll('.point:not(.gone)').length") < every
    assert tab.faults == []


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (820, 600), (390, 844)])
def test_nothing_of_the_drawing_lies_under_a_button(
    tab: Tab, page: Path, width: int, height: int
) -> None:
    tab.open(page, width, height)
    tab.run(
        "rects = (some) => [...document.querySelectorAll(some)].map(e => e.getBoundingClientRect())"
        ".map(b => [b.left, b.top, b.right, b.bottom])"
    )
    buttons = tab.run("rects('#legend button, #zoom button')")
    drawn = tab.run("rects('.point path, #names text:not(.gone)')")
    (left, top, right, bottom), *_ = tab.run("rects('#graph')")
    assert len(drawn) > 30 and len(buttons) > 5
    for a in drawn:
        assert left - 1 <= a[0] and a[2] <= right + 1 and top - 1 <= a[1] and a[3] <= bottom + 1
        for b in buttons:
            across = min(a[2], b[2]) - max(a[0], b[0])
            down = min(a[3], b[3]) - max(a[1], b[1])
            assert across <= 1 or down <= 1


@pytest.mark.parametrize("family", ["system-ui", "DejaVu Sans", "Liberation Serif", "monospace"])
def test_no_two_labels_lie_over_each_other(
    tab: Tab, sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """Whatever a machine draws text with: a family that it lacks is another one of its own."""
    shutil.copytree(drawn._ASSETS, assets := tmp_path / "page")
    css = (assets / "page.css").read_text("utf-8")
    (assets / "page.css").write_text(css.replace("system-ui", f'"{family}", system-ui'), "utf-8")
    monkeypatch.setattr(drawn, "_ASSETS", assets)
    graph = open_graph(Store(sample_root).artifacts("default"))
    drawn.write_page(graph, select_community(graph), tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    assert family in tab.run("getComputedStyle(document.querySelector('#names text')).fontFamily")
    boxes = tab.run(
        "[...document.querySelectorAll('#names text:not(.gone)')]"
        ".map(t => t.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])"
    )
    assert len(boxes) > 5
    slack = 1
    for n, a in enumerate(boxes):
        for b in boxes[n + 1 :]:
            across = min(a[2], b[2]) - max(a[0], b[0])
            down = min(a[3], b[3]) - max(a[1], b[1])
            assert across <= slack or down <= slack


def test_a_title_that_is_a_script_does_nothing(tab: Tab, tmp_path: Path) -> None:
    graph = write(tmp_path).graph
    drawn.write_page(graph, select_community(graph), tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    tab.run("window.alert = () => { document.title = 'broken in'; }")
    for number in range(tab.run("nodes.length")):
        tab.run(f"choose({{node: {number}}})")
    assert SCRIPT in tab.run("choose({}), document.getElementById('panel').textContent")
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.run("document.title") != "broken in"
    assert tab.faults == []
