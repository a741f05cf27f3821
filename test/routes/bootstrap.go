// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
)

const typeURL = "type.googleapis.com/envoy.extensions.filters."

// Listener is an Envoy listener that routes by the table.
func Listener(name string, address netip.AddrPort, table Object) Object {
	return Object{
		"name":    name,
		"address": socketAddress(address),
		"filter_chains": []any{Object{"filters": []any{Object{
			"name": "envoy.filters.network.http_connection_manager",
			"typed_config": Object{
				"@type":        typeURL + "network.http_connection_manager.v3.HttpConnectionManager",
				"stat_prefix":  name,
				"route_config": table,
				"http_filters": []any{Object{
					"name":         "envoy.filters.http.router",
					"typed_config": Object{"@type": typeURL + "http.router.v3.Router"},
				}},
			},
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
	address := netip.MustParseAddrPort("127.80.0.1:80")
	table := t.WithActions(func(route int) Object { return Object{"route": Object{"cluster": ClusterOf(route)}} })
	var clusters []any
	for i := range t.Routes() {
		clusters = append(clusters, Object{"name": ClusterOf(i)})
	}
	text, err := json.Marshal(Object{"static_resources": Object{
		"listeners": []any{Listener("table", address, table)}, "clusters": clusters,
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
