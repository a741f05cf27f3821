// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

var errNoAnswer = errors.New("no answer")

// podnet is a network namespace with servers that the host does not reach.
type podnet struct {
	t      *testing.T
	r      *rig
	ns     *netns.Namespace
	cookie uint64
}

func (r *rig) podnet() *podnet {
	r.t.Helper()
	ns := anotherNamespace(r.t, "20000 29999")
	cookie, err := ns.Cookie()
	must(r.t, err)
	r.closeAtEnd()
	return &podnet{r.t, r, ns, cookie}
}

// server is one at a port of its address there, 0 for any.
func (n *podnet) server(port uint16) *server {
	n.t.Helper()
	var l net.Listener
	must(n.t, n.ns.Within(func() (err error) {
		l, err = new(net.ListenConfig).Listen(n.t.Context(), "tcp4", netip.AddrPortFrom(documentation.Addr(), port).String())
		return err
	}))
	return serve(n.t, l)
}

// silent is an endpoint there that does not answer.
func (n *podnet) silent(index uint32) Endpoint {
	n.t.Helper()
	e := Endpoint{Index: index, ConnectTimeout: time.Hour}
	must(n.t, n.ns.Within(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		n.t.Cleanup(func() { unix.Close(fd) })
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: documentation.Addr().As4()}), unix.Listen(fd, 0)); err != nil {
			return err
		}
		if e.Address, err = localAddress(fd); err != nil {
			return err
		}
		// It fills the queue.
		filler, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		n.t.Cleanup(func() { unix.Close(filler) })
		return unix.Connect(filler, sockaddr(e.Address))
	}))
	return e
}

// join has a workload join that is there.
func (n *podnet) join(id workload.ID) { n.r.p.Join(workload.New(id, n.cookie, n.ns)) }

// uses has a workload have an i-sock to a server.
func (n *podnet) uses(id workload.ID, endpoint uint32) {
	n.t.Helper()
	n.r.missOf(id, endpoint, 1)
	n.r.awaitIdleOf(id, endpoint, 1)
}

// inPod is a rig of a server that the host does not reach, and another one of its cluster. Workload 1 is where they are.
func inPod(t *testing.T, o setup) (r *rig, n *podnet, s *server) {
	t.Helper()
	o.eager, o.lastAfter, o.shrinkAfter = -1, time.Hour, time.Hour
	r = newRig(t, o)
	n = r.podnet()
	s = n.server(0)
	n.join(1)
	r.set(s.endpoint(ours), n.server(0).endpoint(ours+1))
	r.hostMisses(ours)
	return r, n, s
}

func (r *rig) locked(do func()) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	do()
}

// hostMisses has a connect of the host fail.
func (r *rig) hostMisses(endpoint uint32) {
	r.locked(func() { r.p.failedLocked(r.host(endpoint), errNoAnswer) })
}

// probe has an endpoint probed now, if a workload is to do that, and waits for what comes of it.
func (r *rig) probe(endpoint uint32) {
	r.t.Helper()
	r.locked(func() {
		d := r.p.destinations[endpoint]
		d.probeAt, d.wary = time.Time{}, time.Time{}
		r.p.probeLocked(d, time.Now())
	})
	r.awaitProbed(endpoint)
}

func (r *rig) awaitProbed(endpoint uint32) {
	r.t.Helper()
	await.Quiet(r.t, func() (wrong string) {
		r.locked(func() {
			if r.p.destinations[endpoint].prober != nil {
				wrong = "it is being probed"
			}
		})
		return wrong
	})
}

// witness is the workload by which an endpoint is in service, Host for none.
func (r *rig) witness(endpoint uint32) (id workload.ID) {
	r.locked(func() {
		if o := r.p.destinations[endpoint].witness; o != nil {
			id = o.ID
		}
	})
	return id
}

func (r *rig) mustBeDown(endpoint uint32, want bool, when string) {
	r.t.Helper()
	if got := r.down(endpoint); got != want {
		r.t.Errorf("%s: out of service %t, want %t", when, got, want)
	}
	r.mustBeConsistent()
}

