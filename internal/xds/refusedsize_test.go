// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// heap is what is in use after garbage has been collected, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What a server sends that is refused stays refused until it says better, which it may never do; it does not stay in memory.
func TestRefusedResourcesTakeLittleMemory(t *testing.T) {
	const many, size, allowed = 20, 4 << 20, 8 << 20
	checks := 0
	c := New(Config{Check: func(kind Kind, name string, body *anypb.Any) ([]string, error) {
		checks++
		references, err := check(kind, name, body)
		if err == nil {
			err = fmt.Errorf("is bad: %s", strings.Repeat("x", size)) // as one that quotes what was sent
		}
		return references, err
	}})
	large := func(i int) *response {
		// Behind the name and the content comes a field that nobody knows.
		body := packed(static(fmt.Sprint("giant-", i), 1))
		body = &anypb.Any{TypeUrl: body.TypeUrl, Value: append(proto.Clone(body).(*anypb.Any).Value, unknownField(size)...)}
		return &response{typeURL: Clusters.TypeURL(), version: "1", resources: []received{{name: fmt.Sprint("giant-", i), version: "1", body: body}}}
	}
	before := heap()
	for i := range many {
		if err := c.take(Clusters, large(i), 0); err == nil {
			t.Fatal("taken")
		}
	}
	if grown := heap() - before; grown > allowed {
		t.Errorf("%d refused resources of %d MiB take %d MiB", many, size>>20, grown>>20)
	}
	status := c.Status()
	for _, r := range status.Kinds[Clusters].Resources {
		if r.State != Nacked || r.FailedBody != nil || !strings.HasPrefix(r.Error, "is bad: ") || len(r.Error) > 2*maxFault {
			t.Errorf("%s is %v for %.40q (%d bytes)", r.Name, r.State, r.Error, len(r.Error))
		}
	}
	// The same again is known.
	asked := checks
	if err := c.take(Clusters, large(0), 0); err == nil || checks != asked {
		t.Errorf("the same again: %v, judged %d times more", err, checks-asked)
	}
	runtime.KeepAlive(c)
}

// unknownField is one of a message that has no such field, in so many bytes.
func unknownField(size int) []byte {
	out := []byte{0xfa, 0x7f} // field 2047, with a length
	for n := size; ; n >>= 7 {
		if n < 0x80 {
			out = append(out, byte(n))
			break
		}
		out = append(out, byte(n)|0x80)
	}
	return append(out, make([]byte, size)...)
}

// refuses is a client that refuses each resource, with that text.
func refuses(reason string) *Client {
	return New(Config{Check: func(Kind, string, *anypb.Any) ([]string, error) { return nil, errors.New(reason) }})
}

// small is a resource of that name, with a field without a meaning of that size.
func small(name string, size int) received {
	body := packed(static(name, 1))
	body.Value = append(body.Value, unknownField(size)...)
	return received{name: name, version: "1", body: body}
}

// A server may name ever more resources that are refused. A bounded number is kept, and the others are counted.
func TestRefusedResourcesAreBoundedInNumber(t *testing.T) {
	const many, size, allowed = 4 * maxRefused, 60 << 10, 2 * maxRefused * 64 << 10
	c := refuses("is bad")
	before := heap()
	for i := range many {
		if err := c.take(Clusters, &response{typeURL: Clusters.TypeURL(), version: "1", resources: []received{small(fmt.Sprint("other-", i), size)}}, 0); err == nil {
			t.Fatal("taken")
		}
	}
	if grown := heap() - before; grown > allowed {
		t.Errorf("%d refused resources of %d KiB take %d MiB", many, size>>10, grown>>20)
	}
	if s := c.Refused().Kinds[Clusters]; len(s.Resources) != maxRefused || s.NotKept != many-maxRefused {
		t.Errorf("%d are kept, and %d not; want %d and %d", len(s.Resources), s.NotKept, maxRefused, many-maxRefused)
	}
	// Those that are kept and have gone leave room, and a response that names all begins anew.
	all := &response{typeURL: Clusters.TypeURL(), version: "2", whole: true}
	for i := range maxRefused + 1 {
		all.resources = append(all.resources, small(fmt.Sprint("new-", i), 0))
	}
	if err := c.take(Clusters, all, 0); err == nil {
		t.Fatal("taken")
	}
	s := c.Refused().Kinds[Clusters]
	if len(s.Resources) != maxRefused || s.NotKept != 1 || s.Resources[0].Error != "is bad" || s.Resources[0].FailedBody == nil {
		t.Errorf("%d are kept, and %d not; want %d and 1, whole: %+v", len(s.Resources), s.NotKept, maxRefused, s.Resources[0])
	}
	runtime.KeepAlive(c)
}

