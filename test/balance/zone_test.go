// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/test/envoytest"
)

var nodes = flag.Int("nodes", 4, "how many random nodes balance by zone")

func TestZonesAreEnvoys(t *testing.T) {
	envoytest.Binary(t) // without one the parts would be skipped, and nothing counted
	t.Logf("seed %d: repeat with -seed=%d", *seed, *seed)
	zoned := 0
	for i := range *nodes {
		t.Run(fmt.Sprint(i), func(t *testing.T) { zoned += compareZones(t, *seed*1000+uint64(i)) })
	}
	t.Logf("%d of %d routes keep to a zone", zoned, *nodes**clusterCount)
	if zoned < *nodes**clusterCount/5 {
		t.Errorf("%d of %d routes keep to a zone, want at least a fifth", zoned, *nodes**clusterCount)
	}
}

// compareZones counts the routes whose requests localities get another share of than without zone-aware routing.
func compareZones(t *testing.T, seed uint64) (zoned int) {
	addresses, listener := servers(t, 24, 0), envoytest.FreeAddress(t)
	locality, list, routes := Zoned(seed, *clusterCount, addresses)
	b := bootstrap(listener, list)
	setRoutes(b, routes)
	b["node"], b["cluster_manager"] = object{"locality": locality}, object{"local_cluster_name": "nodes"}
	x := newBalancer(t, b)
	_ = envoytest.Start(t, marshal(t, b)).Dial(t, listener)
	client := &http.Client{Timeout: time.Minute}
	for _, route := range x.config.Listeners[0].Routes.VirtualHosts[0].Routes {
		path := route.Path.Value[1:]
		want := SubsetShares(x.image, route)
		if !slices.Equal(fmt.Append(nil, want), fmt.Append(nil, SubsetShares(withoutZones(x.image), route))) {
			zoned++
		}
		why := Differ(ask(t, client, listener, path, *requests), want)
		if why == "" {
			why = Differ(x.pickSubset(route, 3**requests), want)
			path += ", by the picker"
		}
		if why != "" {
			i := slices.IndexFunc(list, func(c object) bool { return c["name"] == route.Clusters[0].Name })
			text, _ := json.Marshal(list[i])
			own := slices.IndexFunc(list, func(c object) bool { return c["name"] == "nodes" })
			nodes, _ := json.Marshal(list[own])
			t.Errorf("seed %d: Envoy does not share %s as XLB does: %s\n%s\nnode in %s of %s\nasked for %s", seed, path, why, text, locality, nodes, route.Clusters[0].Criteria)
		}
	}
	return zoned
}

func withoutZones(im *compile.Image) *compile.Image {
	out := *im
	out.Clusters = slices.Clone(im.Clusters)
	for i, c := range im.Clusters {
		without := *c
		without.Zones, out.Clusters[i] = nil, &without
	}
	return &out
}