// A network policy may let workloads through, and not the host: what a workload reaches is in service.
func TestEndpointThatAWorkloadReachesIsInService(t *testing.T) {
	t.Parallel()
	ways := map[string]func(r *rig, n *podnet){
		"its request has an i-sock opened": func(_ *rig, n *podnet) { n.uses(1, ours) },
		"it has got a response":            func(r *rig, _ *podnet) { r.p.Answered(ours, 1) },
		"it uses the cluster":              func(r *rig, n *podnet) { n.uses(1, ours+1); r.probe(ours) },
	}
	for name, reach := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, n, _ := inPod(t, setup{})
			r.p.Answered(ours, workload.Host)
			r.p.Answered(ours, 7) // it has not joined
			r.p.Answered(9, 1)
			r.probe(ours)
			r.mustBeDown(ours, true, "before a workload reaches it")
			reach(r, n)
			r.awaitDown(ours, false)
			if got := r.witness(ours); got != 1 {
				t.Errorf("it is in service by workload %d, want 1", got)
			}
			r.hostMisses(ours)
			r.mustBeDown(ours, false, "when the host has tried again")
		})
	}
}

// Requests avoid what is out of service, so that a workload that uses the cluster would not find out by itself.
func TestWhatTheHostMissesIsProbedNowAndThen(t *testing.T) {
	t.Parallel()
	r, n, _ := inPod(t, setup{})
	n.uses(1, ours+1)
	r.awaitDown(ours, false)
	r.mustBeConsistent()
}

// Each way in which what a workload has reached once could stay in service for ever.
func TestEndpointThatNoWorkloadReachesAnyMoreIsOutOfService(t *testing.T) {
	t.Parallel()
	tests := map[string]func(r *rig, n *podnet, s *server){
		"the workload has left": func(r *rig, n *podnet, _ *server) {
			n.uses(1, ours)
			n.join(2) // and uses nothing
			r.p.Leave(1)
		},
		"its connect is refused, and it has i-socks": func(r *rig, n *podnet, s *server) {
			n.uses(1, ours)
			must(r.t, s.listener.Close())
			r.missOf(1, ours, 2)
		},
		"it asks no more, and has i-socks": func(r *rig, n *podnet, s *server) {
			n.uses(1, ours)
			must(r.t, s.listener.Close())
			r.probe(ours)
		},
		"others have i-socks": func(r *rig, n *podnet, s *server) {
			n.join(2)
			n.uses(2, ours)
			n.uses(1, ours)
			must(r.t, s.listener.Close())
			r.probe(ours)
			r.probe(ours)
		},
		"a response ends on an old connection": func(r *rig, n *podnet, s *server) {
			n.uses(1, ours)
			must(r.t, s.listener.Close())
			r.probe(ours)
			r.p.Answered(ours, 1)
			r.probe(ours)
		},
	}
	for name, leave := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, n, s := inPod(t, setup{})
			leave(r, n, s)
			r.awaitDown(ours, true)
			r.mustBeConsistent()
		})
	}
}

// A workload that reaches an endpoint, and asks seldom, and one that asks and does not reach it, beside a host that does not either.
func TestEndpointThatSomeReachDoesNotGoInAndOutOfService(t *testing.T) {
	t.Parallel()
	r, n, _ := inPod(t, setup{})
	r.join(2) // in the host's namespace, where no server is
	n.uses(1, ours+1)
	r.awaitDown(ours, false)
	for range 20 {
		r.locked(func() {
			d := r.p.destinations[ours]
			sub := r.p.subpoolLocked(r.p.origins[2], d)
			r.p.growLocked(sub, 1)
			r.p.refusedLocked(sub, errNoAnswer)
			r.p.refusedLocked(d.host(), errNoAnswer)
		})
		r.probe(ours)
		if r.mustBeDown(ours, false, "when the other workload has failed to connect"); r.t.Failed() {
			return
		}
	}
}

