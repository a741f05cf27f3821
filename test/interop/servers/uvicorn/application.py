# SPDX-License-Identifier: Apache-2.0
"""The server of the interop matrix as an ASGI application."""
import os

FILES = os.environ["INTEROP_FILES"]
STORE = os.environ["INTEROP_STORE"]
PIECE = 10_000


async def application(scope, receive, send):
    path = scope["path"]
    if path.startswith("/upload/"):
        await keep(path, receive, send)
    elif path == "/chunked":
        await chunked(send)
    else:
        await file(scope, send)


async def start(send, status, *headers):
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": encoded})


async def end(send, body=b""):
    await send({"type": "http.response.body", "body": body})


async def file(scope, send):
    path = scope["path"]
    etag = f'"{os.path.basename(path)}"'
    if dict(scope["headers"]).get(b"if-none-match") == etag.encode():
        await start(send, 304, ("ETag", etag))
        await end(send)
        return
    with open(FILES + path, "rb") as opened:
        content = opened.read()
    await start(send, 200, ("ETag", etag), ("Content-Length", str(len(content))))
    # uvicorn leaves out what a HEAD must not have.
    await end(send, content)


async def chunked(send):
    """Without a length uvicorn sends each piece as a chunk."""
    await start(send, 200)
    with open(FILES + "/chunked", "rb") as opened:
        while piece := opened.read(PIECE):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await end(send)


async def keep(path, receive, send):
    with open(os.path.join(STORE, os.path.basename(path)), "wb") as opened:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            opened.write(message.get("body", b""))
            more = message.get("more_body", False)
    await start(send, 201, ("Content-Length", "0"))
    await end(send)
