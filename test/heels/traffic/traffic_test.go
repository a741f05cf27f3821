// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serve runs a server on a free port of the loopback until the test ends.
func serve(t *testing.T) (netip.AddrPort, func() ServerReport) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ready, done := make(chan struct{}), make(chan ServerReport, 1)
	go func() {
		r, err := Serve(ctx, ServerOptions{Name: "one", Listen: []netip.AddrPort{at}}, func() { close(ready) })
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	<-ready
	return at, func() ServerReport { cancel(); return <-done }
}

func TestEveryConnectionIsAnsweredAndClosedInBothOrders(t *testing.T) {
	for _, order := range []Order{ClientFirst, ServerFirst} {
		for _, late := range []time.Duration{0, 20 * time.Millisecond} {
			at, end := serve(t)
			r, err := Run(t.Context(), ClientOptions{Target: at, Connections: 40, Concurrency: 4, Requests: 3, Request: 1000, Answer: 300_001, Close: order, Late: late})
			if err != nil {
				t.Fatal(err)
			}
			if r.Errors != 0 || r.Connections != 40 || r.Requests != 120 || r.Servers["one"] != 120 || r.Masked+r.Elsewhere != 0 || r.Setup.Count() != 40 {
				t.Errorf("%s first, %s late: %+v", order, late, r)
			}
			if s := end(); s.Connections != 40 || s.Requests != 120 || len(s.Errors) != 0 {
				t.Errorf("%s first, %s late: server %+v", order, late, s)
			}
		}
	}
}

func TestAWrongByteIsAnError(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	sent := append([]byte(nil), payload(7, 0, 1000)...)
	sent[999]++
	near, far := &conn{fd: pair[0], buffer: newBuffer()}, &conn{fd: pair[1], buffer: newBuffer()}
	if err := near.write(sent); err != nil {
		t.Fatal(err)
	}
	if err := far.readPayload(7, 1000); err == nil || !strings.Contains(err.Error(), "wrong bytes") {
		t.Errorf("a changed byte: %v", err)
	}
}

func TestHeadsSurvive(t *testing.T) {
	var b [answerHead]byte
	want := request{length: 100, answer: 2000, seed: 5, closes: true, delay: 300}
	want.encode(b[:])
	if got, err := decodeRequest(b[:]); err != nil || got != want {
		t.Errorf("request %+v, %v, want %+v", got, err, want)
	}
	reply := answer{seed: 5, seen: netip.MustParseAddrPort("10.0.3.1:5"), own: netip.MustParseAddrPort("[fd00::1]:80"), server: "twelve-bytes"}
	reply.encode(b[:])
	if got, err := decodeAnswer(b[:]); err != nil || got != reply {
		t.Errorf("answer %+v, %v, want %+v", got, err, reply)
	}
}

func TestARefusedConnectionIsTold(t *testing.T) {
	at, end := serve(t)
	_ = end
	r, err := Run(t.Context(), ClientOptions{Target: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), at.Port()), Connections: 2, Concurrency: 1, Requests: 1, Request: 32, Answer: 64})
	if err != nil || r.Errors != 2 || len(r.First) != 2 || r.Kinds["connect: connection refused"] != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

func TestOptionsWithoutSenseAreRefused(t *testing.T) {
	for _, o := range []ClientOptions{
		{Concurrency: 0, Connections: 1, Requests: 1, Request: 32, Answer: 64},
		{Concurrency: 1, Connections: 1, Request: 32, Answer: 64},
		{Concurrency: 1, Connections: 1, Requests: 1, Request: 31, Answer: 64},
		{Concurrency: 1, Connections: 1, Requests: 1, Request: 32, Answer: 64, Close: "both"},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
