// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

func (r *rig) misses(from workload.ID, to netip.AddrPort) bool {
	misses := r.p.Misses(from)
	return misses != nil && misses(to)
}

// While one workload keeps an endpoint in service, requests of others would each wait for a connect timeout there.
func TestWhatAWorkloadDoesNotReachIsKnownOfItAlone(t *testing.T) {
	t.Parallel()
	r, n, s := inPod(t, setup{})
	r.join(2) // in the host's namespace, where no server is
	other := r.p.destinations[ours+1].Address
	if !r.misses(workload.Host, s.address) || r.misses(1, s.address) || r.misses(workload.Host, other) {
		t.Error("not known of the host alone, or of more than one endpoint")
	}
	n.uses(1, ours)
	r.mustBeDown(ours, false, "when a workload reaches it")
	r.locked(func() {
		d := r.p.destinations[ours]
		sub := r.p.subpoolLocked(r.p.origins[2], d)
		r.p.growLocked(sub, 1)
		r.p.refusedLocked(sub, errNoAnswer)
	})
	if !r.misses(workload.Host, s.address) || r.misses(1, s.address) || !r.misses(2, s.address) {
		t.Error("want it known of the host and of workload 2, and not of workload 1")
	}
}

func TestWhatAWorkloadReachesAgainIsNotMissed(t *testing.T) {
	t.Parallel()
	ways := map[string]func(r *rig, n *podnet){
		"by an i-sock": func(_ *rig, n *podnet) { n.uses(1, ours) },
		"by a probe":   func(r *rig, _ *podnet) { r.p.Answered(ours, 1) },
	}
	for name, reach := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, n, s := inPod(t, setup{})
			r.p.unreached.fail(way{1, s.address}, time.Now(), time.Hour)
			reach(r, n)
			await.Quiet(t, func() string {
				if r.misses(1, s.address) {
					return "it is missed"
				}
				return ""
			})
		})
	}
}

// One that has others there, or had one that the endpoint closed before a request came, gets through.
func TestAnEndpointThatIsReachedIsNotMissed(t *testing.T) {
	t.Parallel()
	r, n, s := inPod(t, setup{})
	n.uses(1, ours)
	r.locked(func() { r.p.refusedLocked(r.p.destinations[ours].subpools[1], errNoAnswer) })
	if r.misses(1, s.address) {
		t.Error("missed, and it has an i-sock there")
	}
	r.join(2)
	r.locked(func() {
		sub := r.p.subpoolLocked(r.p.origins[2], r.p.destinations[ours])
		r.p.growLocked(sub, 1)
		r.p.refusedLocked(sub, errUnused)
	})
	if r.misses(2, s.address) {
		t.Error("missed, and the endpoint has closed a connection of it")
	}
}

func TestAFailureIsKnownUntilTheNextConnectHasEnded(t *testing.T) {
	t.Parallel()
	var u unreached
	begin, w := time.Now(), way{1, netip.MustParseAddrPort("192.0.2.1:80")}
	u.fail(w, begin, time.Minute)
	last := begin.Add(time.Minute + unreachedFor)
	if u.forget(last.Add(-1)); !u.has(w, last.Add(-1)) || u.has(w, last) {
		t.Error("want it known for the timeout and the time behind it")
	}
	if u.forget(last); u.hasAny() {
		t.Error("it is kept for ever")
	}
	u.fail(w, begin, 0)
	u.reach(w)
	u.reach(w)
	if u.hasAny() {
		t.Error("missed, and reached")
	}
}
