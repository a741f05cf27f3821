// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// inViews is a configuration in which several views have a listener "web" at one address, each with a cluster "a" of its own, and one has a listener more.
func inViews(names ...string) *State {
	s := served(Decision{By: ByKernel, Cluster: "a"})
	shared := s.Config.Listeners[0]
	s.Config.Clusters = []*model.Cluster{{Name: "a"}}
	for i, name := range names {
		l := *shared
		l.View = model.View{Number: uint32(i + 1), Name: name}
		s.Config.Listeners = append(s.Config.Listeners, &l)
		s.Config.Clusters = append(s.Config.Clusters, &model.Cluster{Name: "a", View: l.View})
	}
	more := *s.Config.Listeners[len(names)]
	more.Name, more.Address = "more", netip.MustParseAddrPort("127.80.0.2:80")
	s.Config.Listeners = append(s.Config.Listeners, &more)
	s.Views = append(slices.Clone(names), "empty")
	s.Endpoints = func(c model.ClusterKey) ([]Endpoint, error) {
		return []Endpoint{{Cluster: c.Name, Address: c.View + ":1", Idle: new(uint64)}}, nil
	}
	s.Decide = func(l *model.Listener, _ *matcher.Request, _ []byte) (Decision, error) {
		return Decision{By: ByKernel, Verdict: maps.VerdictOk, Cluster: l.View.Name + "a"}, nil
	}
	s.Workload = func(netns uint64) *Workload {
		view, known := map[uint64]string{1: "", 2: "shop", 3: "number 9"}[netns]
		if !known {
			return nil
		}
		return &Workload{Netns: netns, State: "served", Balanced: true, View: view}
	}
	return s
}

func TestAccountIsThatOfTheClientsView(t *testing.T) {
	s := inViews("shop", "bank")
	for _, tt := range []struct {
		name  string
		query Query
		want  string
	}{
		{"left open", Query{}, ""},
		{"named", Query{View: "bank"}, "bank"},
		{"of a client", Query{Netns: 2}, "shop"},
		{"of a client with the shared one", Query{Netns: 1}, ""},
		{"named, and the client's", Query{Netns: 2, View: "shop"}, "shop"},
		{"named, of a client that is not known", Query{Netns: 7, View: "shop"}, "shop"},
		{"listener by its name", Query{View: "shop", Listener: "web"}, "shop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := tt.query
			q.Method, q.URL = "GET", "http://127.80.0.1/"
			a, err := Explain(s, &q)
			if err != nil {
				t.Fatal(err)
			}
			if a.View != tt.want || a.Kernel.Cluster != tt.want+"a" || len(a.Endpoints) != 1 || a.Endpoints[0].Address != tt.want+":1" {
				t.Errorf("view %q, cluster %q, endpoints %v, want all of %q", a.View, a.Kernel.Cluster, a.Endpoints, tt.want)
			}
		})
	}
}

func TestListenersOfOtherViewsAreNoneOfTheClients(t *testing.T) {
	s := inViews("shop", "bank")
	const more = "http://127.80.0.2/"
	for _, tt := range []struct {
		name  string
		query Query
		want  string
	}{
		{"unknown", Query{URL: more, View: "shops"}, `view "shops": unknown; there are shop, bank, empty; leave the view out for the shared one`},
		{"address of another", Query{URL: more, View: "shop"}, `url "http://127.80.0.2/": no listener of view shop has the address 127.80.0.2:80; name one with --listener: web (127.80.0.1:80)`},
		{"name of another", Query{URL: more, Listener: "more"}, `listener "more": the configuration has none of that name or address; it has web (127.80.0.1:80)`},
		{"name of another in a view", Query{URL: more, Listener: "more", Netns: 2}, `listener "more": view shop has none of that name or address; it has web (127.80.0.1:80)`},
		{"several", Query{URL: "http://a/", View: "bank"}, `url "http://a/": its host is a name, and there are 2 listeners of view bank; choose one with --listener: web (127.80.0.1:80), more (127.80.0.2:80)`},
		{"without listeners", Query{URL: more, View: "empty"}, `url "http://127.80.0.2/": no listener of view empty has the address 127.80.0.2:80; name one with --listener: no listener`},
		{"gone", Query{URL: more, Netns: 3}, `url "http://127.80.0.2/": no listener of view number 9 has the address 127.80.0.2:80; name one with --listener: no listener`},
		{"not the client's", Query{URL: more, Netns: 2, View: "bank"}, `view "bank": the client has view shop; leave out the view, or the client`},
		{"not the client's shared one", Query{URL: more, Netns: 1, View: "bank"}, `view "bank": the client has the shared view; leave out the view, or the client`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := tt.query
			q.Method = "GET"
			var wrong *QueryError
			if _, err := Explain(s, &q); !errors.As(err, &wrong) || err.Error() != tt.want {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
	s.Views = nil
	const want = `view "shop": unknown; all workloads have the shared one: leave the view out`
	if _, err := Explain(s, &Query{Method: "GET", URL: more, View: "shop"}); err == nil || err.Error() != want {
		t.Errorf("without views: got %v, want %s", err, want)
	}
}

func TestAccountSaysWhereTheClientsViewIsNotKnown(t *testing.T) {
	s := inViews("shop", "bank")
	for _, tt := range []struct {
		name  string
		query Query
		want  bool
	}{
		{"not known", Query{Netns: 7}, true},
		{"named", Query{Netns: 7, View: "shop"}, false},
		{"known", Query{Netns: 2}, false},
		{"no client", Query{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := tt.query
			q.Method, q.URL = "GET", "http://127.80.0.1/"
			a, err := Explain(s, &q)
			if err != nil || slices.Contains(a.Notes, viewNote) != tt.want {
				t.Errorf("error %v, notes %q", err, a.Notes)
			}
		})
	}
}
