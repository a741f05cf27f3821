# SPDX-License-Identifier: Apache-2.0
"""Posts to /0, /1 and so on, once each, on a connection of its own.

usage: post_each.py HOST PORT REQUESTS
Prints how many were answered, whatever the answer.
"""
import http.client
import sys

answered = 0
for i in range(int(sys.argv[3])):
    connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=20)
    try:
        # With the head in one write.
        connection.request("POST", f"/{i}", headers={"Content-Length": "0"})
        connection.getresponse().read()
        answered += 1
    except (OSError, http.client.HTTPException):
        pass
    connection.close()
print(answered)
