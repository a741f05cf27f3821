// SPDX-License-Identifier: Apache-2.0

package config

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	downstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"

	"github.com/xlb-project/xlb/internal/problem"
)

// maxConnections is what the overload manager says of connections, 0 for nothing. It knows no other limit here.
func (t *translator) maxConnections(in *bootstrapv3.Bootstrap) (limit uint64) {
	const path = "overload_manager.resource_monitors"
	for i, m := range in.GetOverloadManager().GetResourceMonitors() {
		if limit != 0 {
			t.p.Add(problem.At(path, i), "a second monitor of connections; keep one")
			continue
		}
		config := &downstreamv3.DownstreamConnectionsConfig{}
		if t.unpack(m.GetTypedConfig(), config, problem.At(path, i)+".typed_config", "DownstreamConnectionsConfig") {
			// 0 and less violate Envoy's constraint, reported as such.
			limit = uint64(max(config.GetMaxActiveDownstreamConnections(), 0))
		}
	}
	return limit
}
