// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// useDescriptorsUp leaves the process no descriptor until the test ends or release is called. Not for tests that run in parallel.
func useDescriptorsUp(t *testing.T) (release func()) {
	t.Helper()
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	free, err := unix.Dup(int(os.Stdin.Fd()))
	must(t, err)
	must(t, unix.Close(free))
	// Those above the first free one are closed to new ones, too.
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free), Max: before.Max}))
	release = func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }
	t.Cleanup(release)
	return release
}

func mustNotUse(t *testing.T, r *rig, cookie uint64, l maps.Lease) {
	t.Helper()
	used := r.s.Use(cookie, l, maps.VerdictRequestOnSlowPath, func(net.Conn) (uint64, Outcome) {
		t.Error("a connection that is not accepted is used")
		return 0, Abort
	})
	if used {
		t.Error("use of a connection that cannot be accepted: got true, want false")
	}
}

// What it sends on is the rest of what its lease was for, and would be served as a request.
func TestClientThatCannotBeToldIsResetWhenItIsAccepted(t *testing.T) {
	r := newRig(t, setup{})
	r.s.accepting.Stop()
	other := r.dial()
	r.awaitOpen(1)
	c := r.dial()
	release := useDescriptorsUp(t)
	lease := maps.Lease{Slot: 1, Number: 5}
	mustNotUse(t, r, c.cookie, lease)
	r.mustBeSlow(c, maps.SlowConn{Reason: uint32(maps.VerdictRequestOnSlowPath), Slot: 1, HasLease: 1, Lease: 5})
	release()
	c.send("GET /rest-of-a-tunnel HTTP/1.1\r\n\r\n")
	r.s.AcceptNow()
	c.mustEnd(unix.ECONNRESET)
	r.awaitNotSlow(c)
	r.awaitOpen(1)
	other.exchange("nobody else's matter")
	r.mustHaveNoPendingReset()
}

// A client that has gone meanwhile leaves nothing.
func TestClientThatCannotBeToldAndGoesIsForgotten(t *testing.T) {
	r := newRig(t, setup{})
	r.s.accepting.Stop()
	c := r.dial()
	release := useDescriptorsUp(t)
	mustNotUse(t, r, c.cookie, maps.Lease{})
	must(t, c.SetLinger(0))
	must(t, c.Close())
	// The kernel forgets a connection that is reset before it is accepted.
	_, known := r.cfg.Sockets.TakeConn(maps.ConnKey{
		Addr: c.address.Addr().As16(), Port: c.address.Port(), AnchorPort: r.ports().Port4[0], Netns: testNetns,
	})
	if !known {
		t.Fatal("the connection has no record")
	}
	release()
	await.Quiet(t, func() string {
		r.s.AcceptNow()
		if _, ok := r.slow(c); ok {
			return "its entry is still there"
		}
		return ""
	})
	r.mustHaveNoPendingReset()
}

func (r *rig) mustHaveNoPendingReset() {
	r.t.Helper()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if n := len(r.s.pendingResets); n != 0 {
		r.t.Errorf("clients that are to be reset: %d, want none", n)
	}
}
