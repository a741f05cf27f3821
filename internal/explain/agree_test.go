// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

func TestDisagreementIsWhatNoDrawExplains(t *testing.T) {
	plain := &model.Route{Timeout: time.Second, Clusters: []model.WeightedCluster{{Name: "a"}}}
	split := &model.Route{Clusters: []model.WeightedCluster{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "idle"}}}
	redirect := &model.Route{Redirect: &model.Redirect{}}
	to := func(cluster string, timeout time.Duration) Decision {
		return Decision{By: ByKernel, Cluster: cluster, Timeout: timeout}
	}
	handover := func(v maps.Verdict) Decision { return Decision{By: ByKernel, Verdict: v} }
	tests := []struct {
		name     string
		d        Decision
		possible []*model.Route
		orNone   bool
		want     string
	}{
		{"the route", to("a", time.Second), []*model.Route{plain}, false, ""},
		{"another cluster", to("b", time.Second), []*model.Route{plain}, false,
			`the kernel sends the request to cluster "b" with timeout 1s, the routes to "a" with timeout 1s`},
		{"another timeout", to("a", 0), []*model.Route{plain}, false,
			`the kernel sends the request to cluster "a" with timeout 0s, the routes to "a" with timeout 1s`},
		{"a share", to("b", 0), []*model.Route{split}, false, ""},
		{"a share without weight", to("idle", 0), []*model.Route{split}, false,
			`the kernel sends the request to cluster "idle" with timeout 0s, the routes to "a" or "b" with timeout 0s`},
		{"another draw", to("b", 0), []*model.Route{plain, split}, false, ""},
		{"a redirect", to("", 0), []*model.Route{redirect}, false, `the kernel sends the request to cluster "" with timeout 0s, the routes answer it`},
		{"a route where there is none", to("a", time.Second), nil, true,
			`the kernel sends the request to cluster "a" with timeout 1s, the routes to nobody`},
		{"no route", handover(maps.HandoverNoRoute), nil, true, ""},
		{"no virtual host, for this draw", handover(maps.HandoverNoVHost), []*model.Route{plain}, true, ""},
		{"no route where there is one", handover(maps.HandoverNoRoute), []*model.Route{plain}, false,
			`the kernel finds no route, the routes to "a" with timeout 1s`},
		{"other hand-overs decide nothing", handover(maps.HandoverRouteSlow), []*model.Route{plain}, false, ""},
		{"fast path off", Decision{By: ByNobody}, []*model.Route{plain}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := disagreement(new(model.Config).In(model.View{}), &tt.d, tt.possible, tt.orNone); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
