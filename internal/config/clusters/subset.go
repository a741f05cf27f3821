// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

var subsetFallbacks = map[clusterv3.Cluster_LbSubsetConfig_LbSubsetFallbackPolicy]model.SubsetFallback{
	clusterv3.Cluster_LbSubsetConfig_NO_FALLBACK:    model.NoFallback,
	clusterv3.Cluster_LbSubsetConfig_ANY_ENDPOINT:   model.AnyEndpoint,
	clusterv3.Cluster_LbSubsetConfig_DEFAULT_SUBSET: model.DefaultSubset,
}

var selectorFallbacks = map[clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector_LbSubsetSelectorFallbackPolicy]model.SubsetFallback{
	clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector_NOT_DEFINED:    model.ClusterFallback,
	clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector_NO_FALLBACK:    model.NoFallback,
	clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector_ANY_ENDPOINT:   model.AnyEndpoint,
	clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector_DEFAULT_SUBSET: model.DefaultSubset,
	clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector_KEYS_SUBSET:    model.KeysSubset,
}

// subsets is nil without a selector: Envoy then looks at nothing else.
func (t *translator) subsets(c *clusterv3.Cluster, path string) *model.Subsets {
	in := c.GetLbSubsetConfig()
	if in == nil {
		return nil
	}
	if c.GetLoadBalancingPolicy() != nil {
		t.p.Add(path, "set beside load_balancing_policy, which Envoy refuses; use lb_policy")
	}
	if c.GetType() == clusterv3.Cluster_ORIGINAL_DST {
		t.p.Add(path, "set for a cluster of type ORIGINAL_DST, which has one endpoint for a client; remove it")
	}
	if len(in.GetSubsetSelectors()) == 0 {
		return nil
	}
	if in.GetPanicModeAny() && c.GetCommonLbConfig().GetZoneAwareLbConfig().GetFailTrafficOnPanic() {
		t.p.Add(path+".panic_mode_any", "set together with fail_traffic_on_panic: XLB cannot have a part of the requests fail and come back; keep one")
	}
	if in.GetLocalityWeightAware() && c.GetCommonLbConfig().GetLocalityWeightedLbConfig() == nil {
		t.p.Add(path+".locality_weight_aware", "set without common_lb_config.locality_weighted_lb_config, which Envoy refuses; add that, or remove the field")
	}
	out := &model.Subsets{
		Fallback: subsetFallbacks[in.GetFallbackPolicy()], Default: values.Metadata(in.GetDefaultSubset()),
		PanicAny: in.GetPanicModeAny(), ListAsAny: in.GetListAsAny(),
		LocalityAware: in.GetLocalityWeightAware(), ScaleLocality: in.GetScaleLocalityWeight(),
	}
	for i, s := range in.GetSubsetSelectors() {
		selector := model.SubsetSelector{Keys: sortedSet(s.GetKeys()), Fallback: selectorFallbacks[s.GetFallbackPolicy()], FallbackKeys: sortedSet(s.GetFallbackKeysSubset())}
		t.fallbackKeys(&selector, problem.At(path+".subset_selectors", i)+".fallback_keys_subset")
		if len(selector.Keys) > 0 { // Envoy passes the others over
			out.Selectors = append(out.Selectors, selector)
		}
	}
	return out
}

// fallbackKeys refuses what Envoy does.
func (t *translator) fallbackKeys(s *model.SubsetSelector, path string) {
	isForeign := func(key string) bool { return !slices.Contains(s.Keys, key) }
	switch {
	case s.Fallback != model.KeysSubset:
		if len(s.FallbackKeys) > 0 {
			t.p.Add(path, "has an effect with fallback_policy KEYS_SUBSET only; remove it, or use that")
		}
	case len(s.FallbackKeys) == 0:
		t.p.Add(path, "empty with fallback_policy KEYS_SUBSET; list some of the keys")
	case slices.ContainsFunc(s.FallbackKeys, isForeign), len(s.FallbackKeys) == len(s.Keys):
		t.p.Add(path, "has to be a part of keys, and less than all of them; leave one out")
	}
}

// endpointMetadata is what endpoints are found by, where a cluster has subsets, and left out by.
func (t *translator) endpointMetadata(of *model.Subsets, m *corev3.Metadata, path string) model.Metadata {
	fields := m.GetFilterMetadata()[values.LoadBalancer]
	for key, value := range fields.GetFields() {
		list, isList := value.GetKind().(*structpb.Value_ListValue)
		if of != nil && of.ListAsAny && isList && len(list.ListValue.GetValues()) == 0 {
			t.p.Add(path+".filter_metadata["+values.LoadBalancer+"]."+key, "an empty list, which with list_as_any matches nothing; remove it")
		}
	}
	return values.Metadata(fields)
}

func sortedSet(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}
