// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"math"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/common/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/xlb-project/xlb/internal/model"
)

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
