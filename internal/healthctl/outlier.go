// SPDX-License-Identifier: Apache-2.0

package healthctl

import (
	"net/http"
	"time"

	"github.com/xlb-project/xlb/internal/health"
	"github.com/xlb-project/xlb/internal/logging"
	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// What Envoy counts a failure of the connection as, unless such failures are split from responses.
const (
	statusOfReset   = http.StatusServiceUnavailable
	statusOfTimeout = http.StatusGatewayTimeout
	// statusOfConnection is for one without HTTP that was made.
	statusOfConnection = http.StatusOK
)

// ---- results, as they come ----

// judged is an endpoint of which what requests meet with is counted. A loopback address is another server in each network namespace: where several are served, one
// says nothing of the others.
func (mgr *Manager) judged(index uint32) *member {
	m := mgr.member(index)
	if m == nil || m.address.Addr().IsLoopback() && mgr.cfg.OthersServed != nil && mgr.cfg.OthersServed() {
		return nil
	}
	return m
}

// Done takes the end of a slow request in.
func (mgr *Manager) Done(index uint32, o slowpath.Outcome) {
	m := mgr.judged(index)
	if m == nil || o == (slowpath.Outcome{}) {
		return
	}
	m.slow.Add(1)
	if o.TCP {
		o.Status = statusOfConnection
	}
	if !o.ConnectFailed {
		mgr.connected(m)
	}
	if o.Status != 0 {
		m.tallies[health.External].add(o.Status < http.StatusInternalServerError)
		mgr.status(m, o.Status)
	}
	mgr.fault(m, o.Fault())
}

// Lost takes a lease in that has ended without its response.
func (mgr *Manager) Lost(l pool.Lost) {
	m := mgr.judged(l.Endpoint)
	if m == nil || l.Whole {
		return
	}
	switch l.Why {
	case pool.Reset:
		mgr.fault(m, slowpath.FaultReset)
	case pool.Timeout:
		mgr.fault(m, slowpath.FaultTimeout)
	case pool.Stalled, pool.RequestTimeout: // Envoy does not blame the endpoint
	}
}

// Relayed takes a response in that the kernel had asked for and the daemon has forwarded from its head. Its status is in the slot's traffic.
func (mgr *Manager) Relayed(index uint32, r slowpath.RelayResult) {
	m := mgr.judged(index)
	if m == nil {
		return
	}
	if r.Flag == slowpath.FlagNone {
		mgr.status(m, r.Status)
	}
	mgr.fault(m, r.Fault())
}

// Attempted takes the outcome of an attempt in that the kernel has made and the daemon judges. It stands nowhere else.
func (mgr *Manager) Attempted(index uint32, o slowpath.Outcome) {
	m := mgr.judged(index)
	if m == nil {
		return
	}
	if o.Status != 0 {
		m.tallies[health.External].add(o.Status < http.StatusInternalServerError)
		mgr.status(m, o.Status)
	}
	mgr.fault(m, o.Fault())
}

// Refused takes a connection in that the pool could not make.
func (mgr *Manager) Refused(index uint32, open int) {
	if mgr.judged(index) == nil {
		return
	}
	h := delta{refused: 1}
	if open > 0 {
		h.connected = 1
	}
	mgr.events.add(index, h)
}

// Reached takes an event of the kernel in.
func (mgr *Manager) Reached(index uint32, reached shared.Outlier) {
	mgr.events.add(index, delta{reached: reached})
}

func (mgr *Manager) status(m *member, status int) {
	if reached := mgr.cfg.Shared.CountStatus(m.index, status); reached != 0 {
		mgr.Reached(m.index, reached)
	}
}

// connected notes a connection that was made or used for a request.
func (mgr *Manager) connected(m *member) {
	if m.cluster.split.Load() {
		m.tallies[health.Local].add(true)
		mgr.events.add(m.index, delta{connected: 1})
	}
}

// fault counts what an endpoint is to be blamed for as a response, or apart from those.
func (mgr *Manager) fault(m *member, f slowpath.Fault) {
	switch {
	case f == slowpath.NoFault:
	case m.cluster.split.Load():
		h := delta{failures: 1}
		if f != slowpath.FaultConnect {
			h.connected = 1
		}
		mgr.events.add(m.index, h)
	case f == slowpath.FaultTimeout:
		m.tallies[health.External].add(false)
		mgr.status(m, statusOfTimeout)
	default:
		m.tallies[health.External].add(false)
		mgr.status(m, statusOfReset)
	}
}

// ---- what the manager makes of them ----

func (mgr *Manager) detectLocked(w *watched, config *model.OutlierDetection) {
	if config == nil {
		mgr.undetectLocked(w)
		return
	}
	if w.detector == nil {
		w.detector = health.NewDetector(*config, draw)
		w.due = time.Now().Add(config.Interval)
	}
	if next := time.Now().Add(config.Interval); next.Before(w.due) {
		w.due = next
	}
	w.split.Store(config.SplitLocalOrigin)
	w.detector.Configure(*config)
	indices := make([]uint32, len(w.members))
	for i, m := range w.members {
		indices[i] = m.index
		mgr.cfg.Shared.SetErrorLimits(m.index, config.Consecutive5xx.Count, config.ConsecutiveGateway.Count)
	}
	w.detector.SetEndpoints(indices)
}

// undetectLocked lets all endpoints return.
func (mgr *Manager) undetectLocked(w *watched) {
	if w.detector == nil {
		return
	}
	var changes []reconcile.HealthChange
	for _, m := range w.members {
		mgr.cfg.Shared.SetErrorLimits(m.index, 0, 0)
		changes = append(changes, reconcile.HealthChange{Endpoint: m.index, Clear: shared.EndpointEjected})
	}
	w.detector = nil
	mgr.publishLocked(changes...)
}

func (mgr *Manager) takeLocked(now time.Time, m *member, h delta) {
	var ejections []health.Ejection
	if h.connected > 0 {
		m.cluster.detector.Connected(m.index)
	}
	for range h.failures {
		ejections = mgr.failedLocked(now, m, ejections)
	}
	if h.refused > 0 && m.cluster.hasServedLocked(mgr) {
		ejections = mgr.failedLocked(now, m, ejections)
	}
	mgr.changeLocked(m.cluster, mgr.reachedLocked(now, m, h.reached, ejections))
}

// failedLocked counts a failure of a connection.
func (mgr *Manager) failedLocked(now time.Time, m *member, ejections []health.Ejection) []health.Ejection {
	d := m.cluster.detector
	if !d.Config().SplitLocalOrigin {
		m.tallies[health.External].add(false)
		return mgr.reachedLocked(now, m, mgr.cfg.Shared.CountStatus(m.index, statusOfReset), ejections)
	}
	if e, ok := d.ConnectionFailed(now, m.index); ok {
		ejections = append(ejections, e)
	}
	return ejections
}

// hasServedLocked reports whether the cluster has had requests since a refused connection was last counted. The pool connects without being
// asked: what is no request's loss is no failure to Envoy.
func (w *watched) hasServedLocked(mgr *Manager) bool {
	requests := w.requestsLocked(mgr)
	served := requests != w.requestsSeen
	w.requestsSeen = requests
	return served
}

func (w *watched) requestsLocked(mgr *Manager) uint64 {
	var sum uint64
	for _, m := range w.members {
		traffic := mgr.traffic.of(mgr.cfg.Shared, m.index)
		sum += traffic.Requests + m.slow.Load()
	}
	return sum
}

// reachedLocked judges errors in a row that have reached a limit; in Envoy's order.
func (mgr *Manager) reachedLocked(now time.Time, m *member, reached shared.Outlier, ejections []health.Ejection) []health.Ejection {
	for _, limit := range []struct {
		which  shared.Outlier
		reason health.Reason
	}{
		{shared.OutlierGatewayErrors, health.ConsecutiveGateway},
		{shared.OutlierErrors, health.Consecutive5xx},
	} {
		if reached&limit.which == 0 {
			continue
		}
		mgr.cfg.Shared.ForgetErrors(m.index, limit.which)
		if e, ok := m.cluster.detector.Consecutive(now, m.index, limit.reason); ok {
			ejections = append(ejections, e)
		}
	}
	return ejections
}

// tickLocked ends an interval of a cluster.
func (mgr *Manager) tickLocked(now time.Time, w *watched) {
	for _, m := range w.members {
		mgr.countLocked(m)
	}
	changes := w.detector.Tick(now)
	for _, m := range w.members {
		changes = mgr.reachedLocked(now, m, mgr.cfg.Shared.ReachedLimits(m.index), changes)
	}
	w.due = now.Add(w.detector.Config().Interval)
	mgr.changeLocked(w, changes)
}

// countLocked gives the detector what has come since it last looked.
func (mgr *Manager) countLocked(m *member) {
	d, before := m.cluster.detector, m.seen
	m.seen = mgr.traffic.of(mgr.cfg.Shared, m.index)
	var successes uint64
	for class := 1; class < 4; class++ {
		successes += m.seen.Responses[class] - before.Responses[class]
	}
	d.Count(m.index, health.External, successes+m.seen.Responses[4]-before.Responses[4], successes)
	if leases := m.seen.Requests - before.Requests; d.Config().SplitLocalOrigin {
		d.Count(m.index, health.Local, leases, leases)
	}
	for origin := range m.tallies {
		t := &m.tallies[origin]
		d.Count(m.index, health.Origin(origin), t.total.Swap(0), t.successes.Swap(0))
	}
}

// changeLocked puts ejections and returns in force.
func (mgr *Manager) changeLocked(w *watched, ejections []health.Ejection) {
	changes := make([]reconcile.HealthChange, 0, len(ejections))
	for _, e := range ejections {
		change := reconcile.HealthChange{Endpoint: e.Endpoint, Clear: shared.EndpointEjected}
		if e.Ejected {
			change = reconcile.HealthChange{Endpoint: e.Endpoint, Set: shared.EndpointEjected}
		} else {
			// A few errors more would be enough otherwise.
			mgr.cfg.Shared.ForgetErrors(e.Endpoint, shared.OutlierErrors|shared.OutlierGatewayErrors)
			mgr.cfg.Returned(e.Endpoint)
		}
		changes = append(changes, change)
		mgr.logLocked(w, e)
	}
	mgr.publishLocked(changes...)
}

func (mgr *Manager) logLocked(w *watched, e health.Ejection) {
	address := mgr.member(e.Endpoint).address
	if e.Ejected {
		mgr.cfg.Logger.Warn("endpoint is ejected", "cluster", w.key.Name, "view", logging.NonZero(w.views), "endpoint", address, "reason", e.Reason, "for", e.Time)
		return
	}
	mgr.cfg.Logger.Info("endpoint returns", "cluster", w.key.Name, "view", logging.NonZero(w.views), "endpoint", address, "ejected_for", e.Time.Round(time.Millisecond))
}
