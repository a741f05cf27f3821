// SPDX-License-Identifier: Apache-2.0

// Package noeffect has a row for each field of which docs/fields.md says that it has no effect: a value to set in a bootstrap, or why nothing of it can
// be observed. internal/config checks that no field is missing, and the end-to-end tests that neither Envoy nor XLB does anything else with
// the field than without it.
package noeffect

import (
	_ "embed"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed base.yaml
var base string

const (
	hcm    = "static_resources.listeners.0.filter_chains.0.filters.0.typed_config"
	hosts  = hcm + ".route_config.virtual_hosts.0"
	socket = "static_resources.clusters.4.transport_socket_matches.0.transport_socket"
)

// places are messages in base.yaml; a number is an index.
var places = map[string]string{
	"admin": "admin", "bootstrap": "", "node": "node", "layer": "layered_runtime.layers.0",
	"overload": "overload_manager",

	"listener": "static_resources.listeners.0", "chain": "static_resources.listeners.0.filter_chains.0",
	"filter": "static_resources.listeners.0.filter_chains.0.filters.0", "manager": hcm,
	"inspection": "static_resources.listeners.0.listener_filters.0", "inspector": "static_resources.listeners.0.listener_filters.0.typed_config",
	"tcp proxy": "static_resources.listeners.1.filter_chains.0.filters.0.typed_config",
	"fault":     hcm + ".http_filters.1.typed_config", "router filter": hcm + ".http_filters.2", "router": hcm + ".http_filters.2.typed_config",

	"table": hcm + ".route_config", "virtual host": hosts,
	"retries": hosts + ".routes.0.route.retry_policy", "predicate": hosts + ".routes.0.route.retry_policy.retry_host_predicate.0",
	"retry priority": hosts + ".routes.0.route.retry_policy.retry_priority",
	"weights":        hosts + ".routes.1.route.weighted_clusters", "mirror": hosts + ".routes.2.route.request_mirror_policies.0",
	"cors": hosts + ".routes.3.typed_per_filter_config.cors", "enabled": hosts + ".routes.3.typed_per_filter_config.cors.filter_enabled",
	"limits": hosts + ".routes.9.route.max_stream_duration", "plain route": hosts + ".routes.10", "plain action": hosts + ".routes.10.route",

	"plain cluster": "static_resources.clusters.0", "bias": "static_resources.clusters.0.least_request_lb_config.active_request_bias",
	"thresholds": "static_resources.clusters.0.circuit_breakers.thresholds.0", "assignment": "static_resources.clusters.0.load_assignment",
	"locality": "static_resources.clusters.0.load_assignment.endpoints.0", "endpoint": "static_resources.clusters.0.load_assignment.endpoints.0.lb_endpoints.0.endpoint",
	"check": "static_resources.clusters.2.health_checks.0", "http check": "static_resources.clusters.2.health_checks.0.http_health_check",
	"policy":       "static_resources.clusters.2.load_balancing_policy.policies.0.typed_extension_config",
	"protocols":    "static_resources.clusters.2.typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions/use_downstream_protocol_config",
	"cluster type": "static_resources.clusters.3.cluster_type", "resolver": "static_resources.clusters.3.cluster_type.typed_config.typed_dns_resolver_config.typed_config",
	"socket match": "static_resources.clusters.4.transport_socket_matches.0", "transport socket": socket, "tls": socket + ".typed_config",
	"certificate": socket + ".typed_config.common_tls_context.tls_certificates.0", "validation": socket + ".typed_config.common_tls_context.validation_context",
}

// Bootstrap is base.yaml with rows set in it. Words are what $words stand for.
func Bootstrap(words map[string]string, set []Row) (map[string]any, error) {
	var pairs []string
	for word, text := range words {
		pairs = append(pairs, "$"+word, text)
	}
	fill := strings.NewReplacer(pairs...)
	root := map[string]any{}
	if err := yaml.Unmarshal([]byte(fill.Replace(base)), &root); err != nil {
		return nil, err
	}
	root["admin"] = map[string]any{}
	for _, row := range set {
		if row.Why != "" {
			continue
		}
		value := map[string]any{}
		if err := yaml.Unmarshal([]byte(fill.Replace("{"+row.Value+"}")), &value); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", row.Message, row.Field, err)
		}
		place, err := at(root, places[row.Place])
		if err != nil {
			return nil, fmt.Errorf("%s.%s: place %q: %w", row.Message, row.Field, row.Place, err)
		}
		maps.Copy(place, value)
	}
	return root, nil
}

// at is the mapping at a path. Names in it that have dots are between slashes.
func at(root map[string]any, path string) (map[string]any, error) {
	var here any = root
	for _, name := range split(path) {
		switch list := here.(type) {
		case map[string]any:
			here = list[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(list) {
				return nil, fmt.Errorf("no element %s", name)
			}
			here = list[i]
		}
	}
	if found, ok := here.(map[string]any); ok {
		return found, nil
	}
	return nil, fmt.Errorf("no mapping at %q", path)
}

func split(path string) []string {
	if path == "" {
		return nil
	}
	before, rest, hasDots := strings.Cut(path, "/")
	names := strings.Split(before, ".")
	if !hasDots {
		return names
	}
	whole, after, _ := strings.Cut(rest, "/")
	return append(append(names, whole), split(after)...)
}

// rows has a row for each value: the field that it begins with.
func rows(table, message, place string, values []string) []Row {
	var list []Row
	for _, value := range values {
		field, _, _ := strings.Cut(value, ":")
		list = append(list, Row{Message: message, Field: field, Table: table, Place: place, Value: value})
	}
	return list
}