func TestWitnessThatLeavesHasAnotherWorkloadInItsPlace(t *testing.T) {
	t.Parallel()
	for name, reaches := range map[string]bool{"that reaches the endpoint": true, "that does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, n, s := inPod(t, setup{})
			n.join(2)
			n.uses(2, ours+1)
			n.uses(1, ours)
			if !reaches {
				must(t, s.listener.Close())
			}
			r.p.Leave(1)
			r.awaitProbed(ours)
			if reaches {
				r.mustBeDown(ours, false, "when the witness has left")
			}
			r.awaitDown(ours, !reaches)
			if got, want := r.witness(ours) == 2, reaches; got != want {
				t.Errorf("the other workload is the witness: got %t, want %t", got, want)
			}
		})
	}
}

// Otherwise nothing but its own cluster's requests would ever show what it finds.
func TestHostThatReachesAnEndpointDecidesAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: -1})
	r.join(1)
	r.set(newServer(t).endpoint(ours))
	r.locked(func() {
		// As if it were no loopback address.
		d := r.p.destinations[ours]
		r.p.missLocked(d, errNoAnswer)
		r.p.reachedLocked(d, r.p.origins[1])
	})
	if r.down(ours) || r.witness(ours) != 1 {
		t.Fatal("the endpoint is not in service by the workload")
	}
	// No request has asked the host for an i-sock, and it tries all the same.
	r.p.retry(r.subpoolOf(workload.Host, ours))
	await.Quiet(t, func() string {
		if r.witness(ours) != workload.Host {
			return "the workload decides"
		}
		return ""
	})
	r.mustBeDown(ours, false, "when the host reaches it")
}

// It would be ejected by what the host finds (outlier detection).
func TestRefusedConnectsOfTheHostDoNotCountWhereAWorkloadReaches(t *testing.T) {
	t.Parallel()
	var refused atomic.Int32
	r, n, s := inPod(t, setup{refused: func(uint32, int) { refused.Add(1) }})
	n.uses(1, ours)
	before := refused.Load()
	if before == 0 {
		t.Error("not told of the connect that failed before a workload reached it")
	}
	r.hostMisses(ours)
	if got := refused.Load(); got != before {
		t.Errorf("told of %d connects that failed, want none", got-before)
	}
	must(t, s.listener.Close())
	r.probe(ours)
	r.hostMisses(ours)
	if refused.Load() == before {
		t.Error("not told of the connect that failed behind that")
	}
}

// Their descriptors are no quota's: as many at a time as are bounded, whatever hangs, and no reach is lost by it.
func TestProbesOfAllWorkloadsAreBounded(t *testing.T) {
	t.Parallel()
	const hang = 3
	r := newRig(t, setup{eager: -1})
	n := r.podnet()
	var list []Endpoint
	for i := range uint32(hang) {
		list = append(list, n.silent(i))
	}
	list = append(list, n.server(0).endpoint(hang))
	r.set(list...)
	// As if other probes were in progress, all but two.
	for range maxProbes - 2 {
		r.p.probeTickets <- struct{}{}
	}
	t.Cleanup(func() {
		for range maxProbes - 2 {
			<-r.p.probeTickets
		}
	})
	for i := range uint32(hang + 1) {
		n.join(workload.ID(1 + i))
		r.hostMisses(i)
		r.p.Answered(i, workload.ID(1+i))
	}
	await.Quiet(t, func() string {
		if got := len(r.p.probeTickets); got != maxProbes {
			return fmt.Sprintf("%d probes in progress, want %d", got, maxProbes)
		}
		return ""
	})
	r.mustBeConsistent()
	r.awaitDown(hang, false)
}

