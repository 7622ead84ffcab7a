"""Training with Hugging Face Accelerate: `prepare`, `save_state`, `load_state`, and nothing of how it was started."""

import argparse
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main():
    """Train from the newest saved state to the last step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--states", type=Path, required=True)
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    accelerator = Accelerator(cpu=True)
    drawn = torch.Generator().manual_seed(1)
    inputs = torch.randn(2048, 20, generator=drawn)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True).sin()), batch_size=64)
    model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    saved = sorted(int(folder.name) for folder in args.states.glob("*"))
    step = saved[-1] if saved else 0
    if saved:
        accelerator.load_state(str(args.states / str(step)))
        accelerator.print(f"resuming at step {step}", flush=True)
    while step < args.steps:
        for batch, targets in loader:
            loss = torch.nn.functional.mse_loss(model(batch), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
            if accelerator.is_main_process:
                with args.losses.open("a") as log:
                    log.write(f"{step} {mean:.7f}\n")
            time.sleep(args.pause)
        unfinished = args.states.with_name(f"unfinished-{step}")  # a state gets its name once it is whole
        accelerator.save_state(str(unfinished))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            args.states.mkdir(exist_ok=True)
            unfinished.replace(args.states / str(step))
        accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
