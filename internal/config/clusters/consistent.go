// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"math/big"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
)

// consistentHashing is what the policies that hash have in common, in whichever message it stands.
type consistentHashing interface {
	GetUseHostnameForHashing() bool
	GetHashBalanceFactor() *wrapperspb.UInt32Value
}

// hashingOf is a message at that path.
type hashingOf struct {
	path string
	consistentHashing
}

// ringConfig is RingHashLbConfig, or what its like by type says.
type ringConfig struct {
	minimum, maximum *wrapperspb.UInt64Value
	murmur           bool
}

// hashing translates how a cluster with an lb_policy that hashes does so; of others it is the zero value. byName: endpoints are hashed by
// their names.
func (t *translator) hashing(c *clusterv3.Cluster, policy model.Policy, path string) (out model.Hashing, byName bool) {
	if c.GetRingHashLbConfig() != nil && policy != model.RingHash {
		t.p.Add(path+".ring_hash_lb_config", "has no effect with lb_policy %s; remove it or use RING_HASH", policy)
	}
	if c.GetMaglevLbConfig() != nil && policy != model.Maglev {
		t.p.Add(path+".maglev_lb_config", "has no effect with lb_policy %s; remove it or use MAGLEV", policy)
	}
	common := c.GetCommonLbConfig().GetConsistentHashingLbConfig()
	if !policy.Hashes() {
		if common != nil {
			t.p.Add(path+".common_lb_config.consistent_hashing_lb_config",
				"has no effect with lb_policy %s; remove it or use RING_HASH or MAGLEV", policy)
		}
		return model.Hashing{}, false
	}
	out, byName = t.commonHashing(hashingOf{path + ".common_lb_config.consistent_hashing_lb_config", common}, c)
	ring := c.GetRingHashLbConfig()
	murmur := ring.GetHashFunction() == clusterv3.Cluster_RingHashLbConfig_MURMUR_HASH_2
	t.ring(ringConfig{ring.GetMinimumRingSize(), ring.GetMaximumRingSize(), murmur}, &out, path+".ring_hash_lb_config")
	t.maglevSize(c.GetMaglevLbConfig().GetTableSize(), &out, path+".maglev_lb_config.table_size")
	return out, byName
}

// commonHashing begins with Envoy's defaults.
func (t *translator) commonHashing(in hashingOf, c *clusterv3.Cluster) (out model.Hashing, byName bool) {
	byName = in.GetUseHostnameForHashing()
	if byName && c.GetType() != clusterv3.Cluster_STRICT_DNS {
		t.p.Add(in.path+".use_hostname_for_hashing",
			"set for a cluster of type %s; Envoy has it for STRICT_DNS: remove it, or write hash_key in the endpoints' envoy.lb metadata", c.GetType())
	}
	out = model.DefaultHashing()
	out.BalanceFactor = in.GetHashBalanceFactor().GetValue()
	return out, byName
}

func (t *translator) ring(in ringConfig, out *model.Hashing, path string) {
	if in.minimum != nil {
		out.Ring.Min = in.minimum.GetValue()
	}
	if in.maximum != nil {
		out.Ring.Max = in.maximum.GetValue()
	}
	out.Murmur = in.murmur
	switch {
	case out.Ring.Min > out.Ring.Max:
		t.p.Add(path+".minimum_ring_size", "%d, more than maximum_ring_size, %d; lower it", out.Ring.Min, out.Ring.Max)
	case out.Ring.Min == 0 || out.Ring.Max == 0:
		t.p.Add(path, "a ring of no points finds no endpoint; set minimum_ring_size and maximum_ring_size to 1 or more")
	}
}

// maglevSize refuses a size with which a Maglev table cannot be filled.
func (t *translator) maglevSize(in *wrapperspb.UInt64Value, out *model.Hashing, path string) {
	if in == nil {
		return
	}
	out.TableSize = in.GetValue()
	if !new(big.Int).SetUint64(out.TableSize).ProbablyPrime(0) { // certain for 64 bits
		t.p.Add(path, "%d is not prime, as the size of a Maglev table has to be; use 65537, or another prime number", out.TableSize)
	}
}

// hashKey is what stands for an endpoint where a cluster's policy hashes; empty stands for its address.
func hashKey(lb *endpointv3.LbEndpoint, byName bool) string {
	if key := lb.GetMetadata().GetFilterMetadata()[values.LoadBalancer].GetFields()["hash_key"].GetStringValue(); key != "" {
		return key
	}
	if !byName {
		return ""
	}
	return cmp.Or(lb.GetEndpoint().GetHostname(), lb.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
}
