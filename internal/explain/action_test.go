// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func TestSharesAreNamedAsTheRequestHasThem(t *testing.T) {
	cfg := &model.Config{Clusters: []*model.Cluster{{Name: "shop.test"}, {Name: "a"}}}
	q := &Query{Method: "GET", URL: "http://shop.test/", Headers: []string{"x-unknown: b"}}
	r, err := q.parse()
	if err != nil {
		t.Fatal(err)
	}
	changes := rewrite.HeaderLevel{Request: rewrite.HeaderChanges{Remove: []string{"x-a", "x-b"}}}
	half := matcher.Fraction{Numerator: 50, Denominator: 100}
	route := &model.Route{
		DrawHeader: "x-draw",
		Filters:    model.RouteFilters{CORS: &model.CORS{}, Fault: &model.Fault{Delay: time.Second, DelayShare: half, Status: 503}},
		Clusters: []model.WeightedCluster{
			{Name: "a", Weight: 1, Host: "h", Changes: changes},
			{Header: ":authority", Weight: 2},
			{Header: "x-unknown", Weight: 3},
			{Header: "x-missing", Weight: 4, Filters: &model.RouteFilters{CORS: &model.CORS{}}},
			{Name: "idle"},
		},
	}
	want := &Action{
		Kind: Forward, Timeout: "0s", NotFound: 503,
		Clusters: []Cluster{
			{Name: "a", Weight: 1, Policy: "ROUND_ROBIN"},
			{Name: "shop.test", Header: ":authority", Weight: 2, Policy: "ROUND_ROBIN"},
			{Header: "x-unknown", Weight: 3},
			{Header: "x-missing", Weight: 4},
		},
		Changes: []string{"host_rewrite_literal h", "request_headers_to_remove x-a x-b"},
		Filters: []string{"cors", "fault: delay 1s, fraction 50/100", "fault: abort 503, all requests", "cors of share x-missing"},
	}
	if diff := cmp.Diff(want, actionOf(cfg.In(model.View{}), route, r.forTable(&model.RouteTable{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if note := drawNote(route); note != "the cluster is drawn by weight, with the number in header x-draw, or without one for each request anew" {
		t.Errorf("note: %s", note)
	}
}

// As the slow path does, and Envoy.
func TestRewritesThatLeaveNoPathAreToldAsTheyGoOn(t *testing.T) {
	for _, c := range []struct{ regex, with, want string }{
		{"^.*$", "", ""}, {"^/", "", "svc?q"}, {"^/svc", "/new", "/new?q"},
	} {
		s := served(Decision{By: ByKernel, Cluster: "a"})
		with, err := matcher.NewSubstitution(c.regex, c.with)
		if err != nil {
			t.Fatal(err)
		}
		s.Config.Clusters = []*model.Cluster{{Name: "a"}}
		s.Config.Listeners[0].Routes.VirtualHosts[0].Routes[0].Rewrite.Regex = with
		a, err := Explain(s, &Query{Method: "GET", URL: "http://127.80.0.1/svc?q"})
		if err != nil {
			t.Fatal(err)
		}
		if a.Action.Kind != Forward || a.Action.Path != c.want {
			t.Errorf("%s to %q: %s of %q, want %s of %q", c.regex, c.with, a.Action.Kind, a.Action.Path, Forward, c.want)
		}
	}
}
