"""A client that went: the app hears of it as of any that goes, not as of a failure.

A replica listens by a call to Ray's proxy, which Ray may cancel before it cancels the request.
"""

from __future__ import annotations

from typing import Any

from ray.exceptions import TaskCancelledError


class EndOnDisconnect:
    """Wraps an ASGI app on a replica of Ray Serve."""

    def __init__(self, app: Any) -> None:
        """Bind the app."""
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let all pass."""

        async def received() -> Any:
            try:
                return await receive()
            except TaskCancelledError:
                return {"type": "http.disconnect"}

        await self._app(scope, received, send)
