// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"math/big"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// hashing translates how a cluster with a policy that hashes does so; of others it is the zero value.
func (t *translator) hashing(c *clusterv3.Cluster, policy model.Policy, path string) model.Hashing {
	if c.GetRingHashLbConfig() != nil && policy != model.RingHash {
		t.p.add(path+".ring_hash_lb_config", "has no effect with lb_policy %s; remove it or use RING_HASH", policy)
	}
	if c.GetMaglevLbConfig() != nil && policy != model.Maglev {
		t.p.add(path+".maglev_lb_config", "has no effect with lb_policy %s; remove it or use MAGLEV", policy)
	}
	common := c.GetCommonLbConfig().GetConsistentHashingLbConfig()
	if !policy.Hashes() {
		if common != nil {
			t.p.add(path+".common_lb_config.consistent_hashing_lb_config",
				"has no effect with lb_policy %s; remove it or use RING_HASH or MAGLEV", policy)
		}
		return model.Hashing{}
	}
	if common.GetUseHostnameForHashing() && c.GetType() != clusterv3.Cluster_STRICT_DNS {
		t.p.add(path+".common_lb_config.consistent_hashing_lb_config.use_hostname_for_hashing",
			"set for a cluster of type %s, which Envoy refuses; remove it, or write hash_key in the endpoints' envoy.lb metadata", c.GetType())
	}
	out := model.DefaultHashing()
	out.BalanceFactor = common.GetHashBalanceFactor().GetValue()
	t.ring(c.GetRingHashLbConfig(), &out, path+".ring_hash_lb_config")
	if size := c.GetMaglevLbConfig().GetTableSize(); size != nil {
		out.TableSize = t.prime(size.GetValue(), path+".maglev_lb_config.table_size")
	}
	return out
}

func (t *translator) ring(in *clusterv3.Cluster_RingHashLbConfig, out *model.Hashing, path string) {
	if in.GetMinimumRingSize() != nil {
		out.Ring.Min = in.GetMinimumRingSize().GetValue()
	}
	if in.GetMaximumRingSize() != nil {
		out.Ring.Max = in.GetMaximumRingSize().GetValue()
	}
	out.Murmur = in.GetHashFunction() == clusterv3.Cluster_RingHashLbConfig_MURMUR_HASH_2
	switch {
	case out.Ring.Min > out.Ring.Max:
		t.p.add(path+".minimum_ring_size", "%d, more than maximum_ring_size, %d; lower it", out.Ring.Min, out.Ring.Max)
	case out.Ring.Min == 0 || out.Ring.Max == 0:
		t.p.add(path, "a ring of no points finds no endpoint; set minimum_ring_size and maximum_ring_size to 1 or more")
	}
}

// prime refuses a size with which a Maglev table cannot be filled.
func (t *translator) prime(size uint64, path string) uint64 {
	if !new(big.Int).SetUint64(size).ProbablyPrime(0) { // certain for 64 bits
		t.p.add(path, "%d is not prime, as the size of a Maglev table has to be; use 65537, or another prime number", size)
	}
	return size
}

// hashKey is what stands for an endpoint where a cluster's policy hashes; empty stands for its address.
func hashKey(c *clusterv3.Cluster, lb *endpointv3.LbEndpoint) string {
	if key := lb.GetMetadata().GetFilterMetadata()["envoy.lb"].GetFields()["hash_key"].GetStringValue(); key != "" {
		return key
	}
	if !c.GetCommonLbConfig().GetConsistentHashingLbConfig().GetUseHostnameForHashing() {
		return ""
	}
	return cmp.Or(lb.GetEndpoint().GetHostname(), lb.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
}
