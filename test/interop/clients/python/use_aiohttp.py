# SPDX-License-Identifier: Apache-2.0
import asyncio

import aiohttp

import cases


class Library:
    """One event loop and one session; the cases are not asynchronous."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.session = self.loop.run_until_complete(self.open())

    async def open(self):
        timeout = aiohttp.ClientTimeout(total=cases.PATIENCE)
        return aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=1))

    def __del__(self):
        self.loop.run_until_complete(self.session.close())
        self.loop.close()

    def request(self, method, path, headers={}, body=None):
        return self.loop.run_until_complete(self.exchange(method, path, headers, body))

    async def exchange(self, method, path, headers, body):
        if body is not None and not isinstance(body, bytes):
            body = asynchronous(body)
        # It sets the header itself, and waits for 100 Continue.
        options = {"expect100": True} if "Expect" in headers else {"headers": headers}
        async with self.session.request(method, cases.BASE + path, data=body, **options) as response:
            return response.status, response.headers, await response.read()


async def asynchronous(pieces):
    for piece in pieces:
        yield piece


cases.serve(Library)
