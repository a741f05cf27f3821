// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"testing"
)

func innerListener(name, address string) *Listener {
	return &Listener{Name: name, Address: netip.MustParseAddrPort(address), Routes: &RouteTable{}}
}

func TestInnerFindsTheListenersThatThisHostConnectsTo(t *testing.T) {
	t.Parallel()
	bound, bound6 := innerListener("bound", "0.0.0.0:80"), innerListener("bound6", "[::]:81")
	bound.Bound, bound6.Bound = true, true
	bound.Own = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
	unbound, many := innerListener("unbound", "10.0.0.3:80"), innerListener("many", "0.0.0.0:82")
	unbound.Unbound, many.Many = true, netip.MustParsePrefix("0.0.0.0/0")
	in := InnerOf([]*Listener{bound, bound6, unbound, many, innerListener("exact", "10.0.0.2:80"), innerListener("own", "10.0.0.1:83")})
	for _, c := range []struct{ address, want string }{
		{"10.0.0.2:80", "exact"},
		{"[::ffff:10.0.0.2]:80", "exact"},
		{"10.0.0.2:81", ""},
		{"10.0.0.1:80", "bound"},
		{"127.0.0.1:80", "bound"},
		{"127.9.9.9:80", "bound"},
		{"[::1]:80", ""},
		{"[::1]:81", "bound6"},
		{"127.0.0.1:81", ""},
		{"10.0.0.4:80", ""}, // another host's
		{"10.0.0.3:80", ""},
		{"127.0.0.1:82", ""},
		{"10.0.0.1:83", "own"},
	} {
		got := ""
		if l := in.At(netip.MustParseAddrPort(c.address)); l != nil {
			got = l.Name
		}
		if got != c.want {
			t.Errorf("At(%s) = %q, want %q", c.address, got, c.want)
		}
	}
}

func TestMarkChangesNoClusterInForce(t *testing.T) {
	t.Parallel()
	in := InnerOf([]*Listener{innerListener("a", "10.0.0.1:80")})
	c := innerCluster("c", "10.0.0.1:80", "10.0.0.9:80")
	marked := in.Mark(c)
	if marked == c || !marked.Endpoints[0].Inner || marked.Endpoints[1].Inner {
		t.Errorf("marked %+v", marked.Endpoints)
	}
	if c.Endpoints[0].Inner {
		t.Error("the cluster itself has been changed")
	}
	if other := innerCluster("c", "10.0.0.9:80"); in.Mark(other) != other {
		t.Error("a cluster without such an endpoint is another one")
	}
	if c.Discovery = OriginalDst; in.Mark(c) != c {
		t.Error("the endpoint of an original destination is marked: it is the server behind the listener")
	}
}

func innerCluster(name string, endpoints ...string) *Cluster {
	c := &Cluster{Name: name}
	for _, e := range endpoints {
		c.Endpoints = append(c.Endpoints, Endpoint{Address: netip.MustParseAddrPort(e), Weight: 1})
	}
	return c
}

// leading is a listener whose routes lead to these clusters, one each.
func leading(name, address string, clusters ...string) *Listener {
	l := innerListener(name, address)
	host := &VirtualHost{Domains: []string{"*"}}
	for _, c := range clusters {
		host.Routes = append(host.Routes, &Route{Clusters: []WeightedCluster{{Name: c, Weight: 1}}})
	}
	l.Routes.VirtualHosts = []*VirtualHost{host}
	return l
}

func TestCirclesAreThoseThatNothingLeadsOutOf(t *testing.T) {
	t.Parallel()
	const a, b, c, elsewhere = "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.9:80"
	clusters := []*Cluster{
		innerCluster("a", a), innerCluster("b", b), innerCluster("ab", a, b), innerCluster("out", elsewhere), innerCluster("half", a, elsewhere),
		innerCluster("none"),
	}
	direct := leading("a", a, "a")
	direct.Routes.VirtualHosts[0].Routes = append(direct.Routes.VirtualHosts[0].Routes, &Route{Direct: &DirectResponse{Status: 200}})
	filtered := leading("a", a, "a")
	filtered.Routes.Filters = []Filter{FilterFault}
	plain := innerListener("a", a)
	plain.TCP = &TCPProxy{Clusters: []WeightedCluster{{Name: "a", Weight: 1}}}
	for _, test := range []struct {
		name      string
		listeners []*Listener
		want      int
	}{
		{"itself", []*Listener{leading("a", a, "a")}, 1},
		{"itself without HTTP", []*Listener{plain}, 1},
		{"each other", []*Listener{leading("a", a, "b"), leading("b", b, "a")}, 2},
		{"each other and itself", []*Listener{leading("a", a, "ab"), leading("b", b, "a")}, 3},
		{"one that leads there is in no circle", []*Listener{leading("a", a, "a"), leading("c", c, "a")}, 1},
		{"two hops", []*Listener{leading("a", a, "b"), leading("b", b, "out")}, 0},
		{"a route that leads out", []*Listener{leading("a", a, "b"), leading("b", b, "a", "out")}, 0},
		{"an endpoint that leads out", []*Listener{leading("a", a, "half")}, 0},
		{"a route that answers", []*Listener{direct}, 0},
		{"a filter that may answer", []*Listener{filtered}, 0},
		{"no endpoint", []*Listener{leading("a", a, "none")}, 0},
		{"no cluster", []*Listener{leading("a", a, "missing")}, 0},
		{"no route", []*Listener{leading("a", a)}, 0},
	} {
		cfg := &Config{Listeners: test.listeners, Clusters: clusters}
		if got := cfg.Circles(InnerOf(cfg.Listeners)); len(got) != test.want {
			t.Errorf("%s: %d endpoints lead in a circle, want %d: %+v", test.name, len(got), test.want, got)
		}
	}
}
