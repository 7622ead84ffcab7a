#!/usr/bin/env python3
"""Memory and disk of a node, with nothing but Python: runs anywhere.

Writes patterns to an eighth of the free memory (256 MiB at most) and reads them back, and does the same with a file of
256 MiB in the working folder. Exits with 1 where a byte differs or the disk fails. The last line is the memory
bandwidth of a copy in GB/s.
"""

import errno
import hashlib
import os
import sys
import time
from pathlib import Path

MEMORY, DISK, PART = 256 << 20, 256 << 20, 16 << 20


def free_memory() -> int:
    """Return the memory that programs can have (bytes)."""
    with Path("/proc/meminfo").open(encoding="ascii") as file:
        found = dict(line.split(":", 1) for line in file)
    return int(found["MemAvailable"].split()[0]) * 1024


def memory() -> float:
    """Return the bandwidth of copies (GB/s): bytes read and written by second."""
    size = min(MEMORY, free_memory() // 8) // PART * PART
    if size < PART:
        sys.exit("less than 128 MiB of memory is free")  # status 1: a node without memory is no use
    wanted = {pattern: hashlib.sha256(bytes([pattern]) * PART).digest() for pattern in (0x00, 0xFF, 0x55, 0xAA)}
    block, copy, copied, seconds = bytearray(size), memoryview(bytearray(size)), 0, 0.0
    copy[:] = bytes(size)  # so that the pages are there before the clock runs
    for pattern, digest in wanted.items():
        part = bytes([pattern]) * PART
        for at in range(0, size, PART):
            block[at : at + PART] = part
        begun = time.monotonic()
        copy[:] = block
        seconds += time.monotonic() - begun
        copied += 2 * size
        for at in range(0, size, PART):
            if hashlib.sha256(copy[at : at + PART]).digest() != digest:
                print(f"memory: {size >> 20} MiB, pattern 0x{pattern:02x}: a copy differs", file=sys.stderr)
                sys.exit(1)
    return copied / seconds / 1e9


def disk() -> float:
    """Return how fast a file is written to the disk (MB/s)."""
    part, path = os.urandom(PART), Path("nvlaunch-check.tmp")
    begun = time.monotonic()
    try:
        with path.open("wb", buffering=0) as file:
            file.writelines(part for _ in range(DISK // PART))
            os.fsync(file.fileno())
        seconds = time.monotonic() - begun
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for at in range(DISK // PART):
                if file.read(PART) != part:
                    print(f"disk: what was read at {at * PART} differs from what was written", file=sys.stderr)
                    sys.exit(1)
    except OSError as error:
        print(f"disk: {error}", file=sys.stderr)
        sys.exit(1 if error.errno in (errno.EIO, errno.ENOSPC, errno.EROFS) else 2)
    finally:
        path.unlink(missing_ok=True)
    return DISK / seconds / 1e6


if __name__ == "__main__":
    print(f"disk: {disk():.0f} MB/s written")
    print(f"{memory():.2f}")
