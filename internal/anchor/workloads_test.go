// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/tcptest"
	"github.com/xlb-project/xlb/test/workloadtest"
)

// within lets clients connect in the network namespace of a workload while f runs.
func (r *rig) within(w *workload.Workload, f func()) {
	r.t.Helper()
	before := r.in
	r.in = w
	defer func() { r.in = before }()
	f()
}

// joined is a workload in a network namespace of its own that has joined.
func (r *rig) joined(id workload.ID) *workload.Workload {
	r.t.Helper()
	w := workloadtest.New(r.t, id)
	must(r.t, r.s.Join(w))
	return w
}

func TestClientsOfEachNamespaceAreServedAsTheirWorkload(t *testing.T) {
	t.Parallel()
	served := make(chan Session, 2)
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		served <- s
		return echo(ctx, conn, s)
	}})
	w := r.joined(7)
	host := r.dial()
	r.within(w, func() {
		ports := r.ports()
		if ports.Workload != 7 || ports.Port4[0] == 0 {
			t.Errorf("announced: %+v, want ports of workload 7", ports)
		}
		for i := range ports.Port4 {
			if ports.Port4[i] != ports.Port4[0] || ports.Port6[i] != ports.Port6[0] {
				t.Errorf("announced: %+v, want one port of each family", ports)
			}
		}
		for _, to := range r.addresses() {
			// The same source, and the same anchor port, in the own namespace: a connection of another client.
			c := r.connect(to, func(c *client, k maps.ConnKey) {
				record := maps.ConnRecord{Cookie: c.cookie, Vip: testVIP.Addr().As16(), VipPort: testVIP.Port(), Listener: testListener, Tenant: testTenant}
				must(t, r.cfg.Sockets.Conns.Put(k, record))
				k.Netns, record.Cookie, record.Listener = testNetns, host.cookie+1<<32, testListener+1
				must(t, r.cfg.Sockets.Conns.Put(k, record))
			}, func(c *client, fd int) { must(t, r.psocks.Put(c.cookie, uint64(fd))) })
			c.exchange("hello")
			if s := await.Next(t, served, "session"); s.Workload != 7 || s.Listener != testListener || s.Client != c.address {
				t.Errorf("session of workload %d, listener %d, client %s; want 7, %d, %s", s.Workload, s.Listener, s.Client, testListener, c.address)
			} else if want := (shares.Path{accountBit | 7}); s.Tenant != want {
				t.Errorf("session of tenant %x, want the account's, %x", s.Tenant, want)
			}
			if _, cgroups, ok := r.s.ClientOf(c.cookie); !ok || cgroups != testTenant {
				t.Errorf("the client's cgroups are %v, %t, want %v", cgroups, ok, testTenant)
			}
		}
	})
	host.exchange("hello")
	if s := await.Next(t, served, "session"); s.Workload != workload.Host || s.Tenant != testTenant {
		t.Errorf("session of workload %d and tenant %v, want those of the host's cgroups", s.Workload, s.Tenant)
	}
	others := len(r.s.List()) - 1
	if r.s.OpenOf(workload.Host) != 1 || r.s.OpenOf(7) != others || others == 0 {
		t.Errorf("%d connections of the host are open and %d of the workload, want 1 and %d", r.s.OpenOf(workload.Host), r.s.OpenOf(7), others)
	}
	for _, info := range r.s.List() {
		want := workload.ID(7)
		if info.Cookie == host.cookie {
			want = workload.Host
		}
		if info.Workload != want {
			t.Errorf("listed: %+v, want workload %d", info, want)
		}
	}
	if n := r.records(); n != others {
		t.Errorf("%d records are left, want %d of the own namespace", n, others)
	}
}

// Two clients have the same source at the same time, each in its own namespace.
func TestOneSourceInTwoNamespacesIsTwoClients(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{serve: func(_ context.Context, conn net.Conn, s Session) Result {
		b := make([]byte, 1)
		n, _ := conn.Read(b)
		written, err := fmt.Fprintf(conn, "workload %d", s.Workload)
		return Result{Read: uint64(n), Written: uint64(written), Keep: err == nil}
	}})
	w := r.joined(1)
	host := r.dial()
	var pod *client
	r.within(w, func() { pod = r.dialFrom(host.address) })
	if pod.address != host.address {
		t.Fatalf("sources %s and %s, want the same", pod.address, host.address)
	}
	for range 2 {
		pod.send("x")
		pod.mustReceive("workload 1")
		host.send("x")
		host.mustReceive("workload 0")
	}
}

