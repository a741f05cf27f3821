// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/envoytest"
)

// setRoutes are those of a bootstrap then.
func setRoutes(b object, routes []object) {
	resources, _ := b["static_resources"].(object)
	filter := resources["listeners"].([]object)[0]["filter_chains"].([]object)[0]["filters"].([]object)[0]
	config := filter["typed_config"].(object)["route_config"].(object)
	config["virtual_hosts"].([]object)[0]["routes"] = routes
}

// pickSubset chooses as the slow path does for a route.
func (b *balancer) pickSubset(route *model.Route, n int) map[netip.AddrPort]int {
	addresses := map[uint32]netip.AddrPort{}
	for _, e := range b.r.Endpoints() {
		addresses[e.Index] = e.Address
	}
	counts := map[netip.AddrPort]int{}
	for range n {
		w := route.Share(b.random.Uint64())
		entry, _ := b.r.SubsetIndex(model.SharedCluster(w.Name), w.Criteria)
		e, ok := b.picker.Pick(entry, b.random.Uint64(), nil)
		if !ok {
			counts[Failed]++
			continue
		}
		counts[addresses[e]]++
		b.picker.Done(e)
	}
	return counts
}

func TestSubsetsAreEnvoys(t *testing.T) {
	t.Logf("seed %d: repeat with -seed=%d", *seed, *seed)
	addresses, listener := servers(t, 24, 0), envoytest.FreeAddress(t)
	list, routes := Subsetted(*seed, *clusterCount, addresses)
	b := bootstrap(listener, list)
	setRoutes(b, routes)
	x := newBalancer(t, b)
	_ = envoytest.Start(t, marshal(t, b)).Dial(t, listener)
	client := &http.Client{Timeout: time.Minute}
	kinds := map[model.PartKind]int{}
	for i, route := range x.config.Listeners[0].Routes.VirtualHosts[0].Routes {
		path := route.Path.Value[1:]
		want := SubsetShares(x.image, route)
		c := x.image.Clusters[i/RoutesPerCluster]
		kinds[c.Parts[partOf(c, route.Clusters[0].Criteria)].Kind]++
		why := Differ(ask(t, client, listener, path, *requests/3), want)
		if why == "" {
			why = Differ(x.pickSubset(route, 3**requests), want)
			path += ", by the picker"
		}
		if why != "" {
			text, _ := json.Marshal(list[i/RoutesPerCluster])
			var asked []model.Metadata
			for _, w := range route.Clusters {
				asked = append(asked, w.Criteria)
			}
			t.Errorf("Envoy does not share %s as XLB does: %s\n%s\nasked for %s", path, why, text, asked)
		}
	}
	t.Logf("routes to all endpoints, none, a subset, the default subset: %d, %d, %d, %d",
		kinds[model.PartAny], kinds[model.PartNone], kinds[model.PartSubset], kinds[model.PartDefault])
	if kinds[model.PartSubset] < *clusterCount/2 {
		t.Errorf("%d routes lead to a subset, want at least %d", kinds[model.PartSubset], *clusterCount/2)
	}
}
