// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

const typeURL = "type.googleapis.com/"

// dump is envoy.admin.v3.ConfigDump of what the model knows of one view. It has every part that tools for Envoy ask for, empty ones too.
func dump(c Config, health knownHealth) object {
	updated := timestamp(c.Updated)
	dynamic := &Dynamic{}
	if c.Dynamic != nil {
		dynamic = c.Dynamic()
		dynamic.addLeftOut(c.Model, c.view)
	}
	dynamicClusters, dynamicListeners, dynamicTables := names(dynamic.Clusters), names(dynamic.Listeners), names(dynamic.Routes)
	var clusters, listeners, tables, endpoints []object
	if c.Control != nil {
		clusters = append(clusters, object{"cluster": c.Control, "last_updated": updated})
	}
	for _, cl := range c.Model.Clusters {
		if !cl.IsSeenIn(c.view) || dynamicClusters[cl.Name] {
			continue
		}
		clusters = append(clusters, object{"cluster": clusterObject(cl), "last_updated": updated})
		if cl.Discovery != model.OriginalDst {
			endpoints = append(endpoints, object{"endpoint_config": staticAssignment(cl, health), "last_updated": updated})
		}
	}
	for _, l := range c.listeners() {
		// Parts of a listener are shown with it.
		if !dynamicListeners[l.Name] && !dynamicListeners[l.Source] {
			listeners = append(listeners, object{"listener": listenerObject(l), "last_updated": updated})
		}
		if l.TCP != nil || dynamicTables[l.Routes.Name] {
			continue
		}
		table := tableObject(l.Routes)
		table["@type"] = typeURL + "envoy.config.route.v3.RouteConfiguration"
		tables = append(tables, object{"route_config": table, "last_updated": updated})
	}
	all := []object{
		{"@type": typeURL + "envoy.admin.v3.BootstrapConfigDump", "bootstrap": bootstrapObject(c), "last_updated": updated},
		{"@type": typeURL + "envoy.admin.v3.ClustersConfigDump", "version_info": c.Version, "static_clusters": clusters},
		{"@type": typeURL + "envoy.admin.v3.EndpointsConfigDump", "static_endpoint_configs": endpoints},
		{"@type": typeURL + "envoy.admin.v3.ListenersConfigDump", "version_info": c.Version, "static_listeners": listeners},
		{"@type": typeURL + "envoy.admin.v3.RoutesConfigDump", "static_route_configs": tables},
		secretsObject(c.Secrets),
	}
	if c.Dynamic != nil {
		dynamic.addTo(all[1], all[2], all[3], all[4], health)
	}
	return object{"configs": all}
}

// secretsObject is envoy.admin.v3.SecretsConfigDump, without what the secrets hold.
func secretsObject(list []Secret) object {
	active, warming := []object{}, []object{}
	for _, s := range list {
		one := object{"name": s.Name, "version_info": s.Version, "secret": object{"@type": typeURL + "envoy.extensions.transport_sockets.tls.v3.Secret", "name": s.Name}}
		if s.Fault != "" {
			one["error_state"] = object{"details": s.Fault, "last_update_attempt": timestamp(s.FaultAt)}
		}
		if s.Updated.IsZero() {
			warming = append(warming, one)
			continue
		}
		one["last_updated"] = timestamp(s.Updated)
		active = append(active, one)
	}
	return object{"@type": typeURL + "envoy.admin.v3.SecretsConfigDump", "dynamic_active_secrets": active, "dynamic_warming_secrets": warming}
}

// staticAssignment is envoy.config.endpoint.v3.ClusterLoadAssignment of a cluster of the bootstrap.
func staticAssignment(c *model.Cluster, health knownHealth) any {
	o := assignmentObject(c)
	o["@type"] = typeURL + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	body, err := json.Marshal(o)
	if err != nil {
		return o
	}
	return health.addHealth(body)
}

