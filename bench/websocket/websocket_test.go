// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/bench/accept"
)

func TestFramesSurviveTheWayThere(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 127, 1024, MaxMessage} {
		for _, mask := range [][]byte{nil, {1, 2, 3, 4}} {
			payload := bytes.Repeat([]byte("x"), size)
			wire := bytes.NewReader(appendFrame(nil, opcodeBinary, payload, mask))
			f, err := readHead(wire, make([]byte, maxHead))
			if err != nil || f.opcode != opcodeBinary || f.length != size {
				t.Fatalf("head of %d bytes: %+v, %v", size, f, err)
			}
			got, err := readPayload(wire, f, make([]byte, MaxMessage))
			if err != nil || !bytes.Equal(got, payload) || wire.Len() != 0 {
				t.Errorf("payload of %d bytes, mask %v: %d bytes, %d left, %v", size, mask, len(got), wire.Len(), err)
			}
		}
	}
}

func TestFrameIsThatOfTheRFC(t *testing.T) {
	// RFC 6455, section 5.7: a masked "Hello", as a binary message.
	got := appendFrame(nil, opcodeBinary, []byte("Hello"), []byte{0x37, 0xfa, 0x21, 0x3d})
	want := []byte{0x82, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58}
	if !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
	// Section 1.3.
	if got := acceptOf("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("accept: %s", got)
	}
}

func TestHeadsBeyondTheSubsetAreErrors(t *testing.T) {
	for name, head := range map[string][]byte{
		"fragment":     {0x02, 0x01},
		"eight bytes":  {0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0},
		"cut length":   {0x82, 0x7e, 0},
		"cut mask":     {0x82, 0x81, 0, 0},
		"no head":      {},
		"half of head": {0x82},
	} {
		t.Run(name, func(t *testing.T) {
			if f, err := readHead(bytes.NewReader(head), make([]byte, maxHead)); err == nil {
				t.Errorf("readHead(% x) = %+v, want an error", head, f)
			}
		})
	}
}

// target is a running echo server, or what serves in its place.
func target(t *testing.T, serve func(net.Listener)) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go serve(listener)
	return netip.MustParseAddrPort(listener.Addr().String())
}

func TestMessagesComeBack(t *testing.T) {
	echo := target(t, func(l net.Listener) { _ = accept.Each(l, serve) })
	for _, size := range []int{1, 16, 1024, MaxMessage} {
		report, err := Run(context.Background(), Options{
			Targets: []netip.AddrPort{echo}, Connections: 3, Message: size, Duration: 20 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		if report.Errors != 0 || report.Requests < 3 || report.Requests != report.Latency.Count() {
			t.Errorf("%d bytes: %d messages, %d errors, %d latencies", size, report.Requests, report.Errors, report.Latency.Count())
		}
	}
}

func TestServerAnswersPlainRequests(t *testing.T) {
	echo := target(t, func(l net.Listener) { _ = accept.Each(l, serve) })
	response, err := http.Get("http://" + echo.String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || len(body) != 0 || response.StatusCode != http.StatusOK {
		t.Errorf("got %s, %d bytes, %v", response.Status, len(body), err)
	}
}

func TestConnectionsThatFailAreErrors(t *testing.T) {
	// Agrees to the upgrade, and returns the first message changed.
	wrong := target(t, func(l net.Listener) {
		server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Sec-WebSocket-Accept", acceptOf(r.Header.Get("Sec-WebSocket-Key")))
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Write(appendFrame(nil, opcodeBinary, []byte("another"), nil))
			_, _ = io.Copy(io.Discard, conn)
		})}
		_ = server.Serve(l)
	})
	report, err := Run(context.Background(), Options{
		Targets: []netip.AddrPort{wrong}, Connections: 2, Message: 16, Duration: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Errors != 2 || report.Requests != 0 {
		t.Errorf("report = %d messages, %d errors, want 2 errors only", report.Requests, report.Errors)
	}
}

func TestRefusedUpgradeIsAnError(t *testing.T) {
	plain := target(t, func(l net.Listener) { _ = http.Serve(l, http.NotFoundHandler()) })
	_, err := Run(context.Background(), Options{
		Targets: []netip.AddrPort{plain}, Connections: 1, Message: 16, Duration: time.Second,
	})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("Run() = %v, want the status", err)
	}
}

func TestOptionsReportEveryProblem(t *testing.T) {
	err := Options{Message: MaxMessage + 1}.Validate()
	if err == nil {
		t.Fatal("Validate() accepts no target, no connections and no duration")
	}
	for _, want := range []string{"target", "connections", "message", "duration"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %q, does not mention %s", err, want)
		}
	}
}
