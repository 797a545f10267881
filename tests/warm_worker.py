"""Workers and agents of Ray for tests, forked from processes that have imported what they need.

A worker imports Ray, its libraries and torch before it does anything: up to three seconds of a
core, for several workers a test. With `install`, Ray starts this script in place of its own: it
hands its arguments, environment and streams over to a process that has imported all that, which
forks, and the fork goes on with Ray's script. The first worker that asks starts such a process,
which lasts as long as the test run; there is one for each environment that Ray reads on import.
Ray also reads its job there, so each such process has a fork for each job that imports Ray.

Of a node's two agents, the one that sets up environments is forked too, once such a process is
ready; that of the dashboard says no more than that it is absent. Ray's own would take two and a
half seconds of a core a node, and Ray waits for both.

A process that calls `with_warm_workers`, as tests.gate does, has them too; other jobs that tests
start as processes of their own have Ray's own workers.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import importlib
import json
import os
import random
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

FOLDER = "SRRAG_WARM_WORKERS"
"""The variable with the folder of their sockets, named after the process of the test run."""

ROOT = str(Path(__file__).parents[1])
"""To import from, in place of this script's folder, which has a ray/ too."""

UNREAD = {"include_log_monitor": False, "no_monitor": True}
"""Of each Ray, what passes on what workers print, and what asks a cloud for nodes."""

START_S = 300
"""For a node to start on a busy machine, which Ray gives 30 seconds."""

WORKER = "_private/workers/default_worker.py"
"""Ray's script of a worker, in its package."""

JOB = "RAY_JOB_ID"
READ_ON_IMPORT = ("RAY_", "PYTHON", "OMP_", "HF_")
OF_ONE_RUN = {
    FOLDER, "PYTHONBREAKPOINT", "RAY_ADDRESS", "RAY_AUTH_TOKEN", JOB, "RAY_NODE_ID",
    "RAY_RAYLET_PID", "RAY_TMPDIR", "RAY_WARN_BLOCKING_GET_INSIDE_ASYNC",
}  # fmt: skip
IMPORTED = (
    "fastapi", "opentelemetry.sdk.trace", "pandas", "pyarrow.dataset", "pyarrow.json",
    "pydantic.v1", "requests", "rich.console", "scipy.sparse", "srrag.config.compose", "torch",
    "uvicorn",
)  # fmt: skip
IMPORTED_FOR_A_JOB = (
    "ray._private.arrow_serialization",
    "ray.data._internal.execution.operators.actor_pool_map_operator",
    "ray.data._internal.issue_detection.issue_detector_manager",
    "ray.data._internal.planner.plan_udf_map_op", "ray.serve", "ray.train.torch",
    "srrag.runner.ray.data", "srrag.serve.ray.deployments",
)  # fmt: skip
IMPORTED_FOR_AN_AGENT = ("aiohttp.web", "ray._private.runtime_env.agent.runtime_env_agent")
ABSENT = ("metrics_agent", "metrics_export", "dashboard_agent_listen")
"""The ports of which a dashboard's agent tells its raylet."""

THREADS = {"jemalloc_bg_thd"}
"""Beside the main one; they outlive a fork, as Arrow's allocator starts them again."""


# ---- in the tests ----


def prepare() -> None:
    """Give this test run a folder, unless the process that started it has one."""
    if FOLDER not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="srrag-warm-"), str(os.getpid()))
        folder.mkdir()
        os.environ[FOLDER] = str(folder)


def clean() -> None:
    """Remove the folder, which ends the processes that fork, if this process made it."""
    folder = Path(os.environ[FOLDER])
    if folder.name == str(os.getpid()):
        shutil.rmtree(folder.parent, ignore_errors=True)


def install() -> None:
    """Let each Ray that this process starts have such workers, and none of its processes that no
    test looks at, which would take four seconds of a core: two monitors and the dashboard.
    """
    from ray._private import services
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    init = RayParams.__init__

    def with_script(self: RayParams, *given: Any, **named: Any) -> None:
        init(self, *given, **{"worker_path": __file__, **UNREAD, **named})

    RayParams.__init__ = with_script  # type: ignore[method-assign]
    Node.start_api_server = lambda *_, **__: None  # type: ignore[method-assign]
    _replace_agents(services)
    be_patient()


def with_warm_workers() -> None:
    """The same in a process that a test has started; one started by hand has Ray's own workers."""
    if FOLDER in os.environ:
        install()
    else:
        be_patient()