// bootstrapObject is envoy.config.bootstrap.v3.Bootstrap, or as much of it as balancing depends on.
func bootstrapObject(c Config) any {
	switch local := c.Model.Local; {
	case c.Bootstrap != nil:
		return c.Bootstrap
	case local != nil && c.view == "":
		return object{"node": object{"locality": localityObject(local.Locality)}, "cluster_manager": object{"local_cluster_name": local.Cluster}}
	}
	return object{}
}

// clusterObject is envoy.config.cluster.v3.Cluster.
func clusterObject(c *model.Cluster) object {
	o := object{
		"@type": typeURL + "envoy.config.cluster.v3.Cluster",
		"name":  c.Name, "type": c.Discovery.String(), "lb_policy": c.Policy.String(),
		"connect_timeout": seconds(c.ConnectTimeout),
		"load_assignment": assignmentObject(c),
	}
	if common := commonObject(&c.Balancing); len(common) > 0 {
		o["common_lb_config"] = common
	}
	if config := policyObject(c); len(config) > 0 {
		o[ascii.Lower(c.Policy.String())+"_lb_config"] = config
	}
	if c.Subsets != nil {
		o["lb_subset_config"] = subsetsObject(c.Subsets)
	}
	if c.Discovery.Named() {
		addDNS(o, c)
	}
	if c.Discovery == model.OriginalDst {
		o["lb_policy"] = "CLUSTER_PROVIDED"
		delete(o, "load_assignment")
	}
	return o
}

func addDNS(o object, c *model.Cluster) {
	o["dns_refresh_rate"] = seconds(c.DNSRefresh)
	d := &c.DNS
	if d.RespectTTL {
		o["respect_dns_ttl"] = true
	}
	if d.Jitter > 0 {
		o["dns_jitter"] = seconds(d.Jitter)
	}
	if d.FailureBase > 0 {
		o["dns_failure_refresh_rate"] = object{"base_interval": seconds(d.FailureBase), "max_interval": seconds(d.FailureMax)}
	}
	if d.Family != model.FamilyAuto {
		o["dns_lookup_family"] = d.Family.String()
	}
	if len(d.Servers) == 0 && !d.TCP && !d.NoSearch {
		return
	}
	var servers []object
	for _, s := range d.Servers {
		servers = append(servers, socketAddress(s))
	}
	o["typed_dns_resolver_config"] = object{"name": "envoy.network.dns_resolver.cares", "typed_config": object{
		"@type":                typeURL + "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
		"resolvers":            servers,
		"dns_resolver_options": object{"use_tcp_for_dns_lookups": d.TCP, "no_default_search_domain": d.NoSearch},
	}}
}

// listenerObject is envoy.config.listener.v3.Listener.
func listenerObject(l *model.Listener) object {
	name, filter := "envoy.filters.network.http_connection_manager", managerObject(l)
	if l.TCP != nil {
		name, filter = "envoy.filters.network.tcp_proxy", proxyObject(l)
	}
	return object{
		"@type":         typeURL + "envoy.config.listener.v3.Listener",
		"name":          l.Name,
		"address":       socketAddress(l.Address),
		"filter_chains": []object{{"filters": []object{{"name": name, "typed_config": filter}}}},
	}
}

// managerObject is envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.
func managerObject(l *model.Listener) object {
	manager := object{
		"@type":        typeURL + "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix":  l.StatPrefix,
		"route_config": tableObject(l.Routes),
		"http_filters": filterObjects(l.Routes),
	}
	addHostRule(manager, l.Routes.Host)
	addPathRule(manager, l.Routes.Path)
	addEnvoyHeaders(manager, l.Routes.EnvoyHeaders)
	return manager
}

// proxyObject is envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.
func proxyObject(l *model.Listener) object {
	o := object{
		"@type":       typeURL + "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
		"stat_prefix": l.StatPrefix, "max_connect_attempts": l.TCP.ConnectAttempts,
	}
	if l.TCP.IdleTimeout > 0 {
		o["idle_timeout"] = seconds(l.TCP.IdleTimeout)
	}
	if len(l.TCP.Clusters) == 1 {
		o["cluster"] = l.TCP.Clusters[0].Name
		return o
	}
	var shares []object
	for _, c := range l.TCP.Clusters {
		shares = append(shares, object{"name": c.Name, "weight": c.Weight})
	}
	o["weighted_clusters"] = object{"clusters": shares}
	return o
}

