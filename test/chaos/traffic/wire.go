// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Header fields of both directions.
const (
	idField      = "X-Chaos-Id"
	paddingField = "X-Chaos-Padding"
	// serverField names the server and its generation.
	serverField = "X-Chaos-Server"
)

// UpgradeProtocol is what an upgrade asks for: one that the fast path knows. The server echoes bytes, not frames, which nobody
// between can tell.
const UpgradeProtocol = "websocket"

// message is an HTTP message as bytes.
type message struct {
	bytes []byte
	// head is where the head ends.
	head int
}

// paddingText is the value of paddingField.
func paddingText(seed uint64, id ID, direction byte, size int) string {
	b := newPattern(seed, id, padding).appendTo([]byte{direction}, size/2)
	return hex.EncodeToString(b)
}

// path is what the endpoint is asked for.
func (p *Plan) path() string { return "/" + p.Route + "/" + p.ID.String() }

// asked is what the client asks for: by each of the route's names in turn.
func (p *Plan) asked() string {
	names := Names(p.Route)
	return "/" + names[(p.ID.Conn+p.ID.Request)%uint32(len(names))] + "/" + p.ID.String()
}

// Names are the first elements of paths that lead to a route. The first is its own, and what endpoints get in place of the others.
func Names(route string) []string {
	return []string{route, route[:1], route + "-by-a-name-that-is-longer-than-its-own"}
}

// request renders the request; the bytes of a tunnel are not part of it.
func (p *Plan) request(seed uint64) message {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: chaos.test\r\n%s: %s\r\n%s: %s\r\n",
		p.Method, p.asked(), idField, p.ID, paddingField, paddingText(seed, p.ID, requestBody, p.RequestPadding))
	if p.Expect {
		b = append(b, "Expect: 100-continue\r\n"...)
	}
	if p.Upgrade {
		b = append(b, "Connection: Upgrade\r\nUpgrade: "+UpgradeProtocol+"\r\n"...)
		b = append(b, "\r\n"...)
		return message{b, len(b)}
	}
	b = appendFraming(b, p.RequestFraming, p.RequestSize)
	head := len(b)
	return message{p.appendBody(b, seed, requestBody, p.RequestFraming, p.RequestSize), head}
}

// response renders the final response. server is the sender's name.
func (p *Plan) response(seed uint64, server string) message {
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%s: %s\r\n%s: %s\r\n%s: %s\r\n", p.Status, http.StatusText(p.Status),
		idField, p.ID, serverField, server, paddingField, paddingText(seed, p.ID, responseBody, p.ResponsePadding))
	if p.Upgrade {
		b = append(b, "Connection: Upgrade\r\nUpgrade: "+UpgradeProtocol+"\r\n\r\n"...)
		return message{b, len(b)}
	}
	if p.Server == serverAnnouncesClose {
		b = append(b, "Connection: close\r\n"...)
	}
	b = appendFraming(b, p.ResponseFraming, p.ResponseSize)
	head := len(b)
	if p.Method == http.MethodHead {
		return message{b, head}
	}
	return message{p.appendBody(b, seed, responseBody, p.ResponseFraming, p.ResponseSize), head}
}

// appendFraming ends a head.
func appendFraming(b []byte, framing string, size int) []byte {
	switch framing {
	case framingLength:
		b = append(b, "Content-Length: "+strconv.Itoa(size)+"\r\n"...)
	case framingChunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...)
}

func (p *Plan) appendBody(b []byte, seed uint64, purpose byte, framing string, size int) []byte {
	pattern := newPattern(seed, p.ID, purpose)
	if framing != framingChunked {
		return pattern.appendTo(b, size)
	}
	random := rand.New(rand.NewPCG(p.ID.key(seed, purpose), 0))
	for size > 0 {
		chunk := min(size, 1+random.IntN(1<<(1+random.IntN(16))))
		b = strconv.AppendInt(b, int64(chunk), 16)
		if random.IntN(20) == 0 {
			b = append(b, ";chaos=\"1\""...)
		}
		b = append(b, "\r\n"...)
		b = append(pattern.appendTo(b, chunk), "\r\n"...)
		size -= chunk
	}
	return append(b, "0\r\n\r\n"...)
}

// bodySize is the number of body bytes that the client has to receive.
func (p *Plan) bodySize() int {
	if p.Method == http.MethodHead {
		return 0
	}
	return p.ResponseSize
}

// pieceCount bounds the writes of one message that is sent in pieces.
const pieceCount = 40

// pieces cuts b into what is written at once; pause comes before some of them.
func pieces(b []byte, random *rand.Rand, yield func(piece []byte, pause time.Duration) bool) {
	for i := 0; len(b) > 0; i++ {
		n := len(b)
		if i < pieceCount {
			n = min(n, 1+random.IntN(1<<(1+random.IntN(14))))
		}
		var pause time.Duration
		if random.IntN(4) == 0 {
			pause = time.Duration(random.IntN(3000)) * time.Microsecond
		}
		if !yield(b[:n], pause) {
			return
		}
		b = b[n:]
	}
}
