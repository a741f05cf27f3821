// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net/netip"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/health"
	"github.com/xlb-project/xlb/internal/logging"
	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// asking is the active health check of one endpoint. Guarded by keeper.mu.
type asking struct {
	check *health.Check
	// how says what is different for this endpoint.
	how model.EndpointCheck
	// security tells how connections to it are secured, or that it is a listener of this process; empty: they are plain text.
	security string
	stop     context.CancelFunc
}

// checkStats are Envoy's cluster.<name>.health_check counters.
type checkStats struct{ attempts, successes, failures, networkFailures atomic.Uint64 }

// askLocked starts and stops the checks of a cluster's endpoints; the sources say what is configured for each.
func (k *keeper) askLocked(w *watched, config *model.HealthCheck, sources map[netip.AddrPort]model.Endpoint) {
	same := reflect.DeepEqual(w.check, config)
	w.check = config
	var changes []reconcile.HealthChange
	for _, m := range w.members {
		e := sources[m.address]
		wanted := config != nil && !e.Check.Disabled
		if wanted && same && m.asking != nil && m.asking.how == e.Check && m.asking.security == securityOf(e) {
			continue
		}
		before := m.stopAsking()
		if wanted {
			k.startLocked(m, before, config, e)
			continue
		}
		changes = append(changes, reconcile.HealthChange{Endpoint: m.index, Clear: shared.EndpointUnhealthy | shared.EndpointDegraded})
	}
	k.tellLocked(changes...)
}

// startLocked begins to ask an endpoint. One that is in service stays there until it has failed.
func (k *keeper) startLocked(m *member, before *asking, config *model.HealthCheck, e model.Endpoint) {
	healthy := atomic.LoadUint32(&k.n.datapath.Shared.Endpoints[m.index].Flags)&uint32(shared.EndpointUnhealthy) == 0
	ctx, stop := context.WithCancel(context.Background())
	m.asking = &asking{check: health.NewCheck(config, healthy), how: e.Check, security: securityOf(e), stop: stop}
	if before != nil {
		m.asking.check = before.check
		m.asking.check.Configure(config)
	}
	a := m.asking
	e.Address = m.address
	k.n.goes(func() {
		k.ask(ctx, m, a, config, e.TLS, health.NewProbe(config, m.cluster.name, e, k.n.dialCheck(e, config.HTTP != nil)))
	})
}

func securityOf(e model.Endpoint) string {
	switch {
	case e.Inner:
		return "inner"
	case e.TLS == nil:
		return ""
	}
	return e.TLS.Key
}

// stopAsking returns what was being asked.
func (m *member) stopAsking() *asking {
	a := m.asking
	if a != nil {
		a.stop()
		m.asking = nil
	}
	return a
}

// ask makes one attempt after the other, until it is stopped. The first waits, as in Envoy, until the cluster is warm but for its health.
func (k *keeper) ask(ctx context.Context, m *member, a *asking, config *model.HealthCheck, tls *model.UpstreamTLS, probe *health.Probe) {
	defer probe.Close()
	if tls != nil && !k.n.secrets.come(ctx, tls) {
		return
	}
	for wait := health.FirstWait(config, draw); sleep(ctx, wait); {
		m.cluster.checks.attempts.Add(1)
		result, err := probe.Attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		wait = k.asked(m, a, config, result, err)
	}
}

// sleep reports whether the time has passed without an end of the context.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// asked takes the result of an attempt in, and returns how long to wait for the next one.
func (k *keeper) asked(m *member, a *asking, config *model.HealthCheck, r health.Result, err error) time.Duration {
	m.cluster.checks.count(r)
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.asking != a {
		return idle
	}
	first := !a.check.Checked()
	v := a.check.Attempted(r)
	if v.Changed {
		k.tellLocked(healthOf(m.index, a.check))
		k.n.pool.Again(m.index)
	}
	k.logCheck(m, a.check, config, r, err, first, v)
	w := m.cluster
	if a.check.Healthy() && r.Healthy() && w.detector != nil {
		if e, ok := w.detector.Passed(time.Now(), m.index); ok {
			k.changeLocked(w, []health.Ejection{e})
		}
	}
	w.used = w.used || w.requestsLocked(k) > 0
	return a.check.Wait(v, w.used, draw)
}

