# SPDX-License-Identifier: Apache-2.0
"""What is sent, made from a seed; README.md says how."""
import hashlib
import math
import typing

BLOCK_SIZE = 64 << 10


class Message(typing.NamedTuple):
    number: int
    fragmented: bool
    content: str | bytes


def shake(seed, size):
    return hashlib.shake_256(str(seed).encode()).digest(size)


def messages(seed, i, sizes, count, limit):
    """What connection i sends: the given sizes, then count random ones of at most limit bytes."""
    for n in range(len(sizes) + count):
        name = f"{seed}/{i}/{n}"
        dice = shake(name, 8)
        random_size = math.floor(limit ** (int.from_bytes(dice[:4], "little") / 2**32)) + dice[7] % 2
        size = sizes[n] if n < len(sizes) else random_size
        binary = dice[4] % 2 == 0
        fragmented = dice[5] % 4 == 0 and size > 1
        # Every byte becomes a character of one or two bytes: UTF-8 that can be split in the middle.
        payload = shake(name, size if binary else math.ceil(size / 2))
        yield Message(n, fragmented, payload if binary else payload.decode("latin-1"))


def blocks(seed, size):
    """A stream of size bytes."""
    rest = shake(seed, BLOCK_SIZE)[4:]
    index = 0
    while size > 0:
        yield (index.to_bytes(4, "little") + rest)[:size]
        index += 1
        size -= BLOCK_SIZE
