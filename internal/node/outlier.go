// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/http"
	"time"

	"github.com/xlb-project/xlb/internal/health"
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

// done takes the end of a slow request in.
func (k *keeper) done(index uint32, o slowpath.Outcome) {
	m := k.member(index)
	if m == nil || o == (slowpath.Outcome{}) {
		return
	}
	m.slow.Add(1)
	if o.Plain {
		o.Status = statusOfConnection
	}
	if !o.ConnectFailed {
		k.connected(m)
	}
	if o.Status != 0 {
		m.tallies[health.External].add(o.Status < http.StatusInternalServerError)
		k.status(m, o.Status)
	}
	k.fault(m, o.Fault())
}

// lost takes a lease in that has ended without its response.
func (k *keeper) lost(l pool.Lost) {
	m := k.member(l.Endpoint)
	if m == nil || l.Whole {
		return
	}
	switch l.Why {
	case pool.Reset:
		k.fault(m, slowpath.FaultReset)
	case pool.Timeout:
		k.fault(m, slowpath.FaultTimeout)
	case pool.Stalled, pool.RequestTimeout: // Envoy does not blame the endpoint
	}
}

// relayed takes a response in that the kernel had asked for and the daemon has forwarded from its head. Its status is in the slot's traffic.
func (k *keeper) relayed(index uint32, r slowpath.RelayResult) {
	m := k.member(index)
	if m == nil {
		return
	}
	if r.Flag == slowpath.FlagNone {
		k.status(m, r.Status)
	}
	k.fault(m, r.Fault())
}

// decided takes the outcome of an attempt in that the kernel had made and the daemon has decided about. It stands nowhere else.
func (k *keeper) decided(index uint32, o slowpath.Outcome) {
	m := k.member(index)
	if m == nil {
		return
	}
	if o.Status != 0 {
		m.tallies[health.External].add(o.Status < http.StatusInternalServerError)
		k.status(m, o.Status)
	}
	k.fault(m, o.Fault())
}

// refused takes a connection in that the pool could not make.
func (k *keeper) refused(index uint32, open int) {
	if k.member(index) == nil {
		return
	}
	h := heard{refused: 1}
	if open > 0 {
		h.connected = 1
	}
	k.news.add(index, h)
}

// outlier takes an event of the kernel in.
func (k *keeper) outlier(index uint32, reached shared.Outlier) {
	k.news.add(index, heard{reached: reached})
}

func (k *keeper) status(m *member, status int) {
	if reached := k.n.datapath.Shared.CountStatus(m.index, status); reached != 0 {
		k.outlier(m.index, reached)
	}
}

// connected notes a connection that was made or used for a request.
func (k *keeper) connected(m *member) {
	if m.cluster.split.Load() {
		m.tallies[health.Local].add(true)
		k.news.add(m.index, heard{connected: 1})
	}
}

// fault counts what an endpoint is to be blamed for as a response, or apart from those.
func (k *keeper) fault(m *member, f slowpath.Fault) {
	switch {
	case f == slowpath.NoFault:
	case m.cluster.split.Load():
		h := heard{failures: 1}
		if f != slowpath.FaultConnect {
			h.connected = 1
		}
		k.news.add(m.index, h)
	case f == slowpath.FaultTimeout:
		m.tallies[health.External].add(false)
		k.status(m, statusOfTimeout)
	default:
		m.tallies[health.External].add(false)
		k.status(m, statusOfReset)
	}
}

// ---- what the keeper makes of them ----

func (k *keeper) detectLocked(w *watched, config *model.OutlierDetection) {
	if config == nil {
		k.undetectLocked(w)
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
		k.n.datapath.Shared.SetErrorLimits(m.index, config.Consecutive5xx.Count, config.ConsecutiveGateway.Count)
	}
	w.detector.SetEndpoints(indices)
}

// undetectLocked lets all endpoints return.
func (k *keeper) undetectLocked(w *watched) {
	if w.detector == nil {
		return
	}
	var changes []reconcile.HealthChange
	for _, m := range w.members {
		k.n.datapath.Shared.SetErrorLimits(m.index, 0, 0)
		changes = append(changes, reconcile.HealthChange{Endpoint: m.index, Clear: shared.EndpointEjected})
	}
	w.detector = nil
	k.tellLocked(changes...)
}

