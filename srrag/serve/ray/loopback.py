"""Makes replicas listen on loopback only, if their Ray does."""

from __future__ import annotations

import importlib
import os
from typing import Any

from srrag.runner.ray.loopback import CLUSTERED

_EVERYWHERE = "[::]"


def keep_replica_here() -> None:
    """Make a replica's gRPC server listen on loopback, for which Ray has no setting."""
    if os.environ.get(CLUSTERED) != "0":
        return
    replica: Any = importlib.import_module("ray.serve._private.replica")
    bind = replica.add_port_to_grpc_server

    def bind_here(server: object, address: str) -> int:
        port: int = bind(server, address.replace(_EVERYWHERE, "127.0.0.1"))
        return port

    replica.add_port_to_grpc_server = bind_here
