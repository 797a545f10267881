"""Keeps a Ray that is started here to this machine and this run, on a shared machine too.

By itself Ray listens on every address on Linux, lets in whoever knows a token, which it writes to
a file of the home folder that others may read, and keeps its sockets and logs where others may
write. Told that it cannot be part of a cluster, as it takes a Mac to be, it keeps to loopback
throughout. (An address of loopback given to `ray.init` it replaces by that of the network.)
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import sys
import tempfile

CLUSTERED = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Read by every process of Ray, when it is imported there."""


def keep_ray_here() -> None:
    """Tell the Ray that this process will start; too late, and so left alone, once it is loaded."""
    if "ray" in sys.modules:
        return
    os.environ.setdefault(CLUSTERED, "0")
    if "RAY_TMPDIR" not in os.environ:
        os.environ["RAY_TMPDIR"] = folder = tempfile.mkdtemp(prefix="srrag-ray-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # runs after Ray's own
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
