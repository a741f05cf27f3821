# SPDX-License-Identifier: Apache-2.0
"""Posts a body of zeros, and prints the status and the body of the answer.

usage: large_upload.py HOST PORT LENGTH
"""
import http.client
import sys

length, piece = int(sys.argv[3]), bytes(1 << 20)
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
connection.putrequest("POST", "/")
connection.putheader("Content-Length", str(length))
connection.endheaders()
for at in range(0, length, len(piece)):
    connection.send(piece[: length - at])
answer = connection.getresponse()
print(answer.status, answer.read().decode())
