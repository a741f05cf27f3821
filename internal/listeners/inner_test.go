// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// marking is a configuration of listeners that lead to one cluster each, of the same name.
type marking struct {
	t   *testing.T
	in  *Inner
	log strings.Builder
}

func newMarking(t *testing.T) *marking {
	m := &marking{t: t}
	m.in = NewInner(slog.New(slog.NewTextHandler(&m.log, nil)))
	return m
}

func markListener(name, address string) *model.Listener {
	routes := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Routes: []*model.Route{{Clusters: []model.WeightedCluster{{Name: name, Weight: 1}}}}}}}
	return &model.Listener{Name: name, Address: netip.MustParseAddrPort(address), Routes: routes}
}

func markCluster(name, endpoint string) *model.Cluster {
	at := netip.MustParseAddrPort(endpoint)
	return &model.Cluster{
		Name: name, Endpoints: []model.Endpoint{{Address: at, Weight: 1}}, Targets: []model.Target{{Host: at.Addr().String(), Port: at.Port(), Weight: 1}},
	}
}

// Who compares pointers must not take what is the same for another one.
func TestMarkedClustersStayTheSame(t *testing.T) {
	t.Parallel()
	m := newMarking(t)
	a, b := markListener("a", "10.0.0.1:80"), markListener("b", "10.0.0.2:80")
	toB, out := markCluster("a", "10.0.0.2:80"), markCluster("b", "10.0.0.9:80")
	cfg := func(listeners []*model.Listener, clusters ...*model.Cluster) *model.Config {
		return m.in.Mark(&model.Config{Listeners: listeners, Clusters: clusters})
	}
	both := []*model.Listener{a, b}
	first := cfg(both, toB, out)
	if first.Clusters[0] == toB || !first.Clusters[0].Endpoints[0].Inner || first.Clusters[1] != out {
		t.Fatalf("marked: %+v", first.Clusters[0].Endpoints)
	}
	if again := cfg(both, toB, out); again.Clusters[0] != first.Clusters[0] {
		t.Error("the same cluster is marked anew")
	}
	if moved := cfg(both, out, toB); moved.Clusters[1] != first.Clusters[0] {
		t.Error("a cluster that has another place is marked anew")
	}
	if without := cfg([]*model.Listener{a}, out, toB); without.Clusters[1] != toB {
		t.Error("an endpoint is marked whose listener has gone")
	}
	if back := cfg(both, out, toB); !back.Clusters[1].Endpoints[0].Inner {
		t.Error("an endpoint is not marked whose listener has come")
	}
}

func TestEndpointsOfACircleAreLeftOutAndBack(t *testing.T) {
	t.Parallel()
	m := newMarking(t)
	a := markListener("a", "0.0.0.0:80")
	a.Bound = true
	self, twice := markCluster("a", "127.0.0.1:80"), &model.Config{}
	for range 2 {
		cfg := m.in.Mark(&model.Config{Listeners: []*model.Listener{a}, Clusters: []*model.Cluster{self}})
		if c := cfg.Clusters[0]; len(c.Endpoints) != 0 || !strings.HasPrefix(c.LeftOutText(), `1 of 1 endpoint left out: 127.0.0.1:80 is the address of listener "a"`) {
			t.Fatalf("endpoints %+v, left out %q", c.Endpoints, c.LeftOutText())
		}
		if len(twice.Clusters) > 0 && twice.Clusters[0] != cfg.Clusters[0] {
			t.Error("the same circle is cut anew")
		}
		twice = cfg
	}
	if n := strings.Count(m.log.String(), "endpoints get no requests"); n != 1 {
		t.Errorf("the log has it %d times: %s", n, &m.log)
	}
	out := markListener("a", "0.0.0.0:80")
	out.Bound = true
	out.Routes.VirtualHosts[0].Routes[0].Direct = &model.DirectResponse{Status: 200}
	cfg := m.in.Mark(&model.Config{Listeners: []*model.Listener{out}, Clusters: []*model.Cluster{self}})
	if c := cfg.Clusters[0]; len(c.Endpoints) != 1 || c.LeftOut != nil {
		t.Errorf("a listener that answers: endpoints %+v, left out %+v", c.Endpoints, c.LeftOut)
	}
	if len(self.Endpoints) != 1 || self.LeftOut != nil {
		t.Error("the cluster itself has been changed")
	}
}

// A panic amid the use of the lock releases it: its caller recovers, and all other requests in circles would wait.
func TestPanicReleasesTheLockOfCircles(t *testing.T) {
	h := &Inner{} // without a map
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing has panicked")
			}
		}()
		h.Circled(model.SharedCluster("c"), netip.AddrPort{})
	}()
	if !h.mu.TryLock() {
		t.Error("it is locked still")
	}
}
