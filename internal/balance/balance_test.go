// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/maps"
)

// picker returns a picker whose cluster 0 leads to group 1, which has a policy and a schedule of turns.
func picker(policy maps.Policy, turns ...uint32) (*Picker, *maps.Shared) {
	shared := maps.NewHeapShared(maps.Sizes{Clusters: 2, Groups: 8, Endpoints: 8, Schedules: 32})
	for i := range shared.Endpoints {
		shared.Endpoints[i].Weight = 1
	}
	shared.Clusters[0].Root = 1
	shared.Groups[1].Policy = uint32(policy)
	shared.Groups[1].Schedule = write(shared, 4, turns...)
	return New(shared), shared
}

// write puts turns at a place and returns the word that refers to them.
func write(shared *maps.Shared, first uint32, turns ...uint32) uint64 {
	for i, turn := range turns {
		atomic.StoreUint64(&shared.Schedules[first+uint32(i)], uint64(turn))
	}
	return uint64(len(turns))<<32 | uint64(first)
}

// count picks n times, with each request done before the next, and counts by endpoint.
func count(t *testing.T, p *Picker, n int, skip func(uint32) bool) map[uint32]int {
	t.Helper()
	counts := map[uint32]int{}
	for range n {
		e, ok := p.Pick(0, 0, skip)
		if !ok {
			t.Fatalf("no endpoint after %v", counts)
		}
		counts[e]++
		p.Done(e)
	}
	return counts
}

var policies = []maps.Policy{
	maps.PolicyRoundRobin, maps.PolicyLeastRequest, maps.PolicyLeastWeighted, maps.PolicyLeastScan, maps.PolicyRandom,
}

func TestRoundRobinFollowsTheSchedule(t *testing.T) {
	p, _ := picker(maps.PolicyRoundRobin, 2, 1, 2, 3)
	var got []uint32
	for range 8 {
		e, _ := p.Pick(0, 0, nil)
		got = append(got, e)
	}
	if diff := cmp.Diff([]uint32{2, 1, 2, 3, 2, 1, 2, 3}, got); diff != "" {
		t.Errorf("picks (-want +got):\n%s", diff)
	}
}

func TestTurnsAreSharedWithTheKernel(t *testing.T) {
	p, shared := picker(maps.PolicyRoundRobin, 0, 1, 2)
	shared.Groups[1].Turn = math.MaxUint64 // The kernel has taken all turns before.
	// 2^64 is 1 modulo 3: the counter's wrap costs one turn of the cycle.
	if e, _ := p.Pick(0, 0, nil); e != 0 {
		t.Errorf("pick: got %d, want 0", e)
	}
	if turn := shared.Groups[1].Turn; turn != 0 {
		t.Errorf("turn: got %d, want 0", turn)
	}
}

func TestRandomSharesAreThoseOfTheSchedule(t *testing.T) {
	const picks = 40_000
	for _, policy := range []maps.Policy{maps.PolicyRandom, maps.PolicyLeastRequest} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p, _ := picker(policy, 0, 1, 1, 1)
			got := float64(count(t, p, picks, nil)[0]) / picks
			// Ten standard deviations. An idle least-request is a random choice.
			if math.Abs(got-0.25) > 0.022 {
				t.Errorf("share of one turn of four: got %.3f", got)
			}
		})
	}
}

