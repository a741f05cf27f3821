#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""h11 as an oracle: see bpf/test/oracle.h."""

import struct
import sys

import h11

REQUEST = 1
# The limit is the fuzzer's own.
LIMIT = 1 << 20


def measure(kind, data):
    """Returns the lengths of the head and of the body as h11 sees them, or None."""
    conn = h11.Connection(h11.SERVER if kind == REQUEST else h11.CLIENT, max_incomplete_event_size=LIMIT)
    if kind != REQUEST:
        conn.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
        conn.send(h11.EndOfMessage())
    head = data.find(b"\r\n\r\n") + 4
    # The head alone: whatever follows must not be needed for it.
    conn.receive_data(data[:head])
    event = conn.next_event()
    if not isinstance(event, (h11.Request, h11.Response)):
        return None
    if kind != REQUEST and event.status_code in (204, 304):
        return head, 0
    headers = dict(event.headers)
    if b"transfer-encoding" not in headers:
        return head, int(headers.get(b"content-length", b"0"))
    conn.receive_data(data[head:])
    while True:
        event = conn.next_event()
        if isinstance(event, h11.EndOfMessage):
            return head, len(data) - head - len(conn.trailing_data[0])
        if not isinstance(event, h11.Data):
            return None


def read(n):
    """Reads exactly n bytes; the end of the input ends the program."""
    data = sys.stdin.buffer.read(n)
    if len(data) < n:
        sys.exit(0)
    return data


def main():
    while True:
        kind, size, head = struct.unpack("=III", read(12))
        (body,) = struct.unpack("=Q", read(8))
        data = read(size)
        try:
            agrees = measure(kind, data) == (head, body)
        except h11.RemoteProtocolError as err:
            print(f"h11: {err}", file=sys.stderr)
            agrees = False
        sys.stdout.buffer.write(b"\x01" if agrees else b"\x00")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
