// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/xds"
)

// dump lists the dynamic resources. It is called at any time.
func (d *dynamic) dump() *admin.Dynamic {
	out := &admin.Dynamic{}
	lists := map[config.Kind]*[]admin.Resource{
		config.Clusters: &out.Clusters, config.Assignments: &out.Endpoints, config.Listeners: &out.Listeners, config.Routes: &out.Routes,
	}
	b := d.bootstrap.Load()
	if d.client != nil {
		status := d.client.Status()
		for kind, list := range lists {
			for _, r := range status.Kinds[xds.Kind(kind)].Resources {
				if !b.IsStatic(kind, r.Name) {
					*list = append(*list, sent(&r))
				}
			}
		}
	}
	d.n.updates.Lock()
	defer d.n.updates.Unlock()
	for _, f := range b.Files() {
		for _, one := range d.read[f] {
			if !b.IsStatic(f.Kind, one.Name) {
				*lists[f.Kind] = append(*lists[f.Kind], admin.Resource{Name: one.Name, Body: inJSON(one.Body), Status: xds.Acked.String()})
			}
		}
	}
	return out
}

func sent(r *xds.ResourceStatus) admin.Resource {
	return admin.Resource{
		Name: r.Name, Version: r.Version, Body: inJSON(r.Body), Updated: r.LastUpdate, Status: r.State.String(), Warming: r.Warming,
		Refused: r.Error, RefusedVersion: r.FailedVersion, RefusedAt: r.FailedAt,
	}
}

// inJSON is nil for what has parts of an unknown type.
func inJSON(body *anypb.Any) json.RawMessage {
	if body == nil {
		return nil
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(body)
	if err != nil {
		return nil
	}
	return text
}
