// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// Config is a short form of an Envoy bootstrap.
type Config struct {
	Listeners []Listener
	Clusters  []Cluster
	// Fields are added to the bootstrap.
	Fields map[string]any
	// Admin is added to the bootstrap's admin.
	Admin map[string]any
	// Arguments of XLB are added to its command line.
	Arguments []string
	// Views are configurations of XLB for some of the workloads.
	Views []View
	// Files is how many descriptors XLB may have; 0: as many as the test.
	Files int
	// Drain is how long an Envoy serves what a listener that has gone leaves behind: it closes those connections then, also in the midst of a
	// request. Zero is a second; XLB takes as long as Envoy does by default.
	Drain time.Duration
}

// Listener is a service address with its virtual hosts.
type Listener struct {
	Address netip.AddrPort
	Hosts   []VirtualHost
	// Table is a whole RouteConfiguration in place of Hosts.
	Table map[string]any
	// TCP is a TcpProxy in place of the connection manager.
	TCP map[string]any
	// Manager is added to the connection manager's configuration.
	Manager map[string]any
	// Fields are added to the listener's configuration.
	Fields map[string]any
	// Upgrades of all routes that do not say otherwise.
	Upgrades []Upgrade
}

// Upgrade is one entry of upgrade_configs.
type Upgrade struct {
	Type     string
	Disabled bool
	// Terminated CONNECT is answered by the balancer; only for routes.
	Terminated bool
}

// VirtualHost serves Domains, by default "*".
type VirtualHost struct {
	Domains []string
	Routes  []Route
}

// Route matches Path exactly if it is set, CONNECT if Connect is, and Prefix
// (default "/") otherwise.
type Route struct {
	Path, Prefix string
	Connect      bool
	// Headers that must have exactly these values.
	Headers map[string]string
	// Clusters to send to; with one the weights are not written.
	Clusters []Share
	// Timeout of a request; zero leaves Envoy's default of 15 s, a negative
	// one disables it.
	Timeout  time.Duration
	Upgrades []Upgrade
	// Rewrite is the prefix_rewrite; empty is none.
	Rewrite string
	// Retry is the retry_policy; nil is none.
	Retry map[string]any
	// RetriedByEnvoy gives the route a retry policy when Envoy is tested: what
	// XLB does by itself when an endpoint goes away, Envoy does only with it.
	RetriedByEnvoy bool
}

// Share is a cluster with its weight.
type Share struct {
	Cluster string
	Weight  int
}

// To is the whole of the traffic to one cluster.
func To(cluster string) []Share { return []Share{{Cluster: cluster}} }

// Cluster is a STATIC cluster.
type Cluster struct {
	Name string
	// Policy is an Envoy lb_policy, default ROUND_ROBIN.
	Policy    string
	Endpoints []netip.AddrPort
	// Fields are added to the cluster's configuration, or take the place of what is there.
	Fields map[string]any
}

// OneCluster sends everything at the service address to the endpoints in turn.
func OneCluster(service netip.AddrPort, endpoints ...netip.AddrPort) Config {
	return Config{
		// No timeout: a large body may take long on a slow machine. Tests of timeouts set their own.
		Listeners: []Listener{{Address: service, Hosts: []VirtualHost{{Routes: []Route{{Clusters: To("origins"), Timeout: -1}}}}}},
		Clusters:  []Cluster{{Name: "origins", Endpoints: endpoints}},
	}
}

// Add adds the listener and the cluster of a configuration made by OneCluster, under a name of their own.
func (c *Config) Add(one Config) {
	name := fmt.Sprintf("origins-%d", len(c.Clusters))
	one.Listeners[0].Hosts[0].Routes[0].Clusters = To(name)
	one.Clusters[0].Name = name
	if assignment, ok := one.Clusters[0].Fields["load_assignment"].(object); ok {
		assignment["cluster_name"] = name
	}
	c.Listeners = append(c.Listeners, one.Listeners[0])
	c.Clusters = append(c.Clusters, one.Clusters[0])
}

type object = map[string]any

// bootstrap renders the configuration as a static Envoy bootstrap.
func (c Config) bootstrap(admin netip.AddrPort, forEnvoy bool) object {
	whole := object{
		"admin":            c.admin(admin),
		"static_resources": object{"listeners": c.listeners(forEnvoy), "clusters": c.clusters(forEnvoy)},
	}
	maps.Copy(whole, c.Fields)
	return whole
}

func (c Config) admin(address netip.AddrPort) object {
	admin := object{"address": socketAddress(address)}
	maps.Copy(admin, c.Admin)
	return admin
}

