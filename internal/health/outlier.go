// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// Detector ejects the endpoints of one cluster whose requests fail: Envoy's outlier detection. Whoever calls it counts failures
// in a row of responses, because kernel and slow path do that together; the rest is counted here. Not safe for concurrent use.
type Detector struct {
	config model.OutlierDetection
	// draw returns a random number below n.
	draw func(n uint64) uint64
	// hosts are in the order of the configuration, so that equal histories end alike.
	hosts []*host
	at    map[uint32]*host
	stats OutlierStats
}

// host is an endpoint as the detector knows it.
type host struct {
	endpoint uint32
	ejected  bool
	// since is when the last ejection began; returned is when it ended, zero before the first.
	since, returned time.Time
	// backoff multiplies the time of ejection; jitter is added to it.
	backoff uint32
	jitter  time.Duration
	// localFailures in a row.
	localFailures uint32
	rates         [originCount]rate
}

// Ejection is a change of an endpoint's state.
type Ejection struct {
	Endpoint uint32
	// Ejected or returned.
	Ejected bool
	// Reason of the ejection, and how long it lasts at least, or lasted.
	Reason Reason
	Time   time.Duration
}

// OutlierStats are Envoy's cluster.<name>.outlier_detection statistics.
type OutlierStats struct {
	// Active is how many endpoints are ejected now.
	Active uint64
	// Enforced led to an ejection; Detected might have, had chance and the percentage allowed it.
	Enforced, Detected [ReasonCount]uint64
	// Overflow counts ejections that max_ejection_percent forbade.
	Overflow uint64
}

// EnforcedTotal is how many ejections there were.
func (s *OutlierStats) EnforcedTotal() uint64 {
	var sum uint64
	for _, n := range s.Enforced {
		sum += n
	}
	return sum
}

// NewDetector returns a detector without endpoints. draw returns a random number below n, which is at least 1.
func NewDetector(config model.OutlierDetection, draw func(n uint64) uint64) *Detector {
	return &Detector{config: config, draw: draw, at: map[uint32]*host{}}
}

// SetEndpoints makes these the cluster's endpoints. What is known of those that stay is kept, that of others forgotten.
func (d *Detector) SetEndpoints(endpoints []uint32) {
	known := d.at
	d.at, d.hosts = map[uint32]*host{}, make([]*host, 0, len(endpoints))
	d.stats.Active = 0
	for _, e := range endpoints {
		h := known[e]
		if h == nil {
			h = &host{endpoint: e}
		}
		d.at[e] = h
		d.hosts = append(d.hosts, h)
		if h.ejected {
			d.stats.Active++
		}
	}
}

// TakeOver has an endpoint begin with what another detector knows of it, by another number.
func (d *Detector) TakeOver(endpoint uint32, from *Detector, number uint32) {
	h, known := d.at[endpoint], from.at[number]
	if h == nil || known == nil || h.ejected {
		return
	}
	*h = *known
	h.endpoint = endpoint
	if h.ejected {
		d.stats.Active++
	}
}

// Configure changes the rules; ejections that are under way end by the new ones.
func (d *Detector) Configure(config model.OutlierDetection) { d.config = config }

// Config returns the rules.
func (d *Detector) Config() model.OutlierDetection { return d.config }

// Stats returns what was counted.
func (d *Detector) Stats() OutlierStats { return d.stats }

// Ejected reports whether an endpoint is ejected.
func (d *Detector) Ejected(endpoint uint32) bool {
	h := d.at[endpoint]
	return h != nil && h.ejected
}

// Consecutive is told that an endpoint has failed as often in a row as the rule for that reason says. ok is false when
// that changes nothing; whoever counts begins anew in any case.
func (d *Detector) Consecutive(now time.Time, endpoint uint32, reason Reason) (e Ejection, ok bool) {
	h := d.at[endpoint]
	if h == nil || h.ejected {
		return Ejection{}, false
	}
	if reason == ConsecutiveLocalOrigin {
		h.localFailures = 0
	}
	return d.detected(now, h, reason)
}

// Count adds requests of the running interval to an endpoint's success rate.
func (d *Detector) Count(endpoint uint32, origin Origin, total, successes uint64) {
	if h := d.at[endpoint]; h != nil {
		h.rates[origin].add(total, successes)
	}
}

// Connected is told that a connection to the endpoint was made, or used, for a request. It matters with SplitLocalOrigin only.
func (d *Detector) Connected(endpoint uint32) {
	if h := d.at[endpoint]; h != nil {
		h.localFailures = 0
	}
}

