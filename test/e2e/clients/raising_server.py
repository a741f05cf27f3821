# SPDX-License-Identifier: Apache-2.0
"""Python's own server, with a handler that executes each request and then raises.

usage: raising_server.py HOST PORT LOG
Prints "ready" when it listens, and writes the request line of each request that it executes to the file LOG.
"""
import http.server
import json
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        log.write(self.requestline + "\n")
        log.flush()
        raise RuntimeError("a fault of the handler")


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # it would be printed


log = open(sys.argv[3], "w")
server = Server((sys.argv[1], int(sys.argv[2])), Handler)
print(json.dumps("ready"), flush=True)
server.serve_forever()
