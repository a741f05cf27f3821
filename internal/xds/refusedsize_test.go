// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
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

// crowded is a client that has accepted "shop" and keeps as many other refusals as it keeps whole; what comes behind that is refused for the reason.
func crowded(t *testing.T, reason *string, judged *int) *Client {
	t.Helper()
	c := New(Config{Check: func(Kind, string, *anypb.Any) ([]string, error) {
		if *judged++; *reason == "" {
			return nil, nil
		}
		return nil, errors.New(*reason)
	}})
	why := *reason
	*reason = ""
	if err := takeOne(c, small("shop", 0)); err != nil {
		t.Fatal(err)
	}
	*reason = why
	for i := range maxRefused {
		_ = takeOne(c, small(fmt.Sprint("other-", i), 0))
	}
	*judged = 0
	return c
}

func takeOne(c *Client, r received) error {
	return c.take(Clusters, &response{typeURL: Clusters.TypeURL(), version: r.version, resources: []received{r}}, 0)
}

// refusalOf is what is known of a refused cluster.
func refusalOf(t *testing.T, c *Client, name string) ResourceStatus {
	t.Helper()
	all := c.Refused().Kinds[Clusters].Resources
	at := slices.IndexFunc(all, func(r ResourceStatus) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("%s is not known to be refused", name)
	}
	return all[at]
}

// What was refused in short has its whole reason as soon as there is room again: it is judged once more.
func TestRefusalInShortIsKeptWholeWhenThereIsRoomAgain(t *testing.T) {
	shop := small("shop", 100)
	all := &response{typeURL: Clusters.TypeURL(), version: "2", whole: true, resources: []received{shop}}
	for i := 1; i < maxRefused; i++ {
		all.resources = append(all.resources, small(fmt.Sprint("other-", i), 0))
	}
	for name, another := range map[string]*response{
		"another one is taken away":             {typeURL: Clusters.TypeURL(), version: "2", removed: []string{"other-0"}},
		"what comes with it leaves another out": all,
	} {
		t.Run(name, func(t *testing.T) {
			reason, judged := strings.Repeat("x", 2*maxBriefReason), 0
			c := crowded(t, &reason, &judged)
			_ = takeOne(c, shop)
			if got := refusalOf(t, c, "shop"); len(got.Error) > maxBriefReason+4 {
				t.Fatalf("%d bytes of its reason are kept", len(got.Error))
			}
			_ = c.take(Clusters, another, 0)
			judged = 0
			for range 3 {
				_ = takeOne(c, shop)
			}
			if got := refusalOf(t, c, "shop"); got.Error != reason || got.FailedBody == nil || got.Fault == nil || judged != 1 || c.state.refusals != maxRefused {
				t.Errorf("kept are %d bytes of its reason, the body %t; judged %d times, %d refusals; want %d bytes, true, once, %d", len(got.Error), got.FailedBody != nil, judged, c.state.refusals, len(reason), maxRefused)
			}
		})
	}
}

// One place that is free has one resource judged again, whatever the number of those that were refused in short.
func TestOnePlaceHasOneRefusalJudgedAgain(t *testing.T) {
	const many = 20
	reason, judged := "", 0
	c := crowded(t, &reason, &judged)
	all := func(size int) *response {
		r := &response{typeURL: Clusters.TypeURL(), version: "1"}
		for i := range many {
			r.resources = append(r.resources, small(fmt.Sprint("shop-", i), size))
		}
		return r
	}
	if err := c.take(Clusters, all(0), 0); err != nil {
		t.Fatal(err)
	}
	reason = "is bad"
	for i := range maxRefused - 1 {
		_ = takeOne(c, small(fmt.Sprint("bad-", i), 0))
	}
	for _, want := range []int{many, 0} {
		judged = 0
		if _ = c.take(Clusters, all(1), 0); judged != want {
			t.Errorf("judged %d times, want %d", judged, want)
		}
	}
	if err := c.take(Clusters, &response{typeURL: Clusters.TypeURL(), version: "2", removed: []string{"bad-0"}}, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		judged = 0
		if _ = c.take(Clusters, all(1), 0); judged != want {
			t.Errorf("with room for one, judged %d times, want %d", judged, want)
		}
	}
}

// A reason that was cut stays as it is when the same comes again.
func TestCutReasonStaysAsItIs(t *testing.T) {
	for name, c := range map[string]struct{ most, others int }{"whole": {maxFault, 0}, "in short": {maxBriefReason, maxRefused}} {
		for shift := range 4 {
			reason, judged := strings.Repeat("x", shift)+strings.Repeat("😀", maxFault), 0
			client := refuses(reason)
			if c.others > 0 {
				client = crowded(t, &reason, &judged)
			}
			_ = takeOne(client, small("shop", 100))
			first := refusalOf(t, client, "shop").Error
			for range 3 {
				again := small("shop", 100)
				again.version = "2"
				_ = takeOne(client, again)
			}
			if got := refusalOf(t, client, "shop"); got.Error != first || !strings.HasSuffix(first, "😀 ...") || got.FailedVersion != "2" {
				t.Errorf("%s, after %d: version %s, %d bytes that end in %q, were %d that end in %q", name, shift, got.FailedVersion, len(got.Error), got.Error[len(got.Error)-12:], len(first), first[len(first)-12:])
			}
		}
	}
}

// What is kept as a digest is known by its type, too.
func TestRefusedBodyIsKnownByItsType(t *testing.T) {
	of := func(typeURL, value string) *anypb.Any { return &anypb.Any{TypeUrl: typeURL, Value: []byte(value)} }
	for _, brief := range []bool{true, false} {
		value := strings.Repeat("v", maxRefusedBody+1)
		r := newRefused(&judgement{received: &received{body: of("a", value)}}, brief, time.Now())
		if !r.isOf(of("a", value)) {
			t.Errorf("brief %t: the same is not known", brief)
		}
		for _, other := range []*anypb.Any{of("b", value), of("av", value[1:]), of("", "a"+value), of("a", value+"v")} {
			if r.isOf(other) {
				t.Errorf("brief %t: type %q is taken for it", brief, other.TypeUrl)
			}
		}
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
