# SPDX-License-Identifier: Apache-2.0
"""Python's file server as it is: it answers POST with 501 at once, by HTTP/1.0, reads nothing of the body, and closes.

usage: early_server.py HOST PORT DIRECTORY LOG
Prints "ready" when it listens, and writes the request line of each request that it executes to the file LOG.
"""
import functools
import http.server
import json
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code="-", size="-"):
        log.write(self.requestline + "\n")
        log.flush()

    def log_message(self, format, *args):
        pass


log = open(sys.argv[4], "w")
handler = functools.partial(Handler, directory=sys.argv[3])
server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), handler)
print(json.dumps("ready"), flush=True)
server.serve_forever()
