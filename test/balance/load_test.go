// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"math"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/envoytest"
)

// TestWeightedLeastRequestUnderLoadIsNearEnvoys keeps so many requests under way that weights and requests pull in different directions: by weight alone
// the heavier of two would get 90 %, by requests alone a half.
func TestWeightedLeastRequestUnderLoadIsNearEnvoys(t *testing.T) {
	const clients, each, delay, tolerance = 24, 60, 20 * time.Millisecond, 0.06
	addresses, listener := servers(t, 2, delay), envoytest.FreeAddress(t)
	host := func(i, weight int) object {
		return object{"endpoint": object{"address": socketAddress(addresses[i])}, "load_balancing_weight": weight}
	}
	b := bootstrap(listener, []object{{
		"name": "c0", "type": "STATIC", "lb_policy": "LEAST_REQUEST",
		"load_assignment": object{"cluster_name": "c0", "endpoints": []object{{"lb_endpoints": []object{host(0, 9), host(1, 1)}}}},
	}})
	// It listens when that connection is there.
	_ = envoytest.Start(t, marshal(t, b)).Dial(t, listener)
	x := newBalancer(t, b)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	envoy := together(clients, func() map[netip.AddrPort]int { return ask(t, client, listener, "c0", each) })
	index, _ := x.r.ClusterIndex(model.SharedCluster("c0"))
	byIndex := map[uint32]netip.AddrPort{}
	for _, e := range x.r.Endpoints() {
		byIndex[e.Index] = e.Address
	}
	own := together(clients, func() map[netip.AddrPort]int {
		counts := map[netip.AddrPort]int{}
		for range each {
			e, ok := x.picker.Pick(index, 0, nil)
			if !ok {
				counts[Failed]++
				continue
			}
			counts[byIndex[e]]++
			time.Sleep(delay)
			x.picker.Done(e)
		}
		return counts
	})
	share := func(counts map[netip.AddrPort]int) float64 { return float64(counts[addresses[0]]) / (clients * each) }
	t.Logf("share of the heavier: Envoy %.3f, XLB %.3f", share(envoy), share(own))
	if math.Abs(share(envoy)-share(own)) > tolerance {
		t.Errorf("share of the heavier: Envoy %.3f, XLB %.3f, want them nearer than %.2f", share(envoy), share(own), tolerance)
	}
}

// together adds up what so many count at the same time.
func together(clients int, count func() map[netip.AddrPort]int) map[netip.AddrPort]int {
	var mu sync.Mutex
	sum := map[netip.AddrPort]int{}
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			counts := count()
			mu.Lock()
			defer mu.Unlock()
			for a, n := range counts {
				sum[a] += n
			}
		})
	}
	running.Wait()
	return sum
}