func TestLeastRequestComparesLoadByWeight(t *testing.T) {
	tests := []struct {
		name        string
		outstanding [2]uint32
		weight      [2]uint32
		want        uint32
	}{
		{"fewer outstanding", [2]uint32{5, 4}, [2]uint32{1, 1}, 1},
		{"the heavier bears more", [2]uint32{5, 4}, [2]uint32{2, 1}, 0},
		{"the next request counts", [2]uint32{1, 0}, [2]uint32{3, 1}, 0},
		{"counters at their limit", [2]uint32{math.MaxUint32, math.MaxUint32 - 1}, [2]uint32{1, 1}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, shared := picker(maps.PolicyLeastRequest, 0, 1)
			// So many that both are among them.
			shared.Groups[1].Choices = 200
			for i := range tt.outstanding {
				shared.Endpoints[i].Outstanding, shared.Endpoints[i].Weight = tt.outstanding[i], tt.weight[i]
			}
			if got, _ := p.Pick(0, 0, nil); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestEndpointsOutOfServiceAndSkippedOnesAreNotPicked(t *testing.T) {
	for _, policy := range policies {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p, shared := picker(policy, 0, 1, 2, 3)
			shared.Endpoints[0].Flags = uint32(maps.EndpointDown)
			shared.Endpoints[1].Flags = uint32(maps.EndpointGone)
			got := count(t, p, 4000, func(e uint32) bool { return e == 2 })
			if diff := cmp.Diff(map[uint32]int{3: 4000}, got); diff != "" {
				t.Errorf("picks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneThatIsDownIsPickedWhereNoneServes(t *testing.T) {
	for _, policy := range policies {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p, shared := picker(policy, 0, 1)
			shared.Endpoints[0].Flags = uint32(maps.EndpointDown)
			shared.Endpoints[1].Flags = uint32(maps.EndpointDown | maps.EndpointGone)
			if e, ok := p.Pick(0, 0, nil); ok {
				t.Errorf("Pick took %d, which is out of service", e)
			}
			if e, ok := p.PickAny(0, 0, func(e uint32) bool { return e == 1 }); ok {
				t.Errorf("PickAny took %d, though another one was left out", e)
			}
			for range 100 {
				if e, ok := p.PickAny(0, 0, nil); !ok || e != 0 {
					t.Fatalf("PickAny: got %d, %v, want 0", e, ok)
				}
			}
			if n := shared.Endpoints[0].Outstanding; n != 100 {
				t.Errorf("requests of the endpoint: got %d, want 100", n)
			}
		})
	}
}

func TestShareOfOneOutOfServiceFallsToTheOthersAlike(t *testing.T) {
	const picks = 30_000
	for _, policy := range policies {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p, shared := picker(policy, 0, 1, 2, 3)
			shared.Endpoints[1].Flags = uint32(maps.EndpointDown)
			got := count(t, p, picks, nil)
			if policy == maps.PolicyRoundRobin {
				// Its turns are passed over, as in the kernel.
				want := map[uint32]int{0: picks / 3, 2: picks / 3, 3: picks / 3}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("picks (-want +got):\n%s", diff)
				}
				return
			}
			for _, e := range []uint32{0, 2, 3} {
				if share := float64(got[e]) / picks; math.Abs(share-1./3) > 0.035 {
					t.Errorf("share of endpoint %d: got %.3f, want a third", e, share)
				}
			}
		})
	}
}

// lead makes group 1 one of groups, each of which has the policy and turns of its own.
func lead(shared *maps.Shared, policy maps.Policy, order []uint32, groups ...[]uint32) {
	for i, turns := range groups {
		shared.Groups[i+2] = maps.Group{Policy: uint32(maps.PolicyRoundRobin), Schedule: write(shared, uint32(10+4*i), turns...)}
	}
	shared.Groups[1] = maps.Group{Policy: uint32(policy), Flags: uint32(maps.GroupOfGroups), Schedule: write(shared, 4, order...)}
}

func TestLocalitiesTakeTurnsAndSoDoTheirEndpoints(t *testing.T) {
	p, shared := picker(maps.PolicyRoundRobin)
	lead(shared, maps.PolicyRoundRobin, []uint32{2, 2, 3}, []uint32{0, 1}, []uint32{5, 6})
	var got []uint32
	for range 6 {
		e, _ := p.Pick(0, 0, nil)
		got = append(got, e)
	}
	if diff := cmp.Diff([]uint32{0, 1, 5, 0, 1, 6}, got); diff != "" {
		t.Errorf("picks (-want +got):\n%s", diff)
	}
}

func TestPrioritiesAreDrawnByShare(t *testing.T) {
	const picks = 40_000
	p, shared := picker(maps.PolicyRoundRobin)
	lead(shared, maps.PolicyRandom, []uint32{2, 2, 2, 3}, []uint32{0}, []uint32{1})
	// Ten standard deviations.
	if got := float64(count(t, p, picks, nil)[1]) / picks; math.Abs(got-0.25) > 0.022 {
		t.Errorf("share of one turn of four: got %.3f", got)
	}
}

func TestOtherGroupsServeForOneWhoseEndpointsAreDown(t *testing.T) {
	p, shared := picker(maps.PolicyRoundRobin)
	lead(shared, maps.PolicyRandom, []uint32{2, 3}, []uint32{0, 1}, []uint32{2})
	shared.Endpoints[0].Flags, shared.Endpoints[1].Flags = uint32(maps.EndpointDown), uint32(maps.EndpointDown)
	if diff := cmp.Diff(map[uint32]int{2: 100}, count(t, p, 100, nil)); diff != "" {
		t.Errorf("picks (-want +got):\n%s", diff)
	}
}

func TestRequestsOfAnEmptyGroupFail(t *testing.T) {
	p, shared := picker(maps.PolicyRoundRobin)
	lead(shared, maps.PolicyRoundRobin, []uint32{2, 3}, []uint32{0}, nil)
	for i := range 10 {
		if e, ok := p.Pick(0, 0, nil); ok != (i%2 == 0) {
			t.Fatalf("pick %d: got %d (%v), want every second one to fail", i, e, ok)
		}
	}
}

func TestHealthIsForGroupsToSay(t *testing.T) {
	for _, policy := range policies {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p, shared := picker(policy, 0, 1)
			// In panic a group holds endpoints whose health checks fail.
			shared.Endpoints[0].Flags = uint32(maps.EndpointUnhealthy | maps.EndpointEjected)
			shared.Endpoints[1].Flags = uint32(maps.EndpointDown)
			if diff := cmp.Diff(map[uint32]int{0: 100}, count(t, p, 100, nil)); diff != "" {
				t.Errorf("picks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoEndpointIsFoundWhereThereIsNone(t *testing.T) {
	for _, policy := range policies {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p, shared := picker(policy, 0, 1)
			if e, ok := p.Pick(1, 0, nil); ok {
				t.Errorf("a cluster without a schedule: picked %d", e)
			}
			if e, ok := p.Pick(0, 0, func(uint32) bool { return true }); ok {
				t.Errorf("all skipped: picked %d", e)
			}
			shared.Endpoints[0].Flags = uint32(maps.EndpointDown)
			shared.Endpoints[1].Flags = uint32(maps.EndpointDown)
			if e, ok := p.Pick(0, 0, nil); ok {
				t.Errorf("all down: picked %d", e)
			}
			shared.Groups[1].Schedule = 100<<32 | 4
			if e, ok := p.Pick(0, 0, nil); ok {
				t.Errorf("a schedule beyond the array: picked %d", e)
			}
			for i := range shared.Endpoints {
				if n := shared.Endpoints[i].Outstanding; n != 0 {
					t.Errorf("endpoint %d: %d requests counted, none picked", i, n)
				}
			}
		})
	}
}

func TestRequestsAreCountedUntilDone(t *testing.T) {
	p, shared := picker(maps.PolicyRoundRobin, 5)
	for range 3 {
		p.Pick(0, 0, nil)
	}
	p.Claim(5)
	p.Done(5)
	if n := shared.Endpoints[5].Outstanding; n != 3 {
		t.Errorf("outstanding: got %d, want 3", n)
	}
}

func TestPickBegunBeforeAChangeOfScheduleIsMadeAnew(t *testing.T) {
	for _, policy := range policies {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p, shared := picker(policy, 0)
			// The change comes while the pick looks at endpoint 0: the place gets another cluster's turns.
			got, ok := p.Pick(0, 0, func(e uint32) bool {
				if e == 0 {
					shared.Groups[2] = maps.Group{Policy: uint32(policy), Schedule: write(shared, 10, 1)}
					atomic.StoreUint64(&shared.Clusters[0].Root, 1<<32|2)
					write(shared, 4, 7)
				}
				return false
			})
			if !ok || got != 1 {
				t.Errorf("got %d (%v), want 1", got, ok)
			}
			for i, want := range []uint32{0, 1, 0, 0, 0, 0, 0, 0} {
				if n := shared.Endpoints[i].Outstanding; n != want {
					t.Errorf("endpoint %d: outstanding %d, want %d", i, n, want)
				}
			}
		})
	}
}

