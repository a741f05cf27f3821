# SPDX-License-Identifier: Apache-2.0
"""usage: client.py SPECIFICATION; README.md has the contract."""
import asyncio
import collections
import json
import sys

from websockets.asyncio.client import connect

import content
import stdio

# How many connections open at a time, and how many messages are ahead of their echoes.
OPENING = 50
AHEAD = 4

spec = json.loads(sys.argv[1])
report = {
    "Open": 0, "Messages": 0, "Bytes": 0, "Pings": 0, "Compressed": 0, "Sent": 0,
    "Errors": 0, "Problems": [], "Ends": collections.Counter(),
}
watchers = set()


class Different(Exception):
    """What came is not what was expected."""


def problem(where, error):
    report["Errors"] += 1
    if len(report["Problems"]) < 10:
        report["Problems"].append(f"{where}: {error!r}")


async def count_end(connection):
    await connection.wait_closed()
    report["Open"] -= 1
    report["Ends"][str(connection.close_code)] += 1


async def open_one(i, path, turn):
    async with turn:
        try:
            connection = await connect(
                spec["URL"] + path, proxy=None, max_size=None, ping_interval=None, open_timeout=60, close_timeout=60)
        except Exception as error:
            problem(f"connection {i}, open", error)
            return None
    report["Open"] += 1
    report["Compressed"] += bool(connection.protocol.extensions)
    # The loop keeps only weak references to tasks.
    watchers.add(asyncio.create_task(count_end(connection)))
    return connection


async def ping(connection, data):
    await (await connection.ping(data))
    report["Pings"] += 1


async def send_message(connection, message):
    if not message.fragmented:
        await connection.send(message.content)
        return
    pings = []

    async def parts():
        middle = len(message.content) // 2
        yield message.content[:middle]
        pings.append(asyncio.create_task(ping(connection, f"between fragments {report['Pings']}")))
        # Let the ping out before the next fragment.
        await asyncio.sleep(0)
        yield message.content[middle:]

    await connection.send(parts())
    await asyncio.gather(*pings)


async def check_echo(connection, message):
    got = await connection.recv()
    if got != message.content:
        raise Different(f"echo of message {message.number}: got {len(got)}, sent {len(message.content)}")
    report["Messages"] += 1
    report["Bytes"] += len(got if isinstance(got, bytes) else got.encode())


async def close(connection, code):
    await connection.close(code, "done")
    if connection.close_code != code:
        raise Different(f"closed with {code}, got {connection.close_code}")


async def converse(connection, i):
    waiting = collections.deque()
    for message in content.messages(spec["Seed"], i, spec.get("Sizes") or [], spec["Messages"], spec["Size"]):
        if len(waiting) == AHEAD:
            await check_echo(connection, waiting.popleft())
        await send_message(connection, message)
        waiting.append(message)
    for message in waiting:
        await check_echo(connection, message)
    await ping(connection, f"connection {i}")
    await close(connection, 1000 if i % 2 else 4000 + i % 1000)


async def ask_for_close(connection, i):
    code = spec["Codes"][i]
    await connection.send(f"{code} reason-{code}")
    await connection.wait_closed()
    got = connection.close_code, connection.close_reason
    if got != (code, f"reason-{code}"):
        raise Different(f"asked for {code}, got {got}")


async def download(connection, _i):
    for block in content.blocks(spec["Seed"], spec["Size"]):
        if await connection.recv() != block:
            raise Different(f"block after {report['Bytes']} bytes")
        report["Bytes"] += len(block)
    if (end := await connection.recv()) != "end":
        raise Different(f"{len(end)} more bytes than there are")
    await close(connection, 1000)


async def upload(connection, _i):
    for block in content.blocks(spec["Seed"], spec["Size"]):
        await connection.send(block)
        report["Sent"] += len(block)
    if (verdict := await connection.recv()) != "same":
        raise Different(f"the server says {verdict}")
    await close(connection, 1000)


def stream(name):
    return lambda i: f"/{name}?seed={spec['Seed']}&size={spec['Size']}"


# Each case: the path of connection i, how many there are, and what to do with each.
CASES = {
    "echo": (lambda i: "/fragments" if i % 2 else "/echo", spec["Connections"], converse),
    "close": (lambda i: "/close", len(spec.get("Codes") or []), ask_for_close),
    "down": (stream("stream"), 1, download),
    "up": (stream("sink"), 1, upload),
}


async def play_one(play, connection, i):
    try:
        async with asyncio.timeout(spec["Timeout"]):
            await play(connection, i)
    except Exception as error:
        problem(f"connection {i}", error)


async def play_all(play, connections):
    live = [(c, i) for i, c in enumerate(connections) if c is not None and c.close_code is None]
    await asyncio.gather(*(play_one(play, c, i) for c, i in live))


async def main():
    path, count, play = CASES[spec["Case"]]
    turn = asyncio.Semaphore(OPENING)
    connections = await asyncio.gather(*(open_one(i, path(i), turn) for i in range(count)))
    early = asyncio.create_task(play_all(play, connections)) if spec["Case"] == "up" else None
    stdio.answer(report)
    async for command in stdio.commands():
        if command == "go":
            await (early or play_all(play, connections))
        stdio.answer(report)


asyncio.run(main())
