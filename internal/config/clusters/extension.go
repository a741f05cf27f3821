// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/common/v3"
	leastv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	maglevv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/maglev/v3"
	randomv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/random/v3"
	ringv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/ring_hash/v3"
	roundv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// extension translates a load_balancing_policy, which Envoy takes in place of lb_policy and what belongs to that. Of its policies
// Envoy takes the first that it knows; one that can be decoded here it knows. byName: endpoints are hashed by their names.
func (t *translator) extension(out *model.Cluster, c *clusterv3.Cluster, path string) (byName bool) {
	policies := c.GetLoadBalancingPolicy().GetPolicies()
	if len(policies) == 0 {
		t.p.Add(path+".load_balancing_policy.policies", "empty, which Envoy refuses; list a policy, or use lb_policy")
		return false
	}
	t.besideExtension(c, path)
	m, err := policies[0].GetTypedExtensionConfig().GetTypedConfig().UnmarshalNew()
	if err != nil {
		// package schema has reported it.
		return false
	}
	typed := path + ".load_balancing_policy.policies[0].typed_extension_config.typed_config"
	switch p := m.(type) {
	case *roundv3.RoundRobin:
		out.Policy = model.RoundRobin
		out.SlowStart = t.slowStart(p.GetSlowStartConfig(), typed+".slow_start_config")
		addLocalities(&out.Balancing, p.GetLocalityLbConfig())
	case *randomv3.Random:
		out.Policy = model.Random
		addLocalities(&out.Balancing, p.GetLocalityLbConfig())
	case *leastv3.LeastRequest:
		out.Policy, out.ChoiceCount = model.LeastRequest, defaultChoiceCount
		if n := p.GetChoiceCount(); n != nil {
			out.ChoiceCount = n.GetValue()
		}
		out.SlowStart = t.slowStart(p.GetSlowStartConfig(), typed+".slow_start_config")
		out.Unbiased = t.unbiased(p.GetActiveRequestBias(), typed+".active_request_bias")
		//nolint:staticcheck // deprecated in favour of selection_method, which older files do not have
		all := p.GetEnableFullScan().GetValue()
		out.FullScan = all || p.GetSelectionMethod() == leastv3.LeastRequest_FULL_SCAN
		addLocalities(&out.Balancing, p.GetLocalityLbConfig())
	case *ringv3.RingHash:
		byName = t.ringOfType(out, p, c, typed)
	case *maglevv3.Maglev:
		byName = t.maglevOfType(out, p, c, typed)
	}
	return byName
}

func (t *translator) ringOfType(out *model.Cluster, p *ringv3.RingHash, c *clusterv3.Cluster, path string) (byName bool) {
	common := hashingOf{path: path + ".consistent_hashing_lb_config", consistentHashing: p.GetConsistentHashingLbConfig()}
	if p.GetConsistentHashingLbConfig() == nil {
		// Envoy looks at the fields that came before it only without it.
		common = hashingOf{path: path, consistentHashing: p}
	}
	out.Policy = model.RingHash
	out.Balancing.LocalityWeighted = p.GetLocalityWeightedLbConfig() != nil
	out.Hashing, byName = t.commonHashing(common, c)
	murmur := p.GetHashFunction() == ringv3.RingHash_MURMUR_HASH_2
	t.ring(ringConfig{p.GetMinimumRingSize(), p.GetMaximumRingSize(), murmur}, &out.Hashing, path)
	return byName
}

func (t *translator) maglevOfType(out *model.Cluster, p *maglevv3.Maglev, c *clusterv3.Cluster, path string) (byName bool) {
	out.Policy = model.Maglev
	out.Balancing.LocalityWeighted = p.GetLocalityWeightedLbConfig() != nil
	out.Hashing, byName = t.commonHashing(hashingOf{path: path + ".consistent_hashing_lb_config", consistentHashing: p.GetConsistentHashingLbConfig()}, c)
	t.maglevSize(p.GetTableSize(), &out.Hashing, path+".table_size")
	return byName
}

// besideExtension refuses what Envoy refuses beside a load_balancing_policy, or does not look at.
func (t *translator) besideExtension(c *clusterv3.Cluster, path string) {
	if c.GetCommonLbConfig().GetLocalityConfigSpecifier() != nil {
		t.p.Add(path+".common_lb_config", "says how localities are used, which Envoy refuses beside load_balancing_policy; write it in locality_lb_config there")
	}
	if c.GetCommonLbConfig().GetConsistentHashingLbConfig() != nil {
		t.p.Add(path+".common_lb_config.consistent_hashing_lb_config", "set beside load_balancing_policy, where Envoy does not look at it; write it in the policy's typed_config")
	}
	if c.GetLbConfig() != nil {
		t.p.Add(path+".load_balancing_policy", "set beside the configuration of an lb_policy, which Envoy does not look at then; write it in the policy's typed_config")
	}
}

func addLocalities(b *model.Balancing, l *commonv3.LocalityLbConfig) {
	b.LocalityWeighted = l.GetLocalityWeightedLbConfig() != nil
	b.FailOnPanic = l.GetZoneAwareLbConfig().GetFailTrafficOnPanic()
	b.Zones = zonesOfType(l.GetZoneAwareLbConfig())
}
