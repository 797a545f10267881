"""Ends a process whose Ray has lost its head (GCS), with one line that says what to do.

Ray itself waits for a minute, then ends the process from C++ with a page of its own, which nothing
in Python can catch. The job's finished parts are on disk, so it ends no worse than when it is
killed, and goes on when it is started again.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import ray

from srrag.runner.progress import say
from srrag.runner.ray.loopback import forget_folder

_LOOK_S = 1.0
_OWN_GONE_S = 3.0
"""A head that this process started never comes back."""
_GONE_S = 45.0
"""A cluster's head may, and Ray gives it 60 s."""


def watch_head(own: bool) -> None:
    """Watch, in a thread, the head that this process is connected to; `own` if it started it."""
    address = ray.get_runtime_context().gcs_address
    threading.Thread(target=_watch, args=(address, own), name="ray-head", daemon=True).start()


def _watch(address: str, own: bool) -> None:
    answered = time.monotonic()
    while ray.is_initialized():
        if _listens(address):
            answered = time.monotonic()
        elif time.monotonic() - answered > (_OWN_GONE_S if own else _GONE_S):
            _end(address, own)
        time.sleep(_LOOK_S)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_LOOK_S).close()
    except OSError:
        return False
    return True


def _end(address: str, own: bool) -> None:
    """Say what happened, and end the process as Ray would, but before it does."""
    again = "" if own else " once `ray status` answers on its node"
    say(
        f"error: the head of Ray (GCS) at {address} is gone; what is finished stays, and the "
        f"same command goes on{again}"
    )
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Ray's threads tell what follows, at length
    if own:
        node: Any = ray._private.worker._global_node
        node.kill_all_processes(check_alive=False, allow_graceful=False)
        forget_folder()
    os._exit(1)
