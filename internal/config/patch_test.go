// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// abbreviations of the places that the tables change.
var abbreviations = strings.NewReplacer(
	"$listener", "static_resources.listeners[0]",
	"$chain", "static_resources.listeners[0].filter_chains[0]",
	"$hcm", "static_resources.listeners[0].filter_chains[0].filters[0].typed_config",
	"$routes", "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.route_config",
	"$vh", "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0]",
	"$route", "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes[0]",
	"$cluster", "static_resources.clusters[0]",
	"$locality", "static_resources.clusters[0].load_assignment.endpoints[0]",
	"$endpoint", "static_resources.clusters[0].load_assignment.endpoints[0].lb_endpoints[0]",
)

// change is one difference to testdata/base.yaml.
type change struct {
	name string
	at   string // a path; empty is the root
	yaml string // merged into a mapping, appended after "+ ", else put in place
}

// apply returns the base configuration with one change.
func (c change) apply(t *testing.T) []byte {
	t.Helper()
	base, err := os.ReadFile("testdata/base.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c.applyTo(t, base)
}

// applyTo returns another configuration with the change.
func (c change) applyTo(t *testing.T, base []byte) []byte {
	t.Helper()
	var root any
	if err := yaml.Unmarshal(base, &root); err != nil {
		t.Fatal(err)
	}
	text, appended := strings.CutPrefix(c.yaml, "+ ")
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	keys := strings.FieldsFunc(abbreviations.Replace(c.at), func(r rune) bool { return strings.ContainsRune(".[]", r) })
	out, err := yaml.Marshal(put(root, keys, value, appended))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func put(node any, keys []string, value any, appended bool) any {
	if len(keys) == 0 {
		return merged(node, value, appended)
	}
	switch n := node.(type) {
	case []any:
		i, err := strconv.Atoi(keys[0])
		if err != nil || i >= len(n) {
			panic("no element " + keys[0])
		}
		n[i] = put(n[i], keys[1:], value, appended)
	case map[string]any:
		n[keys[0]] = put(n[keys[0]], keys[1:], value, appended)
	default:
		panic("no field " + keys[0])
	}
	return node
}

func merged(old, value any, appended bool) any {
	if appended {
		return append(old.([]any), value)
	}
	o, isMap := old.(map[string]any)
	v, valueIsMap := value.(map[string]any)
	if !isMap || !valueIsMap {
		return value
	}
	maps.Copy(o, v)
	return o
}
