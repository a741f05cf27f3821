# SPDX-License-Identifier: Apache-2.0
"""A server that reads the body of a request to its end, and answers with its length.

usage: upload_server.py HOST PORT
Prints "ready" when it listens.
"""
import http.server
import json
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length, got = int(self.headers["Content-Length"]), 0
        while got < length:
            piece = self.rfile.read(min(1 << 20, length - got))
            if not piece:
                return
            got += len(piece)
        body = str(got).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
print(json.dumps("ready"), flush=True)
server.serve_forever()
