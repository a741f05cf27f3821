# SPDX-License-Identifier: Apache-2.0
"""usage: server.py ADDRESS; README.md has the contract."""
import asyncio
import collections
import sys
import urllib.parse

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

import content
import stdio

state = {"Open": 0, "Opened": 0, "Messages": 0, "Sent": 0, "Ends": collections.Counter()}
may_read = asyncio.Event()


async def echo(connection, _query):
    async for message in connection:
        state["Messages"] += 1
        await connection.send(message)


async def fragments(connection, _query):
    async for message in connection:
        state["Messages"] += 1
        middle = len(message) // 2
        await connection.send([message[:middle], message[middle:]])


async def close_when_asked(connection, _query):
    code, reason = (await connection.recv()).split(" ")
    await connection.close(int(code), reason)


async def stream(connection, query):
    for block in content.blocks(query["seed"], int(query["size"])):
        await connection.send(block)
        state["Sent"] += len(block)
    await connection.send("end")
    await connection.wait_closed()


async def sink(connection, query):
    await may_read.wait()
    same = True
    for block in content.blocks(query["seed"], int(query["size"])):
        same &= await connection.recv() == block
    await connection.send("same" if same else "different")
    await connection.wait_closed()


PATHS = {"/echo": echo, "/fragments": fragments, "/close": close_when_asked, "/stream": stream, "/sink": sink}


async def handle(connection):
    state["Open"] += 1
    state["Opened"] += 1
    url = urllib.parse.urlsplit(connection.request.path)
    try:
        await PATHS[url.path](connection, dict(urllib.parse.parse_qsl(url.query)))
    except ConnectionClosed:
        pass  # counted below
    await connection.wait_closed()
    state["Open"] -= 1
    state["Ends"][str(connection.close_code)] += 1


async def main():
    # Clients that do not read answer no pings; the tests send their own.
    async with serve(handle, sys.argv[1], 0, backlog=4096, max_size=None, ping_interval=None, open_timeout=60) as server:
        host, port = server.sockets[0].getsockname()
        stdio.answer({"Address": f"{host}:{port}"})
        async for command in stdio.commands():
            if command == "read":
                may_read.set()
            stdio.answer(state)


asyncio.run(main())
