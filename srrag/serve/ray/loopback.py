"""Keeps what a replica listens on to loopback, where its Ray keeps to it."""

from __future__ import annotations

import importlib
import os
from typing import Any

from srrag.runner.ray.loopback import CLUSTERED

_EVERYWHERE = "[::]"


def keep_replica_here() -> None:
    """Have a replica's own server, for which Ray has no such setting, listen on loopback too."""
    if os.environ.get(CLUSTERED) != "0":
        return
    replica: Any = importlib.import_module("ray.serve._private.replica")
    bind = replica.add_port_to_grpc_server

    def bind_here(server: object, address: str) -> int:
        port: int = bind(server, address.replace(_EVERYWHERE, "127.0.0.1"))
        return port

    replica.add_port_to_grpc_server = bind_here
