# SPDX-License-Identifier: Apache-2.0
"""Balanced requests through http.client.

usage: http_client.py HOST PORT REQUESTS PATH
Uses one kept-alive connection for GET and POST in turn, checks each status,
and prints the number of bytes received, then the address that getpeername()
gives.
"""
import http.client
import sys

host, port, requests, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
connection = http.client.HTTPConnection(host, port, timeout=20)
connection.connect()
peer = connection.sock.getpeername()
received = 0
for i in range(requests):
    if i % 2:
        # http.client sends the head and the body in two writes.
        connection.request("POST", path, body=b"x" * 1000)
    else:
        connection.request("GET", path)
    response = connection.getresponse()
    received += len(response.read())
    if response.status != 200:
        sys.exit(f"request {i}: status {response.status}")
connection.close()
print(received, f"{peer[0]}:{peer[1]}")