// What is in force stays known as refused, however many others are: with the beginning of the reason, and it is not judged again.
func TestRefusedChangesAreKnownBeyondTheBound(t *testing.T) {
	refusing, judged := false, 0
	c := New(Config{Check: func(Kind, string, *anypb.Any) ([]string, error) {
		if judged++; refusing {
			return nil, errors.New(strings.Repeat("é", maxRefusedBody))
		}
		return nil, nil
	}})
	take := func(r received) error {
		return c.take(Clusters, &response{typeURL: Clusters.TypeURL(), version: "1", resources: []received{r}}, 0)
	}
	if err := take(small("shop", 0)); err != nil {
		t.Fatal(err)
	}
	refusing = true
	for i := range maxRefused {
		_ = take(small(fmt.Sprint("other-", i), 0))
	}
	for range 2 {
		judged = 0
		if err := take(small("shop", 100)); err == nil {
			t.Fatal("taken")
		}
	}
	if judged != 0 {
		t.Errorf("the same again was judged %d times", judged)
	}
	at := slices.IndexFunc(c.Refused().Kinds[Clusters].Resources, func(r ResourceStatus) bool { return r.Name == "shop" })
	if at < 0 {
		t.Fatal("it is not known to be refused")
	}
	if r := c.Refused().Kinds[Clusters].Resources[at]; r.Body == nil || r.FailedBody != nil || r.Fault != nil || len(r.Error) > maxBriefReason+4 || !strings.HasPrefix(r.Error, "éé") {
		t.Errorf("got body %v, refused %v for %q", r.Body, r.FailedBody, r.Error)
	}
	// It is taken, and the others go.
	refusing = false
	if err := take(small("shop", 1)); err != nil {
		t.Error(err)
	}
	if err := c.take(Clusters, &response{typeURL: Clusters.TypeURL(), version: "2", whole: true}, 0); err != nil || c.state.refusals != 0 {
		t.Errorf("%v; %d refusals are counted of nothing", err, c.state.refusals)
	}
}

// A reason is cut between characters, wherever it has to be.
func TestReasonsAreCutBetweenCharacters(t *testing.T) {
	for _, character := range []string{"e", "é", "€", "😀"} {
		for shift := range 4 {
			c := refuses(strings.Repeat("x", shift) + strings.Repeat(character, maxFault+1))
			err := c.take(Clusters, &response{typeURL: Clusters.TypeURL(), version: "1", resources: []received{small("a", 0)}}, 0)
			kept := c.Refused().Kinds[Clusters].Resources[0].Error
			if !utf8.ValidString(kept) || len(kept) < maxFault-3 || !strings.HasSuffix(kept, character+" ...") {
				t.Errorf("%q after %d: %d bytes are kept, which end in %q", character, shift, len(kept), kept[len(kept)-8:])
			}
			if err == nil || !strings.HasSuffix(err.Error(), character) {
				t.Errorf("%q after %d: the server gets %.20v ..., which does not end in that", character, shift, err)
			}
		}
	}
	if got := cut(strings.Repeat("\x80", 10), 7); len(got) != 7 {
		t.Errorf("of what is no text %d bytes stay, want 7", len(got))
	}
}