def be_patient() -> None:
    """Give each node that this process starts `START_S` seconds."""
    from ray._private import services

    look = services.get_node

    def patient(*given: Any) -> Any:
        until = time.monotonic() + START_S
        while True:
            try:
                return look(*given)
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    services.get_node = patient


def _replace_agents(services: Any) -> None:
    """Have this script stand in for both agents of each node that this process starts."""
    modes = {"dashboard_agent": "--absent", "runtime_env_agent": "--agent"}
    build = services._build_python_executable_command_memory_profileable

    def built(component: str, *given: Any, **named: Any) -> list[str]:
        command: list[str] = build(component, *given, **named)
        return [*command, __file__, modes[component]] if component in modes else command

    services._build_python_executable_command_memory_profileable = built


def titled(name: str, pid: int | None = None) -> list[psutil.Process]:
    """The processes below one, by default this, of whose title a name is part.

    A forked worker counts as a child of the raylet that asked for it.
    """
    import psutil

    below = psutil.Process(pid).children(recursive=True)
    raylets = {str(each.pid) for each in below}
    for note in Path(os.environ[FOLDER]).glob("*.worker"):
        with suppress(psutil.NoSuchProcess):
            if note.read_text() in raylets:
                below.append(psutil.Process(int(note.stem)))
    found = []
    for each in below:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if name in " ".join(each.cmdline()):
                found.append(each)
    return found


# ---- in the place of a worker ----


def worker(arguments: Sequence[str]) -> None:
    """Have a worker forked, by a process that is started if there is none yet."""
    path, read = _forking()
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path))
                server.listen(64)
                _start(path, read, ["--fork", str(server.fileno())], [server.fileno()])
    if not _hand_over(path, WORKER, arguments, os.getppid()):
        be_ray(WORKER, arguments)  # the other has ended, and its log says why


def _forking() -> tuple[Path, dict[str, str]]:
    """The socket of the process that forks for this environment, and what Ray reads of that."""
    read = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(READ_ON_IMPORT) and name not in OF_ONE_RUN
    }
    key = hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()[:16]
    return Path(os.environ[FOLDER], key), read


def _start(
    path: Path, read: dict[str, str], arguments: Sequence[str], passed: Sequence[int] = ()
) -> None:
    """Start it, with the test run in place of a raylet, whose end Ray would look for in forks."""
    with path.with_suffix(".log").open("w") as log:
        print(read, file=log, flush=True)
        subprocess.Popen(
            [sys.executable, __file__, *arguments],
            pass_fds=passed,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "RAY_RAYLET_PID": Path(os.environ[FOLDER]).name},
            start_new_session=True,
        )


def _hand_over(path: Path, script: str, arguments: Sequence[str], owner: int) -> bool:
    """Have a fork run a script as long as its owner lives; False where nothing forks."""
    told = {
        "script": script,
        "arguments": arguments,
        "environment": dict(os.environ),
        "cwd": str(Path.cwd()),
        "owner": owner,
    }
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        socket.send_fds(client, [b"-"], [0, 1, 2])
        client.sendall(json.dumps(told).encode())
        client.shutdown(socket.SHUT_WR)
        client.recv(1)  # until it has been passed on
    return True


# ---- in the place of an agent ----


def agent(script: str, arguments: Sequence[str]) -> None:
    """Have an agent forked where a process for it is ready; else start one, and be Ray's."""
    path, read = _forking()
    if _hand_over(path, script, arguments, os.getpid()):
        _wait_for_end(os.getppid())
        return
    with suppress(FileExistsError):
        path.with_suffix(".begun").touch(exist_ok=False)
        _start(path, read, ["--fork-agents", str(path)])
    os.execv(sys.executable, [sys.executable, "-u", script, *arguments])


def be_absent(arguments: Sequence[str]) -> None:
    """Say that a dashboard's agent listens nowhere, and live as long as its node."""
    told = dict(item.removeprefix("--").split("=", 1) for item in arguments if "=" in item)
    for name in ABSENT:
        path = Path(told["session-dir"], f"{name}_port_{told['node-id']}")
        path.with_suffix(".part").write_text("-1")
        path.with_suffix(".part").rename(path)
    _wait_for_end(os.getppid())


def _wait_for_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])


# ---- in the process that forks ----


