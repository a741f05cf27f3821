// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHistogramQuantileIsNearestRank(t *testing.T) {
	h := Histogram{10: 50, 20: 49, 500: 1}
	for _, tt := range []struct {
		q    float64
		want int64
	}{{0, 10}, {0.5, 10}, {0.51, 20}, {0.99, 20}, {0.999, 500}, {1, 500}} {
		if got := h.Quantile(tt.q); got != tt.want {
			t.Errorf("Quantile(%v) = %d, want %d", tt.q, got, tt.want)
		}
	}
	if got := (Histogram{}).Quantile(0.5); got != 0 {
		t.Errorf("empty histogram: Quantile(0.5) = %d, want 0", got)
	}
}

func TestReportSurvivesJSON(t *testing.T) {
	want := Report{Requests: 3, Errors: 1, DurationUS: 1e6, Latency: Histogram{7: 2, 90: 1}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "[[7,2],[90,1]]") {
		t.Errorf("histogram is not written as sorted pairs: %s", data)
	}
	var got Report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestHeadIsFramedByContentLength(t *testing.T) {
	tests := []struct {
		name, data   string
		head, length int
		fails        bool
	}{
		{name: "partial", data: "HTTP/1.1 200 OK\r\nContent-Le"},
		{name: "empty body", data: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", head: 38},
		{name: "name in any case", data: "HTTP/1.1 200 OK\r\ncontent-LENGTH:12\r\n\r\nabc", head: 38, length: 12},
		{name: "other status", data: "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", fails: true},
		{name: "no length", data: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", fails: true},
		{name: "negative length", data: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", fails: true},
		{name: "not HTTP", data: "\r\n\r\n", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			head, length, err := parseHead([]byte(tt.data))
			if (err != nil) != tt.fails || head != tt.head || length != tt.length {
				t.Errorf("parseHead() = %d, %d, %v, want %d, %d, fails %v", head, length, err, tt.head, tt.length, tt.fails)
			}
		})
	}
}

func TestResponseIsReadOverManyReads(t *testing.T) {
	response := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	for size := 1; size <= len(response); size++ {
		w := &worker{buffer: make([]byte, 64)}
		source := strings.NewReader(response)
		read := func(p []byte) (int, error) { return source.Read(p[:min(size, len(p))]) }
		if err := w.readResponse(read); err != nil {
			t.Fatalf("reads of %d bytes: %v", size, err)
		}
		if source.Len() != 0 {
			t.Errorf("reads of %d bytes: %d bytes left unread", size, source.Len())
		}
	}
}

func TestCutResponseIsAnError(t *testing.T) {
	for _, response := range []string{"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"} {
		w := &worker{buffer: make([]byte, 64)}
		source := strings.NewReader(response)
		read := func(p []byte) (int, error) {
			n, err := source.Read(p)
			if errors.Is(err, io.EOF) {
				err = nil // read(2) reports the end as 0 bytes
			}
			return n, err
		}
		if err := w.readResponse(read); err == nil {
			t.Errorf("response cut to %q: no error", response)
		}
	}
}

func TestOptionsReportEveryProblem(t *testing.T) {
	err := Options{Targets: []netip.AddrPort{netip.MustParseAddrPort("[::1]:80")}}.Validate()
	if err == nil {
		t.Fatal("Validate() accepts IPv6, no connections and no duration")
	}
	for _, want := range []string{"IPv4", "connections", "duration"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %q, does not mention %s", err, want)
		}
	}
}

func TestEveryRequestHasItsConnection(t *testing.T) {
	var connections, requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Length", "100000")
		w.Write(make([]byte, 100000))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()

	report, err := Run(context.Background(), Options{
		Targets:     []netip.AddrPort{netip.MustParseAddrPort(server.Listener.Addr().String())},
		Path:        "/",
		Connections: 2,
		Duration:    50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Errors != 0 || report.Requests == 0 || report.Requests != report.Latency.Count() {
		t.Errorf("report = %d requests, %d errors, %d latencies", report.Requests, report.Errors, report.Latency.Count())
	}
	if connections.Load() != requests.Load() || requests.Load() != report.Requests {
		t.Errorf("%d connections and %d requests at the server, %d reported", connections.Load(), requests.Load(), report.Requests)
	}
}

func TestSetupAloneSendsNothing(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	received := make(chan int)
	go func() {
		total := 0
		for {
			c, err := listener.Accept()
			if err != nil {
				break
			}
			n, _ := io.Copy(io.Discard, c)
			total += int(n)
			c.Close()
		}
		received <- total
	}()
	report, err := Run(context.Background(), Options{
		Targets: []netip.AddrPort{netip.MustParseAddrPort(listener.Addr().String())}, Connections: 2, Duration: 50 * time.Millisecond, SetupOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if n := <-received; n != 0 || report.Requests == 0 || report.Errors != 0 {
		t.Errorf("%d bytes sent by %d connections, %d errors (%s); want none by many", n, report.Requests, report.Errors, report.FirstError)
	}
}

func TestRefusedConnectionsAreErrors(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := netip.MustParseAddrPort(listener.Addr().String())
	listener.Close()
	report, err := Run(context.Background(), Options{
		Targets: []netip.AddrPort{target}, Path: "/", Connections: 1, Duration: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Errors == 0 || report.Requests != 0 || !strings.Contains(report.FirstError, "refused") {
		t.Errorf("report = %d requests, %d errors, the first %q; want refusals only", report.Requests, report.Errors, report.FirstError)
	}
}