func TestConcurrentPicksStayInTheirClusterWhileSchedulesMove(t *testing.T) {
	const changes, pickers = 20_000, 4
	for _, policy := range policies {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p, shared := picker(policy, 0, 1)
			shared.Schedules = make([]maps.Turn, 2*changes)
			shared.Groups = make([]maps.Group, changes+1)
			for i := range uint32(changes) {
				shared.Groups[i+1] = maps.Group{Policy: uint32(policy), Schedule: write(shared, 2*i, 0, 1)}
			}
			var stop atomic.Bool
			var foreign atomic.Uint64
			var picking sync.WaitGroup
			for range pickers {
				picking.Go(func() {
					for !stop.Load() {
						e, ok := p.Pick(0, 0, nil)
						if !ok || e > 1 {
							foreign.Add(1)
						}
						if ok {
							p.Done(e)
						}
					}
				})
			}
			for i := range uint32(changes - 1) {
				atomic.StoreUint64(&shared.Clusters[0].Root, uint64(i+1)<<32|uint64(i+2))
				// Another cluster gets the old place at once.
				write(shared, 2*i, 6, 7)
			}
			stop.Store(true)
			picking.Wait()
			if n := foreign.Load(); n > 0 {
				t.Errorf("%d picks outside of the cluster", n)
			}
			for i := range shared.Endpoints {
				if n := shared.Endpoints[i].Outstanding; n != 0 {
					t.Errorf("endpoint %d: outstanding %d after all are done", i, n)
				}
			}
		})
	}
}

