# SPDX-License-Identifier: Apache-2.0
"""The conversation with the test: a line in, a line of JSON out."""
import asyncio
import json
import sys


def answer(value):
    print(json.dumps(value), flush=True)


async def commands():
    """The lines of standard input, until it ends."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line.strip()
