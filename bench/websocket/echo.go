// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"

	"github.com/xlb-project/xlb/bench/accept"
)

// Serve returns every message to its sender, and answers every other request
// with an empty 200, until ctx ends.
func Serve(ctx context.Context, address netip.AddrPort) error {
	// One worker, as the other endpoints of the benchmark have.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	listener, err := net.Listen("tcp", address.String())
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	return accept.Each(listener, serve)
}

// serve answers requests until one upgrades, then echoes.
func serve(conn net.Conn) error {
	r := newReader(conn)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			return err
		}
		if !strings.EqualFold(request.Header.Get("Upgrade"), "websocket") {
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return err
			}
			continue
		}
		_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			acceptOf(request.Header.Get("Sec-WebSocket-Key")))
		if err != nil {
			return err
		}
		return echo(conn, r)
	}
}

// echo returns frames, each in one write, until a close frame, which it returns too.
func echo(conn net.Conn, r *bufio.Reader) error {
	head, in, out := make([]byte, maxHead), make([]byte, MaxMessage), make([]byte, 0, maxHead+MaxMessage)
	for {
		f, err := readHead(r, head)
		if err != nil {
			return err
		}
		payload, err := readPayload(r, f, in)
		if err != nil {
			return err
		}
		if _, err := conn.Write(appendFrame(out, f.opcode, payload, nil)); err != nil {
			return err
		}
		if f.opcode == opcodeClose {
			return nil
		}
	}
}
