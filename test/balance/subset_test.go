// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/model"
)

// metadataKeys are those that endpoints have and routes ask for; metadataValues are few, so that subsets are found and missed.
var (
	metadataKeys   = []string{"stage", "version", "zone"}
	metadataValues = []any{"a", "b", 1.0, true, "1"}
)

// metadata has each key in some of three cases. Values that are lists are as good as any here.
func (r random) metadata(lists bool) object {
	fields := object{}
	for _, key := range metadataKeys {
		switch {
		case r.IntN(3) == 0:
		case lists && r.IntN(3) == 0:
			fields[key] = []any{r.value(), r.value()}
		default:
			fields[key] = r.value()
		}
	}
	return fields
}

// value is one of the first two in half of all cases.
func (r random) value() any {
	if r.IntN(2) == 0 {
		return metadataValues[r.IntN(2)]
	}
	return metadataValues[r.IntN(len(metadataValues))]
}

func lbMetadata(fields object) object { return object{"filter_metadata": object{"envoy.lb": fields}} }

// subsetted is a cluster with subsets of its endpoints.
func (r random) subsetted(name string, addresses []netip.AddrPort) object {
	c := r.cluster(name, addresses)
	config := object{
		"fallback_policy": []string{"NO_FALLBACK", "ANY_ENDPOINT", "DEFAULT_SUBSET"}[r.IntN(3)], "subset_selectors": r.selectors(),
		"scale_locality_weight": r.IntN(2) == 0, "list_as_any": r.IntN(3) == 0,
	}
	if r.IntN(4) > 0 {
		config["default_subset"] = object{metadataKeys[r.IntN(3)]: r.value()}
	}
	common, _ := c["common_lb_config"].(object)
	config["locality_weight_aware"] = common["locality_weighted_lb_config"] != nil && r.IntN(4) > 0
	config["panic_mode_any"] = common["zone_aware_lb_config"] == nil && r.IntN(3) == 0
	c["lb_subset_config"] = config
	lists := r.IntN(2) == 0
	assignment, _ := c["load_assignment"].(object)
	for _, l := range assignment["endpoints"].([]object) {
		for _, host := range l["lb_endpoints"].([]object) {
			if r.IntN(8) > 0 {
				host["metadata"] = lbMetadata(r.metadata(lists))
			}
		}
	}
	return c
}

func (r random) selectors() []object {
	var list []object
	for range 1 + r.IntN(4) {
		keys := slices.Clone(metadataKeys)
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		keys = keys[:1+r.IntN(3)]
		selector := object{"keys": keys}
		switch policy := []string{"", "NOT_DEFINED", "NO_FALLBACK", "ANY_ENDPOINT", "DEFAULT_SUBSET", "KEYS_SUBSET"}[r.IntN(6)]; {
		case policy == "KEYS_SUBSET" && len(keys) > 1:
			selector["fallback_policy"], selector["fallback_keys_subset"] = policy, keys[:1+r.IntN(len(keys)-1)]
		case policy != "" && policy != "KEYS_SUBSET":
			selector["fallback_policy"] = policy
		}
		list = append(list, selector)
	}
	return list
}

// criteria are what a route asks for: the keys of a selector, or some.
func (r random) criteria(cluster object) object {
	config, _ := cluster["lb_subset_config"].(object)
	selectors, _ := config["subset_selectors"].([]object)
	keys, _ := selectors[r.IntN(len(selectors))]["keys"].([]string)
	if r.IntN(6) == 0 {
		keys = metadataKeys[:1+r.IntN(3)]
	}
	fields := object{}
	for _, key := range keys {
		fields[key] = r.value()
	}
	return fields
}

// action is a route's, to a cluster as a whole, to a subset, or to two.
func (r random) action(cluster object) object {
	name := cluster["name"]
	action := object{"cluster": name}
	if r.IntN(5) == 0 {
		return action
	}
	action["metadata_match"] = lbMetadata(r.criteria(cluster))
	if r.IntN(4) > 0 {
		return action
	}
	delete(action, "cluster")
	share := func() object {
		s := object{"name": name, "weight": 1 + r.IntN(4)}
		if r.IntN(4) > 0 {
			s["metadata_match"] = lbMetadata(r.criteria(cluster))
		}
		return s
	}
	action["weighted_clusters"] = object{"clusters": []object{share(), share()}}
	return action
}

// routesPerCluster of a configuration with subsets.
const routesPerCluster = 5

