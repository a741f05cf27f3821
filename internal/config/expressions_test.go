// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/model"
)

// hostileRoutes are routes whose expressions take some 5,000 steps each, in a few bytes.
func hostileRoutes(n int) string {
	var w strings.Builder
	for i := range n {
		fmt.Fprintf(&w, "              - { match: { safe_regex: { regex: '/%d(?i)\\PL{500}' } }, route: { cluster: web } }\n", i)
	}
	return w.String()
}

// To compile these would take minutes, and gigabytes.
func TestHostileExpressionsAreRefusedTogether(t *testing.T) {
	_, err := ParseBootstrap("f.yaml", []byte(bootstrapBefore+hostileRoutes(10000)+bootstrapBehind))
	if err == nil {
		t.Fatal("10,000 of them are accepted")
	}
	text := err.Error()
	if strings.Contains(text, "\n") || !strings.Contains(text, "].match.safe_regex.regex: the regular expressions of the configuration, up to this one, take more than 4194304 steps to compile; use fewer of them") {
		t.Errorf("got %.2000q", text)
	}
	if _, err := ParseBootstrap("f.yaml", []byte(bootstrapBefore+hostileRoutes(100)+bootstrapBehind)); err != nil {
		t.Errorf("100 of them are refused: %.2000v", err)
	}
}

func TestOneHostileExpressionIsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ expression, want string }{
		"repetitions": {"(?:" + strings.Repeat("ab", 100) + "){1000}", "steps to compile"},
		"length":      {strings.Repeat("a", 1<<17+1), "bytes, more than 131072"},
		"nesting":     {strings.Repeat("(", 1000) + strings.Repeat(")", 1000), "nest"},
	} {
		t.Run(name, func(t *testing.T) {
			route := fmt.Sprintf("              - { match: { safe_regex: { regex: '%s' } }, route: { cluster: web } }\n", tt.expression)
			_, err := ParseBootstrap("f.yaml", []byte(bootstrapBefore+route+bootstrapBehind))
			if err == nil || !strings.Contains(err.Error(), "routes[0].match.safe_regex.regex: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %.300v", err)
			}
		})
	}
}

// The listener that comes last is left out, those that are in force stay, and what is not compiled again counts nevertheless.
func TestExpressionsOfAllListenersShareABudget(t *testing.T) {
	b := dynamicBootstrap(t)
	listener := func(name string, host int) *anypb.Any {
		routes := strings.ReplaceAll(hostileRoutes(300), "cluster: web", "cluster: fixed")
		text := fmt.Sprintf(`{name: %s, address: {socket_address: {address: 127.80.0.%d, port_value: 80}}, filter_chains: [{filters: [{name: h, typed_config: {
  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: s, http_filters: [%s],
  route_config: {virtual_hosts: [{name: v, domains: ["*"], routes: [%s]}]}}}]}]}`, name, host, router,
			strings.ReplaceAll(strings.ReplaceAll(routes, "              - ", ""), "\n", ","))
		return resource(t, Listeners, []byte(text))
	}
	first, second, third := listener("x", 1), listener("z", 2), listener("a", 3)
	for _, l := range []struct {
		name string
		body *anypb.Any
	}{{"x", first}, {"z", second}, {"a", third}} {
		if _, err := b.CheckResource(Listeners, l.name, l.body); err != nil {
			t.Fatalf("%s alone: %v", l.name, err)
		}
	}
	assemble := func(all map[string]*anypb.Any) (names []string, err error) {
		cfg, err := b.Assemble(Resources{Listeners: all})
		return namesOfListeners(cfg), err
	}
	if names, err := assemble(map[string]*anypb.Any{"x": first, "z": second}); err != nil || fmt.Sprint(names) != "[x z]" {
		t.Fatal(names, err)
	}
	names, err := assemble(map[string]*anypb.Any{"x": first, "z": second, "a": third})
	if fmt.Sprint(names) != "[x z]" || err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), `listeners["a"].`) {
		t.Errorf("three: got %q, %.300v", names, err)
	}
	if names, err := assemble(map[string]*anypb.Any{"x": first, "a": third}); err != nil || fmt.Sprint(names) != "[x a]" {
		t.Errorf("one has gone: got %q, %.300v", names, err)
	}
}

func namesOfListeners(cfg *model.Config) (names []string) {
	for _, l := range cfg.Listeners {
		names = append(names, l.Name)
	}
	return names
}