func (s *checkStats) count(r health.Result) {
	switch {
	case r.Healthy():
		s.successes.Add(1)
	case r == health.Unreachable || r == health.TimedOut:
		s.networkFailures.Add(1)
		s.failures.Add(1)
	default:
		s.failures.Add(1)
	}
}

// healthOf says what a check has found, in flags.
func healthOf(endpoint uint32, c *health.Check) reconcile.HealthChange {
	change := reconcile.HealthChange{Endpoint: endpoint, Clear: shared.EndpointUnhealthy | shared.EndpointDegraded}
	if !c.Healthy() {
		change.Set |= shared.EndpointUnhealthy
	}
	if c.Degraded() {
		change.Set |= shared.EndpointDegraded
	}
	return change
}

// logCheck logs changes, first failures, and what the configuration asks for.
func (k *keeper) logCheck(m *member, c *health.Check, config *model.HealthCheck, r health.Result, err error, first bool, v health.Verdict) {
	log := k.n.log.With("cluster", m.cluster.name, "endpoint", m.address)
	switch {
	case v.Changed && c.Healthy():
		log.Info("endpoint is healthy", "degraded", logging.NonZero(c.Degraded()))
	case v.Changed:
		log.Warn("endpoint is unhealthy", "check", r, "err", logging.NonZero(err))
	case !r.Healthy() && (config.LogFailures || first):
		log.Warn("health check has failed", "check", r, "err", logging.NonZero(err))
	case r.Healthy() && config.LogSuccesses:
		log.Info("health check has passed")
	}
}

// warm reports whether every check has had its first result.
func (k *keeper) warm() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.watched {
		for _, m := range w.members {
			if m.asking != nil && !m.asking.check.Checked() {
				return false
			}
		}
	}
	return true
}

// warmth is how long first results may take.
func (k *keeper) warmth() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	var longest time.Duration
	for _, w := range k.watched {
		if w.check != nil {
			longest = max(longest, w.check.InitialJitter+w.check.Timeout)
		}
	}
	return longest
}

// timedOut are the endpoints, by index, that are unhealthy and did not answer their last check in time.
func (k *keeper) timedOut() map[uint32]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	late := map[uint32]bool{}
	for _, w := range k.watched {
		for _, m := range w.members {
			if m.asking != nil && m.asking.check.TimedOut() {
				late[m.index] = true
			}
		}
	}
	return late
}

// stats are a cluster's statistics under Envoy's names; nil for one that is not watched.
func (k *keeper) stats(cluster string) map[string]uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.watched[cluster]
	if w == nil {
		return nil
	}
	stats := map[string]uint64{}
	if w.detector != nil {
		addOutlierStats(stats, w.detector.Stats())
	}
	if w.check != nil {
		w.addCheckStatsLocked(stats)
	}
	return stats
}

func addOutlierStats(stats map[string]uint64, s health.OutlierStats) {
	const prefix = "outlier_detection.ejections_"
	stats[prefix+"active"], stats[prefix+"overflow"], stats[prefix+"enforced_total"] = s.Active, s.Overflow, s.EnforcedTotal()
	for reason := range health.ReasonCount {
		stats[prefix+"enforced_"+reason.String()] = s.Enforced[reason]
		stats[prefix+"detected_"+reason.String()] = s.Detected[reason]
	}
}

func (w *watched) addCheckStatsLocked(stats map[string]uint64) {
	const prefix = "health_check."
	stats[prefix+"attempt"], stats[prefix+"success"] = w.checks.attempts.Load(), w.checks.successes.Load()
	stats[prefix+"failure"], stats[prefix+"network_failure"] = w.checks.failures.Load(), w.checks.networkFailures.Load()
	var healthy, degraded uint64
	for _, m := range w.members {
		if m.asking == nil {
			continue
		}
		if m.asking.check.Healthy() {
			healthy++
		}
		if m.asking.check.Degraded() {
			degraded++
		}
	}
	stats[prefix+"healthy"], stats[prefix+"degraded"] = healthy, degraded
}