// addRoutes puts routes with criteria in front of those of a bootstrap: /NAME-N.
func (r random) addRoutes(b object, clusters []object) {
	resources, _ := b["static_resources"].(object)
	listener := resources["listeners"].([]object)[0]
	filter := listener["filter_chains"].([]object)[0]["filters"].([]object)[0]
	config := filter["typed_config"].(object)["route_config"].(object)
	vhost := config["virtual_hosts"].([]object)[0]
	var routes []object
	for _, c := range clusters {
		for n := range routesPerCluster {
			routes = append(routes, object{"match": object{"path": fmt.Sprintf("/%s-%d", c["name"], n)}, "route": r.action(c)})
		}
	}
	vhost["routes"] = routes
}

// subsetShares are what the endpoints of a route's shares are due.
func subsetShares(im *compile.Image, route *model.Route) map[netip.AddrPort]float64 {
	due := map[netip.AddrPort]float64{}
	for i := range route.Clusters {
		w := &route.Clusters[i]
		c := &im.Clusters[slices.IndexFunc(im.Clusters, func(c compile.Cluster) bool { return c.Name == w.Name })]
		root := c.RootOf(partOf(c, w.Criteria), nil)
		part, left := float64(w.Weight)/float64(route.TotalWeight()), 1.0
		for j, share := range root.Shares(len(c.Endpoints)) {
			if share > 0 {
				due[c.Endpoints[j].Address] += share * part
				left -= share
			}
		}
		if left > 1e-9 {
			due[failed] += left * part
		}
	}
	return due
}

func partOf(c *compile.Cluster, criteria model.Metadata) int {
	i := slices.IndexFunc(c.Subsets, func(s compile.Subset) bool { return s.Criteria == criteria })
	if i < 0 {
		return 0
	}
	return c.Subsets[i].Part
}

// pickSubset chooses as the slow path does for a route.
func (b *balancer) pickSubset(route *model.Route, n int) map[netip.AddrPort]int {
	addresses := map[uint32]netip.AddrPort{}
	for _, e := range b.r.Endpoints() {
		addresses[e.Index] = e.Address
	}
	counts := map[netip.AddrPort]int{}
	for range n {
		w := route.Share(rand.Uint64())
		entry, _ := b.r.SubsetIndex(w.Name, w.Criteria)
		e, ok := b.picker.Pick(entry, rand.Uint64(), nil)
		if !ok {
			counts[failed]++
			continue
		}
		counts[addresses[e]]++
		b.picker.Done(e)
	}
	return counts
}

func TestSubsetsAreEnvoys(t *testing.T) {
	t.Logf("seed %d: repeat with -seed=%d", *seed, *seed)
	r := random{rand.New(rand.NewPCG(*seed, 2))}
	addresses, listener := servers(t, 24, 0), freeAddress(t)
	var list []object
	for i := range *clusters {
		list = append(list, r.subsetted(fmt.Sprintf("c%d", i), addresses))
	}
	b := bootstrap(listener, list)
	r.addRoutes(b, list)
	x := newBalancer(t, b)
	startEnvoy(t, b)
	await(t, listener)
	client := &http.Client{Timeout: time.Minute}
	kinds := map[model.PartKind]int{}
	for i, route := range x.config.Listeners[0].Routes.VirtualHosts[0].Routes {
		path := route.Path.Value[1:]
		want := subsetShares(x.image, route)
		c := &x.image.Clusters[i/routesPerCluster]
		kinds[c.Parts[partOf(c, route.Clusters[0].Criteria)].Kind]++
		why := differ(ask(t, client, listener, path, *requests/3), want)
		if why == "" {
			why = differ(x.pickSubset(route, 3**requests), want)
			path += ", by the picker"
		}
		if why != "" {
			text, _ := json.Marshal(list[i/routesPerCluster])
			var asked []model.Metadata
			for _, w := range route.Clusters {
				asked = append(asked, w.Criteria)
			}
			t.Errorf("Envoy does not share %s as XLB does: %s\n%s\nasked for %s", path, why, text, asked)
		}
	}
	t.Logf("routes to all endpoints, none, a subset, the default subset: %d, %d, %d, %d",
		kinds[model.PartAny], kinds[model.PartNone], kinds[model.PartSubset], kinds[model.PartDefault])
	if kinds[model.PartSubset] < *clusters/2 {
		t.Errorf("%d routes lead to a subset, want at least %d", kinds[model.PartSubset], *clusters/2)
	}
}
