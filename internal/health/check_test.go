// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
)

// checkConfig has a different length for every interval, so that a test sees which was taken.
func checkConfig() *model.HealthCheck {
	return &model.HealthCheck{
		Timeout: time.Second, UnhealthyThreshold: 3, HealthyThreshold: 2,
		Intervals: model.CheckIntervals{
			Healthy: 1 * time.Second, Unhealthy: 2 * time.Second, HealthyEdge: 3 * time.Second, UnhealthyEdge: 4 * time.Second,
			NoTraffic: 60 * time.Second, NoTrafficHealthy: 50 * time.Second,
		},
	}
}

// step is an attempt and what the check says after it.
type step struct {
	Result   Result
	Healthy  bool
	Degraded bool
	Changed  bool
	Wait     time.Duration
}

func none(uint64) uint64 { return 0 }

func TestCheckFollowsEnvoysThresholds(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name    string
		healthy bool // before the first attempt
		steps   []step
	}{
		{"the first pass is enough", false, []step{
			{Result: Passed, Healthy: true, Changed: true, Wait: 1 * s},
			{Result: Passed, Healthy: true, Wait: 1 * s},
		}},
		{"behind a first failure the threshold counts", false, []step{
			{Result: Unreachable, Changed: true, Wait: 2 * s},
			{Result: Passed, Wait: 3 * s},
			{Result: Passed, Healthy: true, Changed: true, Wait: 1 * s},
		}},
		{"lost connections and timeouts count together", true, []step{
			{Result: Unreachable, Healthy: true, Wait: 4 * s},
			{Result: TimedOut, Healthy: true, Wait: 4 * s},
			{Result: Retriable, Changed: true, Wait: 2 * s},
			{Result: Unreachable, Wait: 2 * s},
		}},
		{"a pass between failures begins the count anew", true, []step{
			{Result: Unreachable, Healthy: true, Wait: 4 * s},
			{Result: Unreachable, Healthy: true, Wait: 4 * s},
			{Result: Passed, Healthy: true, Wait: 1 * s},
			{Result: Unreachable, Healthy: true, Wait: 4 * s},
			{Result: Unreachable, Healthy: true, Wait: 4 * s},
			{Result: Unreachable, Changed: true, Wait: 2 * s},
		}},
		{"a wrong answer is enough", true, []step{
			{Result: Failed, Changed: true, Wait: 2 * s},
			{Result: Passed, Wait: 3 * s},
			{Result: Failed, Wait: 2 * s},
			{Result: Passed, Wait: 3 * s},
			{Result: Passed, Healthy: true, Changed: true, Wait: 1 * s},
		}},
		{"degraded and back", true, []step{
			{Result: PassedDegraded, Healthy: true, Degraded: true, Changed: true, Wait: 1 * s},
			{Result: PassedDegraded, Healthy: true, Degraded: true, Wait: 1 * s},
			{Result: Passed, Healthy: true, Changed: true, Wait: 1 * s},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := NewCheck(checkConfig(), test.healthy)
			for i, want := range test.steps {
				v := c.Attempted(want.Result)
				got := step{want.Result, c.Healthy(), c.Degraded(), v.Changed, c.Wait(v, true, none)}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("attempt %d, %s (-want +got):\n%s", i+1, want.Result, diff)
				}
			}
		})
	}
}

func TestClustersWithoutTrafficAreAskedSeldom(t *testing.T) {
	for _, test := range []struct {
		results []Result
		want    time.Duration
	}{
		{[]Result{Passed}, 50 * time.Second},
		{[]Result{Unreachable}, 60 * time.Second},
		{[]Result{Unreachable, Passed}, 60 * time.Second},
		{[]Result{Passed, Unreachable}, 60 * time.Second},
	} {
		c := NewCheck(checkConfig(), false)
		var v Verdict
		for _, r := range test.results {
			v = c.Attempted(r)
		}
		if got := c.Wait(v, false, none); got != test.want {
			t.Errorf("after %v: next attempt in %s, want %s", test.results, got, test.want)
		}
	}
}

func TestWaitHasJitter(t *testing.T) {
	config := checkConfig()
	config.IntervalJitter, config.IntervalJitterPercent = 100*time.Millisecond, 20
	most := func(n uint64) uint64 { return n - 1 }
	c := NewCheck(config, true)
	v := c.Attempted(Passed)
	if got, want := c.Wait(v, true, most), 1298*time.Millisecond; got != want {
		t.Errorf("1 s, up to 20 percent and up to 100 ms: got %s, want %s", got, want)
	}
	config.Intervals.Healthy = 0
	config.IntervalJitter = 0
	if got := c.Wait(v, true, most); got != time.Millisecond {
		t.Errorf("without any interval: got %s, want the least, 1 ms", got)
	}
}

func TestFirstWaitIsUpToItsJitter(t *testing.T) {
	config := checkConfig()
	if got := FirstWait(config, none); got != 0 {
		t.Errorf("without jitter: %s, want at once", got)
	}
	config.InitialJitter = time.Second
	if got := FirstWait(config, func(n uint64) uint64 { return n - 1 }); got != 999*time.Millisecond {
		t.Errorf("most of 1 s: got %s", got)
	}
}

func TestTimeoutShowsOnlyWhileUnhealthy(t *testing.T) {
	c := NewCheck(checkConfig(), true)
	for range 3 {
		if c.TimedOut() {
			t.Fatal("a healthy endpoint is called timed out")
		}
		c.Attempted(TimedOut)
	}
	if !c.TimedOut() {
		t.Error("unhealthy by timeouts, but not called timed out")
	}
	c.Attempted(Unreachable)
	if c.TimedOut() {
		t.Error("the last attempt was refused, and is called timed out")
	}
}