// Probes take nothing of a workload that its own requests need, and are no use of the cluster.
func TestProbesThatHangKeepNoRequestWaiting(t *testing.T) {
	t.Parallel()
	const dead, most = 6, 2
	r := newRig(t, setup{eager: -1, endpoints: 2 + dead, lastAfter: time.Hour, shrinkAfter: time.Hour})
	n := r.podnet()
	list := []Endpoint{n.server(0).endpoint(0), n.server(0).endpoint(1)}
	cluster := model.SharedCluster("shop")
	for i := range uint32(dead) {
		list = append(list, n.silent(2+i))
	}
	for i := range list {
		list[i].Cluster, list[i].MaxConnections = cluster, most
	}
	list[1].Cluster = model.SharedCluster("another")
	n.join(1)
	r.set(list...)
	n.uses(1, 0)
	r.locked(func() {
		for i := range uint32(dead) {
			r.p.failedLocked(r.host(2+i), errNoAnswer)
		}
		o, key, probed := r.p.origins[1], clusterKey{1, cluster}, 0
		for i := range uint32(dead) {
			if d := r.p.destinations[2+i]; d.prober != nil {
				probed++
			}
			if r.p.destinations[2+i].subpools[1] != nil {
				t.Errorf("endpoint %d has i-socks of a workload that has not asked it", 2+i)
			}
		}
		if probed != 1 || len(o.probes) != 1 || len(o.dials) != 0 || r.p.ofCluster[key] != 1 || r.p.slots.TakenBy(1) != 1 {
			t.Errorf("probes %d, queue %d, connects %d, connections to the cluster %d, slots %d; want 1, 1, 0, 1, 1",
				probed, len(o.probes), len(o.dials), r.p.ofCluster[key], r.p.slots.TakenBy(1))
		}
	})
	n.uses(1, 1)
	r.missOf(1, 0, 1)
	r.awaitIdleOf(1, 0, most)
	r.locked(func() {
		for _, sub := range []*subpool{r.p.destinations[0].subpools[1], r.p.destinations[1].subpools[1]} {
			sub.target = 0
			r.p.retireLocked(sub)
		}
		if o := r.p.userLocked(cluster, func(*origin) bool { return true }); o != nil {
			t.Errorf("workload %d, which has nothing but a probe, is listed as a user of the cluster", o.ID)
		}
	})
}

// The probes of what a workload is the witness of come behind one that hangs, and not behind all.
func TestWitnessIsProbedBehindOneProbeThatHangs(t *testing.T) {
	t.Parallel()
	r, n, s := inPod(t, setup{})
	e := s.endpoint(ours)
	list := []Endpoint{e}
	for i := range uint32(3) {
		list = append(list, n.silent(1+i))
	}
	r.set(list...)
	n.uses(1, ours)
	await.Quiet(t, func() (wrong string) {
		r.locked(func() {
			if len(r.p.origins[1].probes) == 0 {
				wrong = "nothing is being probed"
			}
		})
		for i := range uint32(3) {
			r.hostMisses(1 + i)
		}
		return wrong
	})
	must(t, s.listener.Close())
	r.locked(func() {
		d := r.p.destinations[ours]
		d.probeAt = time.Time{}
		r.p.probeLocked(d, time.Now())
		if o := r.p.origins[1]; d.prober != o || len(o.probes) > 2 {
			t.Errorf("it is %d probes behind, want one", len(o.probes)-1)
		}
	})
	r.awaitDown(ours, true)
}

// A lack of descriptors says nothing of an endpoint, nor does the end of the daemon, or of a workload.
func TestProbesThatSayNothingChangeNothing(t *testing.T) {
	t.Parallel()
	r, n, _ := inPod(t, setup{})
	n.join(2)
	n.uses(1, ours)
	r.locked(func() {
		d, o := r.p.destinations[ours], r.p.origins[1]
		for what, err := range map[string]error{"a lack": fmt.Errorf("open socket: %w", unix.EMFILE), "a success": nil} {
			d.prober = o
			if r.p.probedLocked(d, o, err); d.witness != o || d.prober != nil {
				t.Errorf("%s: witness %v", what, d.witness)
			}
		}
		// That of another, which was in progress when it became the witness.
		d.prober = r.p.origins[2]
		if r.p.probedLocked(d, r.p.origins[2], errNoAnswer); d.witness != o {
			t.Errorf("another's failure: witness %v", d.witness)
		}
		// One that has left, and whose place another has.
		d.prober = o
		if r.p.probedLocked(d, r.p.origins[2], nil); d.witness != o || d.prober != o {
			t.Errorf("that of a workload that has left: witness %v", d.witness)
		}
		d.prober = nil
	})
	r.mustBeDown(ours, false, "behind such probes")
}

