// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

func TestNoPickFailsWhileHealthChanges(t *testing.T) {
	const changes, clients = 3000, 2
	var hosts []object
	for i := range 6 {
		hosts = append(hosts, object{"endpoint": object{"address": socketAddress(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(9000+i)))}})
	}
	zone := func(name string, priority, weight int, hosts ...object) object {
		return object{"priority": priority, "locality": object{"zone": name}, "load_balancing_weight": weight, "lb_endpoints": hosts}
	}
	b := newBalancer(t, bootstrap(netip.MustParseAddrPort("127.80.0.1:80"), []object{{
		"name": "c0", "type": "STATIC", "common_lb_config": object{"locality_weighted_lb_config": object{}},
		"load_assignment": object{"cluster_name": "c0", "endpoints": []object{
			zone("a", 0, 1, hosts[:2]...), zone("b", 0, 2, hosts[2:4]...), zone("a", 1, 1, hosts[4:]...),
		}},
	}}))
	index, _ := b.r.ClusterIndex(model.SharedCluster("c0"))
	var stop atomic.Bool
	var failures, picks atomic.Uint64
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for !stop.Load() {
				e, ok := b.picker.Pick(index, 0, nil)
				if !ok {
					failures.Add(1)
					continue
				}
				picks.Add(1)
				b.picker.Done(e)
			}
		})
	}
	endpoints := b.r.Endpoints()
	flags := []maps.EndpointFlags{maps.EndpointUnhealthy, maps.EndpointEjected, maps.EndpointDegraded}
	for range changes {
		change := reconcile.HealthChange{Endpoint: endpoints[b.random.IntN(len(endpoints))].Index, Set: flags[b.random.IntN(3)]}
		if b.random.IntN(2) == 0 {
			change.Set, change.Clear = 0, change.Set
		}
		if err := b.r.SetHealth(change); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	running.Wait()
	t.Logf("%d picks", picks.Load())
	if n := failures.Load(); n > 0 {
		t.Errorf("%d of %d picks failed", n, n+picks.Load())
	}
	if picks.Load() < changes {
		t.Errorf("%d picks, want at least one for each of %d changes", picks.Load(), changes)
	}
}
