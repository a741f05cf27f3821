// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
)

// defaults are Envoy's, but that every endpoint may be ejected.
func defaults() model.OutlierDetection {
	return model.OutlierDetection{
		Interval: 10 * time.Second, BaseEjectionTime: 30 * time.Second, MaxEjectionTime: 300 * time.Second,
		MaxEjectionPercent:     100,
		Consecutive5xx:         model.ConsecutiveRule{Count: 5, Enforcing: 100},
		ConsecutiveGateway:     model.ConsecutiveRule{Count: 5, Enforcing: 0},
		ConsecutiveLocalOrigin: model.ConsecutiveRule{Count: 5, Enforcing: 100},
		SuccessRate:            model.SuccessRateRule{MinimumHosts: 5, RequestVolume: 100, StdevFactor: 1900, Enforcing: 100, EnforcingLocalOrigin: 100},
		FailurePercentage:      model.FailurePercentageRule{MinimumHosts: 5, RequestVolume: 50, Threshold: 85},
		UnejectOnCheck:         true,
	}
}

// rig drives a detector with a clock of its own. Chance always falls on 0.
type rig struct {
	*Detector
	now time.Time
}

func newRig(endpoints int, change func(*model.OutlierDetection)) *rig {
	config := defaults()
	if change != nil {
		change(&config)
	}
	r := &rig{NewDetector(config, func(uint64) uint64 { return 0 }), time.Unix(0, 0)}
	var list []uint32
	for i := range endpoints {
		list = append(list, uint32(i))
	}
	r.SetEndpoints(list)
	return r
}

// tick passes intervals and returns what changed in the last of them.
func (r *rig) tick(intervals int) (changes []Ejection) {
	for range intervals {
		r.now = r.now.Add(r.Config().Interval)
		changes = r.Tick(r.now)
	}
	return changes
}

func (r *rig) eject(t *testing.T, endpoint uint32) {
	t.Helper()
	if _, ok := r.Consecutive(r.now, endpoint, Consecutive5xx); !ok {
		t.Fatalf("endpoint %d was not ejected", endpoint)
	}
}

// stays returns how many intervals an endpoint that has just been ejected stays so.
func (r *rig) stays(t *testing.T, endpoint uint32) int {
	t.Helper()
	for n := 1; n < 1000; n++ {
		r.tick(1)
		if !r.Ejected(endpoint) {
			return n
		}
	}
	t.Fatal("the endpoint does not return")
	return 0
}

func TestEjectionLastsLongerEachTimeUpToItsBound(t *testing.T) {
	r := newRig(2, nil)
	var got []int
	for range 12 {
		r.eject(t, 0)
		got = append(got, r.stays(t, 0))
	}
	// Intervals of 10 s: 30 s, 60 s and so on up to 300 s.
	if diff := cmp.Diff([]int{3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 30, 30}, got); diff != "" {
		t.Error(diff)
	}
}

func TestEjectionIsForgivenByServing(t *testing.T) {
	r := newRig(2, nil)
	for range 3 {
		r.eject(t, 0)
		r.stays(t, 0)
	}
	r.tick(2)
	r.eject(t, 0)
	if got := r.stays(t, 0); got != 6 {
		t.Errorf("the fourth ejection, two intervals after the third: lasts %d intervals, want 6: 3 + 1 - 2 times 3", got)
	}
}

func TestEjectionTimeHasJitter(t *testing.T) {
	r := newRig(2, func(c *model.OutlierDetection) { c.MaxEjectionTimeJitter = 20 * time.Second })
	r.draw = func(n uint64) uint64 { return (n - 1) * 3 / 4 }
	r.config.Consecutive5xx.Enforcing = 100
	r.eject(t, 0)
	if got := r.stays(t, 0); got != 5 {
		t.Errorf("30 s and 15 s of jitter: %d intervals of 10 s, want 5", got)
	}
}

