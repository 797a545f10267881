"""The pictures of the web pages in docs/ and the README, by a real browser on a root.

python -m perf.pictures ROOT QUESTION QUESTION [FOLDER=docs/pictures]
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.browser import CHROMIUM
from tests.serve.browsing import arrival, settled
from tests.unit.serve.serving import listening, settings

VIEWS = {"1280": (1280, 860), "768": (768, 1000), "390": (390, 844), "1280-dark": (1280, 860)}


def main(root: str, question: str, walked: str, folder: str = "docs/pictures") -> None:
    """Write page-VIEW.png, and graph-VIEW.png with a treatment and an outcome chosen.

    The second question is that of the graph.
    """
    with (
        listening(settings(Path(root), "pipeline=hybrid_maxsim")) as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in VIEWS:
            page = _opened(browser, name)
            page.goto(url)
            _ask(page, question)
            _shoot(page, Path(folder, f"page-{name}.png"))
            _ask(page, walked)
            with arrival(page):
                page.click("#as-graph")
            _choose(page)
            _shoot(page, Path(folder, f"graph-{name}.png"))
        browser.close()


def _opened(browser: Browser, name: str) -> Page:
    width, height = VIEWS[name]
    return browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if name.endswith("dark") else "light",
        reduced_motion="reduce",
    )


def _ask(page: Page, question: str) -> None:
    page.goto(page.url.partition("?")[0])  # alone, not as a follow-up
    page.fill("#question", question)
    page.press("#question", "Enter")
    settled(page)


def _choose(page: Page) -> None:
    """Press the first intervention, then the first outcome that shares a paper with it."""
    for column in (1, 2):
        page.locator(".column").nth(column).locator(".concept:not(.off)").first.click()
    page.evaluate("scrollTo(0, 0)")
    page.mouse.move(0, 0)


def _shoot(page: Page, path: Path) -> None:
    """A screenshot in 64 colours, a third of the size."""
    with Image.open(io.BytesIO(page.screenshot())) as shot:
        shot.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:5])
