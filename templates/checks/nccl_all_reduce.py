#!/usr/bin/env python3
"""An all-reduce over all GPUs of several nodes, with PyTorch and NCCL: `scope: slice` or `pair`.

The last line is the bus bandwidth in GB/s, as nccl-tests define it. Exits with 1 where it is below what the machine
must reach (`LEAST`), or where NCCL fails. Without PyTorch or GPUs the check cannot tell.
Name an interpreter with PyTorch in the first line.
"""

import os
import sys
import time
from pathlib import Path

SIZE = 4 << 30
WARM_UPS, ROUNDS = 5, 20
RESULT = Path("bandwidth")  # in the working folder of the check, which is removed

# GB/s of bus bandwidth. Inside an NVLink domain; published: 834 to 847 on GB200 with 72 GPUs (CoreWeave nccl-tests).
# These find what is broken; what is merely slow is found by comparing with other slices.
LEAST = {"GB200": 680.0, "GB300": 680.0}
LEAST_ACROSS = 40.0  # between domains


def work(local: int, gpus: int) -> None:
    """Be one rank, on the GPU of this number."""
    import torch
    import torch.distributed as dist

    nodes, rank = int(os.environ["NNODES"]), int(os.environ["NODE_RANK"]) * gpus + local
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", rank=rank, world_size=nodes * gpus)
    data = torch.ones(SIZE // 4, dtype=torch.float32, device="cuda")
    for _ in range(WARM_UPS):
        dist.all_reduce(data)
        data.fill_(1.0)
    torch.cuda.synchronize()
    begun = time.monotonic()
    for _ in range(ROUNDS):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    seconds = (time.monotonic() - begun) / ROUNDS
    world = nodes * gpus
    bandwidth = SIZE / seconds * 2 * (world - 1) / world / 1e9
    dist.destroy_process_group()
    if local == 0:
        RESULT.write_text(f"{bandwidth:.1f}", encoding="ascii")


def main() -> None:
    """Measure, and exit with what that means."""
    try:
        import torch
        import torch.multiprocessing as processes
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    gpus = torch.cuda.device_count()
    if gpus == 0:
        print("no GPU is visible", file=sys.stderr)
        sys.exit(2)
    processes.spawn(work, args=(gpus,), nprocs=gpus)  # an error of a process ends this one with status 1
    bandwidth = float(RESULT.read_text(encoding="ascii"))
    name = torch.cuda.get_device_name(0)
    least = next((number for kind, number in LEAST.items() if kind in name), 0.0)
    if os.environ.get("NVLAUNCH_CHECK_DOMAINS", "1") != "1":
        least = LEAST_ACROSS
    if bandwidth < least:
        print(f"{bandwidth:.1f} GB/s, at least {least:.0f} is expected of {name}", file=sys.stderr)
        sys.exit(1)
    print(f"{bandwidth:.1f}")


if __name__ == "__main__":
    main()
