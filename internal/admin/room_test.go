// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
)

// begin serves a handler on an address of its own until the test ends.
func begin(t *testing.T, handler http.Handler, names ...string) (address string) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), l, names, handler, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// send opens a connection and writes on it.
func send(t *testing.T, address, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// askRaw is what is answered to a request that ends its connection.
func askRaw(t *testing.T, address, text string) string {
	t.Helper()
	c := send(t, address, text)
	if err := c.SetReadDeadline(time.Now().Add(limits.Admin.Whole / 2)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// overHTTP2 speaks HTTP/2 in cleartext.
func overHTTP2(t *testing.T) *http.Transport {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// requireStatus asks on a connection of its own.
func requireStatus(t *testing.T, address string, want int) {
	t.Helper()
	client := http.Client{Timeout: limits.Admin.Whole / 2, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != want {
		t.Errorf("got status %d, want %d", r.StatusCode, want)
	}
}

func TestSlowHeadsKeepNobodyOut(t *testing.T) {
	address := begin(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 4 * limits.Admin.Connections {
		send(t, address, "GET / HTTP/1.1\r\nHost: localhost")
	}
	requireStatus(t, address, http.StatusOK)
}

func TestRequestsUnderWayAreNotGivenUpForOthers(t *testing.T) {
	const request = "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	arrived, answer := make(chan struct{}, limits.Admin.Connections), make(chan struct{})
	address := begin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-answer
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	var slow []net.Conn
	for range limits.Admin.Connections {
		slow = append(slow, send(t, address, request))
		<-arrived
	}
	next := send(t, address, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if err := next.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, _ := next.Read(make([]byte, 1)); n > 0 {
		t.Error("there was room for one more")
	}
	close(answer)
	for _, c := range append(slow, next) {
		if err := c.SetReadDeadline(time.Now().Add(limits.Admin.Whole / 2)); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || len(b) == 0 {
			t.Fatalf("a request got %q, %v", b, err)
		}
	}
}

// Streams that nobody speaks on, as those of gRPC, and answers that nobody reads, keep out neither who asks whether requests are served nor who counts.
func TestSilentStreamsKeepNobodyOut(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "counted\n") })
	mux := http.NewServeMux()
	mux.Handle("/", NewHandler(&state{}, metrics))
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	address := begin(t, mux)
	for i := range 2 * limits.Admin.Connections {
		if i%2 == 0 {
			send(t, address, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
			continue
		}
		client := &http.Client{Transport: overHTTP2(t)}
		answer, err := client.Get("http://" + address + "/stream")
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { answer.Body.Close() })
	}
	client := http.Client{Timeout: limits.Admin.Whole / 2, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/ready", "/metrics"} {
		answer, err := client.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d", path, answer.StatusCode)
		}
	}
}
