// SPDX-License-Identifier: Apache-2.0

package opening

import (
	"crypto/tls"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/ascii/asciitest"
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
		var hello Hello
		for n := range len(c.bytes) {
			if early := Of(c.looks, []byte(c.bytes[:n]), &hello); early != nil && cmp.Diff(c.want, early) != "" {
				t.Errorf("%s: after %d bytes %+v, want %+v", c.name, n, early, c.want)
				break
			}
		}
		if diff := cmp.Diff(c.want, Of(c.looks, []byte(c.bytes), &hello)); diff != "" {
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
	var hello Hello
	for n := range len(b) {
		if o := Of(looks, b[:n], &hello); o != nil {
			t.Fatalf("after %d of %d bytes: %+v", n, len(b), o)
		}
	}
	if hello.next+6 < len(b) {
		t.Errorf("the next record begins at %d of %d bytes", hello.next, len(b))
	}
	if n := testing.AllocsPerRun(100, func() { Of(looks, b, &hello) }); n > 0 {
		t.Errorf("a look at a hello that is not whole allocates %.0f times: it is parsed", n)
	}
}

func FuzzOpening(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte("\x16\x03\x01\x00\x04\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, looks := range []*model.Inspection{{TLS: true}, {HTTP: true}, {TLS: true, HTTP: true}} {
			var hello Hello
			whole := Of(looks, b, &Hello{})
			for n := range len(b) {
				if early := Of(looks, b[:n], &hello); early != nil && cmp.Diff(early, whole) != "" {
					t.Fatalf("%d bytes of %q: %+v, all of them: %+v", n, b, early, whole)
				}
			}
		}
	})
}

// Names that a reader by the letter of RFC 8446 knows, and others that package strings, which goes by Unicode, takes for them.
func TestServerNamesAreComparedByBytes(t *testing.T) {
	for _, c := range asciitest.Of("kiosk.test") {
		opening, _ := tlsOpening([]byte(helloFor(t, c.Text)))
		if opening == nil {
			continue // crypto/tls does not read it
		}
		if opening.ServerName == "kiosk.test" {
			t.Errorf("%s: %q is taken for kiosk.test", c.Name, c.Text)
		}
	}
	if opening, _ := tlsOpening([]byte(helloFor(t, "\u212aiosk.test"))); opening == nil || opening.ServerName != "\u212aiosk.test" {
		t.Errorf("a name with U+212A is read as %+v", opening)
	}
}

// helloFor is a ClientHello for any name: crypto/tls writes none that is no host's, so another of
// that length is exchanged.
func helloFor(t *testing.T, name string) string {
	t.Helper()
	filler := string(slices.Repeat([]byte("x"), len(name)))
	return replaceOnce(t, clientHello(t, filler), filler, name)
}

func replaceOnce(t *testing.T, s, old, replacement string) string {
	t.Helper()
	for i := range len(s) - len(old) {
		if s[i:i+len(old)] == old {
			return s[:i] + replacement + s[i+len(old):]
		}
	}
	t.Fatalf("%q is not there", old)
	return ""
}
