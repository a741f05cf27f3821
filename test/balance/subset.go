// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
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
	c := r.cluster(name, addresses, false)
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

// RoutesPerCluster of a configuration with subsets.
const RoutesPerCluster = 5

// Subsetted draws clusters with subsets of endpoints at some of the addresses, and routes there: the path /cN-M is that of the Mth route to
// the Nth cluster.
func Subsetted(seed uint64, n int, addresses []netip.AddrPort) (clusters, routes []map[string]any) {
	r := random{rand.New(rand.NewPCG(seed, 2))}
	for i := range n {
		clusters = append(clusters, r.subsetted(fmt.Sprintf("c%d", i), addresses))
	}
	for i, c := range clusters {
		for n := range RoutesPerCluster {
			routes = append(routes, object{"match": object{"path": fmt.Sprintf("/c%d-%d", i, n)}, "route": r.action(c)})
		}
	}
	return clusters, routes
}