func TestNoMoreAreEjectedThanAllowed(t *testing.T) {
	tests := []struct {
		name            string
		hosts           int
		percent         uint32
		alwaysOne       bool
		want, overflows uint64
	}{
		{"10 percent of 9", 9, 10, false, 0, 9},
		{"10 percent of 10", 10, 10, false, 1, 9},
		{"10 percent of 9, but always one", 9, 10, true, 1, 8},
		{"0 percent, but always one", 3, 0, true, 1, 2},
		{"half of 5", 5, 50, false, 2, 3},
		{"all", 4, 100, false, 4, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(test.hosts, func(c *model.OutlierDetection) { c.MaxEjectionPercent, c.AlwaysEjectOne = test.percent, test.alwaysOne })
			for i := range test.hosts {
				r.Consecutive(r.now, uint32(i), Consecutive5xx)
			}
			want := OutlierStats{Active: test.want, Overflow: test.overflows}
			want.Detected[Consecutive5xx], want.Enforced[Consecutive5xx] = uint64(test.hosts), test.want
			if diff := cmp.Diff(want, r.Stats()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnforcingIsAPercentage(t *testing.T) {
	r := newRig(2, func(c *model.OutlierDetection) { c.ConsecutiveGateway.Enforcing = 30 })
	for _, draw := range []uint64{30, 99} {
		r.draw = func(uint64) uint64 { return draw }
		if _, ok := r.Consecutive(r.now, 0, ConsecutiveGateway); ok {
			t.Errorf("ejected although chance was %d of 100, with enforcing 30", draw)
		}
	}
	r.draw = func(uint64) uint64 { return 29 }
	want := Ejection{Endpoint: 0, Ejected: true, Reason: ConsecutiveGateway, Time: 30*time.Second + 29*time.Millisecond}
	got, ok := r.Consecutive(r.now, 0, ConsecutiveGateway)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("chance of 29 with enforcing 30: ok %t\n%s", ok, diff)
	}
	if s := r.Stats(); s.Detected[ConsecutiveGateway] != 3 || s.EnforcedTotal() != 1 {
		t.Errorf("detected %d, enforced %d; want 3 and 1", s.Detected[ConsecutiveGateway], s.EnforcedTotal())
	}
}

func TestWhatIsEjectedIsNotDetectedAgain(t *testing.T) {
	r := newRig(2, nil)
	r.eject(t, 0)
	if _, ok := r.Consecutive(r.now, 0, ConsecutiveGateway); ok {
		t.Error("ejected twice")
	}
	if got := r.Stats().Detected[ConsecutiveGateway]; got != 0 {
		t.Errorf("detected %d times while ejected", got)
	}
}

func TestSuccessRateFarBelowTheOthersEjects(t *testing.T) {
	tests := []struct {
		name      string
		successes []uint64 // of 100 requests each
		want      []uint32
	}{
		{"Envoy's example: mean 90, deviation 20, threshold 52", []uint64{50, 100, 100, 100, 100}, []uint32{0}},
		{"all alike", []uint64{50, 50, 50, 50, 50}, nil},
		{"two of them hide each other", []uint64{50, 50, 100, 100, 100}, nil},
		{"too few endpoints", []uint64{0, 100, 100, 100}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(len(test.successes), nil)
			for i, n := range test.successes {
				r.Count(uint32(i), External, 100, n)
			}
			var got []uint32
			for _, e := range r.tick(1) {
				got = append(got, e.Endpoint)
				if e.Reason != SuccessRate {
					t.Errorf("endpoint %d: reason %s, want %s", e.Endpoint, e.Reason, SuccessRate)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if again := r.tick(1); len(again) != 0 {
				t.Errorf("an interval without requests has changed %v", again)
			}
		})
	}
}

func TestRatesNeedTheirVolume(t *testing.T) {
	r := newRig(5, func(c *model.OutlierDetection) { c.FailurePercentage.Enforcing = 100 })
	for i := range 5 {
		r.Count(uint32(i), External, 49, 0)
	}
	if got := r.tick(1); len(got) != 0 {
		t.Errorf("49 requests with a volume of 50: %v", got)
	}
}

func TestFailurePercentageEjects(t *testing.T) {
	for _, origin := range []Origin{External, Local} {
		t.Run(rateReasons[origin].percentage.String(), func(t *testing.T) {
			r := newRig(5, func(c *model.OutlierDetection) {
				c.FailurePercentage.Enforcing, c.FailurePercentage.EnforcingLocalOrigin = 100, 100
				c.SuccessRate.Enforcing, c.SuccessRate.EnforcingLocalOrigin = 0, 0
			})
			for i, successes := range []uint64{15, 16, 100, 0, 100} {
				r.Count(uint32(i), origin, 100, successes)
			}
			var got []uint32
			for _, e := range r.tick(1) {
				got = append(got, e.Endpoint)
			}
			if diff := cmp.Diff([]uint32{0, 3}, got); diff != "" {
				t.Error(diff)
			}
			if s := r.Stats(); s.Enforced[rateReasons[origin].percentage] != 2 {
				t.Errorf("statistics: %+v", s)
			}
		})
	}
}

func TestLocalOriginFailuresInARowEject(t *testing.T) {
	r := newRig(2, func(c *model.OutlierDetection) { c.SplitLocalOrigin = true })
	for range 4 {
		r.ConnectionFailed(r.now, 0)
	}
	r.Connected(0)
	for range 4 {
		if _, ok := r.ConnectionFailed(r.now, 0); ok {
			t.Fatal("ejected before five failures in a row")
		}
	}
	if e, ok := r.ConnectionFailed(r.now, 0); !ok || e.Reason != ConsecutiveLocalOrigin {
		t.Errorf("fifth failure in a row: %+v, %t", e, ok)
	}
}

// A failure in a row that does not eject, since the rule is enforced for a share of them, is not the last one that may.
func TestLocalOriginFailuresAreCountedAnew(t *testing.T) {
	r := newRig(2, func(c *model.OutlierDetection) {
		c.SplitLocalOrigin = true
		c.ConsecutiveLocalOrigin.Enforcing = 0
	})
	for range 10 {
		r.ConnectionFailed(r.now, 0)
	}
	if s := r.Stats(); s.Detected[ConsecutiveLocalOrigin] != 2 {
		t.Errorf("ten failures in a row, by a rule of five: %+v", s)
	}
}

// The count may have passed a limit that a new configuration has made smaller.
func TestLoweredLimitOfLocalOriginFailuresEjects(t *testing.T) {
	r := newRig(2, func(c *model.OutlierDetection) { c.SplitLocalOrigin = true })
	for range 4 {
		r.ConnectionFailed(r.now, 0)
	}
	lower := r.Config()
	lower.ConsecutiveLocalOrigin.Count = 2
	r.Configure(lower)
	if _, ok := r.ConnectionFailed(r.now, 0); !ok {
		t.Error("not ejected by the limit of two")
	}
}

func TestLocalOriginRuleOfZeroIsOff(t *testing.T) {
	r := newRig(2, func(c *model.OutlierDetection) { c.ConsecutiveLocalOrigin.Count = 0 })
	for range 100 {
		if _, ok := r.ConnectionFailed(r.now, 0); ok {
			t.Fatal("ejected by a rule that is off")
		}
	}
}

func TestPassedCheckEndsEjection(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		r := newRig(2, func(c *model.OutlierDetection) { c.UnejectOnCheck = enabled })
		r.eject(t, 0)
		r.now = r.now.Add(3 * time.Second)
		_, ok := r.Passed(r.now, 0)
		if ok != enabled || r.Ejected(0) == enabled {
			t.Errorf("successful_active_health_check_uneject_host %t: ended %t, ejected %t", enabled, ok, r.Ejected(0))
		}
	}
}

func TestEndpointsThatStayKeepTheirState(t *testing.T) {
	r := newRig(3, nil)
	r.eject(t, 0)
	r.eject(t, 1)
	r.SetEndpoints([]uint32{1, 2, 7})
	if r.Ejected(0) || !r.Ejected(1) || r.Ejected(7) {
		t.Error("of 0 and 1, ejected, 1 stays, 7 is new")
	}
	if got := r.Stats().Active; got != 1 {
		t.Errorf("ejected now: %d, want 1", got)
	}
	if _, ok := r.Consecutive(r.now, 0, Consecutive5xx); ok {
		t.Error("an endpoint that has left was ejected")
	}
}
