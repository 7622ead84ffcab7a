"""The bytes of the contents that are put on a node, read and written in parts."""

import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

PART = 1 << 20


def pour(parts: Iterator[bytes], target: BinaryIO) -> str:
    """Write parts to a file; return the hash of them all."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        target.write(part)
    return digest.hexdigest()


def exactly(source: BinaryIO, count: int) -> bytes:
    """Return so many bytes; EOFError where the stream ends before."""
    data = source.read(count)
    if len(data) < count:
        raise EOFError("the files of the run did not arrive whole: the stream ended early")
    return data


def parts(source: BinaryIO, length: int) -> Iterator[bytes]:
    """Yield the next `length` bytes of a stream."""
    while length:
        part = exactly(source, min(length, PART))
        length -= len(part)
        yield part


def everything(source: BinaryIO) -> Iterator[bytes]:
    """Yield a stream to its end."""
    while part := source.read(PART):
        yield part


def unpacked(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what packed parts hold."""
    unpacker = zlib.decompressobj()
    for part in parts:
        left = part
        while left:
            yield unpacker.decompress(left, PART)
            left = unpacker.unconsumed_tail
    yield unpacker.flush()


def counted(parts: Iterator[bytes], count: Callable[[int], object]) -> Iterator[bytes]:
    """Return parts as they are, and tell the size of each."""
    for part in parts:
        count(len(part))
        yield part