// mustLeave demands that a workload leaves, mustNotLeave that it stays as it is.
func (r *rig) mustLeave(w *workload.Workload) {
	r.t.Helper()
	if left, err := r.s.Leave(w); !left || err != nil {
		r.t.Errorf("leave of workload %d: left %v, %v; want that it has left", w.ID, left, err)
	}
}

func (r *rig) mustNotLeave(w *workload.Workload) {
	r.t.Helper()
	before, announced, _ := r.anchors.Lookup(w.Netns)
	if left, err := r.s.Leave(w); left || err != nil {
		r.t.Errorf("leave of workload %d: left %v, %v; want that it stays", w.ID, left, err)
	}
	if after, ok, _ := r.anchors.Lookup(w.Netns); ok != announced || after != before {
		r.t.Errorf("announced behind a leave without success: %+v, %v, want %+v, %v as before", after, ok, before, announced)
	}
}

func TestLeaveClosesTheListenersOfAWorkloadWithoutClients(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	leaving, staying := r.joined(1), r.joined(2)
	var to []netip.AddrPort
	var other *client
	r.within(leaving, func() {
		to = r.addresses()
		// Its client has gone before it was accepted.
		must(t, r.dialClosed().Close())
	})
	r.within(staying, func() { other = r.dial() })
	await.Quiet(t, func() string {
		if left, err := r.s.Leave(leaving); !left || err != nil {
			return fmt.Sprintf("left %v, %v", left, err)
		}
		return ""
	})
	if _, ok, _ := r.anchors.Lookup(leaving.Netns); ok {
		t.Error("the anchor ports of a workload that has left are announced")
	}
	for _, a := range to {
		if err := tryConnect(leaving, a); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("connect to %s: %v, want %v", a, err, unix.ECONNREFUSED)
		}
	}
	other.exchange("still here")
	r.dial().exchange("and here")
	r.mustLeave(leaving)
}

// serve accepts a client's connection, where nothing else does, and serves a request of it.
func (r *rig) serve(c *client) {
	r.t.Helper()
	r.s.AcceptNow()
	c.exchange("hello")
}

// Whatever a client's connection is about, its workload does not leave before it has closed.
func TestWorkloadWithClientsDoesNotLeave(t *testing.T) {
	tests := []struct {
		name string
		use  func(r *rig, c *client)
	}{
		{"waits to be accepted", func(*rig, *client) {}},
		{"idle", (*rig).serve},
		{"in use", func(r *rig, c *client) {
			held := r.s.find(c.cookie)
			held.writeMu.Lock()
			r.t.Cleanup(held.writeMu.Unlock)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newStillRig(t)
			w := r.joined(1)
			var c *client
			r.within(w, func() { c = r.dial() })
			tt.use(r, c)
			r.mustNotLeave(w)
			c.mustStayOpen()
			r.within(w, func() { r.serve(r.dial()) })
		})
	}
}

func TestWorkloadLeavesWhenItsLastClientHasClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	w := r.joined(1)
	var c *client
	r.within(w, func() { c = r.dial() })
	c.exchange("hello")
	r.mustNotLeave(w)
	must(t, c.CloseWrite())
	c.mustEnd(io.EOF)
	r.awaitOpen(0)
	r.mustLeave(w)
}

// A client that connects while its workload is about to leave is served, since it has read the announcement before that was taken back.
func TestClientThatComesAmidALeaveIsServed(t *testing.T) {
	r := newStillRig(t)
	w := r.joined(1)
	var c *client
	r.within(w, func() {
		to := r.addresses()[0]
		r.anchors.Fail = func() bool {
			r.anchors.Fail = nil
			c = r.dialTo(to)
			return false
		}
	})
	r.in = w
	r.mustNotLeave(w)
	if c == nil {
		t.Fatal("the announcement was not taken back")
	}
	r.serve(c)
	r.serve(r.dial())
}

func TestLeaveThatFailsClosesNothing(t *testing.T) {
	r := newStillRig(t)
	w := r.joined(1)
	r.anchors.Fail = func() bool { return true }
	if left, err := r.s.Leave(w); left || !errors.Is(err, mapstest.ErrFault) {
		t.Errorf("left %v, %v, want an error", left, err)
	}
	r.anchors.Fail = nil
	r.within(w, func() { r.serve(r.dial()) })
}

// A client that cannot be accepted for want of descriptors is not reset, and its workload does not leave.
func TestClientThatCannotBeAcceptedKeepsItsWorkload(t *testing.T) {
	r := newStillRig(t)
	w := r.joined(1)
	var c *client
	r.within(w, func() { c = r.dial() })
	release := useDescriptorsUp(t)
	r.mustNotLeave(w)
	release()
	r.serve(c)
}