func (k *keeper) hearLocked(now time.Time, m *member, h heard) {
	var ejections []health.Ejection
	if h.connected > 0 {
		m.cluster.detector.Connected(m.index)
	}
	for range h.failures {
		ejections = k.failedLocked(now, m, ejections)
	}
	if h.refused > 0 && m.cluster.hasServedLocked(k) {
		ejections = k.failedLocked(now, m, ejections)
	}
	k.changeLocked(m.cluster, k.reachedLocked(now, m, h.reached, ejections))
}

// failedLocked counts a failure of a connection.
func (k *keeper) failedLocked(now time.Time, m *member, ejections []health.Ejection) []health.Ejection {
	d := m.cluster.detector
	if !d.Config().SplitLocalOrigin {
		m.tallies[health.External].add(false)
		return k.reachedLocked(now, m, k.n.datapath.Shared.CountStatus(m.index, statusOfReset), ejections)
	}
	if e, ok := d.ConnectionFailed(now, m.index); ok {
		ejections = append(ejections, e)
	}
	return ejections
}

// hasServedLocked reports whether the cluster has had requests since a refused connection was last counted. The pool connects without being
// asked: what is no request's loss is no failure to Envoy.
func (w *watched) hasServedLocked(k *keeper) bool {
	requests := w.requestsLocked(k)
	served := requests != w.counted
	w.counted = requests
	return served
}

func (w *watched) requestsLocked(k *keeper) uint64 {
	var sum uint64
	for _, m := range w.members {
		traffic := k.traffic.of(k.n.datapath.Shared, m.index)
		sum += traffic.Requests + m.slow.Load()
	}
	return sum
}

// reachedLocked judges errors in a row that have reached a limit; in Envoy's order.
func (k *keeper) reachedLocked(now time.Time, m *member, reached shared.Outlier, ejections []health.Ejection) []health.Ejection {
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
		k.n.datapath.Shared.ForgetErrors(m.index, limit.which)
		if e, ok := m.cluster.detector.Consecutive(now, m.index, limit.reason); ok {
			ejections = append(ejections, e)
		}
	}
	return ejections
}

// tickLocked ends an interval of a cluster.
func (k *keeper) tickLocked(now time.Time, w *watched) {
	for _, m := range w.members {
		k.countLocked(m)
	}
	changes := w.detector.Tick(now)
	for _, m := range w.members {
		changes = k.reachedLocked(now, m, k.n.datapath.Shared.ReachedLimits(m.index), changes)
	}
	w.due = now.Add(w.detector.Config().Interval)
	k.changeLocked(w, changes)
}

// countLocked gives the detector what has come since it last looked.
func (k *keeper) countLocked(m *member) {
	d, before := m.cluster.detector, m.seen
	m.seen = k.traffic.of(k.n.datapath.Shared, m.index)
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
func (k *keeper) changeLocked(w *watched, ejections []health.Ejection) {
	changes := make([]reconcile.HealthChange, 0, len(ejections))
	for _, e := range ejections {
		change := reconcile.HealthChange{Endpoint: e.Endpoint, Clear: shared.EndpointEjected}
		if e.Ejected {
			change = reconcile.HealthChange{Endpoint: e.Endpoint, Set: shared.EndpointEjected}
		} else {
			// A few errors more would be enough otherwise.
			k.n.datapath.Shared.ForgetErrors(e.Endpoint, shared.OutlierErrors|shared.OutlierGatewayErrors)
			k.n.pool.Again(e.Endpoint)
		}
		changes = append(changes, change)
		k.logLocked(w, e)
	}
	k.tellLocked(changes...)
}

func (k *keeper) logLocked(w *watched, e health.Ejection) {
	address := k.member(e.Endpoint).address
	if e.Ejected {
		k.n.log.Warn("endpoint is ejected", "cluster", w.name, "endpoint", address, "reason", e.Reason, "for", e.Time)
		return
	}
	k.n.log.Info("endpoint returns", "cluster", w.name, "endpoint", address, "ejected_for", e.Time.Round(time.Millisecond))
}
