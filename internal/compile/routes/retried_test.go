// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// The kernel looks for the statuses that the model retries, and for no others.
func TestRetriedStatusesAreTheModels(t *testing.T) {
	none := func(string) []string { return nil }
	for on := range model.RetryOnRateLimited << 1 {
		for _, codes := range [][]int{nil, {100, 418, 599, 611}, {612, 999}} {
			p := &model.Retry{On: on, Retries: 1, StatusCodes: codes}
			r := retriedBy(p)
			for i := range maps.StatusWords * 64 {
				status := int(maps.FirstStatus + i)
				if got, want := r.Statuses[i/64]>>(i%64)&1 == 1, p.RetriesResponse(status, none); got != want {
					t.Fatalf("conditions %#x and %v: %d is retried: got %v, want %v", on, codes, status, got, want)
				}
			}
			limited := p.RetriesResponse(200, func(name string) []string { return map[string][]string{"x-envoy-ratelimited": {""}}[name] })
			if r.Limited != limited {
				t.Errorf("conditions %#x: x-envoy-ratelimited is retried: got %v, want %v", on, r.Limited, limited)
			}
		}
	}
}

func retriedRoute(path string, p model.Retry) *model.Route {
	r := exactRoute(path, "a")
	r.Retry = &p
	return r
}

func TestRoutesWithARetryPolicyStayInTheKernel(t *testing.T) {
	var routes []*model.Route
	for i, p := range []model.Retry{
		{On: model.RetryOn5xx, Retries: 2},
		{On: model.RetryOn5xx | model.RetryOnReset, Retries: 1},
		{On: model.RetryOnReset, Retries: 1},
		{On: model.RetryOn5xx},
		{On: model.RetryOnConnectFailure, Retries: 2},
		{On: model.RetryOn5xx, Retries: 1, PerTry: 1},
		{On: model.RetryOnHeaders, Retries: 1, Headers: []matcher.HeaderMatch{exactHeader("x", "1")}},
		{On: model.RetryOnHeaders, Headers: []matcher.HeaderMatch{exactHeader("x", "1")}},
	} {
		routes = append(routes, retriedRoute(fmt.Sprintf("/%d", i), p))
	}
	table, notes := compileTable("table", oneHost(routes...))
	if len(notes) != 1 || !strings.Contains(notes[0].String(), "route 6, 7: "+model.TimedAttempts) {
		t.Errorf("notes %v", notes)
	}
	// Equal sets need their place once.
	if len(table.Retries) != 2 {
		t.Errorf("%d sets of statuses, want 2", len(table.Retries))
	}
	fates(t, &table, map[string]string{"/0": "a", "/1": "a", "/2": "a", "/3": "a", "/4": "a", "/5": "route_slow", "/6": "route_slow", "/7": "a"})
	want := map[string]uint32{"/0": 1, "/1": 1, "/2": 2, "/3": 0, "/4": 0}
	for _, p := range table.Paths {
		path := strings.TrimRight(p.Key, "\x00")
		if number, ok := want[path]; ok && table.Routes[p.First].Retry != number {
			t.Errorf("%s: set %d, want %d", path, table.Routes[p.First].Retry, number)
		}
	}
}

func TestRetriesBeyondTheirMapStaySlow(t *testing.T) {
	var routes []*model.Route
	for i := range maxRetries + 1 {
		routes = append(routes, retriedRoute(fmt.Sprintf("/%05d", i), model.Retry{
			On: model.RetryOnStatusCodes, Retries: 1, StatusCodes: []int{100 + i%512, 100 + (i/512+i+1)%512},
		}))
	}
	table, notes := compileTable("table", oneHost(routes...))
	if len(notes) != 1 || !strings.Contains(notes[0].String(), fmt.Sprintf("route %d: more than", maxRetries+1)) {
		t.Errorf("notes %v", notes)
	}
	fates(t, &table, map[string]string{"/00000": "a", fmt.Sprintf("/%05d", maxRetries-1): "a", fmt.Sprintf("/%05d", maxRetries): "route_slow"})
}
