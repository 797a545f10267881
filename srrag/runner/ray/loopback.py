"""Restrict a Ray that this process starts to this machine and this run.

By default Ray on Linux listens on every address, accepts anyone who knows a token that it stores in
a readable file of the home folder, and puts its sockets and logs in folders that others may write.
Ray listens on loopback only if clusters are switched off, as they are by default on macOS. (If
`ray.init` gets a loopback address, Ray replaces it by that of the network.)
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import sys
import tempfile

CLUSTERED = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Every Ray process reads this variable on import."""

_folders: list[str] = []


def keep_ray_here() -> None:
    """Configure the Ray that this process will start; has no effect once Ray is loaded."""
    if "ray" in sys.modules:
        return
    os.environ.setdefault(CLUSTERED, "0")
    if "RAY_TMPDIR" not in os.environ:
        os.environ["RAY_TMPDIR"] = folder = tempfile.mkdtemp(prefix="srrag-ray-")
        _folders.append(folder)
        atexit.register(forget_folder)  # runs after Ray's own handlers
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def forget_folder() -> None:
    """Remove the folder of sockets and logs that `keep_ray_here` made, if any."""
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)
