// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// Result is what one attempt of a health check has found.
type Result uint8

// Results, from the best to the worst.
const (
	// Passed means that the answer was right.
	Passed Result = iota
	// PassedDegraded likewise, by an endpoint that calls itself degraded (x-envoy-degraded).
	PassedDegraded
	// Failed means that the answer was wrong.
	Failed
	// Retriable answers are wrong, but only count towards the threshold.
	Retriable
	// Unreachable means no connection, or one that broke.
	Unreachable
	// TimedOut means no whole answer in time.
	TimedOut
)

// Healthy reports whether the attempt has passed.
func (r Result) Healthy() bool { return r <= PassedDegraded }

var resultNames = [...]string{"passed", "passed, degraded", "wrong answer", "retriable answer", "no connection", "timeout"}

// String returns the result in words.
func (r Result) String() string { return resultNames[r] }

// Check is what the active health checks of one endpoint have found so far. Its zero value is of no use: NewCheck.
type Check struct {
	config *model.HealthCheck
	// failures and passes in a row that have not reached their threshold.
	failures, passes uint32
	checked          bool
	healthy          bool
	degraded         bool
	timedOut         bool
}

// Verdict is what an attempt has led to.
type Verdict struct {
	// Changed: the endpoint is healthy, unhealthy or degraded and was not, or was asked for the first time.
	Changed bool
	// pending: the threshold for a change has not been reached.
	pending bool
	result  Result
}

// NewCheck returns the check of an endpoint that has not been asked yet: it is unhealthy until the first attempt has passed, unless
// it was known to be healthy before.
func NewCheck(config *model.HealthCheck, healthy bool) *Check {
	return &Check{config: config, healthy: healthy, checked: healthy}
}

// TakeOver has the check begin with what another one has found, by its own rules.
func (c *Check) TakeOver(from *Check) {
	config := c.config
	*c = *from
	c.config = config
}

// Configure changes the rules.
func (c *Check) Configure(config *model.HealthCheck) { c.config = config }

// Healthy reports whether the endpoint is fit to serve.
func (c *Check) Healthy() bool { return c.healthy }

// Degraded reports whether it called itself degraded when it last passed.
func (c *Check) Degraded() bool { return c.degraded }

// TimedOut reports whether the endpoint is unhealthy and its last attempt was not answered in time.
func (c *Check) TimedOut() bool { return c.timedOut }

// Checked reports whether there has been a result.
func (c *Check) Checked() bool { return c.checked }

// Attempted takes the result of an attempt in.
func (c *Check) Attempted(r Result) Verdict {
	first := !c.checked
	c.checked = true
	var v Verdict
	if r.Healthy() {
		v = c.pass(r, first)
	} else {
		v = c.fail(r)
	}
	v.result = r
	if first {
		v.Changed, v.pending = true, false
	}
	return v
}

func (c *Check) pass(r Result, first bool) Verdict {
	var v Verdict
	c.failures = 0
	if !c.healthy {
		c.passes++
		if !first && c.passes != c.config.HealthyThreshold {
			v.pending = true
		} else {
			c.healthy, c.timedOut, v.Changed = true, false, true
		}
	}
	if degraded := r == PassedDegraded; degraded != c.degraded {
		c.degraded = degraded
		v.Changed = v.Changed || !v.pending
	}
	return v
}

func (c *Check) fail(r Result) Verdict {
	var v Verdict
	c.passes = 0
	if c.healthy {
		// A wrong answer is not a matter of chance, as a lost connection may be.
		if r != Failed {
			c.failures++
		}
		v.Changed = r == Failed || c.failures == c.config.UnhealthyThreshold
		v.pending = !v.Changed
		c.healthy = !v.Changed
	}
	c.timedOut = r == TimedOut && !c.healthy
	return v
}

// FirstWait is how long to wait before the first attempt. draw returns a random number below n.
func FirstWait(config *model.HealthCheck, draw func(n uint64) uint64) time.Duration {
	if config.InitialJitter == 0 {
		return 0
	}
	return max(jitter(config.InitialJitter, draw), time.Millisecond)
}

// Wait is how long to wait after an attempt. traffic: the cluster has had a connection.
func (c *Check) Wait(v Verdict, traffic bool, draw func(n uint64) uint64) time.Duration {
	wait := c.interval(v, traffic)
	wait += jitter(wait*time.Duration(c.config.IntervalJitterPercent)/100, draw)
	wait += jitter(c.config.IntervalJitter, draw)
	return max(wait, time.Millisecond)
}

func (c *Check) interval(v Verdict, traffic bool) time.Duration {
	i := &c.config.Intervals
	switch healthy := v.result.Healthy(); {
	case !traffic && healthy && !v.pending:
		return i.NoTrafficHealthy
	case !traffic:
		return i.NoTraffic
	case healthy && v.pending:
		return i.HealthyEdge
	case healthy:
		return i.Healthy
	case v.pending:
		return i.UnhealthyEdge
	}
	return i.Unhealthy
}

// jitter is a random part of the duration, in milliseconds as Envoy's.
func jitter(d time.Duration, draw func(n uint64) uint64) time.Duration {
	if d < time.Millisecond {
		return 0
	}
	return time.Duration(draw(uint64(d/time.Millisecond))) * time.Millisecond
}
