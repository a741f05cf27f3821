# SPDX-License-Identifier: Apache-2.0
"""A session that posts and then gets, over and over, as requests.Session does with urllib3.

usage: post_then_get.py HOST PORT PAIRS FILES
A body is made of requests for /private, each of 64 bytes: wherever a part of the body begins that is read as a head, it is one of
them. A GET asks for /N, of which the content is N, for the numbers below FILES in turn. Prints counts as JSON:
pairs; refused: POST answered with 501; lost: POST that ended otherwise; right: GET with its own content; wrong: GET with another
answer; reset: GET without an answer; kept: GET on the connection of its POST. And resets: how the first GETs without an answer ended.
"""
import collections
import http.client
import json
import select
import sys

host, port, pairs, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
HIDDEN = b"GET /private HTTP/1.1\r\nHost: e2e.test\r\nX: "
HIDDEN += b"x" * (60 - len(HIDDEN)) + b"\r\n\r\n"
SIZES = [1 << 10, 32 << 10, 100 << 10, 300 << 10, 1 << 20]
counts = collections.Counter()
resets = []


def connect():
    return http.client.HTTPConnection(host, port, timeout=20)


def dropped(connection):
    """Whether the server has closed the connection, as urllib3 looks before it uses one again."""
    return connection.sock is None or bool(select.select([connection.sock], [], [], 0)[0])


def post(connection, size):
    try:
        # http.client sends the head and the body in two writes.
        connection.request("POST", "/public", body=HIDDEN * (size // len(HIDDEN)))
    except BrokenPipeError:
        pass  # urllib3 reads the answer all the same
    response = connection.getresponse()
    response.read()
    return response.status


def get(connection, path):
    connection.request("GET", "/" + path)
    response = connection.getresponse()
    return response.status, response.read().decode()


connection = connect()
for i in range(pairs):
    counts["pairs"] += 1
    try:
        status = post(connection, SIZES[i % len(SIZES)])
        counts["refused" if status == 501 else "lost"] += 1
    except (OSError, http.client.HTTPException):
        counts["lost"] += 1
        connection.close()
        connection = connect()
    keeps = not dropped(connection)
    if keeps:
        counts["kept"] += 1
    else:
        connection.close()
    name = str(i % files)
    try:
        answer = get(connection, name)
        counts["right" if answer == (200, name) else "wrong"] += 1
    except (OSError, http.client.HTTPException) as e:
        counts["reset"] += 1
        resets.append("pair %d, %d bytes, kept %s: %r" % (i, SIZES[i % len(SIZES)], keeps, e))
        connection.close()
        connection = connect()
print(json.dumps({**counts, "resets": resets[:5]}))
