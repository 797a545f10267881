"""A real browser on a server of this process: Chromium without a window, driven by Playwright."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from PIL import Image
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from tests.e2e.browser import CHROMIUM

expect.set_options(timeout=60_000)

VIEWS = {"desk": (1280, 900), "phone": (380, 800)}
"""Width and height."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's own browser; skips where there is none."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(browser: Browser, url: str, view: str = "desk", faults: bool = False) -> Iterator[Page]:
    """A settled page; on leaving, nothing was asked from afar and nothing logged as an error.

    With `faults` errors may be logged: a browser does so for every answer from 400 on.
    """
    width, height = VIEWS[view]
    page = _empty(browser)
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(media="screen", color_scheme="light", reduced_motion="reduce")
    logged: list[str] = []
    asked: list[str] = []
    heard: dict[str, Callable[[Any], None]] = {
        "console": lambda note: logged.append(note.text) if note.type == "error" else None,
        "pageerror": lambda error: logged.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }
    for event, hear in heard.items():
        page.on(event, hear)  # type: ignore[call-overload]
    try:
        page.goto(url)
        settled(page)
        yield page
        origin = "/".join(url.split("/")[:3])
        assert [each for each in asked if not each.startswith((f"{origin}/", "data:"))] == []
        assert faults or logged == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing runs off"
        page.unroute_all()
        page.evaluate("localStorage.clear(); sessionStorage.clear()")
        page.goto("about:blank")
    except BaseException:
        page.context.close()
        raise
    for event, hear in heard.items():
        page.remove_listener(event, hear)


def _empty(browser: Browser) -> Page:
    """The page that the last visit left, or a new one, which takes a second of a core."""
    for context in browser.contexts:
        for page in context.pages:
            if page.url == "about:blank":
                context.clear_cookies()
                context.clear_permissions()
                return page
    page = browser.new_context().new_page()
    page.set_default_timeout(30_000)
    return page


def settled(page: Page) -> None:
    """Wait until the page has drawn all that it has asked the server for, or will after typing."""
    page.locator("html:not([data-waiting])").wait_for(state="attached")


@contextmanager
def arrival(page: Page) -> Iterator[None]:
    """Wait, after a block that leads to another page, until that page has settled."""
    with page.expect_navigation():
        yield
    settled(page)


@contextmanager
def held(page: Page, url: str) -> Iterator[Held]:
    """Keep what the server is asked at such an address on its way, until the block ends."""
    kept = Held(page)
    page.route(url, kept.keep)
    try:
        yield kept
    finally:
        for route in kept.routes:
            route.continue_()
        page.unroute(url)


@dataclass
class Held:
    """The requests that are kept on their way."""

    page: Page
    routes: list[Route] = field(default_factory=list)

    def keep(self, route: Route) -> None:
        """Keep a request."""
        self.routes.append(route)

    def wait(self) -> None:
        """Wait until the page has asked."""
        while not self.routes:
            self.page.evaluate("0")  # takes in what the browser tells meanwhile


@contextmanager
def dark(page: Page) -> Iterator[None]:
    """A page in dark colours, which its style alone draws."""
    page.emulate_media(color_scheme="dark")
    yield
    page.emulate_media(color_scheme="light")


def accessible(page: Page, view: str = "desk") -> None:
    """No rule of axe is broken, nor one of its rules on colours when they are dark.

    A test of several views looks at dark colours in one: they are the same at any width.
    """
    _no_violation(page)
    if view == "desk":
        with dark(page):
            _no_violation(page, runOnly=["color-contrast", "link-in-text-block"])


def _no_violation(page: Page, **options: list[str]) -> None:
    found = Axe().run(page, options={"resultTypes": ["violations"], **options})
    told = [
        (each["id"], [node["html"][:200] for node in each["nodes"]])
        for each in found.response["violations"]
    ]
    assert told == [], told  # said here, as pytest rewrites the asserts of tests alone


def picture(page: Page, name: str) -> None:
    """Take a picture anew, if there is one of this name in SRRAG_PICTURES (`make pictures`)."""
    path = Path(os.environ.get("SRRAG_PICTURES", os.devnull)) / f"{name}.png"
    if path.exists():
        taken = Image.open(io.BytesIO(page.screenshot()))
        taken.convert("RGB").quantize(256).save(path, optimize=True)
        assert path.stat().st_size > 5000, "an empty page is smaller"
