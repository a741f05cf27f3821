// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
)

// BenchmarkServeGet is one GET on a kept-alive connection, to an endpoint that keeps its connection too.
func BenchmarkServeGet(b *testing.B) {
	benchmarkServe(b, get)
}

// BenchmarkServePost is the same with a small body.
func BenchmarkServePost(b *testing.B) {
	benchmarkServe(b, "POST / HTTP/1.1\r\nHost: a\r\nUser-Agent: bench\r\nContent-Length: 5\r\n\r\nhello")
}

func benchmarkServe(b *testing.B, request string) {
	const answer = "HTTP/1.1 200 OK\r\nDate: today\r\nServer: bench\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
	endpoint := rawEndpoint(b, func(conn net.Conn, r *bufio.Reader) {
		_, body, _ := strings.Cut(request, "\r\n\r\n")
		for readHeadOf(r) != "" {
			_, _ = r.Discard(len(body))
			_, _ = io.WriteString(conn, answer)
		}
	})
	f := newFront(b, list(endpoint))
	client, anchor := tcpPair(b)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			if r, _ := f.proxy.Serve(context.Background(), anchor, Session{Listener: "l"}); !r.Quiet {
				return
			}
		}
	}()
	r := bufio.NewReader(client)
	body := make([]byte, 2)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = io.WriteString(client, request)
		readHeadOf(r)
		if _, err := io.ReadFull(r, body); err != nil {
			b.Fatal(err)
		}
	}
	_ = client.Close()
	<-served
}
