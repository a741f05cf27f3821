// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"math"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// slow is a rig whose time stands still, and a configuration with a slow start of ten seconds.
func slow(t *testing.T, ports ...int) (*rig, *model.Config, *time.Time) {
	g := newRig(t)
	now := time.Unix(1000, 0)
	g.r.now = func() time.Time { return now }
	var endpoints []model.Endpoint
	for _, port := range ports {
		endpoints = append(endpoints, endpointOn(port, 1))
	}
	cfg := single(endpoints...)
	cfg.Clusters[0].SlowStart = model.SlowStart{Window: 10 * time.Second, MinWeight: 0.1}
	return g, cfg, &now
}

// shareOf is the share of the endpoint at a port, of the entries in the maps.
func (g *rig) shareOf(port uint16) float64 {
	index, _ := g.r.ClusterIndex(model.SharedCluster("web"))
	schedule := g.kernel.schedule(index)
	var own float64
	for _, e := range schedule {
		if g.addressOf(e) == address(int(port)).String() {
			own++
		}
	}
	return own / float64(len(schedule))
}

func (g *rig) mustGrow() {
	g.t.Helper()
	if err := g.r.Regroup(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) wantShare(when string, port uint16, want float64) {
	g.t.Helper()
	if got := g.shareOf(port); math.Abs(got-want) > 0.001 {
		g.t.Errorf("%s: share %.4f, want %.4f", when, got, want)
	}
}

func TestSharesOfNewEndpointsGrow(t *testing.T) {
	g, cfg, now := slow(t, 9000)
	g.mustApply(cfg)
	*now = now.Add(time.Minute)
	g.mustGrow()
	_, two, _ := slow(t, 9000, 9001)
	g.mustApply(two)
	g.wantShare("at first", 9001, 0.1/1.1)
	*now = now.Add(5 * time.Second)
	g.wantShare("before the next second", 9001, 0.1/1.1)
	g.mustGrow()
	g.wantShare("at half", 9001, 0.5/1.5)
	*now = now.Add(5 * time.Second)
	g.mustGrow()
	g.wantShare("at the end", 9001, 0.5)
	index, _ := g.r.ClusterIndex(model.SharedCluster("web"))
	word := g.kernel.sh.Clusters[index].Root
	*now = now.Add(time.Second)
	g.mustGrow()
	if got := g.kernel.sh.Clusters[index].Root; got != word {
		t.Errorf("word %#x after the slow start, want it to stay %#x", got, word)
	}
	g.mustReclaim()
	g.checkClean(two, nil)
}

func TestWeightsOfAShortWindowGrowSooner(t *testing.T) {
	for _, tt := range []struct {
		window, pace time.Duration
	}{{4 * time.Second, 250 * time.Millisecond}, {8 * time.Second, 500 * time.Millisecond}, {time.Minute, time.Second}} {
		g, cfg, now := slow(t, 9000, 9001)
		cfg.Clusters[0].SlowStart.Window = tt.window
		g.mustApply(cfg)
		*now = now.Add(tt.window)
		g.mustGrow()
		g.mustSetHealth(9001, maps.EndpointUnhealthy, 0)
		g.mustSetHealth(9001, 0, maps.EndpointUnhealthy)
		*now = now.Add(tt.window / 2)
		g.mustGrow()
		g.wantShare("at half", 9001, 0.5/1.5)
		index, _ := g.r.ClusterIndex(model.SharedCluster("web"))
		var grown time.Duration
		for word := g.kernel.sh.Clusters[index].Root; g.kernel.sh.Clusters[index].Root == word && grown < 2*time.Second; {
			grown += RegroupPace
			*now = now.Add(RegroupPace)
			g.mustGrow()
		}
		if grown != tt.pace {
			t.Errorf("weights of a window of %v grew after %v, want %v", tt.window, grown, tt.pace)
		}
	}
}

func TestEndpointsThatBecomeHealthyStartSlowly(t *testing.T) {
	g, cfg, now := slow(t, 9000, 9001)
	g.mustApply(cfg)
	g.wantShare("all at once", 9001, 0.5)
	*now = now.Add(time.Minute)
	g.mustGrow()
	g.mustSetHealth(9001, maps.EndpointUnhealthy, 0)
	g.wantShare("unhealthy", 9001, 0)
	g.mustSetHealth(9001, 0, maps.EndpointUnhealthy)
	g.wantShare("healthy again", 9001, 0.1/1.1)
	*now = now.Add(time.Minute)
	g.mustGrow()
	g.wantShare("later", 9001, 0.5)
	g.mustSetHealth(9001, maps.EndpointEjected, 0)
	g.mustSetHealth(9001, 0, maps.EndpointEjected)
	// As in Envoy, where only an active check begins a slow start.
	g.wantShare("no longer ejected", 9001, 0.5)
}
