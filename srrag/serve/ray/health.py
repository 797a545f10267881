"""Checks that the server on Ray can start, has started and still answers."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping

from ray import serve
from ray.serve.schema import ApplicationStatus, ApplicationStatusOverview

NAME = "srrag"
_POLL_S = 0.5
_ERROR = re.compile(r"^\s*(?:[\w.]*\.)?\w+(?:Error|Exception): (.+\S)\s*$", re.MULTILINE)
"""The last line of a traceback, without the name of its error."""


def check_port(host: str, port: int) -> None:
    """Raise RuntimeError if the port is taken.

    Ray's proxies share a port with any server that allows it, as another Ray does; callers would
    then get the answers of either server.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET  # as Ray chooses
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        reason = error.strerror or error
        raise RuntimeError(f"port={port}: {host} cannot be listened at: {reason}") from error


def wait_until_up(most_s: float) -> None:
    """Wait until the server runs; raises RuntimeError if it fails or exceeds `most_s` seconds."""
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        app = serve.status().applications[NAME]
        if app.status == ApplicationStatus.RUNNING:
            return
        if app.status == ApplicationStatus.DEPLOY_FAILED:
            raise RuntimeError(_why(app))
        time.sleep(_POLL_S)
    raise RuntimeError(f"the server was not up within {most_s:g} s")


class Health:
    """Distinguishes a lost server from one whose lost replicas Ray is restarting.

    Ray reports the whole server as unhealthy while it restarts replicas, and for ever if there
    are too few nodes.
    """

    def __init__(self, most_s: float) -> None:
        """Start with a server that runs; it may fail to answer for `most_s` seconds."""
        self._most_s = most_s
        self._answered = time.monotonic()

    def failed(self) -> str:
        """Why the server is lost; "" while it answers or may still recover."""
        app = serve.status().applications.get(NAME)
        if app is None:
            return "the server is gone"
        now = time.monotonic()
        if _answers(app):
            self._answered = now
        return _why(app) if now - self._answered > self._most_s else ""


def _answers(app: ApplicationStatusOverview) -> bool:
    """Whether each deployment has a running replica, or none since it is asked nothing."""
    return all(
        any(n for state, n in each.replica_states.items() if state == "RUNNING")
        or each.status == "HEALTHY"
        for each in app.deployments.values()
    )


def _why(app: ApplicationStatusOverview) -> str:
    return failure_line(app.message, {name: d.message for name, d in app.deployments.items()})


def failure_line(message: str, deployments: Mapping[str, str]) -> str:
    """Why an application failed, in one line: the error of a deployment, else its own last line.

    Ray's own message says no more than that deployments could not be updated.
    """
    for name, told in deployments.items():
        if errors := _ERROR.findall(told):
            return f"{name}: {errors[-1]}" if name != NAME else str(errors[-1])
    lines = [
        line.strip() for text in (message, *deployments.values()) for line in text.splitlines()
    ]
    return next((line for line in reversed(lines) if line), "the server failed")