// ConnectionFailed is told of a local-origin failure, and ejects when it is one too many in a row. It must be called with
// SplitLocalOrigin only: otherwise such a failure counts as a response, of 503 or, for a timeout, 504.
func (d *Detector) ConnectionFailed(now time.Time, endpoint uint32) (e Ejection, ok bool) {
	h := d.at[endpoint]
	if h == nil {
		return Ejection{}, false
	}
	h.rates[Local].add(1, 0)
	h.localFailures++
	// More than so many: a configuration that asked for more has been replaced.
	if limit := d.config.ConsecutiveLocalOrigin.Count; limit == 0 || h.localFailures < limit {
		return Ejection{}, false
	}
	return d.Consecutive(now, endpoint, ConsecutiveLocalOrigin)
}

// Passed is told that an active health check of the endpoint has passed, and that it is not failed by such checks.
func (d *Detector) Passed(now time.Time, endpoint uint32) (e Ejection, ok bool) {
	h := d.at[endpoint]
	if h == nil || !h.ejected || !d.config.UnejectOnCheck {
		return Ejection{}, false
	}
	return d.uneject(now, h), true
}

// Tick ends an interval: endpoints return whose time is over, and those are ejected whose success rate was too low. It is
// to be called every Interval; whoever counts failures in a row begins anew for endpoints that return.
func (d *Detector) Tick(now time.Time) []Ejection {
	var changes []Ejection
	for _, h := range d.hosts {
		if h.ejected && now.Sub(h.since) >= d.ejectionTime(h) {
			changes = append(changes, d.uneject(now, h))
		}
		for o := range h.rates {
			h.rates[o].turn()
		}
	}
	for origin := range originCount {
		changes = append(changes, d.judgeRates(now, origin)...)
	}
	for _, h := range d.hosts {
		d.forgive(now, h)
	}
	return changes
}

// forgive shortens the next ejection of an endpoint that has served for an interval since its last one.
func (d *Detector) forgive(now time.Time, h *host) {
	if !h.ejected && h.backoff > 0 && !h.returned.IsZero() && now.Sub(h.returned) >= d.config.Interval {
		h.backoff--
	}
}

func (d *Detector) ejectionTime(h *host) time.Duration {
	return min(d.config.BaseEjectionTime*time.Duration(h.backoff), d.config.MaxEjectionTime) + h.jitter
}

// detected ejects if percentage and chance allow it.
func (d *Detector) detected(now time.Time, h *host, reason Reason) (Ejection, bool) {
	d.stats.Detected[reason]++
	if h.ejected {
		return Ejection{}, false
	}
	if !d.mayEject() {
		d.stats.Overflow++
		return Ejection{}, false
	}
	if d.draw(100) >= uint64(d.enforcing(reason)) {
		return Ejection{}, false
	}
	d.stats.Enforced[reason]++
	return d.eject(now, h, reason), true
}

func (d *Detector) eject(now time.Time, h *host, reason Reason) Ejection {
	d.stats.Active++
	h.ejected, h.since = true, now
	h.jitter = time.Duration(d.draw(uint64(d.config.MaxEjectionTimeJitter/time.Millisecond)+1)) * time.Millisecond
	if d.config.BaseEjectionTime*time.Duration(h.backoff) < d.config.MaxEjectionTime+d.config.BaseEjectionTime {
		h.backoff++
	}
	return Ejection{Endpoint: h.endpoint, Ejected: true, Reason: reason, Time: d.ejectionTime(h)}
}

func (d *Detector) uneject(now time.Time, h *host) Ejection {
	d.stats.Active--
	h.ejected, h.returned, h.localFailures = false, now, 0
	return Ejection{Endpoint: h.endpoint, Time: now.Sub(h.since)}
}

// mayEject asks max_ejection_percent about one more.
func (d *Detector) mayEject() bool {
	if d.config.AlwaysEjectOne && d.stats.Active == 0 {
		return true
	}
	return (d.stats.Active+1)*100 <= uint64(min(d.config.MaxEjectionPercent, 100))*uint64(len(d.hosts))
}

func (d *Detector) enforcing(reason Reason) uint32 {
	c := &d.config
	return [ReasonCount]uint32{
		Consecutive5xx:               c.Consecutive5xx.Enforcing,
		ConsecutiveGateway:           c.ConsecutiveGateway.Enforcing,
		ConsecutiveLocalOrigin:       c.ConsecutiveLocalOrigin.Enforcing,
		SuccessRate:                  c.SuccessRate.Enforcing,
		LocalOriginSuccessRate:       c.SuccessRate.EnforcingLocalOrigin,
		FailurePercentage:            c.FailurePercentage.Enforcing,
		LocalOriginFailurePercentage: c.FailurePercentage.EnforcingLocalOrigin,
	}[reason]
}
