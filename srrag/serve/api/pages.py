"""The web pages: static files of this package, served without a build step."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.routing import Route

import srrag.export.page as drawn

_OURS = Path(__file__).parents[1] / "page"
_DRAWN = Path(drawn.__file__).parent / "page"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_FILES = {
    "/": _OURS / "ask.html",
    "/runs": _OURS / "runs.html",
    "/graph": _OURS / "graph.html",
    "/drawing.js": _DRAWN / "page.js",  # the page that `srrag export` writes draws the same way
    "/drawing.css": _DRAWN / "page.css",
    **{
        f"/{name}": _OURS / name
        for name in (
            "page.css", "clinic.css", "runs.css", "graph.css", "ask.js", "runs.js", "graph.js",
            "dom.js", "evidence.js", "window.js", "why.js", "reading.js", "findings.js", "paper.js",
            "places.js", "take.js",
        )
    },
}  # fmt: skip

PAGE_PATHS = tuple(_FILES)
"""Paths that need no key, since these files hold nothing of the corpus."""


def add_pages(app: FastAPI) -> None:
    """Add a route for each file; every file is read once, here."""
    for path, file in _FILES.items():
        content = _with_drawing(file.read_text("utf-8"))
        answer = partial(_file, content.encode(), _KINDS[file.suffix])
        app.router.routes.append(Route(path, answer))


def _with_drawing(text: str) -> str:
    """Replace the placeholder %%drawing%% by the <main> element of the exported page."""
    if "%%drawing%%" not in text:
        return text
    page = (_DRAWN / "page.html").read_text("utf-8")
    main = page[page.index("<main>") : page.index("</main>")] + "</main>"
    return text.replace("%%drawing%%", main.replace("<main>", "<main hidden>"))


async def _file(content: bytes, kind: str, request: Request) -> Response:
    return Response(content, media_type=kind)