// addHostRule adds the connection manager's fields that change the host.
func addHostRule(manager object, rule rewrite.HostRule) {
	if rule.AnyPort {
		manager["strip_any_host_port"] = true
	}
	if rule.Port != 0 {
		manager["strip_matching_host_port"] = true
	}
	if rule.TrailingDot {
		manager["strip_trailing_host_dot"] = true
	}
}

// escapedSlashes are the values of path_with_escaped_slashes_action but for the one without effect.
var escapedSlashes = map[rewrite.EscapedSlashes]string{
	rewrite.RejectSlashes: "REJECT_REQUEST", rewrite.RedirectSlashes: "UNESCAPE_AND_REDIRECT", rewrite.ForwardSlashes: "UNESCAPE_AND_FORWARD",
}

// addPathRule adds the connection manager's fields that change the path.
func addPathRule(manager object, rule rewrite.PathRule) {
	if rule.Normalize {
		manager["normalize_path"] = true
	}
	if rule.MergeSlashes {
		manager["merge_slashes"] = true
	}
	if action, ok := escapedSlashes[rule.EscapedSlashes]; ok {
		manager["path_with_escaped_slashes_action"] = action
	}
}

// tableObject is envoy.config.route.v3.RouteConfiguration.
func tableObject(t *model.RouteTable) object {
	hosts := make([]object, 0, len(t.VirtualHosts))
	for _, vh := range t.VirtualHosts {
		routes := make([]object, 0, len(vh.Routes))
		for _, r := range vh.Routes {
			route := routeObject(r)
			addFilters(route, r.Filters, model.RouteFilters{Fault: t.Fault, Session: t.Session})
			routes = append(routes, route)
		}
		host := object{"name": vh.Name, "domains": vh.Domains, "routes": routes}
		addChanges(host, &vh.Changes)
		hosts = append(hosts, host)
	}
	o := object{"name": t.Name, "virtual_hosts": hosts}
	addChanges(o, &t.Changes)
	if t.MostSpecificWins {
		o["most_specific_header_mutations_wins"] = true
	}
	if t.IgnorePort {
		o["ignore_port_in_host_matching"] = true
	}
	if t.IgnorePathParameters {
		o["ignore_path_parameters_in_path_matching"] = true
	}
	return o
}

// routeObject is envoy.config.route.v3.Route.
func routeObject(r *model.Route) object {
	o := object{"match": matchObject(r)}
	switch {
	case r.Direct != nil:
		o["direct_response"] = object{"status": r.Direct.Status, "body": object{"inline_string": r.Direct.Body}}
	case r.Redirect != nil:
		o["redirect"] = redirectObject(r.Redirect)
	default:
		o["route"] = actionObject(r)
	}
	if r.Name != "" {
		o["name"] = r.Name
	}
	addChanges(o, &r.Changes)
	return o
}

// actionObject is envoy.config.route.v3.RouteAction.
func actionObject(r *model.Route) object {
	action := object{"timeout": seconds(r.Timeout)}
	if len(r.Upgrades) > 0 {
		action["upgrade_configs"] = upgradeObjects(r)
	}
	addRewrite(action, r.Rewrite)
	addHostRewrite(action, &r.Host)
	addMirrors(action, r.Mirrors)
	addClusters(action, r)
	return action
}

// upgradeObjects are envoy.config.route.v3.RouteAction.UpgradeConfig. A route
// shows what is enabled for it, wherever that was written.
func upgradeObjects(r *model.Route) []object {
	list := make([]object, 0, len(r.Upgrades))
	for _, name := range r.Upgrades {
		o := object{"upgrade_type": name}
		if name == model.UpgradeConnect {
			o["upgrade_type"] = "CONNECT"
			if r.TerminateConnect {
				o["connect_config"] = object{}
			}
		}
		list = append(list, o)
	}
	return list
}
