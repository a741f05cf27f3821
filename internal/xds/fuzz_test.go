// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzResponse gives a client two responses of any bytes. Whatever they hold, the accounts of references balance, and what is handed out is what was
// judged good. Run it with -fuzzminimizetime 100x: which lines are reached depends on the order of Go's maps, so that inputs do not get smaller, and by
// default each is tried for a minute.
func FuzzResponse(f *testing.F) {
	for _, raw := range seedResponses() {
		f.Add(raw[0], raw[1])
	}
	f.Fuzz(takeBytes)
}

// The same with bytes that are changed at random.
func TestChangedResponses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seeds := seedResponses()
	change := func() []byte {
		raw := slices.Clone(seeds[random.IntN(len(seeds))][random.IntN(2)])
		for range random.IntN(4) {
			i := random.IntN(len(raw))
			switch random.IntN(3) {
			case 0:
				raw[i] = byte(random.Uint32())
			case 1:
				raw = slices.Delete(raw, i, min(len(raw), i+1+random.IntN(3)))
			default:
				raw = slices.Insert(raw, i, raw[i:min(len(raw), i+random.IntN(40))]...)
			}
			if len(raw) == 0 {
				break
			}
		}
		return raw
	}
	for range 5000 {
		takeBytes(t, change(), change())
	}
}

// seedResponses are pairs of good ones.
func seedResponses() (seeds [][2][]byte) {
	for _, resources := range [][]proto.Message{
		{cluster("a", 1), cluster("b", 1, "a")}, {listener("l", 1, "r", "q")}, {routes("r", 1), routes("q", -1)}, {assignment("a", 1)},
	} {
		m := &discoveryv3.DiscoveryResponse{TypeUrl: packed(resources[0]).TypeUrl, VersionInfo: "1", Nonce: "1", Resources: bodies(resources...)}
		d := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: m.TypeUrl, Nonce: "1", RemovedResources: []string{"x"}}
		wrapped := &discoveryv3.DiscoveryResponse{TypeUrl: m.TypeUrl, VersionInfo: "1", Nonce: "1"}
		for _, r := range resources {
			d.Resources = append(d.Resources, named(r, "1", time.Second))
			wrapped.Resources = append(wrapped.Resources, packed(named(r, "1", time.Second)))
		}
		raw, _ := proto.Marshal(m)
		rawDelta, _ := proto.Marshal(d)
		rawWrapped, _ := proto.Marshal(wrapped)
		seeds = append(seeds, [2][]byte{raw, rawDelta}, [2][]byte{rawWrapped, raw})
	}
	return seeds
}

func takeBytes(t *testing.T, one, other []byte) {
	t.Helper()
	c := New(Config{Check: check})
	now := time.Now()
	for _, root := range []proto.Message{cluster("a", 1), listener("l", 1, "r")} {
		kind, _ := kindOf(packed(root).TypeUrl)
		references, _ := check(kind, "", packed(root))
		c.state.put(kind, []string{Clusters: "a", Listeners: "l"}[kind], content{packed(root), references}, now)
	}
	for _, raw := range [][]byte{one, other, one} {
		var whole discoveryv3.DiscoveryResponse
		if proto.Unmarshal(raw, &whole) == nil {
			takeAny(c, fromWhole(&whole))
		}
		var delta discoveryv3.DeltaDiscoveryResponse
		if proto.Unmarshal(raw, &delta) == nil {
			takeAny(c, fromDelta(&delta))
		}
		balance(t, c.state)
	}
	c.state.elapse(now.Add(time.Hour))
	balance(t, c.state)
	text(t, must(c.state.snapshot(Snapshot{})))
	c.Status()
}

func must(s Snapshot, _ bool) Snapshot { return s }

func takeAny(c *Client, r *response) {
	if kind, known := kindOf(r.typeURL); known {
		c.take(kind, r, 0)
	}
}

// balance counts references anew.
func balance(t *testing.T, s *state) {
	t.Helper()
	for _, root := range []Kind{Clusters, Listeners} {
		users, shown := map[string]int{}, map[string]int{}
		for _, e := range s.entries[root] {
			for _, name := range slices.Concat(e.accepted.references, e.served.references) {
				users[name]++
			}
			for _, name := range e.served.references {
				shown[name]++
			}
		}
		for name, e := range s.entries[root.child()] {
			if e.users != users[name] || e.shown != shown[name] || e.unused != (users[name] == 0) {
				t.Errorf("%s %q: %d users, unused %v, want %d", root.child(), name, e.users, e.unused, users[name])
			}
			delete(users, name)
		}
		if len(users) > 0 {
			t.Errorf("%s: %v are referred to but not known", root.child(), users)
		}
	}
}
