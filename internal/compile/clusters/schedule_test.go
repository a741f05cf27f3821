// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// edfEntry and edfPicks are Envoy's scheduler as its source describes it, in exact
// arithmetic: the least deadline is picked, ties by order of insertion, and the
// picked entry is put back at deadline + 1/weight.
type edfEntry struct {
	deadline *big.Rat
	order    int
}

func edfPicks(weights []uint32, n int) []uint32 {
	entries := make([]edfEntry, len(weights))
	inserted := 0
	insert := func(i int, now *big.Rat) {
		due := new(big.Rat).Add(now, big.NewRat(1, int64(weights[i])))
		entries[i] = edfEntry{deadline: due, order: inserted}
		inserted++
	}
	for i := range weights {
		insert(i, new(big.Rat))
	}
	var picks []uint32
	for range n {
		best := 0
		for i := range entries {
			c := entries[i].deadline.Cmp(entries[best].deadline)
			if c < 0 || c == 0 && entries[i].order < entries[best].order {
				best = i
			}
		}
		picks = append(picks, uint32(best))
		insert(best, entries[best].deadline)
	}
	return picks
}

func TestScheduleRepeatsEnvoysOrder(t *testing.T) {
	tests := [][]uint32{
		{1}, {7}, {1, 1, 1}, {5, 5}, {2, 1}, {1, 2}, {90, 10}, {1, 2, 3}, {3, 2, 1}, {2, 4, 6}, {4, 3, 3, 2, 1}, {1, 100}, {7, 5, 3, 7},
	}
	w := rand.New(rand.NewPCG(1, 0))
	for range 50 {
		weights := make([]uint32, 1+w.IntN(6))
		for i := range weights {
			weights[i] = 1 + w.Uint32N(12)
		}
		tests = append(tests, weights)
	}
	for _, weights := range tests {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			period := Schedule(weights)
			var got []uint32
			for range 3 {
				got = append(got, period...)
			}
			if diff := cmp.Diff(got, edfPicks(weights, len(got))); diff != "" {
				t.Errorf("three rounds (-got +want):\n%s", diff)
			}
		})
	}
}

func TestScheduleIsAsShortAsTheWeightsAllow(t *testing.T) {
	for _, tt := range []struct {
		weights []uint32
		want    []uint32
	}{
		{nil, []uint32{}},
		{[]uint32{0}, []uint32{0}},
		{[]uint32{math.MaxUint32}, []uint32{0}},
		{[]uint32{100, 100, 100}, []uint32{0, 1, 2}},
		{[]uint32{200, 100}, []uint32{0, 1, 0}},
	} {
		if diff := cmp.Diff(Schedule(tt.weights), tt.want); diff != "" {
			t.Errorf("weights %v (-got +want):\n%s", tt.weights, diff)
		}
	}
}

func TestLongScheduleKeepsSharesWithinTheStatedBound(t *testing.T) {
	tests := []struct {
		name    string
		weights []uint32
	}{
		{"primes", []uint32{4099, 4111, 4127}},
		{"just too many", []uint32{4096, 1}},
		{"largest", []uint32{math.MaxUint32, math.MaxUint32 - 1, math.MaxUint32 - 2}},
		{"hundreds", func() []uint32 {
			w, out := rand.New(rand.NewPCG(2, 0)), make([]uint32, 300)
			for i := range out {
				out[i] = 1000 + w.Uint32N(1000)
			}
			return out
		}()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			schedule := Schedule(tt.weights)
			if len(schedule) != maxLength {
				t.Fatalf("%d turns, want %d", len(schedule), maxLength)
			}
			for i, got := range shares(schedule, len(tt.weights)) {
				want := float64(tt.weights[i]) / sum(tt.weights)
				if math.Abs(got-want) >= 1.0/maxLength {
					t.Errorf("endpoint %d: share %v, want %v within 1/%d", i, got, want, maxLength)
				}
			}
		})
	}
}

func TestLightEndpointsGetATurn(t *testing.T) {
	weights := make([]uint32, 1001)
	for i := range weights {
		weights[i] = 1
	}
	weights[1000] = 1 << 20
	schedule := Schedule(weights)
	if len(schedule) != maxLength {
		t.Fatalf("%d turns, want %d", len(schedule), maxLength)
	}
	for i, share := range shares(schedule, len(weights))[:1000] {
		if share*maxLength != 1 {
			t.Fatalf("endpoint %d: %v turns, want 1", i, share*maxLength)
		}
	}
}

func TestThousandsOfEndpointsKeepTheirWeights(t *testing.T) {
	weights := make([]uint32, 6000)
	for i := range weights {
		weights[i] = 1_000_003
	}
	weights[0] = 4_000_000
	turns := shares(Schedule(weights), len(weights))
	if ratio := turns[0] / turns[1]; ratio < 2.5 || ratio > 5 {
		t.Errorf("endpoint of four times the weight has %v times the turns", ratio)
	}
}

func shares(schedule []uint32, endpoints int) []float64 {
	out := make([]float64, endpoints)
	for _, e := range schedule {
		out[e] += 1 / float64(len(schedule))
	}
	return out
}

func sum(weights []uint32) float64 {
	var s float64
	for _, w := range weights {
		s += float64(w)
	}
	return s
}

