// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/golden"
)

func endpoints(weights ...uint32) []model.Endpoint {
	out := make([]model.Endpoint, len(weights))
	for i, w := range weights {
		out[i] = model.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(9001+i)), Weight: w}
	}
	return out
}

func listenerOn(name, address string, rt *model.RouteTable) *model.Listener {
	return &model.Listener{Name: name, Address: netip.MustParseAddrPort(address), Routes: rt}
}

// timed gives every route Envoy's default timeout.
func timed(rt *model.RouteTable) *model.RouteTable {
	for _, vh := range rt.VirtualHosts {
		for _, r := range vh.Routes {
			r.Timeout = 15 * time.Second
		}
	}
	return rt
}

var goldenConfigs = map[string]*model.Config{
	"round-robin": {
		Listeners: []*model.Listener{listenerOn("web", "127.80.0.1:80", timed(oneHost(prefixRoute("/", "web"))))},
		Clusters:  []*model.Cluster{{Name: "web", Endpoints: endpoints(1, 1, 1)}},
	},
	"canary": {
		Listeners: []*model.Listener{listenerOn("shop", "[fd00::80]:8080", timed(oneHost(
			prefixRoute("/cart", "canary", exactHeader("x-canary", "yes")),
			prefixRoute("/cart", "debug", matcher.HeaderMatch{Name: "x-debug", Kind: matcher.HeaderPresent}, matcher.HeaderMatch{Name: "x-canary", Kind: matcher.HeaderString, String: matcher.Prefix("no"), Invert: true}),
			exactRoute("/health", "health"),
			&model.Route{
				Path: matcher.PathMatch{Value: "/live"}, Upgrades: []string{"websocket"},
				Clusters: []model.WeightedCluster{{Name: "stable", Weight: 1}},
			},
			&model.Route{
				Path: matcher.PathMatch{Kind: matcher.PathConnect}, Upgrades: []string{"connect"},
				Clusters: []model.WeightedCluster{{Name: "stable", Weight: 1}},
			},
			&model.Route{
				Path:     matcher.PathMatch{Value: "/"},
				Clusters: []model.WeightedCluster{{Name: "stable", Weight: 90}, {Name: "canary", Weight: 10}},
			},
		)))},
		Clusters: []*model.Cluster{
			{Name: "stable", Policy: model.LeastRequest, ChoiceCount: 2, Endpoints: endpoints(2, 1)},
			{Name: "canary", Policy: model.Random, Endpoints: endpoints(1)},
			{Name: "debug", Endpoints: endpoints(3, 2)},
			{Name: "health"},
		},
	},
	"domains": {
		Listeners: []*model.Listener{listenerOn("sites", "127.80.0.2:80", timed(&model.RouteTable{VirtualHosts: []*model.VirtualHost{
			{Name: "api", Domains: []string{"api.example.com", "api.example.com:8080"}, Routes: []*model.Route{prefixRoute("/v1/", "api"), prefixRoute("/v1/users", "users")}},
			{Name: "tenants", Domains: []string{"*.example.com"}, Routes: []*model.Route{prefixRoute("/v1/users", "users"), prefixRoute("/", "api")}},
			{Name: "internal", Domains: []string{"internal.*"}, Routes: []*model.Route{prefixRoute("", "api")}},
		}}))},
		Clusters: []*model.Cluster{{Name: "api", Endpoints: endpoints(1)}, {Name: "users", Endpoints: endpoints(1)}},
	},
}

func TestImageMatchesGolden(t *testing.T) {
	for name, cfg := range goldenConfigs {
		t.Run(name, func(t *testing.T) {
			im, notes := Compile(cfg)
			if len(notes) != 0 {
				t.Errorf("notes %v, want none", notes)
			}
			golden.Compare(t, filepath.Join("testdata", name+".golden"), im.String())
		})
	}
}

func TestCompilingTwiceGivesTheSameImage(t *testing.T) {
	for name, cfg := range goldenConfigs {
		first, _ := Compile(cfg)
		for range 20 {
			if again, _ := Compile(cfg); again.String() != first.String() {
				t.Fatalf("%s: two images of one configuration differ", name)
			}
		}
	}
}
