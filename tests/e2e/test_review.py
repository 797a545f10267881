"""`srrag review`: sheets are made, filled in a real browser, and read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.browser import CHROMIUM
from tests.e2e.command import fault, srrag
from tests.judged import ANSWERS
from tests.unit.lab.review.kits import rows

pytestmark = [pytest.mark.e2e, pytest.mark.in_order]
FEW = "resamples=100"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kit of three questions answered by two systems."""
    folder = tmp_path_factory.mktemp("review")
    for name in ("one", "two"):
        table = pa.Table.from_pylist(rows(name), schema=ANSWERS)
        pq.write_table(table, folder / f"{name}.parquet")
    lines = [{"id": f"q{n}", "answer": f"Reference {n}", "condition": "knee"} for n in range(6)]
    (folder / "gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary, _ = srrag("review", *arguments(folder), f"gold={folder}/gold.jsonl")
    assert (summary["questions"], summary["items"], summary["without_reference"]) == (3, 6, 0)
    return folder


def arguments(folder: Path) -> list[str]:
    return [
        f"answers={{one: {folder}/one.parquet, two: {folder}/two.parquet}}", f"out={folder}/kit",
        "questions=3",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.faults, page.asked = [], []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("console", lambda message: page.faults.append(message.text))
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("dialog", lambda dialog: dialog.accept())  # the file is saved
        page.goto((folder / "kit" / "sheets" / "sheet.html").as_uri())
        yield page
        browser.close()


def saved(page: Any, path: Path) -> dict[str, Any]:
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(path)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_a_sheet_is_filled_with_the_keyboard_and_saved(page: Any, folder: Path) -> None:
    page.click("#save")
    assert "name" in page.inner_text("#fault")
    page.fill("#rater", "Ann")
    page.click("#next")
    for digit in "54321" + "5" * 24:
        page.keyboard.press(digit)
    page.fill("article textarea >> nth=0", "Well put.")
    assert page.inner_text("#count") == "29 of 30 ratings"
    content = saved(page, folder / "filled" / "Ann.json")
    first, *_, last = content["ratings"]
    assert list(first.values())[1:] == [5, 4, 3, 2, 1, "Well put."]
    assert list(last.values())[1:] == [5, 5, 5, 5, None, ""]
    assert page.evaluate("window.hacked") is None
    assert page.faults == []
    assert all(url.startswith(("file:", "blob:")) for url in page.asked)


def test_what_was_entered_is_kept_until_it_is_saved_and_can_be_loaded(
    page: Any, folder: Path
) -> None:
    """So the next rater at this computer finds an empty sheet without a name."""
    page.reload()
    assert page.inner_text("#count") == "0 of 30 ratings"
    assert page.input_value("#rater") == ""
    page.set_input_files("#load", folder / "filled" / "Ann.json")
    page.locator("#count", has_text="29 of 30 ratings").wait_for()
    page.reload()
    page.locator("#count", has_text="29 of 30 ratings").wait_for()
    assert page.input_value("#rater") == "Ann"
    page.press("fieldset input:checked >> nth=0", "Backspace")
    assert page.inner_text("#count") == "28 of 30 ratings"
    other = folder / "other.json"
    other.write_text('{"kind": "srrag review", "sample": "x", "ratings": []}')
    page.set_input_files("#load", other)
    page.locator("#fault", has_text="another sheet").wait_for()


@pytest.mark.parametrize("width", [1280, 380])
def test_nothing_is_cut_off(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_filled_sheets_become_figures(page: Any, folder: Path) -> None:
    """The browser's sheet and another rater's: 29 and 6 ratings of 60."""
    content = json.loads((folder / "filled" / "Ann.json").read_text())
    ratings = [{"item": each["item"], "accuracy": 4} for each in content["ratings"]]
    other = content | {"rater": "Bo", "ratings": ratings}
    (folder / "filled" / "Bo.json").write_text(json.dumps(other))
    summary, said = srrag("review", f"import={folder}/filled", f"out={folder}/kit", FEW)
    assert (summary["raters"], summary["sheets"]) == (["Ann", "Bo"], 2)
    systems = summary["systems"]
    counted = [each for found in systems.values() for each in found["metrics"].values()]
    assert (sum(e["items"] for e in counted), sum(e["missing"] for e in counted)) == (35, 25)
    assert [name for name, found in systems.items() if "difference" in found] == ["two"]
    assert summary["comments"] == [{"item": "Q01-A", "rater": "Ann", "comment": "Well put."}]
    assert Path(summary["plot"]).read_bytes().startswith(b"\x89PNG")
    assert "Medical factual accuracy" in said


def test_a_bad_rating_is_one_line_that_names_it(page: Any, folder: Path) -> None:
    bad = folder / "bad.json"
    bad.write_text((folder / "filled" / "Ann.json").read_text().replace('"picot": 1', '"picot": 9'))
    said = fault("review", f"import={bad}", f"out={folder}/kit", code=2)
    assert "bad.json: row 1, column 'picot': 9 is not on the scale of 1 to 5" in said
