"""Distributed data parallel training with snapshots, as PyTorch's tutorial on several nodes teaches it.

It knows torchrun and nothing else: rank and size come from its variables, and training goes on from the newest
snapshot. Rank 0 appends the loss of each step to `--losses`.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def dataset():
    """Return inputs and targets, the same in each process."""
    drawn = torch.Generator().manual_seed(1)
    inputs = torch.randn(2048, 20, generator=drawn)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


class Trainer:
    """A model in training: steps, losses and snapshots."""

    def __init__(self, args):
        torch.manual_seed(1)
        self.args, self.epoch, self.step = args, 0, 0
        self.rank = int(os.environ["RANK"])
        self.data = dataset()
        model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        if args.snapshot.exists():
            snapshot = torch.load(args.snapshot)
            model.load_state_dict(snapshot["model"])
            self.optimizer.load_state_dict(snapshot["optimizer"])
            self.epoch, self.step = snapshot["epoch"], snapshot["step"]
            print(f"resuming at epoch {self.epoch}", flush=True)
        self.model = DistributedDataParallel(model)

    def save(self):
        """Replace the snapshot by a whole one."""
        state = {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
        }
        half = self.args.snapshot.with_suffix(".new")
        torch.save(state, half)
        half.replace(self.args.snapshot)

    def train(self):
        """Train to the last epoch, with a snapshot after each."""
        sampler = DistributedSampler(self.data, seed=7)
        loader = DataLoader(self.data, batch_size=64, sampler=sampler)
        while self.epoch < self.args.epochs:
            sampler.set_epoch(self.epoch)
            for inputs, targets in loader:
                self.train_step(inputs, targets)
            self.epoch += 1
            if self.rank == 0:
                self.save()

    def train_step(self, inputs, targets):
        """Take one step, and log the loss over all ranks."""
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        self.step += 1
        if self.rank == 0:
            with self.args.losses.open("a") as log:
                log.write(f"{self.step} {mean.item() / dist.get_world_size():.7f}\n")
        time.sleep(self.args.pause)


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Trainer(args).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
