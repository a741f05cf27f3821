// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	downstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

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

// ownKeys begin the names of runtime keys that are about Envoy's own program.
var ownKeys = []string{"envoy.reloadable_features.", "envoy.restart_features.", "re2.max_program_size."}

// aboutEnvoy allows a layer of such keys only.
func aboutEnvoy(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	layer, ok := v.Message().Interface().(*structpb.Struct)
	return ok && isAboutEnvoy("", layer)
}

func isAboutEnvoy(prefix string, layer *structpb.Struct) bool {
	for name, value := range layer.GetFields() {
		name = prefix + name
		if inner := value.GetStructValue(); inner != nil {
			if !isAboutEnvoy(name+".", inner) {
				return false
			}
			continue
		}
		own := false
		for _, begin := range ownKeys {
			own = own || strings.HasPrefix(name, begin)
		}
		if !own {
			return false
		}
	}
	return true
}
