"""The engine for a model that vLLM runs in separate processes, on GPUs or (CPU build) a CPU."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import select
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srrag.core.spec import place_field
from srrag.engine.base import Model, Worker
from srrag.engine.vllm.session import VllmSession
from srrag.llm.completion import EngineStopped, one_line
from srrag.storage.manifest import folder_revision

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


DEVICES = ("cuda", "cpu")
STREAM_TOKENS = 16
"""Tokens delivered at once; each delivery takes time from generation."""
TEMPLATES = ("chat_template.jinja", "chat_template.json")
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # stdout carries one JSON object of figures.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    # A process with threads must not fork.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
"""Environment variables of the process that opens a session, and of its child processes."""


@dataclass(frozen=True, kw_only=True)
class VllmEngine(Model):
    """A chat model under vLLM, with answers guided by their schema (xgrammar, no free whitespace).

    The name of a local model is its folder's name, and its revision is the hash of its content. A
    hub model needs its commit. Weights load only as safetensors, without code from the model.
    """

    model: str
    """Hub id, or the path of a folder."""
    revision: str | None = None
    """Commit of a hub model; for a folder, the hash of its content, computed if not given."""
    dtype: str = "auto"
    """Type of weights and activations: auto, bfloat16, float16 or float32."""
    quantization: str | None = None
    """Quantisation of the weights, if the model's configuration does not state it."""
    lora: str | None = None
    """Adapter on top of the model: hub id or path of a folder."""
    lora_revision: str | None = None
    """Revision of the adapter, as `revision`."""

    folder: str | None = place_field(None)
    """Local folder of the model; None to load it from the hub."""
    lora_folder: str | None = place_field(None)
    """Local folder of the adapter; None to load it from the hub."""
    device: str = place_field("cuda")
    """cuda, or cpu with vLLM's CPU build."""
    replicas: int = place_field(1)
    """Copies of the model, each with its own devices."""
    tensor_parallel: int = place_field(1)
    """Devices that share each layer."""
    pipeline_parallel: int = place_field(1)
    """Groups of devices that share the layers."""
    gpu_memory_utilization: float = place_field(0.9)
    """Share of a GPU's memory for weights and KV cache."""
    kv_cache_gb: float | None = place_field(None)
    """Size of the KV cache in GiB; by default the rest of the memory share."""
    max_model_len: int | None = place_field(None)
    """Longest prompt plus answer, in tokens; by default the model's own limit."""
    max_num_seqs: int = place_field(256)
    """Largest number of answers generated concurrently."""
    enforce_eager: bool = place_field(False)
    """Start faster and generate slower: no compilation, no CUDA graphs."""
    concurrency: int = place_field(0)
    """Calls in flight per replica; 0 means 2 × `max_num_seqs`, which keeps the engine busy."""
    usd_per_hour: float | None = place_field(None)
    """Price of a replica in US dollars per hour, for estimates."""

    def __post_init__(self) -> None:
        """Fill in derived fields; raises ValueError that names an invalid field."""
        super().__post_init__()
        if self.device not in DEVICES:
            raise ValueError(f"engine.device: {self.device!r} is not one of {', '.join(DEVICES)}")
        for name in ("replicas", "tensor_parallel", "pipeline_parallel", "max_num_seqs"):
            if getattr(self, name) < 1:
                raise ValueError(f"engine.{name}: {getattr(self, name)} is below 1")
        self._pin("model", "folder", "revision")
        if self.lora is not None:
            self._pin("lora", "lora_folder", "lora_revision")
        if self.concurrency == 0:
            object.__setattr__(self, "concurrency", 2 * self.max_num_seqs)

    def _pin(self, name: str, folder: str, revision: str) -> None:
        """Split a path into name, folder and revision.

        Raises ValueError for a hub id without commit.
        """
        given = getattr(self, name)
        if getattr(self, folder) is None and (given[:1] in "./~" or Path(given).is_dir()):
            path = Path(given).expanduser().resolve()
            object.__setattr__(self, folder, str(path))
            object.__setattr__(self, name, path.name)
        if getattr(self, revision) is None:
            if getattr(self, folder) is None:
                raise ValueError(f"engine.{revision}: {given!r} of the hub needs its commit")
            content = folder_revision(Path(getattr(self, folder)))
            object.__setattr__(self, revision, content)

    @property
    def name(self) -> str:
        """The words "vllm:", model, revision, and adapter."""
        adapter = f" + {self.lora}@{self.lora_revision}" if self.lora else ""
        return f"vllm: {self.model}@{self.revision}{adapter}"

    @property
    def counts_by(self) -> str:
        """The model's own tokenizer, unless another is named."""
        return self.tokenizer or self.folder or self.model

    @property
    def hourly_usd(self) -> float:
        """US dollars per hour of all replicas."""
        return (self.usd_per_hour or 0.0) * self.replicas

    def worker(self) -> Worker:
        """One CPU core for a replica, and its GPUs."""
        gpus = self.tensor_parallel * self.pipeline_parallel
        return Worker(cpus=1.0, gpus=float(gpus) if self.device == "cuda" else 0.0)

    async def open(self) -> VllmSession:
        """Start the model's processes, which takes minutes for a large model.

        Raises ValueError if vLLM, the device or the model is missing, and EngineStopped if vLLM
        fails to start.
        """
        self._check_folders()
        for key, value in ENVIRONMENT.items():
            os.environ[key] = value
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        if importlib.util.find_spec("vllm") is None:
            raise ValueError("engine: vllm is not installed; see cluster/requirements-vllm-cpu.txt")
        await asyncio.to_thread(self._check_device)
        try:
            llm = await asyncio.to_thread(self._start)
        except Exception as error:
            reason = one_line(error)
            raise EngineStopped(f"{self.name} did not start: {reason}") from error
        return VllmSession(llm, self._lora_request())

    def _check_folders(self) -> None:
        for folder, revision in (
            (self.folder, self.revision),
            (self.lora_folder, self.lora_revision),
        ):
            if folder is not None and folder == self.folder:
                _check_template(Path(folder))
            if folder is not None and (found := folder_revision(Path(folder))) != revision:
                raise ValueError(f"{folder}: holds {found}, and not {revision} as the run began")

    def _check_device(self) -> None:
        import torch
        from vllm.platforms import current_platform

        if self.device == "cpu":
            if not current_platform.is_cpu():
                raise ValueError("engine.device: cpu needs vLLM's CPU build (vllm-cpu)")
            return
        if not current_platform.is_cuda_alike():
            raise ValueError("engine.device: cuda, but vLLM finds no GPU here")
        needed, found = self.tensor_parallel * self.pipeline_parallel, torch.cuda.device_count()
        if found < needed:
            raise ValueError(f"engine.device: {needed} GPUs are needed, and {found} are here")

    def _start(self) -> AsyncLLM:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        return AsyncLLM.from_engine_args(AsyncEngineArgs(**self.arguments()))

    def arguments(self) -> dict[str, Any]:
        """The arguments of vLLM's AsyncEngineArgs."""
        devices = self.tensor_parallel * self.pipeline_parallel
        at_hub = None if self.folder is not None else self.revision
        return {
            "model": self.folder or self.model,
            "revision": at_hub,
            "tokenizer_revision": at_hub,
            "load_format": "safetensors",
            "trust_remote_code": False,
            "dtype": self.dtype,
            "quantization": self.quantization,
            "tensor_parallel_size": self.tensor_parallel,
            "pipeline_parallel_size": self.pipeline_parallel,
            "distributed_executor_backend": "mp" if devices > 1 else None,
            "gpu_memory_utilization": self.gpu_memory_utilization,
            "kv_cache_memory_bytes": self.kv_cache_gb and int(self.kv_cache_gb * 2**30),
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "enforce_eager": self.enforce_eager,
            "enable_prefix_caching": True,
            "stream_interval": STREAM_TOKENS,
            # vLLM's CPU build crashes on a chunked prefill if the call has a seed.
            "enable_chunked_prefill": False if self.device == "cpu" else None,
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
            "additional_config": {"srrag": EndsWithParent()},
            "disable_log_stats": True,
            **self._lora_arguments(),
        }

    def _lora_path(self) -> Path:
        if self.lora_folder is not None:
            return Path(self.lora_folder)
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(str(self.lora), revision=self.lora_revision))

    def _lora_arguments(self) -> dict[str, Any]:
        if self.lora is None:
            return {}
        path = self._lora_path() / "adapter_config.json"
        rank = int(json.loads(path.read_text("utf-8"))["r"])
        fitting = [size for size in LORA_RANKS if size >= rank]
        if not fitting:
            raise ValueError(f"{path}: rank {rank} is above {LORA_RANKS[-1]}")
        return {"enable_lora": True, "max_loras": 1, "max_lora_rank": fitting[0]}

    def _lora_request(self) -> Any:
        if self.lora is None:
            return None
        from vllm.lora.request import LoRARequest

        return LoRARequest(self.lora, 1, str(self._lora_path()))


