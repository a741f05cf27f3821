// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/common/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// local translates what a bootstrap says of this node; nil where that is not enough for zone-aware routing.
func (t *translator) local(in *bootstrapv3.Bootstrap, cfg *model.Config) *model.Local {
	name, path := in.GetClusterManager().GetLocalClusterName(), "cluster_manager.local_cluster_name"
	if name == "" {
		return nil
	}
	c := cfg.Cluster(name)
	if c == nil {
		t.p.Add(path, "there is no cluster %q, which Envoy refuses; add the one of this node and its like", name)
		return nil
	}
	for i := range c.Targets {
		if c.Targets[i].Priority > 0 {
			t.p.Add(path, "cluster %q has an endpoint of priority %d, which Envoy refuses; leave priorities out there", name, c.Targets[i].Priority)
			break
		}
	}
	if in.GetNode().GetLocality() == nil {
		return nil
	}
	return &model.Local{Cluster: name, Locality: localityOf(in.GetNode().GetLocality())}
}

func localityOf(l *corev3.Locality) model.Locality {
	return model.Locality{Region: l.GetRegion(), Zone: l.GetZone(), SubZone: l.GetSubZone()}
}

// zones translates the older form, which has less fields.
func zones(in *clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig) model.Zones {
	out := model.Zones{Enabled: percent(in.GetRoutingEnabled())}
	if n := in.GetMinClusterSize(); n != nil {
		out.MinHosts = &n.Value
	}
	return out
}

func zonesOfType(in *commonv3.LocalityLbConfig_ZoneAwareLbConfig) model.Zones {
	out := model.Zones{
		Enabled:  percent(in.GetRoutingEnabled()),
		ByWeight: in.GetLocalityBasis() == commonv3.LocalityLbConfig_ZoneAwareLbConfig_HEALTHY_HOSTS_WEIGHT,
	}
	if n := in.GetMinClusterSize(); n != nil {
		out.MinHosts = &n.Value
	}
	force := uint32(1)
	switch zone := in.GetForceLocalZone(); {
	case zone != nil:
		if n := zone.GetMinSize(); n != nil {
			force = n.GetValue()
		}
		out.ForceLocal = &force
	//nolint:staticcheck // deprecated in favour of force_local_zone, which older files do not have
	case in.GetForceLocalityDirectRouting():
		out.ForceLocal = &force
	}
	return out
}

// percent is rounded as Envoy does; nil where there is none.
func percent(p *typev3.Percent) *uint32 {
	if p == nil {
		return nil
	}
	whole := uint32(math.Round(p.GetValue()))
	return &whole
}
