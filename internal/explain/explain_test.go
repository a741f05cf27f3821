// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// served is a configuration that a kernel, of a test, serves.
func served(d Decision, endpoints ...Endpoint) *State {
	return &State{
		Config: &model.Config{Listeners: []*model.Listener{{
			Name: "web", Address: netip.MustParseAddrPort("127.80.0.1:80"),
			Routes: &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}, Routes: []*model.Route{{
				Clusters: []model.WeightedCluster{{Name: "a", Weight: 1}},
			}}}}},
		}}},
		Notes: []note.Note{
			{Where: `listener "web": virtual host "all": route 1`, Reason: "too many"},
			{Where: `listener "webs"`, Reason: "of another"},
		},
		Decide:    func(*model.Listener, *matcher.Request, []byte) (Decision, error) { return d, nil },
		Endpoints: func(model.ClusterKey) ([]Endpoint, error) { return endpoints, nil },
	}
}

func ask(t *testing.T, s *State) *Answer {
	t.Helper()
	a, err := Explain(s, &Query{Method: "GET", URL: "http://127.80.0.1/"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAccountSaysWhetherTheClientIsBalanced(t *testing.T) {
	number := func(id uint32) *uint32 { return &id }
	tests := []struct {
		name   string
		listed *Workload
		want   Workload
	}{
		{"served", &Workload{Netns: 7, ID: number(2), Name: "shop/web-1", State: "served", Balanced: true}, Workload{Netns: 7, ID: number(2), Name: "shop/web-1", State: "served", Balanced: true}},
		{"excluded", &Workload{Netns: 7, ID: number(3), State: "excluded", Why: "label"}, Workload{Netns: 7, ID: number(3), State: "excluded", Why: "label"}},
		{"not known", nil, Workload{Netns: 7, State: WorkloadUnknown}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := served(Decision{By: ByNobody})
			s.Workload = func(uint64) *Workload { return tt.listed }
			a, err := Explain(s, &Query{Method: "GET", URL: "http://127.80.0.1/", Netns: 7})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, a.Workload); diff != "" {
				t.Errorf("workload (-want +got):\n%s", diff)
			}
			if noted := slices.Contains(a.Notes, unbalancedNote); noted == tt.want.Balanced || a.IsUnbalanced() == tt.want.Balanced {
				t.Errorf("noted: %v, unbalanced: %v, want the opposite of %v", noted, a.IsUnbalanced(), tt.want.Balanced)
			}
		})
	}
	// Without a client the account has none.
	if a := ask(t, served(Decision{By: ByNobody})); a.Workload != nil || a.IsUnbalanced() {
		t.Errorf("without a client: %+v", a.Workload)
	}
	var wrong *QueryError
	if _, err := Explain(served(Decision{By: ByNobody}), &Query{Method: "GET", URL: "http://127.80.0.1/", Netns: 7}); !errors.As(err, &wrong) {
		t.Errorf("without a daemon: %v", err)
	}
}

func TestShortageIsTold(t *testing.T) {
	some, none := uint64(2), uint64(0)
	taken := Decision{By: ByKernel, Cluster: "a"}
	tests := []struct {
		name      string
		d         Decision
		endpoints []Endpoint
		want      []string
	}{
		{"idle", taken, []Endpoint{{Cluster: "a", State: Down, Share: 1, Idle: &none}, {Cluster: "a", State: Healthy, Share: 1, Idle: &some}}, []string{}},
		{"none idle", taken, []Endpoint{{Cluster: "a", State: Healthy, Share: 1, Idle: &none}, {Cluster: "b", State: Healthy, Share: 1, Idle: &some}},
			[]string{"no i-sock of a is idle now: the kernel hands over (pool_empty)"}},
		{"down", taken, []Endpoint{{Cluster: "a", State: Down, Share: 1, Idle: &some}},
			[]string{"no endpoint of a is in service now: the kernel hands over (no_endpoint)"}},
		{"handed over anyway", Decision{By: ByKernel, Verdict: maps.HandoverMethod}, nil, []string{}},
		{"fast path off", Decision{By: ByNobody}, nil, []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ask(t, served(tt.d, tt.endpoints...)).Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWholeTablesNotesStandInForARoutes(t *testing.T) {
	for _, v := range []maps.Verdict{maps.HandoverRouteSlow, maps.HandoverTableSlow} {
		a := ask(t, served(Decision{By: ByKernel, Verdict: v}))
		if want := []string{`listener "web": virtual host "all": route 1: too many`}; !slices.Equal(a.Kernel.Reasons, want) {
			t.Errorf("%s: got %q, want %q", maps.VerdictName(v), a.Kernel.Reasons, want)
		}
	}
	if a := ask(t, served(Decision{By: ByKernel, Verdict: maps.HandoverMethod})); a.Kernel.Reasons != nil {
		t.Errorf("a head's fault is put down to %q", a.Kernel.Reasons)
	}
}

// Thousands of expressions would take minutes.
func TestFewRoutesAreCompiledForOneAnswer(t *testing.T) {
	s := served(Decision{By: ByKernel, Verdict: maps.HandoverRouteSlow})
	vh := s.Config.Listeners[0].Routes.VirtualHosts[0]
	for i := range 3 * mostJudged {
		r := &model.Route{Cookies: []matcher.CookieMatch{{Name: "a"}}, Clusters: []model.WeightedCluster{{Name: "a", Weight: 1}}}
		if i%3 == 0 {
			r.Path = matcher.PathMatch{Kind: matcher.PathExact, Value: "/elsewhere"}
		}
		vh.Routes = append(vh.Routes, r)
	}
	vh.Routes = vh.Routes[1:] // it takes everything
	a, err := Explain(s, &Query{Method: "GET", URL: "http://127.80.0.1/", Headers: []string{"cookie: b=1"}})
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, r := range a.Routes {
		if r.Undecided != "" {
			judged++
		}
	}
	if judged != mostJudged {
		t.Errorf("%d routes were compiled, want %d", judged, mostJudged)
	}
}

func TestKernelThatFailsIsAnError(t *testing.T) {
	s := served(Decision{})
	s.Decide = func(*model.Listener, *matcher.Request, []byte) (Decision, error) {
		return Decision{}, errors.New("map is gone")
	}
	if _, err := Explain(s, &Query{Method: "GET", URL: "http://a/"}); err == nil || err.Error() != `listener "web": map is gone` {
		t.Errorf("got %v", err)
	}
}

func TestRequestIsTheOneThatAClientSends(t *testing.T) {
	tests := []struct {
		q    Query
		head string
	}{
		{Query{Method: "POST", URL: "http://a:81//b%2F?c=d#e", Headers: []string{"X-Y:  z ", "HOST: b"}}, "POST //b%2F?c=d HTTP/1.1\r\nhost: b\r\nx-y: z\r\n\r\n"},
		{Query{Method: "GET", URL: "http://a"}, "GET / HTTP/1.1\r\nhost: a\r\n\r\n"},
		{Query{Method: "GET", URL: "http://a?b"}, "GET /?b HTTP/1.1\r\nhost: a\r\n\r\n"},
		{Query{Method: "GET", URL: `http://[::1]/|"%zz/../`}, "GET /|\"%zz/../ HTTP/1.1\r\nhost: [::1]\r\n\r\n"},
		{Query{Method: "CONNECT", URL: "http://a:443", Headers: []string{"host: b"}}, "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n"},
	}
	for _, tt := range tests {
		r, err := tt.q.parse()
		if err != nil {
			t.Fatal(err)
		}
		if string(r.head()) != tt.head {
			t.Errorf("got %q, want %q", r.head(), tt.head)
		}
	}
}

func TestListenerIsFoundByItsAddressInAnyForm(t *testing.T) {
	listener := func(name, address string) *model.Listener {
		return &model.Listener{Name: name, Address: netip.MustParseAddrPort(address)}
	}
	cfg := &model.Config{Listeners: []*model.Listener{
		listener("four", "127.80.0.1:80"), listener("other port", "127.80.0.1:81"), listener("six", "[2001:db8::1]:80"),
	}}
	for _, tt := range []struct{ url, listener, want string }{
		{"http://127.80.0.1", "", "four"},
		{"http://127.80.0.1:81/", "", "other port"},
		{"http://[::ffff:127.80.0.1]:80/", "", "four"},
		{"http://[2001:db8:0::1]/", "", "six"},
		{"http://127.80.0.1", "six", "six"},
		{"http://name", "127.80.0.1:81", "other port"},
	} {
		q := &Query{Method: "GET", URL: tt.url, Listener: tt.listener}
		r, err := q.parse()
		if err != nil {
			t.Fatal(err)
		}
		l, err := listenerFor(cfg, model.View{}, q, r.service)
		if err != nil || l.Name != tt.want {
			t.Errorf("%s, %q: got %v, %v, want %s", tt.url, tt.listener, l, err, tt.want)
		}
	}
}

func TestQuerySurvivesItsURL(t *testing.T) {
	q := &Query{Method: "PUT", URL: "http://a/?b=c&d", Headers: []string{"x: &=", "x: %"}, Listener: "web", Draw: 1<<32 - 1, Netns: 4026532301, View: "shop"}
	got, err := QueryOf(q.Values())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(q, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err = QueryOf(map[string][]string{"url": {"http://a/"}})
	if err != nil || got.Method != http.MethodGet {
		t.Errorf("without a method: %+v, %v", got, err)
	}
	var wrong *QueryError
	for _, bad := range []map[string][]string{{"draw": {"-1"}}, {"header ": {"x: y"}}, {"netns": {"0"}}, {"netns": {"web"}}, {"netns": {"1", "2"}}} {
		if _, err := QueryOf(bad); !errors.As(err, &wrong) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestEndpointsThatAreLeftOutAreTold(t *testing.T) {
	a := &Answer{}
	a.addLeftOut(nil)
	a.addLeftOut(&model.Cluster{Name: "whole"})
	a.addLeftOut(&model.Cluster{Name: "shop", LeftOut: []model.LeftOut{{Host: "10.0.0.1", Port: 80, Reason: model.LeftOutTLS}}})
	want := []string{"shop: 1 of 1 endpoint left out: 10.0.0.1:80 expects TLS, which XLB does not originate to original destinations"}
	if !slices.Equal(a.leftOut, want) {
		t.Errorf("got %q, want %q", a.leftOut, want)
	}
}
