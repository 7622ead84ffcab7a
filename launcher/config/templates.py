"""Starter files of `templates/` and `examples/`, in a wheel or in a checkout."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

EXAMPLES: Mapping[str, str] = {
    "demo": "two slices on two local racks, with bash only",
    "torchrun": "one program on four nodes of one rack",
    "container": "the same in a container",
    "buckets": "data from a bucket, checkpoints to another",
    "torchrun-snapshots": "a script with snapshots that survives the loss of a node",
    "accelerate": "Hugging Face Accelerate on four nodes",
    "deepspeed": "DeepSpeed on four nodes, without SSH between them",
    "megatron": "Megatron-LM: tensor and pipeline parallelism inside racks, data parallelism over them",
    "ray-train": "Ray Train, with Ray's dashboard",
    "verl": "verl on the run's own Ray",
    "vllm": "vLLM with a model over two nodes of a rack",
    "vla-8x64": "pre-training on 512 GPUs: 8 slices of 64 GPUs, one spare node each",
    "ray-driver": "a program that uses Ray itself: one driver, one placement group per slice",
    "rl": "reinforcement learning: trainer, rollout workers and judges as groups of one run",
    "prefill-decode": "disaggregated serving: prefill and decode workers in the same rack",
    "shared-nodes": "disaggregated serving on shared nodes: prefill, decode and router on each node",
    "plain-skypilot": "an unchanged SkyPilot task",
}
"""The description of each example task, by name."""


CHECKS: Mapping[str, str] = {
    "memory_disk.py": "memory and disk of a node, with nothing but Python",
    "dcgm.sh": "`dcgmi diag -r 2`, NVIDIA's diagnosis of the GPUs of a node",
    "nccl_all_reduce.py": "an all-reduce over the GPUs of a slice, with PyTorch and NCCL",
}
"""The description of each example of a check, by the name of its file."""


def read_check(name: str) -> str:
    """Return the text of an example of a check."""
    return _read("templates", f"checks/{name}")


def read_template(name: str) -> str:
    """Return the text of a file of `templates/`.

    FileNotFoundError if there is none of that name.
    """
    return _read("templates", name)


def read_example(name: str) -> str:
    """Return the text of the task of an example.

    KeyError if there is none of that name.
    """
    if name not in EXAMPLES:
        raise KeyError(name)
    return _read("examples", f"{name}.yaml")


def _read(folder: str, name: str) -> str:
    """Return the text of a file.

    A wheel has the folder inside the package, a checkout (or an editable install) beside it.
    """
    installed = files("launcher") / f"_{folder}"
    if installed.is_dir():
        return (installed / name).read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / folder / name).read_text(encoding="utf-8")
