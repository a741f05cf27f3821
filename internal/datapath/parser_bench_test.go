// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps"
)

// BenchmarkParser tells what it takes to read heads as they are sent: by wrk, by curl and a browser, and by nginx and a Go server.
func BenchmarkParser(b *testing.B) {
	d := loaded(b)
	for _, c := range []struct {
		name, head string
		program    *ebpf.Program
	}{
		{"request/wrk", "GET / HTTP/1.1\r\nHost: 127.80.0.1:8080\r\n\r\n", d.fast.SelftestRequest},
		{"request/curl", "GET /api/v1/items?id=12 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n", d.fast.SelftestRequest},
		{"request/requests", "POST /api/v1/items HTTP/1.1\r\nHost: shop.example.com:8080\r\nUser-Agent: python-requests/2.31.0\r\nAccept-Encoding: gzip, deflate\r\n" +
			"Accept: */*\r\nConnection: keep-alive\r\nContent-Length: 1024\r\nContent-Type: application/json\r\n\r\n", d.fast.SelftestRequest},
		{"response/nginx", "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 22 Nov 2026 13:00:00 GMT\r\nContent-Type: application/octet-stream\r\n" +
			"Content-Length: 0\r\nConnection: keep-alive\r\n\r\n", d.fast.SelftestResponse},
		{"response/go", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 22 Nov 2026 13:00:00 GMT\r\nContent-Length: 512\r\n\r\n", d.fast.SelftestResponse},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, each, err := c.program.Benchmark(maps.Packet([]byte(c.head)), b.N, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(each.Nanoseconds()), "ns/head")
		})
	}
}
