"""Jupyter messages on a gateway's websocket: `v1.kernel.websocket.jupyter.org`, frames in one binary blob.

A blob is the number of offsets, the offsets (eight bytes each, little-endian, the last one the end), then the
channel's name, header, parent header, metadata, content, and any buffers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

PROTOCOL = "v1.kernel.websocket.jupyter.org"
"""Name that client and gateway agree on in the handshake."""


def pack(channel: str, parts: Sequence[bytes]) -> bytes:
    """One message for the websocket."""
    frames = [channel.encode(), *parts]
    offsets = [8 * (len(frames) + 2)]
    for frame in frames:
        offsets.append(offsets[-1] + len(frame))
    numbers = [len(offsets), *offsets]
    return b"".join([*(number.to_bytes(8, "little") for number in numbers), *frames])


def unpack(blob: bytes) -> tuple[str, list[bytes]]:
    """Channel and frames of a message from the websocket; `ValueError` if it is none."""
    count = int.from_bytes(blob[:8], "little")
    if not 6 <= count <= len(blob) // 8:
        raise ValueError("not a message of the protocol")
    offsets = [int.from_bytes(blob[8 * n : 8 * n + 8], "little") for n in range(1, count + 1)]
    frames = [blob[start:end] for start, end in itertools.pairwise(offsets)]
    return frames[0].decode(), frames[1:]
