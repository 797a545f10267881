"""The web pages: static files of this package, served without a build step."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

_FOLDER = Path(__file__).parents[1] / "page"
_NAMES = {
    "/": "ask.html",
    "/runs": "runs.html",
    "/graph": "graph.html",
    **{f"/{file.name}": file.name for file in _FOLDER.iterdir() if file.suffix in (".css", ".js")},
}

CACHED = "private, no-cache"
"""A browser keeps a file, and asks each time whether it still stands."""

PAGE_PATHS = tuple(_NAMES)
"""Paths that need no key, since these files hold nothing of the corpus."""


def add_pages(app: FastAPI) -> None:
    """Add a route for each file, compressed where the browser takes it."""
    files, packed = StaticFiles(directory=_FOLDER), [Middleware(GZipMiddleware)]
    for path, name in _NAMES.items():
        app.router.routes.append(Route(path, partial(_answer, files, name), middleware=packed))


async def _answer(files: StaticFiles, name: str, request: Request) -> Response:
    response = await files.get_response(name, request.scope)
    response.headers["cache-control"] = CACHED
    return response
