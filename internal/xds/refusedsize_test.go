// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

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
