// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps"
)

// exchange has the entries of two keys of a hash exchanged for others with the same values, over and over, until f has returned: the memory of each entry becomes
// the other key's at once. The kernel makes many such writes in one call.
func exchange[K, V any](t *testing.T, m *ebpf.Map, keys [2]K, values [2]V, f func()) {
	t.Helper()
	const pairs = 1000
	var allKeys []K
	var allValues []V
	for range pairs {
		allKeys, allValues = append(allKeys, keys[:]...), append(allValues, values[:]...)
	}
	var ends atomic.Bool
	done := make(chan error)
	go func() {
		var err error
		for err == nil && !ends.Load() {
			_, err = m.BatchUpdate(allKeys, allValues, nil)
		}
		done <- err
	}()
	f()
	ends.Store(true)
	must(t, <-done)
}

// exchangedConnections is how many connections are made meanwhile: listeners do not accept them, so they are fewer than may wait.
const exchangedConnections = 3000

// A connection comes to the listener of its address, and never to that of another one, whose entry has got the memory of the first while a program read it.
func TestConnectionComesToTheListenerOfItsOwnAddress(t *testing.T) {
	v := newViewed(t, "127.80.77.61:8080", Options{})
	another := maps.KeyOf(netip.MustParseAddrPort("127.80.77.62:8080"))
	const first, second = 1, 2
	exchange(t, v.d.objects.Vips, [2]maps.ListenerKey{v.exact(0), another}, [2]uint32{first, second}, func() {
		missed := 0
		for i := range exchangedConnections {
			switch got := v.listenerOf(t, v.service.String()); got {
			case first:
			case 0:
				missed++
			default:
				t.Fatalf("connection %d comes to listener %d, want %d", i, got, first)
			}
		}
		t.Logf("%d of %d connections found no entry that stayed", missed, exchangedConnections)
	})
}

// A connection goes to the anchors of its own network namespace.
func TestConnectionGoesToTheAnchorsOfItsOwnNamespace(t *testing.T) {
	v := newViewed(t, "127.80.77.63:8080", Options{})
	must(t, v.d.Config.VIPs.Put(v.exact(0), 1))
	others := v.served
	port := v.listen(t, "other namespace", "127.0.0.1:0").Port()
	for i := range others.Port4 {
		others.Port4[i] = port
	}
	exchange(t, v.d.objects.Anchors, [2]uint64{v.netns, v.netns + 1<<32}, [2]maps.AnchorPorts{v.served, others}, func() {
		takers := map[string]int{}
		for range exchangedConnections {
			takers[v.taker(t)]++
		}
		if takers["other namespace"] > 0 {
			t.Errorf("connections were taken by %v", takers)
		}
		t.Logf("taken by %v", takers)
	})
}
