// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

func innerListener(name, address string) *model.Listener {
	return &model.Listener{Name: name, Address: netip.MustParseAddrPort(address), Routes: &model.RouteTable{}}
}

func TestInnerFindsTheListenersThatThisHostConnectsTo(t *testing.T) {
	t.Parallel()
	bound, bound6 := innerListener("bound", "0.0.0.0:80"), innerListener("bound6", "[::]:81")
	bound.Bound, bound6.Bound = true, true
	bound.Own = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
	unbound, many := innerListener("unbound", "10.0.0.3:80"), innerListener("many", "0.0.0.0:82")
	unbound.Unbound, many.Many = true, netip.MustParsePrefix("0.0.0.0/0")
	in := InnerOf([]*model.Listener{bound, bound6, unbound, many, innerListener("exact", "10.0.0.2:80"), innerListener("own", "10.0.0.1:83")})
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
		if l := in.At(model.View{}, netip.MustParseAddrPort(c.address)); l != nil {
			got = l.Name
		}
		if got != c.want {
			t.Errorf("At(%s) = %q, want %q", c.address, got, c.want)
		}
	}
}

func TestMarkChangesNoClusterInForce(t *testing.T) {
	t.Parallel()
	in := InnerOf([]*model.Listener{innerListener("a", "10.0.0.1:80")})
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
	if c.Discovery = model.OriginalDst; in.Mark(c) != c {
		t.Error("the endpoint of an original destination is marked: it is the server behind the listener")
	}
}

func innerCluster(name string, endpoints ...string) *model.Cluster {
	c := &model.Cluster{Name: name}
	for _, e := range endpoints {
		c.Endpoints = append(c.Endpoints, model.Endpoint{Address: netip.MustParseAddrPort(e), Weight: 1})
	}
	return c
}
