# SPDX-License-Identifier: Apache-2.0
"""The server of the interop matrix as a WSGI application."""
import os
import shutil

FILES = os.environ["INTEROP_FILES"]
STORE = os.environ["INTEROP_STORE"]
PIECE = 10_000


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/upload/"):
        return keep(environ, start_response)
    if path == "/chunked":
        return chunked(start_response)
    return file(environ, start_response)


def file(environ, start_response):
    path = environ["PATH_INFO"]
    etag = f'"{os.path.basename(path)}"'
    if environ.get("HTTP_IF_NONE_MATCH") == etag:
        start_response("304 Not Modified", [("ETag", etag)])
        return []
    with open(FILES + path, "rb") as opened:
        content = opened.read()
    start_response("200 OK", [("ETag", etag), ("Content-Length", str(len(content)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]


def chunked(start_response):
    """Without a length gunicorn sends each piece as a chunk."""
    start_response("200 OK", [])
    with open(FILES + "/chunked", "rb") as opened:
        while piece := opened.read(PIECE):
            yield piece


def keep(environ, start_response):
    with open(os.path.join(STORE, os.path.basename(environ["PATH_INFO"])), "wb") as opened:
        shutil.copyfileobj(environ["wsgi.input"], opened)
    start_response("201 Created", [("Content-Length", "0")])
    return []