def serve(descriptor: int) -> None:
    """Pass on who asks to a fork of their job, until the test run is over."""
    sys.path[0] = ROOT
    for name in IMPORTED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    folder = Path(os.environ[FOLDER])
    server = socket.socket(fileno=descriptor)
    jobs: dict[str, socket.socket] = {}
    for client, streams, told in _asked(server):
        with client:
            job = json.loads(told)["environment"].get(JOB, "")
            if job not in jobs:
                jobs[job], asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if os.fork() == 0:
                    for each in (server, client, *jobs.values()):
                        each.close()
                    _close(streams)
                    os.environ[JOB] = job
                    fork_workers(asked, folder)
                    return
                asked.close()
            socket.send_fds(jobs[job], [told], streams)
            _close(streams)


def _asked(server: socket.socket) -> Iterator[tuple[socket.socket, list[int], bytes]]:
    """Who asks, their streams and what they tell, until the test run is over."""
    folder = Path(os.environ[FOLDER])
    server.settimeout(1)
    while folder.exists() and Path("/proc", folder.name).exists():
        try:
            client, _ = server.accept()
        except TimeoutError:
            continue
        client.settimeout(None)
        _, streams, _, _ = socket.recv_fds(client, 1, 3)
        yield client, streams, client.makefile("rb").read()


def serve_agents(path: Path) -> None:
    """Fork an agent for each who asks, until the test run is over."""
    sys.path[0] = ROOT
    import ray  # noqa: F401 - it has a module that finds aiohttp

    for name in IMPORTED_FOR_AN_AGENT:
        importlib.import_module(name)
    _freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(64)
        for client, streams, told in _asked(server):
            if os.fork() == 0:
                client.close()
                server.close()
                become(streams, **json.loads(told))
                return
            client.close()
            _close(streams)


def _freeze() -> None:
    """Keep what was imported from each fork's search for garbage; no thread may be lost."""
    threads = {task.joinpath("comm").read_text().strip() for task in _tasks()[1:]}
    assert threads <= THREADS, f"a fork would lose threads: {threads - THREADS}"
    gc.freeze()


def fork_workers(asked: socket.socket, folder: Path) -> None:
    """Fork a worker of a job for each message, until there are none any more."""
    _draw_no_ids()
    for name in IMPORTED_FOR_A_JOB:
        importlib.import_module(name)
    assert _forked_id() != _forked_id(), "workers would draw the same identifiers"
    _freeze()
    while True:
        told, streams, _, _ = socket.recv_fds(asked, 1 << 20, 3)
        if not told:
            return
        process = json.loads(told)
        if (pid := os.fork()) == 0:
            asked.close()
            become(streams, **process)
            return
        folder.joinpath(f"{pid}.worker").write_text(str(process["owner"]))
        _close(streams)


def _close(streams: Sequence[int]) -> None:
    for stream in streams:
        os.close(stream)


def _draw_no_ids() -> None:
    """Number the actor classes of modules without Ray's generator, which forks would share."""
    actor: Any = importlib.import_module("ray.actor")
    new = actor.ActorClassID
    actor.ActorClassID = SimpleNamespace(from_random=lambda: new(os.urandom(new.size())))


def _forked_id() -> bytes:
    from ray._raylet import NodeID

    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, NodeID.from_random().binary())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        return file.read()


def _tasks() -> list[Path]:
    return sorted(Path("/proc/self/task").iterdir(), key=lambda task: int(task.name))


def become(
    streams: Sequence[int],
    script: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    cwd: str,
    owner: int,
) -> None:
    """Go on as the process that asked would have."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)  # Ray ends the group of a worker that has gone
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    random.seed()
    threading.Thread(target=_end_with, args=(owner,), daemon=True).start()
    be_ray(script, arguments)


def _end_with(owner: int) -> None:
    """Kill this process when its owner has gone, as Ray does by the raylet it knew on import."""
    _wait_for_end(owner)
    os.kill(os.getpid(), signal.SIGKILL)


def be_ray(script: str, arguments: Sequence[str]) -> None:
    """Run a script of Ray's package."""
    sys.path[0] = ROOT
    script = str(Path(importlib.import_module("ray").__file__ or "").parent / script)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    match sys.argv[1:]:
        case "--fork", descriptor:
            serve(int(descriptor))
        case "--fork-agents", path:
            serve_agents(Path(path))
        case "--absent", _, *arguments:
            be_absent(arguments)
        case "--agent", script, *arguments:
            agent(script, arguments)
        case arguments:
            worker(arguments)
