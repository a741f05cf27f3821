// SPDX-License-Identifier: Apache-2.0

package healthctl

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

// prober is the active health check of one endpoint. Guarded by Manager.mu.
type prober struct {
	check *health.Check
	// how says what is different for this endpoint.
	how model.EndpointCheck
	// security tells how connections to it are secured, or that it is a listener of this process; empty: they are plain text.
	security string
	stop     context.CancelFunc
}

// checkStats are Envoy's cluster.<name>.health_check counters.
type checkStats struct{ attempts, successes, failures, networkFailures atomic.Uint64 }

// probeLocked starts and stops the checks of a cluster's endpoints; the sources say what is configured for each.
func (mgr *Manager) probeLocked(w *watched, config *model.HealthCheck, sources map[netip.AddrPort]model.Endpoint) {
	same := reflect.DeepEqual(w.check, config)
	w.check = config
	var changes []reconcile.HealthChange
	for _, m := range w.members {
		e := sources[m.address]
		wanted := config != nil && !e.Check.Disabled
		if wanted && same && m.prober != nil && m.prober.how == e.Check && m.prober.security == securityOf(e) {
			continue
		}
		before := m.stopProber()
		if wanted {
			mgr.startLocked(m, before, config, e)
			continue
		}
		changes = append(changes, reconcile.HealthChange{Endpoint: m.index, Clear: shared.EndpointUnhealthy | shared.EndpointDegraded})
	}
	mgr.publishLocked(changes...)
}

// startLocked begins to check an endpoint. One that is in service stays there until it has failed.
func (mgr *Manager) startLocked(m *member, before *prober, config *model.HealthCheck, e model.Endpoint) {
	healthy := atomic.LoadUint32(&mgr.cfg.Shared.Endpoints[m.index].Flags)&uint32(shared.EndpointUnhealthy) == 0
	ctx, stop := context.WithCancel(context.Background())
	m.prober = &prober{check: health.NewCheck(config, healthy), how: e.Check, security: securityOf(e), stop: stop}
	if before != nil {
		m.prober.check = before.check
		m.prober.check.Configure(config)
	}
	pr := m.prober
	e.Address = m.address
	dial := mgr.cfg.Dial(m.cluster.view, e, config.HTTP != nil)
	mgr.cfg.Spawn(func() {
		mgr.probe(ctx, m, pr, config, e.TLS, health.NewProbe(config, m.cluster.key.Name, e, dial))
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

// stopProber returns the prober that it has stopped. It is nil without one.
func (m *member) stopProber() *prober {
	was := m.prober
	if was != nil {
		was.stop()
		m.prober = nil
	}
	return was
}

// probe makes one attempt after the other, until it is stopped. The first waits, as in Envoy, until the cluster is warm but for its health.
func (mgr *Manager) probe(ctx context.Context, m *member, pr *prober, config *model.HealthCheck, tls *model.UpstreamTLS, p *health.Probe) {
	defer p.Close()
	if tls != nil && !mgr.cfg.AwaitSecrets(ctx, tls) {
		return
	}
	for wait := health.FirstWait(config, draw); sleep(ctx, wait); {
		m.cluster.checks.attempts.Add(1)
		result, err := p.Attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		wait = mgr.probed(m, pr, config, result, err)
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

// probed takes the result of an attempt in, and returns how long to wait for the next one.
func (mgr *Manager) probed(m *member, pr *prober, config *model.HealthCheck, r health.Result, err error) time.Duration {
	m.cluster.checks.count(r)
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	if m.prober != pr {
		return idle
	}
	first := !pr.check.Checked()
	v := pr.check.Attempted(r)
	if v.Changed {
		mgr.publishLocked(healthOf(m.index, pr.check))
		mgr.cfg.Returned(m.index)
	}
	mgr.logCheck(m, pr.check, config, r, err, first, v)
	w := m.cluster
	if pr.check.Healthy() && r.Healthy() && w.detector != nil {
		if e, ok := w.detector.Passed(time.Now(), m.index); ok {
			mgr.changeLocked(w, []health.Ejection{e})
		}
	}
	w.used = w.used || w.requestsLocked(mgr) > 0
	return pr.check.Wait(v, w.used, draw)
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
func (mgr *Manager) logCheck(m *member, c *health.Check, config *model.HealthCheck, r health.Result, err error, first bool, v health.Verdict) {
	log := mgr.cfg.Logger.With("cluster", m.cluster.key.Name, "view", logging.NonZero(m.cluster.views), "endpoint", m.address)
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

// Warm reports whether every check has had its first result.
func (mgr *Manager) Warm() bool {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	for _, w := range mgr.watched {
		for _, m := range w.members {
			if m.prober != nil && !m.prober.check.Checked() {
				return false
			}
		}
	}
	return true
}

// FirstResults is how long first results may take.
func (mgr *Manager) FirstResults() time.Duration {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	var longest time.Duration
	for _, w := range mgr.watched {
		if w.check != nil {
			longest = max(longest, w.check.InitialJitter+w.check.Timeout)
		}
	}
	return longest
}

// TimedOut are the endpoints, by index, that are unhealthy and did not answer their last check in time.
func (mgr *Manager) TimedOut() map[uint32]bool {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	late := map[uint32]bool{}
	for _, w := range mgr.watched {
		for _, m := range w.members {
			if m.prober != nil && m.prober.check.TimedOut() {
				late[m.index] = true
			}
		}
	}
	return late
}

// Stats are a cluster's statistics under Envoy's names; nil for one that is not watched.
func (mgr *Manager) Stats(cluster model.ClusterKey) map[string]uint64 {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	w := mgr.watched[cluster]
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
		if m.prober == nil {
			continue
		}
		if m.prober.check.Healthy() {
			healthy++
		}
		if m.prober.check.Degraded() {
			degraded++
		}
	}
	stats[prefix+"healthy"], stats[prefix+"degraded"] = healthy, degraded
}
