"""Turns the disconnect of a client into an ordinary end of the request instead of an error.

A replica receives messages by a call to Ray's proxy, and Ray may cancel that call before it
cancels the request.
"""

from __future__ import annotations

from typing import Any

from ray.exceptions import TaskCancelledError


class EndOnDisconnect:
    """Wraps an ASGI app on a Ray Serve replica."""

    def __init__(self, app: Any) -> None:
        """Bind the app."""
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the app; a cancelled `receive` becomes the message `http.disconnect`."""

        async def received() -> Any:
            try:
                return await receive()
            except TaskCancelledError:
                return {"type": "http.disconnect"}

        await self._app(scope, received, send)