func TestClusterCompilation(t *testing.T) {
	a, b := netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("[::ffff:127.0.0.2]:80")
	endpoints := []model.Endpoint{{Address: a, Weight: 1}, {Address: b, Weight: 1}, {Address: a, Weight: 1}}
	b = netip.MustParseAddrPort("127.0.0.2:80")
	members := []Member{{Endpoint: 0, Weight: 1, HealthWeight: 1}, {Endpoint: 1, Weight: 1, HealthWeight: 1}, {Endpoint: 0, Weight: 1, HealthWeight: 1}}
	tests := []struct {
		name  string
		in    model.Cluster
		want  Cluster
		turns []uint32
		notes int
	}{
		{
			name: "an address given twice takes the turns of both",
			in:   model.Cluster{Name: "c", Endpoints: endpoints},
			want: Cluster{
				Key: model.SharedCluster("c"), Policy: maps.PolicyRoundRobin, Limit: 1024,
				Endpoints: []Endpoint{{Address: a, Weight: 2, LoadWeight: 2}, {Address: b, Weight: 1, LoadWeight: 1}}, Members: members,
			},
			turns: []uint32{0, 1, 0},
		},
		{
			name: "least request weighs by sampling, not by comparing",
			in:   model.Cluster{Name: "c", Policy: model.LeastRequest, ChoiceCount: 3, Endpoints: endpoints},
			want: Cluster{
				Key: model.SharedCluster("c"), Policy: maps.PolicyLeastRequest, Choices: 3, Limit: 1024,
				Endpoints: []Endpoint{{Address: a, Weight: 2, LoadWeight: 1}, {Address: b, Weight: 1, LoadWeight: 1}}, Members: members,
			},
			turns: []uint32{0, 1, 0},
		},
		{
			name: "random draws from the entries, whatever their weights",
			in: model.Cluster{Name: "c", Policy: model.Random, Endpoints: []model.Endpoint{
				{Address: a, Weight: 5}, {Address: b, Weight: 3}, {Address: a, Weight: 9},
			}},
			want: Cluster{
				Key: model.SharedCluster("c"), Policy: maps.PolicyRandom, Limit: 1024,
				Endpoints: []Endpoint{{Address: a, Weight: 2, LoadWeight: 2}, {Address: b, Weight: 1, LoadWeight: 1}}, Members: []Member{
					{Endpoint: 0, Weight: 1, HealthWeight: 5}, {Endpoint: 1, Weight: 1, HealthWeight: 3}, {Endpoint: 0, Weight: 1, HealthWeight: 9},
				},
			},
			turns: []uint32{0, 1, 0},
		},
		{
			name:  "more choices than the kernel takes are noted",
			in:    model.Cluster{Name: "c", Policy: model.LeastRequest, ChoiceCount: 9},
			want:  Cluster{Key: model.SharedCluster("c"), Policy: maps.PolicyLeastRequest, Choices: 9, Limit: 1024},
			notes: 1,
		},
		{
			name: "no endpoints yet",
			in:   model.Cluster{Name: "c", Policy: model.Random},
			want: Cluster{Key: model.SharedCluster("c"), Policy: maps.PolicyRandom, Limit: 1024},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, notes := compileCluster(&tt.in)
			if diff := cmp.Diff(got, tt.want, cmp.Comparer(func(x, y netip.AddrPort) bool { return x == y })); diff != "" {
				t.Errorf("cluster (-got +want):\n%s", diff)
			}
			if turns := got.Root(nil).Schedule; !slices.Equal(turns, tt.turns) {
				t.Errorf("turns %v, want %v", turns, tt.turns)
			}
			if len(notes) != tt.notes {
				t.Errorf("notes %v, want %d", notes, tt.notes)
			}
		})
	}
}

func TestKernelsLimitIsThatOfConnectionsOrRequests(t *testing.T) {
	for _, tt := range []struct {
		name     string
		breakers *model.Breakers
		want     uint32
	}{
		{"Envoy's defaults", nil, 1024},
		{"connections", &model.Breakers{MaxConnections: 3, MaxPending: 1, MaxRequests: 5}, 3},
		{"requests", &model.Breakers{MaxConnections: 5, MaxPending: 1, MaxRequests: 3}, 3},
		{"no connections", &model.Breakers{MaxPending: 1, MaxRequests: 5}, 1},
		{"none may wait", &model.Breakers{MaxConnections: 5, MaxRequests: 5}, 0},
		{"no requests", &model.Breakers{MaxConnections: 5, MaxPending: 1}, 0},
		{"no pools", &model.Breakers{MaxConnections: 5, MaxPending: 1, MaxRequests: 5, NoPools: true}, 0},
		{"none", &model.Breakers{MaxConnections: maps.NoLimit, MaxPending: 1, MaxRequests: maps.NoLimit}, maps.NoLimit},
		{"none, but all are counted for a budget",
			&model.Breakers{MaxConnections: maps.NoLimit, MaxPending: 1, MaxRequests: maps.NoLimit, Budget: &model.RetryBudget{}}, maps.NoLimit - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := model.Cluster{}
			c.Breakers[model.PriorityDefault] = tt.breakers
			if got := limitOf(&c); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
