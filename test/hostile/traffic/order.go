// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Order is what an exchange is like. It travels in the request's head, so that the server does its
// part, and both sides know every byte.
type Order struct {
	// Kind is how the client sends; the server only reports it.
	Kind string
	// Act is what the server does.
	Act string
	// Body and Reply are the sizes of the request's body (-1: it has none) and of the response's.
	Body, Reply int
	// BodyChunked and ReplyChunked say how these are framed.
	BodyChunked, ReplyChunked bool
	// Pieces is how the server sends.
	Pieces string
	// At is where in a message something happens, in thousandths.
	At int
	// Garbled: by how the client sends, the server may see the body's bytes in another order, or not all of them.
	Garbled bool
	// Pad is how many bytes of the identity's noise the head carries, in hexadecimal.
	Pad int
}

func (o *Order) String() string {
	return fmt.Sprintf("%s,%s,%d,%d,%t,%t,%s,%d,%t,%d",
		o.Kind, o.Act, o.Body, o.Reply, o.BodyChunked, o.ReplyChunked, o.Pieces, o.At, o.Garbled, o.Pad)
}

func parseOrder(s string) (o Order, ok bool) {
	f := strings.Split(s, ",")
	if len(f) != 10 {
		return o, false
	}
	number := func(i int) int {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			return -2
		}
		return n
	}
	o = Order{
		Kind: f[0], Act: f[1], Body: number(2), Reply: number(3), BodyChunked: f[4] == "true", ReplyChunked: f[5] == "true",
		Pieces: f[6], At: number(7), Garbled: f[8] == "true", Pad: number(9),
	}
	return o, o.String() == s
}

// Names of header fields.
const (
	idField    = "X-Hostile"
	orderField = "X-Do"
	padField   = "X-Pad"
)

// Prefix is the only one that the clients' routes allow.
const Prefix = "/public/"

func padding(seed uint64, id ID, purpose byte, size int) string {
	return hex.EncodeToString(newStream(seed, id, paddingBytes^purpose).appendTo(nil, blockSize/2, size))
}

// request renders the whole request; body is where its body begins.
func (o *Order) request(seed uint64, id ID) (b []byte, body int) {
	method := "POST"
	if o.Body < 0 || o.Act == ActTunnel {
		method = "GET"
	}
	b = fmt.Appendf(nil, "%s %s%s HTTP/1.1\r\nHost: hostile.test\r\n%s: %s\r\n%s: %s\r\n%s: %s\r\n",
		method, Prefix, id, idField, id, orderField, o, padField, padding(seed, id, requestBytes, o.Pad))
	if o.Act == ActTunnel {
		b = append(b, upgrading+"\r\n"...)
		return b, len(b)
	}
	b = appendFraming(b, o.BodyChunked, o.Body)
	body = len(b)
	return appendBody(b, seed, id, requestBytes, o.BodyChunked, o.Body), body
}

// upgrading are the fields of both sides that make a tunnel. The protocol is one that routes know; no frames are in it.
const upgrading = "Connection: Upgrade\r\nUpgrade: websocket\r\n"

// response renders the whole response; the bytes of a tunnel are no part of it.
func (o *Order) response(seed uint64, id ID) (b []byte, body int) {
	status := "200 OK"
	if o.Act == ActTunnel {
		status = "101 Switching Protocols"
	}
	version := "HTTP/1.1"
	if isOld(o.Act) {
		version = "HTTP/1.0"
	}
	b = fmt.Appendf(nil, "%s %s\r\n%s: %s\r\n%s: %s\r\n",
		version, status, idField, id, padField, padding(seed, id, responseBytes, o.Pad))
	if o.Act == ActTunnel {
		b = append(b, upgrading+"\r\n"...)
		return b, len(b)
	}
	if o.Act == ActClosesAnnounced {
		b = append(b, "Connection: close\r\n"...)
	}
	if isUnframed(o.Act) {
		b = append(b, "\r\n"...)
	} else {
		b = appendFraming(b, o.ReplyChunked, o.Reply)
	}
	body = len(b)
	return appendBody(b, seed, id, responseBytes, o.ReplyChunked, o.Reply), body
}

func appendFraming(b []byte, chunked bool, size int) []byte {
	switch {
	case size < 0:
	case chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	default:
		b = fmt.Appendf(b, "Content-Length: %d\r\n", size)
	}
	return append(b, "\r\n"...)
}

func appendBody(b []byte, seed uint64, id ID, purpose byte, chunked bool, size int) []byte {
	s := newStream(seed, id, purpose)
	if !chunked {
		return s.appendTo(b, 0, size)
	}
	random := rand.New(rand.NewPCG(id.key(seed, purpose^chunkSizes), 0))
	for at := 0; at < size; {
		n := min(size-at, 1+random.IntN(1<<(1+random.IntN(16))))
		b = fmt.Appendf(b, "%x\r\n", n)
		b = append(s.appendTo(b, int64(at), n), "\r\n"...)
		at += n
	}
	return append(b, "0\r\n\r\n"...)
}
