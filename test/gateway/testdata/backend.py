# SPDX-License-Identifier: Apache-2.0
"""HTTP servers on ports of 127.0.0.1 that say what they have been asked: backend.py PORT..."""

import http.server
import json
import sys
import threading


class Backend(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        asked = {
            "port": self.server.server_address[1],
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": self.rfile.read(length).decode(),
        }
        text = json.dumps(asked).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


servers = [Server(("127.0.0.1", int(port)), Backend) for port in sys.argv[1:]]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("{}", flush=True)
sys.stdin.read()
