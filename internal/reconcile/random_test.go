// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// world makes configurations that have much in common with each other.
type world struct{ *rand.Rand }

func newWorld(seed uint64) world { return world{rand.New(rand.NewPCG(seed, 0))} }

func (w world) word(letters string, shortest, longest int) string {
	b := make([]byte, shortest+w.IntN(longest-shortest+1))
	for i := range b {
		b[i] = letters[w.IntN(len(letters))]
	}
	return string(b)
}

func address(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 80, 0, 1}), uint16(port))
}

func (w world) config() *model.Config {
	cfg := &model.Config{}
	for i := range 4 {
		if w.IntN(4) > 0 {
			cfg.Clusters = append(cfg.Clusters, w.cluster(fmt.Sprintf("c%d", i)))
		}
	}
	if len(cfg.Clusters) == 0 {
		cfg.Clusters = append(cfg.Clusters, w.cluster("c0"))
	}
	for port := 80; port < 83; port++ {
		if w.IntN(4) > 0 {
			l := &model.Listener{Name: fmt.Sprintf("l%d", port), Address: address(port), Routes: w.table(cfg.Clusters)}
			cfg.Listeners = append(cfg.Listeners, l)
		}
	}
	return cfg
}

func (w world) cluster(name string) *model.Cluster {
	c := &model.Cluster{Name: name, Policy: model.Policy(w.IntN(3)), ChoiceCount: 2}
	c.Balancing.LocalityWeighted = w.IntN(2) == 0
	for port := 9000; port < 9004; port++ {
		if w.IntN(2) == 0 {
			c.Endpoints = append(c.Endpoints, model.Endpoint{Address: address(port), Weight: 1 + w.Uint32N(3), Placement: w.placement(), Health: w.health()})
		}
	}
	if w.IntN(3) == 0 {
		w.divide(c)
	}
	return c
}

// divide gives a cluster subsets.
func (w world) divide(c *model.Cluster) {
	c.Subsets = &model.Subsets{
		Selectors: []model.SubsetSelector{{Keys: []string{"v"}, Fallback: model.SubsetFallback(w.IntN(4))}},
		Fallback:  model.SubsetFallback(w.IntN(3)), Default: w.metadata(), PanicAny: w.IntN(2) == 0,
	}
	for i := range c.Endpoints {
		c.Endpoints[i].Metadata = w.metadata()
	}
}

// metadata is an endpoint's, or what a route asks for.
func (w world) metadata() model.Metadata {
	return []model.Metadata{"", `{"v":1}`, `{"v":2}`, `{"v":2,"w":1}`}[w.IntN(4)]
}

// placement is the first priority more often than another.
func (w world) placement() model.Placement {
	return model.Placement{
		Priority:       uint32(max(0, w.IntN(5)-2)),
		Locality:       model.Locality{Zone: string(rune('a' + w.IntN(2)))},
		LocalityWeight: 1 + w.Uint32N(3),
	}
}

func (w world) health() model.HealthStatus {
	return []model.HealthStatus{model.HealthUnknown, model.Healthy, model.HealthUnknown, model.Unhealthy, model.Degraded}[w.IntN(5)]
}

func (w world) table(clusters []*model.Cluster) *model.RouteTable {
	t := &model.RouteTable{}
	domains := []string{"*", "a.b", "*.b", "a.*", "*b", "a*"}
	w.Shuffle(len(domains), func(i, j int) { domains[i], domains[j] = domains[j], domains[i] })
	for i := range 1 + w.IntN(3) {
		vh := &model.VirtualHost{Name: fmt.Sprintf("vh%d", i), Domains: domains[2*i : 2*i+1+w.IntN(2)]}
		for range w.IntN(4) {
			vh.Routes = append(vh.Routes, w.route(clusters))
		}
		t.VirtualHosts = append(t.VirtualHosts, vh)
	}
	return t
}

// path is mostly short. With one of the long ones a virtual host is not looked up by hash, nor with many of the others.
func (w world) path() string {
	switch w.IntN(24) {
	case 0:
		return "/" + strings.Repeat("a", int(maps.MaxPathText)-3+w.IntN(4))
	case 1, 2:
		return "/" + w.word("a", 3, 9)
	}
	return "/" + w.word("a", 0, 2)
}

func (w world) route(clusters []*model.Cluster) *model.Route {
	r := &model.Route{
		Path:    matcher.PathMatch{Kind: matcher.PathKind(w.IntN(2)), Value: w.path()},
		Timeout: time.Duration(w.IntN(30)) * time.Second,
	}
	if w.IntN(3) == 0 {
		r.Path.Kind, r.Path.Value = matcher.PathRegex, []string{"/a+", "/.?", "/(aa)*", ".*a"}[w.IntN(4)]
		re, err := matcher.NewRegex(r.Path.Value)
		if err != nil {
			panic(err)
		}
		r.Path.Regex = re
	}
	for range w.IntN(2) {
		r.Headers = append(r.Headers, matcher.HeaderMatch{
			Name: []string{"x", "y", ":method", ":path"}[w.IntN(4)], Kind: matcher.HeaderKind(w.IntN(2)), Invert: w.IntN(2) == 0,
			String: matcher.StringMatch{Kind: matcher.StringKind(w.IntN(4)), Value: w.word("a", 1, 2)},
		})
	}
	if w.IntN(4) == 0 {
		value := matcher.StringMatch{Kind: matcher.StringKind(w.IntN(4)), Value: w.word("a", 1, 2)}
		r.Query = []matcher.QueryMatch{{Name: w.word("qr", 1, 1), String: &value}}
	}
	if w.IntN(3) == 0 {
		r.Rewrite.Prefix = "/" + w.word("ab", 0, 2)
	}
	for range 1 + w.IntN(2) {
		c := clusters[w.IntN(len(clusters))]
		r.Clusters = append(r.Clusters, model.WeightedCluster{Name: c.Name, Weight: 1 + w.Uint32N(2), Criteria: w.metadata()})
	}
	return r
}

func (w world) requests(n int) []*matcher.Request {
	hosts := []string{"a.b", "x.b", "a.x", "a.", ".b", "b", "a", "z"}
	list := make([]*matcher.Request, n)
	for i := range list {
		headers := map[string][]string{}
		for range w.IntN(3) {
			headers[w.word("xy", 1, 1)] = []string{w.word("abc", 0, 3)}
		}
		query := []string{"", "", "?q=" + w.word("ab", 0, 2), "?r&q=" + w.word("a", 0, 2)}
		list[i] = &matcher.Request{
			Authority: hosts[w.IntN(len(hosts))],
			Path:      w.path() + w.word("a", 0, 1) + query[w.IntN(len(query))],
			Method:    "GET",
			Values:    func(name string) []string { return headers[name] },
		}
	}
	return list
}
