// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
)

var someID = ID{Process: 0x12, Conn: 0x345, Request: 0x6789}

func TestIdentitiesAreReadAsTheyAreWritten(t *testing.T) {
	if got, ok := parseID(someID.String()); !ok || got != someID {
		t.Errorf("read %q: got %v, %v", someID, got, ok)
	}
	for _, s := range []string{"", "12.345.6789", "0012.000345.00678", "0012.000345.0067890", "0012-000345-006789", "0012.000345.00678g"} {
		if got, ok := parseID(s); ok {
			t.Errorf("read %q: got %v, want none", s, got)
		}
	}
}

func TestEachByteOfAStreamHasItsPlace(t *testing.T) {
	const size = 10 * blockSize
	s := newStream(1, someID, requestBytes)
	whole := s.appendTo(nil, 0, size)
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		at := random.IntN(size - 1)
		n := 1 + random.IntN(size-at)
		if got := s.appendTo(nil, int64(at), n); !bytes.Equal(got, whole[at:at+n]) {
			t.Fatalf("%d bytes from %d differ from those of the whole", n, at)
		}
		if d := s.differs(whole[at:at+n], int64(at)); d >= 0 {
			t.Fatalf("%d bytes from %d: differ at %d", n, at, d)
		}
		changed := bytes.Clone(whole[at : at+n])
		where := random.IntN(n)
		changed[where] ^= 1 << random.IntN(8)
		if d := s.differs(changed, int64(at)); d != where {
			t.Fatalf("a bit changed at %d: noticed at %d", where, d)
		}
	}
	for _, other := range []*stream{
		newStream(2, someID, requestBytes), newStream(1, someID, responseBytes), newStream(1, ID{Process: 0x12, Conn: 0x345, Request: 0x678a}, requestBytes),
	} {
		if other.differs(whole, 0) < 0 {
			t.Error("two streams are the same")
		}
	}
}

// Who takes a body for a message finds whose it is.
func TestBodiesAreMessagesThatNameTheirOwner(t *testing.T) {
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(newStream(1, someID, requestBytes).appendTo(nil, 0, blockSize))))
	if err != nil || !strings.HasPrefix(request.URL.Path, "/internal/"+someID.String()) {
		t.Errorf("a request's body as a request: %+v, %v", request, err)
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(newStream(1, someID, responseBytes).appendTo(nil, 0, blockSize))), nil)
	if err != nil || !strings.HasPrefix(response.Header.Get(idField), someID.String()) {
		t.Errorf("a response's body as a response: %+v, %v", response, err)
	}
	if response != nil {
		response.Body.Close()
	}
	other := ID{Process: 1}
	stray := newStream(1, someID, requestBytes).appendTo(nil, 77, 2*blockSize)
	if got := owner(stray, other); !strings.HasPrefix(got, someID.String()+"@") {
		t.Errorf("owner of stray bytes: got %q", got)
	}
	if got := owner([]byte("0012.00000.000345.006789@00000007"), someID); got != "" {
		t.Errorf("owner of a name without its beginning: got %q, want none", got)
	}
	if got := owner(stray, someID); got != "" {
		t.Errorf("owner of one's own bytes: got %q, want none", got)
	}
}

func TestOrdersAreReadAsTheyAreWritten(t *testing.T) {
	want := Order{Kind: KindBytes, Act: ActEarly, Body: -1, Reply: 7, ReplyChunked: true, Pieces: PiecesTwo, At: 3, Garbled: true, Pad: 9}
	if got, ok := parseOrder(want.String()); !ok || got != want {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	if got, ok := parseOrder(want.String() + ",1"); ok {
		t.Errorf("got %+v of too many fields", got)
	}
}

// Bodies come in pieces of every size, framed in both ways; a byte that is missing, added or changed is noticed where it is.
func TestBodiesAreComparedToTheLastByte(t *testing.T) {
	const size = 3000
	for _, chunked := range []bool{false, true} {
		o := Order{Body: size, BodyChunked: chunked}
		b, head := o.request(1, someID)
		read := func(wire []byte, step int64) error {
			r := newBody(bufio.NewReader(io.MultiReader(bytes.NewReader(wire), strings.NewReader("next"))), newStream(1, someID, requestBytes), chunked, size)
			for at := int64(0); at < size; at += step {
				if err := r.readTo(at); err != nil {
					return err
				}
			}
			if err := r.finish(); err != nil {
				return err
			}
			rest, err := io.ReadAll(r.wire)
			if string(rest) != "next" {
				t.Errorf("chunked %t: behind the body lies %q, %v", chunked, rest, err)
			}
			return nil
		}
		for _, step := range []int64{1, 77, size} {
			if err := read(b[head:], step); err != nil {
				t.Errorf("chunked %t, step %d: %v", chunked, step, err)
			}
		}
		for at := head; at < len(b)-1; at += 13 {
			changed := bytes.Clone(b[head:])
			changed[at-head] ^= 0x40
			if err := read(changed, 100); err == nil {
				t.Errorf("chunked %t: byte %d changed, not noticed", chunked, at-head)
			}
			var wrong *mismatch
			if err := read(slices.Delete(bytes.Clone(b[head:]), at-head, at-head+1), 100); err == nil || !chunked && !errors.As(err, &wrong) {
				t.Errorf("chunked %t: byte %d missing: %v", chunked, at-head, err)
			}
		}
	}
}