def _check_template(folder: Path) -> None:
    """Raise ValueError if a model has no chat template: every call would fail by itself."""
    settings = folder / "tokenizer_config.json"
    told = json.loads(settings.read_text("utf-8")) if settings.exists() else {}
    named = any((folder / name).exists() for name in TEMPLATES) or "tekken.json" in {
        path.name for path in folder.iterdir()
    }
    if not (told.get("chat_template") or named):
        raise ValueError(
            f"engine.model={folder}: no chat template ({TEMPLATES[0]}, or `chat_template` in "
            "tokenizer_config.json); a base model cannot answer"
        )


_watched: set[int] = set()


class EndsWithParent(str):
    """A string in vLLM's configuration that ties each process that unpickles it to this one.

    vLLM's processes end when their parent closes them. A killed parent closes nothing, and they
    would occupy the GPU for ever. Each process unpickles the configuration before it loads a model.
    """

    parent: int

    def __new__(cls, parent: int | None = None) -> EndsWithParent:
        """Make the same string for every parent: it is part of vLLM's compilation cache key."""
        word = super().__new__(cls, "ends with parent")
        word.parent = os.getpid() if parent is None else parent
        return word

    def __reduce__(self) -> tuple[object, ...]:
        """Unpickle by calling `tied`."""
        return tied, (self.parent,)


def tied(parent: int) -> EndsWithParent:
    """Start a watch that ends this process as soon as the parent ends; one watch per parent."""
    if parent != os.getpid() and parent not in _watched:
        _watched.add(parent)
        try:
            process = os.pidfd_open(parent)
        except ProcessLookupError:
            os._exit(1)
        threading.Thread(target=_exit_after, args=(process,), daemon=True).start()
    return EndsWithParent(parent)


def _exit_after(process: int) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    os._exit(1)