// TestWeightedLeastRequestSharesAsWeightByRequests holds loads fixed. Eight draws come near to the shares, but favour what is rare.
func TestWeightedLeastRequestSharesAsWeightByRequests(t *testing.T) {
	const picks = 40_000
	tests := []struct {
		name        string
		turns       []uint32
		outstanding [3]uint32
		want        [3]float64
	}{
		{"idle, by weight", []uint32{0, 0, 0, 1}, [3]uint32{0, 0}, [3]float64{0.75, 0.25}},
		{"equally busy, by weight", []uint32{0, 0, 0, 1}, [3]uint32{9, 9}, [3]float64{0.75, 0.25}},
		{"the heavier is busier", []uint32{0, 0, 0, 1}, [3]uint32{2, 0}, [3]float64{0.5, 0.5}},
		{"three", []uint32{0, 0, 1, 2}, [3]uint32{1, 0, 3}, [3]float64{4. / 9, 4. / 9, 1. / 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, shared := picker(maps.PolicyLeastWeighted, tt.turns...)
			for e, n := range tt.outstanding {
				shared.Endpoints[e].Outstanding = n
			}
			got := count(t, p, picks, nil)
			for e, want := range tt.want {
				if share := float64(got[uint32(e)]) / picks; math.Abs(share-want) > 0.06 {
					t.Errorf("share of endpoint %d: got %.3f, want %.3f", e, share, want)
				}
			}
		})
	}
}

func TestFullScanFindsTheLeastBusyAndDrawsAmongEquals(t *testing.T) {
	const picks = 30_000
	p, shared := picker(maps.PolicyLeastScan, 0, 1, 2, 3, 4)
	for e, n := range []uint32{4, 1, 1, 0, 1} {
		shared.Endpoints[e].Outstanding = n
	}
	shared.Endpoints[3].Flags = uint32(maps.EndpointDown)
	got := count(t, p, picks, nil)
	for e, want := range []float64{0, 1. / 3, 1. / 3, 0, 1. / 3} {
		if share := float64(got[uint32(e)]) / picks; math.Abs(share-want) > 0.03 {
			t.Errorf("share of endpoint %d: got %.3f, want %.3f", e, share, want)
		}
	}
}

func TestFailuresBelowTwoGroupsStay(t *testing.T) {
	const picks = 30_000
	p, shared := picker(maps.PolicyRandom, 2, 3)
	shared.Groups[1].Flags = uint32(maps.GroupOfGroups)
	shared.Groups[2].Schedule = write(shared, 8, 0)
	// The third leads to endpoint 1 and, as often, to a group without any.
	shared.Groups[3].Policy, shared.Groups[3].Flags = uint32(maps.PolicyRandom), uint32(maps.GroupOfGroups)
	shared.Groups[3].Schedule = write(shared, 12, 4, 5)
	shared.Groups[4].Schedule = write(shared, 16, 1)
	failed := 0
	for range picks {
		// Not even those that are down are asked.
		e, ok := p.PickAny(0, 0, nil)
		if !ok {
			failed++
			continue
		}
		p.Done(e)
	}
	// Ten standard deviations.
	if got := float64(failed) / picks; math.Abs(got-0.25) > 0.025 {
		t.Errorf("share of requests that fail: got %.3f, want 0.25", got)
	}
}

func TestAScanSharesAmongTheLeastBusyAlike(t *testing.T) {
	const picks = 30_000
	for name, outstanding := range map[string][]uint32{"idle": {0, 5, 0, 0}, "all busy": {1, 5, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			p, shared := picker(maps.PolicyLeastScan, 0, 1, 2, 3)
			for i, n := range outstanding {
				shared.Endpoints[i].Outstanding = n
			}
			got := count(t, p, picks, nil)
			for _, e := range []uint32{0, 2, 3} {
				if share := float64(got[e]) / picks; math.Abs(share-1./3) > 0.035 {
					t.Errorf("share of endpoint %d: got %.3f, want a third", e, share)
				}
			}
			if got[1] > 0 {
				t.Errorf("the busiest was chosen %d times", got[1])
			}
		})
	}
}
