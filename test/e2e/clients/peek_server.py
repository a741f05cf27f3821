# SPDX-License-Identifier: Apache-2.0
"""A server that looks at each request (MSG_PEEK), acts on it, and closes the connection without having read it.

usage: peek_server.py HOST PORT LOG
Prints "ready" when it listens, and writes the request line of each request that it executes to the file LOG.
"""
import json
import socket
import sys
import threading


def serve(connection):
    with connection:
        head = b""
        while b"\r\n\r\n" not in head:
            seen = connection.recv(65536, socket.MSG_PEEK)
            if len(seen) <= len(head):
                return
            head = seen
        log.write(head.split(b"\r\n", 1)[0].decode() + "\n")
        log.flush()


log = open(sys.argv[3], "w")
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=128)
print(json.dumps("ready"), flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
