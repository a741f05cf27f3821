// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// Dynamic are the resources that are not in the bootstrap.
type Dynamic struct {
	// Clusters, Endpoints, Listeners and Routes by name.
	Clusters, Endpoints, Listeners, Routes []Resource
}

// Resource is a dynamic resource as it was sent.
type Resource struct {
	Name, Version string
	// Body is the resource in JSON with its @type; nil: nothing was accepted yet.
	Body    json.RawMessage
	Updated time.Time
	// Status is Envoy's admin.v3.ClientResourceStatus.
	Status string
	// Warming: it waits for what it refers to.
	Warming bool
	// LeftOut says which endpoints of a cluster get no requests; empty: all do.
	LeftOut string
	// Refused says why the newest was refused; empty: it was not. RefusedVersion and RefusedAt are of that.
	Refused, RefusedVersion string
	RefusedAt               time.Time
	// RefusedBody is what was refused, in JSON with its @type; nil: it cannot be shown.
	RefusedBody json.RawMessage
}

// state is what several messages of envoy.admin.v3 have in common; the body stands under that name.
func (r *Resource) state(name string) object {
	o := object{"version_info": r.Version, "last_updated": timestamp(r.Updated)}
	if r.Body != nil {
		o[name] = r.Body
	}
	return o
}

// dumped adds status and error to a state.
func (r *Resource) dumped(name string) object {
	o := r.state(name)
	o["client_status"] = r.Status
	if failure := r.failure(); failure != nil {
		o["error_state"] = failure
	}
	return o
}

// failure is envoy.admin.v3.UpdateFailureState, or nil.
func (r *Resource) failure() object {
	if r.Refused == "" && r.LeftOut != "" {
		return object{"details": r.LeftOut, "version_info": r.Version, "last_update_attempt": timestamp(r.Updated)}
	}
	if r.Refused == "" {
		return nil
	}
	o := object{"details": r.Refused, "version_info": r.RefusedVersion, "last_update_attempt": timestamp(r.RefusedAt)}
	if r.RefusedBody != nil {
		o["failed_configuration"] = r.RefusedBody
	}
	return o
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// addTo adds the resources to dumps that have what is static.
func (d *Dynamic) addTo(clusters, endpoints, listeners, routes object, health knownHealth) {
	var active, warming, all, tables, assignments []object
	for i := range d.Clusters {
		c := &d.Clusters[i]
		if c.Warming {
			warming = append(warming, c.dumped("cluster"))
			continue
		}
		active = append(active, c.dumped("cluster"))
	}
	for i := range d.Listeners {
		l := &d.Listeners[i]
		o := object{"name": l.Name, "client_status": l.Status}
		if l.Warming {
			o["warming_state"] = l.state("listener")
		} else if l.Body != nil {
			o["active_state"] = l.state("listener")
		}
		if failure := l.failure(); failure != nil {
			o["error_state"] = failure
		}
		all = append(all, o)
	}
	for i := range d.Routes {
		tables = append(tables, d.Routes[i].dumped("route_config"))
	}
	for i := range d.Endpoints {
		e := d.Endpoints[i]
		e.Body = health.addHealth(e.Body)
		assignments = append(assignments, e.dumped("endpoint_config"))
	}
	clusters["dynamic_active_clusters"], clusters["dynamic_warming_clusters"] = active, warming
	listeners["dynamic_listeners"], routes["dynamic_route_configs"] = all, tables
	endpoints["dynamic_endpoint_configs"] = assignments
}

// names of resources.
func names(list []Resource) map[string]bool {
	out := map[string]bool{}
	for i := range list {
		out[list[i].Name] = true
	}
	return out
}

// addLeftOut says it of the clusters.
func (d *Dynamic) addLeftOut(of *model.Config, view string) {
	for i := range d.Clusters {
		if c := of.In(model.View{Name: view}).Cluster(d.Clusters[i].Name); c != nil {
			d.Clusters[i].LeftOut = c.LeftOutText()
		}
	}
}