// A connection counts before it is accepted at the next beat.
func TestOpenOfCountsWhatWaits(t *testing.T) {
	t.Parallel()
	r := newStillRig(t)
	w := r.joined(1)
	r.within(w, func() { r.dial() })
	if n := r.s.OpenOf(1); n != 1 {
		t.Errorf("%d connections of the workload are open, want 1", n)
	}
}

// tryConnect connects in the network namespace of a workload.
func tryConnect(w *workload.Workload, to netip.AddrPort) error {
	return w.Within(func() error {
		family, sa := sockaddrOf(to)
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, sa)
	})
}

func TestJoinThatFailsLeavesNothingOpen(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(r *rig)
		want    error
	}{
		{"loopback is down", func(r *rig) { r.in = workloadtest.Bare(t, 2) }, unix.EADDRNOTAVAIL},
		{"no look at its listeners", func(r *rig) { must(t, r.s.ready.close()) }, unix.EBADF},
		{"no announcement", func(r *rig) { r.anchors.Fail = func() bool { return true } }, mapstest.ErrFault},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, setup{})
			r.in = workloadtest.New(t, 1)
			tt.prepare(r)
			w := r.in
			before, listeners := tcptest.Descriptors(t), len(*r.s.listeners.Load())
			err := r.s.Join(w)
			r.anchors.Fail = nil
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if after := tcptest.Descriptors(t); after != before {
				t.Errorf("%d descriptors behind it, %d before", after, before)
			}
			if n := len(*r.s.listeners.Load()); n != listeners {
				t.Errorf("%d listeners behind it, %d before", n, listeners)
			}
			if _, ok, _ := r.anchors.Lookup(w.Netns); ok {
				t.Error("anchor ports are announced")
			}
		})
	}
}

// A workload that is withdrawn gets no further connection, and loses none.
func TestAWithdrawnWorkloadKeepsItsConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{serve: echo})
	w := r.joined(1)
	r.within(w, func() {
		ports := r.ports()
		open := r.dial()
		open.exchange("hello")
		must(t, r.s.Withdraw(w))
		r.mustBeLeftAlone(w)
		if left, err := r.s.Leave(w); left || err != nil {
			t.Errorf("leave with an open connection: %v, %v", left, err)
		}
		r.mustBeLeftAlone(w)
		open.exchange("hello again")
		must(t, r.s.Announce(w))
		if got := r.ports(); got != ports {
			t.Errorf("announced again: %+v, want %+v", got, ports)
		}
		must(t, r.s.Withdraw(w))
		must(t, open.Close())
	})
	await.Quiet(t, func() string {
		if left, err := r.s.Leave(w); !left || err != nil {
			return fmt.Sprintf("leave without connections: %v, %v", left, err)
		}
		return ""
	})
	r.mustBeLeftAlone(w)
	if err := r.s.Announce(w); err == nil {
		t.Error("a workload that has left is announced")
	}
	must(t, r.s.Forget(w))
	if ports, ok, _ := r.anchors.Lookup(w.Netns); ok {
		t.Errorf("the kernel programs know it still: %+v", ports)
	}
}

// mustBeLeftAlone fails unless the kernel programs know a workload, and balance nothing of it.
func (r *rig) mustBeLeftAlone(w *workload.Workload) {
	r.t.Helper()
	want := maps.AnchorPorts{Workload: uint32(w.ID)}
	if ports, ok, _ := r.anchors.Lookup(w.Netns); !ok || ports != want {
		r.t.Errorf("announced: %+v, %v, want %+v", ports, ok, want)
	}
}

// The shortest queue decides; but one who has made a network namespace may set its limit, and is not to have each connection of others wake the daemon.
func TestShortestQueueDecidesWhenConnectionsAreAccepted(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	before := atomic.LoadUint32(&r.shared.Control.AcceptAt)
	for limit, want := range map[string]uint32{"200": 200, "5": leastAcceptAt} {
		w := workloadtest.New(t, 1)
		must(t, w.Within(func() error { return os.WriteFile("/proc/sys/net/core/somaxconn", []byte(limit), 0) }))
		must(t, r.s.Join(w))
		if at := atomic.LoadUint32(&r.shared.Control.AcceptAt); at != want {
			t.Errorf("limit of %s: connections are accepted when %d wait, want %d", limit, at, want)
		}
		r.mustLeave(w)
		if at := atomic.LoadUint32(&r.shared.Control.AcceptAt); at != before {
			t.Errorf("connections are accepted when %d wait, want %d as before", at, before)
		}
	}
}