func (c Config) listeners(forEnvoy bool) []any {
	var all []any
	for i, l := range c.Listeners {
		name := fmt.Sprintf("service_%d", i)
		manager := object{
			"@type":        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			"stat_prefix":  name,
			"route_config": object{"name": name, "virtual_hosts": l.hosts(forEnvoy)},
			"http_filters": []any{object{
				"name":         "envoy.filters.http.router",
				"typed_config": object{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
			}},
		}
		if l.Table != nil {
			manager["route_config"] = l.Table
		}
		maps.Copy(manager, l.Manager)
		if l.Upgrades != nil {
			manager["upgrade_configs"] = upgradeConfigs(l.Upgrades)
		}
		if manager["http_protocol_options"] == nil {
			// ab speaks HTTP/1.0.
			manager["http_protocol_options"] = object{"accept_http_10": true}
		}
		filter := object{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
		if l.TCP != nil {
			filter = object{"name": "envoy.filters.network.tcp_proxy", "typed_config": l.tcpProxy(name)}
		}
		rendered := object{
			"name":          name,
			"address":       socketAddress(l.Address),
			"filter_chains": []any{object{"filters": []any{filter}}},
		}
		maps.Copy(rendered, l.Fields)
		all = append(all, rendered)
	}
	return all
}

func (l Listener) tcpProxy(name string) object {
	proxy := object{"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": name}
	maps.Copy(proxy, l.TCP)
	return proxy
}

func (l Listener) hosts(forEnvoy bool) []any {
	var all []any
	for i, h := range l.Hosts {
		domains := h.Domains
		if len(domains) == 0 {
			domains = []string{"*"}
		}
		var routes []any
		for _, r := range h.Routes {
			routes = append(routes, r.object(forEnvoy))
		}
		all = append(all, object{"name": fmt.Sprintf("host_%d", i), "domains": domains, "routes": routes})
	}
	return all
}

func (r Route) object(forEnvoy bool) object {
	match := object{"prefix": "/"}
	switch {
	case r.Connect:
		match = object{"connect_matcher": object{}}
	case r.Path != "":
		match = object{"path": r.Path}
	case r.Prefix != "":
		match = object{"prefix": r.Prefix}
	}
	var headers []any
	for name, value := range r.Headers {
		headers = append(headers, object{"name": name, "string_match": object{"exact": value}})
	}
	if headers != nil {
		match["headers"] = headers
	}
	return object{"match": match, "route": r.action(forEnvoy)}
}

func (r Route) action(forEnvoy bool) object {
	action := object{}
	if len(r.Clusters) == 1 {
		action["cluster"] = r.Clusters[0].Cluster
	} else {
		var shares []any
		for _, s := range r.Clusters {
			shares = append(shares, object{"name": s.Cluster, "weight": s.Weight})
		}
		action["weighted_clusters"] = object{"clusters": shares}
	}
	if r.Rewrite != "" {
		action["prefix_rewrite"] = r.Rewrite
	}
	if r.Timeout != 0 {
		action["timeout"] = fmt.Sprintf("%gs", max(r.Timeout, 0).Seconds())
	}
	if r.Upgrades != nil {
		action["upgrade_configs"] = upgradeConfigs(r.Upgrades)
	}
	if r.Retry != nil {
		action["retry_policy"] = r.Retry
	}
	if forEnvoy && r.RetriedByEnvoy {
		action["retry_policy"] = object{
			"retry_on": "connect-failure,reset", "num_retries": 3,
			// Else a retry may go to the very endpoint that is away.
			"retry_host_predicate": []any{object{
				"name":         "envoy.retry_host_predicates.previous_hosts",
				"typed_config": object{"@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
			}},
			"host_selection_retry_max_attempts": 10,
		}
	}
	return action
}

func upgradeConfigs(upgrades []Upgrade) []any {
	var all []any
	for _, u := range upgrades {
		o := object{"upgrade_type": u.Type, "enabled": !u.Disabled}
		if u.Terminated {
			o["connect_config"] = object{}
		}
		all = append(all, o)
	}
	return all
}

func (c Config) clusters(forEnvoy bool) []any {
	var all []any
	for _, cl := range c.Clusters {
		var endpoints []any
		for _, e := range cl.Endpoints {
			endpoints = append(endpoints, object{"endpoint": object{"address": socketAddress(e)}})
		}
		policy := cl.Policy
		if policy == "" {
			policy = "ROUND_ROBIN"
		}
		rendered := object{
			"name": cl.Name, "type": "STATIC", "lb_policy": policy, "connect_timeout": "1s",
			"load_assignment": object{
				"cluster_name": cl.Name,
				"endpoints":    []any{object{"lb_endpoints": endpoints}},
			},
		}
		if forEnvoy {
			// Room for RetriedByEnvoy: the default is 3 retries at a time.
			rendered["circuit_breakers"] = object{"thresholds": []any{object{"max_retries": 1024}}}
		}
		maps.Copy(rendered, cl.Fields)
		all = append(all, rendered)
	}
	return all
}

func socketAddress(a netip.AddrPort) object {
	return object{"socket_address": object{"address": a.Addr().String(), "port_value": a.Port()}}
}

// YAML is the configuration as a file without an admin address.
func YAML(t testing.TB, config Config) []byte {
	t.Helper()
	whole := config.bootstrap(netip.AddrPort{}, false)
	delete(whole, "admin")
	return toYAML(t, whole)
}

func toYAML(t testing.TB, v any) []byte {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
