# SPDX-License-Identifier: Apache-2.0
"""The cases of the matrix for libraries of Python.

A library is a class with the method

    request(method, path, headers={}, body=None) -> (status, headers, bytes)

that keeps its connection open from one request to the next. A body is bytes or,
to be sent in chunks, an iterator. Names of response headers are in lower case.
"""
import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

BASE, DIRECTORY = sys.argv[1], sys.argv[2]
# Seconds that one request may take.
PATIENCE = 30


class Tally:
    """What came of the requests of a case."""

    def __init__(self):
        self.statuses, self.bodies, self.more = {}, b"", {}

    def add(self, response):
        status, headers, body = response
        self.statuses[str(status)] = self.statuses.get(str(status), 0) + 1
        self.bodies += body
        return headers

    def answer(self):
        digest = hashlib.sha256(self.bodies).hexdigest()
        return {"statuses": self.statuses, "sha256": digest, **self.more}


def content(name):
    with open(os.path.join(DIRECTORY, name), "rb") as file:
        return file.read()


def pieces(data, size=10_000):
    for start in range(0, len(data), size):
        yield data[start : start + size]


def small(n):
    return f"/small/{n:02}"


def get100(client, tally):
    for n in range(100):
        tally.add(client.request("GET", small(n)))


def down(client, tally):
    tally.add(client.request("GET", "/large"))


def up(client, tally):
    tally.add(client.request("PUT", "/upload/up", body=content("large")))


def chunked_down(client, tally):
    tally.add(client.request("GET", "/chunked"))


def chunked_up(client, tally):
    tally.add(client.request("PUT", "/upload/chunked-up", body=pieces(content("chunked"))))


def head(client, tally):
    headers = tally.add(client.request("HEAD", "/large"))
    tally.more["length"] = int(headers["content-length"])
    tally.add(client.request("GET", small(0)))


def not_modified(client, tally):
    headers = tally.add(client.request("GET", small(0)))
    tally.add(client.request("GET", small(0), {"If-None-Match": headers["etag"]}))
    tally.add(client.request("GET", small(0)))


def expect(client, tally):
    """Sends at once unless the library waits for 100 Continue by itself."""
    headers = {"Expect": "100-continue"}
    tally.add(client.request("PUT", "/upload/expect", headers, content("chunked")))


def twenty_five(library):
    client = library()
    return [client.request("GET", small(n)) for n in range(25)]


def concurrent(library, tally):
    with ThreadPoolExecutor(8) as threads:
        for responses in threads.map(twenty_five, [library] * 8):
            for response in responses:
                tally.add(response)


CASES = {
    case.__name__.replace("_", "-"): case
    for case in (get100, down, up, chunked_down, chunked_up, head, not_modified, expect)
}


def run(library, name):
    tally = Tally()
    try:
        if name == "concurrent":
            concurrent(library, tally)
        else:
            CASES[name](library(), tally)
    except Exception as error:  # Whatever it is, it is the answer.
        return {"error": f"{type(error).__name__}: {error}"}
    return tally.answer()


def serve(library):
    for line in sys.stdin:
        print(json.dumps(run(library, line.strip())), flush=True)
