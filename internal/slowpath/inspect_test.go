// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
)

// clientHello is the first message of a TLS client.
func clientHello(t *testing.T, name string, protocols ...string) string {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() { _ = tls.Client(client, &tls.Config{ServerName: name, NextProtos: protocols}).Handshake() }()
	b := make([]byte, 16<<10)
	n, err := server.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// What comes piece by piece is known for the same as what comes at once, and no earlier than it is certain.
func TestOpeningsAreTheSameInPieces(t *testing.T) {
	both, tlsOnly, httpOnly := &model.Inspection{TLS: true, HTTP: true}, &model.Inspection{TLS: true}, &model.Inspection{HTTP: true}
	h1, h0 := &model.Opening{Protocols: []string{model.ProtocolHTTP11}}, &model.Opening{Protocols: []string{model.ProtocolHTTP10}}
	other := &model.Opening{}
	hello := clientHello(t, "Shop.test", "h2", "http/1.1")
	split := "\x16\x03\x01\x00\x10" + hello[5:21] + "\x16\x03\x01" + string([]byte{byte((len(hello) - 21) >> 8), byte(len(hello) - 21)}) + hello[21:]
	shop := &model.Opening{TLS: true, ServerName: "shop.test", Protocols: []string{"h2", "http/1.1"}}
	for _, c := range []struct {
		name, bytes string
		looks       *model.Inspection
		want        *model.Opening
	}{
		{"HTTP/1.1", "GET /x?y HTTP/1.1\r\n", both, h1},
		{"HTTP/1.0", "GET / HTTP/1.0\n", httpOnly, h0},
		{"HTTP/0.9", "GET /\r\n", httpOnly, h0},
		{"HTTP unasked", "GET / HTTP/1.1\r\n", tlsOnly, other},
		{"HTTP/2", preface, both, &model.Opening{Protocols: []string{model.ProtocolHTTP2}}},
		{"like HTTP/2", "PRI * HTTP/2.0\r\n\r\nSX", both, h0},
		{"a word", "hello\n", both, other},
		{"no method", "\x00\x01", both, other},
		{"TLS", hello, both, shop},
		{"TLS in two records", split, tlsOnly, shop},
		{"TLS unasked", hello, httpOnly, other},
		{"like TLS", "\x16\x03\x01\x00\x04abcd", both, other},
		{"of another version", "\x16\x02", both, other},
	} {
		var hello helloFrame
		for n := range len(c.bytes) {
			if early := openingOf(c.looks, []byte(c.bytes[:n]), &hello); early != nil && cmp.Diff(c.want, early) != "" {
				t.Errorf("%s: after %d bytes %+v, want %+v", c.name, n, early, c.want)
				break
			}
		}
		if diff := cmp.Diff(c.want, openingOf(c.looks, []byte(c.bytes), &hello)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", c.name, diff)
		}
	}
}

// Each record is looked at once, however small they and the pieces are.
func TestOpeningInPiecesIsNotReadFromItsBeginning(t *testing.T) {
	looks := &model.Inspection{TLS: true}
	b := []byte("\x16\x03\x01\x00\x04\x01\x00\xff\xff")
	for len(b) < limits.Opening.BodyBytes-6 {
		b = append(b, "\x16\x03\x01\x00\x01x"...)
	}
	var hello helloFrame
	for n := range len(b) {
		if o := openingOf(looks, b[:n], &hello); o != nil {
			t.Fatalf("after %d of %d bytes: %+v", n, len(b), o)
		}
	}
	if hello.next+6 < len(b) {
		t.Errorf("the next record begins at %d of %d bytes", hello.next, len(b))
	}
	if n := testing.AllocsPerRun(100, func() { openingOf(looks, b, &hello) }); n > 0 {
		t.Errorf("a look at a hello that is not whole allocates %.0f times: it is parsed", n)
	}
}

func FuzzOpening(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte("\x16\x03\x01\x00\x04\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, looks := range []*model.Inspection{{TLS: true}, {HTTP: true}, {TLS: true, HTTP: true}} {
			var hello helloFrame
			whole := openingOf(looks, b, &helloFrame{})
			for n := range len(b) {
				if early := openingOf(looks, b[:n], &hello); early != nil && cmp.Diff(early, whole) != "" {
					t.Fatalf("%d bytes of %q: %+v, all of them: %+v", n, b, early, whole)
				}
			}
		}
	})
}

func TestInspectionEndsInTime(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		i := &model.Inspection{HTTP: true, Timeout: 20 * time.Millisecond, Continue: goesOn}
		for _, sent := range []string{"", "GET / HT"} {
			client, server := net.Pipe()
			d := newDownstream(New(Config{}), server, Session{Opened: time.Now()})
			if sent != "" {
				go func() { _, _ = client.Write([]byte(sent)) }()
			}
			opening, err := d.inspect(i)
			if goesOn && (err != nil || cmp.Diff(&model.Opening{}, opening) != "") || !goesOn && !errors.Is(err, errSilent) {
				t.Errorf("after %q, continue %t: %v, %v", sent, goesOn, opening, err)
			}
			d.release()
			client.Close()
			server.Close()
		}
	}
}
