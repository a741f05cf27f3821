// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
)

const typeURL = "type.googleapis.com/envoy.extensions.filters."

// Port is that of every listener: a table may ask for it to be stripped from hosts.
const Port = 8080

// Listener is an Envoy listener that routes by the table, with these actions.
func (t *Table) Listener(name string, address netip.AddrPort, action func(route int) Object) Object {
	manager := Object{
		"@type":        typeURL + "network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix":  name,
		"route_config": t.WithActions(action),
		"http_filters": []any{Object{
			"name":         "envoy.filters.http.router",
			"typed_config": Object{"@type": typeURL + "http.router.v3.Router"},
		}},
	}
	maps.Copy(manager, t.Manager)
	return Object{
		"name":    name,
		"address": socketAddress(address),
		"filter_chains": []any{Object{"filters": []any{Object{
			"name":         "envoy.filters.network.http_connection_manager",
			"typed_config": manager,
		}}}},
	}
}

func socketAddress(a netip.AddrPort) Object {
	return Object{"socket_address": Object{"address": a.Addr().String(), "port_value": a.Port()}}
}

// ClusterOf is the name of the cluster of a route where XLB serves the table.
func ClusterOf(route int) string { return fmt.Sprintf("route-%d", route) }

// Model reads the table as XLB reads a file: a listener whose routes lead to
// clusters named by ClusterOf.
func (t *Table) Model() (*model.RouteTable, error) {
	address := netip.AddrPortFrom(netip.MustParseAddr("127.80.0.1"), Port)
	toCluster := func(route int) Object { return Object{"route": Object{"cluster": ClusterOf(route)}} }
	var clusters []any
	for i := range t.Routes() {
		clusters = append(clusters, Object{"name": ClusterOf(i)})
	}
	text, err := json.Marshal(Object{"static_resources": Object{
		"listeners": []any{t.Listener("table", address, toCluster)}, "clusters": clusters,
	}})
	if err != nil {
		return nil, fmt.Errorf("write the table: %w", err)
	}
	cfg, err := config.Parse("table.json", text)
	if err != nil {
		return nil, err
	}
	return cfg.Listeners[0].Routes, nil
}