func TestHostThatIsNotServedIsKnown(t *testing.T) {
	t.Parallel()
	r := prepare(t, setup{})
	r.cfg.NoHost = true
	s, err := New(r.cfg)
	must(t, err)
	r.s = s
	t.Cleanup(func() { must(t, s.Close()) })
	if ports := r.ports(); ports != (maps.AnchorPorts{}) {
		t.Errorf("announced: %+v, want no ports", ports)
	}
	if n := len(*s.listeners.Load()); n != 0 {
		t.Errorf("%d listeners, want none", n)
	}
	r.within(r.joined(1), func() { r.dial().exchange("hello") })
	must(t, s.StopListening())
	if _, ok, _ := r.anchors.Lookup(testNetns); ok {
		t.Error("the host is announced when the listeners have closed")
	}
}

func TestNoWorkloadJoinsWhenTheListenersHaveClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	w := r.joined(1)
	var c *client
	r.within(w, func() { c = r.dial() })
	r.awaitOpen(1)
	must(t, r.s.StopListening())
	if _, ok, _ := r.anchors.Lookup(w.Netns); ok {
		t.Error("anchor ports of a workload are announced")
	}
	c.exchange("still here")
	if err := r.s.Join(workloadtest.New(t, 2)); !errors.Is(err, errStopped) {
		t.Errorf("join: %v, want %v", err, errStopped)
	}
	r.mustNotLeave(w)
	c.exchange("and here")
	if _, ok, _ := r.anchors.Lookup(w.Netns); ok {
		t.Error("anchor ports of a workload are announced when its listeners have closed")
	}
}

// Without the fast path sockets are looked up in the namespace that they are of.
func TestGoneKnowsClientsOfOtherNamespaces(t *testing.T) {
	tests := []struct {
		name  string
		leave func(*client) error
		want  bool
	}{
		{"half closed", (*client).CloseWrite, false},
		{"closed", (*client).Close, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			served, left, gone := make(chan struct{}), make(chan struct{}), make(chan [2]bool, 1)
			r := newRig(t, setup{slowPathOnly: true, serve: func(_ context.Context, _ net.Conn, s Session) Result {
				close(served)
				<-left
				gone <- [2]bool{s.Gone(), !s.Stays()}
				return Result{}
			}})
			leave := sync.OnceFunc(func() { close(left) })
			t.Cleanup(leave)
			r.within(r.joined(1), func() {
				c := r.dial()
				c.send("hello")
				await.Next(t, served, "session")
				must(t, tt.leave(c))
			})
			leave()
			if got := await.Next(t, gone, "what is known of the client"); got != [2]bool{tt.want, tt.want} {
				t.Errorf("gone, and does not stay: got %v, want %v", got, tt.want)
			}
		})
	}
}

// Workloads come and go while connections are accepted: those of one that stays are all served.
func TestSweepsBesideJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	staying := r.joined(1)
	coming := []*workload.Workload{workloadtest.New(t, 2), workloadtest.New(t, 3)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var others sync.WaitGroup
	for _, w := range coming {
		others.Go(func() {
			for ctx.Err() == nil {
				err := r.s.Join(w)
				left, leaveErr := r.s.Leave(w)
				if err := errors.Join(err, leaveErr); err != nil || !left {
					t.Errorf("workload %d came and went: left %v, %v", w.ID, left, err)
					return
				}
			}
		})
	}
	others.Go(func() {
		for ctx.Err() == nil {
			r.s.sweepAll.Store(true)
			r.s.Arrived()
			r.s.AcceptNow()
		}
	})
	clients := 0
	for ; ctx.Err() == nil; clients++ {
		r.within([]*workload.Workload{staying, r.cfg.Own}[clients%2], func() {
			c := r.dial()
			c.exchange("hello")
			must(t, c.CloseWrite())
			c.mustEnd(io.EOF)
		})
	}
	others.Wait()
	if n := len(*r.s.listeners.Load()); n != r.listenersOf(r.cfg.Own)+r.listenersOf(staying) {
		t.Errorf("%d listeners are left of workloads that have left", n)
	}
	if clients == 0 {
		t.Error("no client was served")
	}
}

// listenersOf counts those of a workload.
func (r *rig) listenersOf(w *workload.Workload) (n int) {
	for _, l := range *r.s.listeners.Load() {
		if l.workload == w {
			n++
		}
	}
	return n
}