// A server sees a connection that is opened and closed in order, with nothing on it.
func TestProbeIsClosedInOrder(t *testing.T) {
	t.Parallel()
	r, _, s := inPod(t, setup{})
	r.p.Answered(ours, 1)
	c := s.await(1)[0]
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	if got, err := c.Read(make([]byte, 1)); got != 0 || err == nil || errors.Is(err, unix.ECONNRESET) {
		t.Errorf("read from a probe: %d bytes, %v; want its end", got, err)
	}
	r.awaitProbed(ours)
	if n := r.countOf(1, ours, maps.SlotReady); n != 0 {
		t.Errorf("%d i-socks, want none", n)
	}
}

// What hangs is ended, and holds neither.
func TestPoolClosesAndWorkloadsLeaveAmidProbes(t *testing.T) {
	t.Parallel()
	const hang = maxProbesOfWorkload + 2
	r := newRig(t, setup{eager: -1, endpoints: hang})
	n := r.podnet()
	for id := range workload.ID(2) {
		n.join(1 + id)
	}
	var list []Endpoint
	for i := range uint32(hang) {
		list = append(list, n.silent(i))
	}
	r.set(list...)
	for i := range uint32(hang) {
		r.hostMisses(i)
		r.p.Answered(i, 1)
	}
	var leaving *origin
	r.locked(func() { leaving = r.p.origins[1] })
	r.p.Leave(1)
	r.locked(func() {
		if got := len(leaving.probes); got > maxProbesOfWorkload {
			t.Errorf("%d probes of a workload that has left, want those in progress alone, %d", got, maxProbesOfWorkload)
		}
	})
	r.mustBeConsistent()
	r.p.Answered(0, 2)
	r.p.Answered(1, 2)
	r.p.Change(nil, []uint32{1})
	r.mustBeConsistent()
	must(t, r.p.Close())
}

// One that reaches an endpoint now and then would have it go in and out of service for all.
func TestWitnessIsNotReplacedWhileItReaches(t *testing.T) {
	t.Parallel()
	r, n, _ := inPod(t, setup{})
	n.join(2)
	n.uses(1, ours)
	n.uses(2, ours)
	if got := r.witness(ours); got != 1 {
		t.Errorf("witness: got %d, want 1", got)
	}
	r.locked(func() {
		d := r.p.destinations[ours]
		r.p.refusedLocked(d.subpools[2], errNoAnswer)
	})
	r.mustBeDown(ours, false, "when another workload has failed")
}

// Server, workloads and host do what they like: the books are right all the while, and what can be reached at the end is in service, what cannot is not.
func TestWhoReachesIsKnownWhateverHappens(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			reachAtRandom(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func reachAtRandom(t *testing.T, draw *rand.Rand) {
	r, n, s := inPod(t, setup{})
	port, listens := s.address.Port(), true
	listen := func(want bool) {
		switch {
		case listens == want:
		case want:
			s = n.server(port)
			r.closeAtEnd()
		default:
			must(t, s.listener.Close())
		}
		listens = want
	}
	last := workload.ID(1)
	anyOne := func() workload.ID { return workload.ID(draw.Uint32N(uint32(last)) + 1) }
	acts := []func(){
		func() { listen(!listens) },
		func() { last++; n.join(last) },
		func() { r.p.Leave(anyOne()) },
		func() { r.p.Grow(anyOne(), ours, 1) },
		func() { r.p.Grow(anyOne(), ours+1, 1) },
		func() { r.p.Answered(ours, anyOne()) },
		func() { r.probe(ours) },
		func() { r.hostMisses(ours) },
		func() { r.locked(func() { r.p.upLocked(r.p.destinations[ours]) }) },
		func() { r.p.Change(nil, []uint32{ours}); r.p.Change([]Endpoint{s.endpoint(ours)}, nil) },
	}
	for range 60 {
		acts[draw.IntN(len(acts))]()
		if r.mustBeConsistent(); t.Failed() {
			return
		}
	}
	last++
	n.join(last)
	n.uses(last, ours+1)
	for _, reaches := range []bool{true, false, true} {
		listen(reaches)
		await.Quiet(t, func() string {
			r.hostMisses(ours)
			if r.probe(ours); r.down(ours) == reaches {
				return fmt.Sprintf("out of service %t with a server that listens %t", !reaches, reaches)
			}
			return ""
		})
	}
	r.mustBeConsistent()
}
