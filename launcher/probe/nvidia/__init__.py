"""What the drivers of NVIDIA say: `nvidia-smi`, the fabric, and errors of GPUs in the log of the kernel."""
