// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// reach is who reaches an endpoint. Network policies may let workloads through, and not the host. Whether it is in service (maps.EndpointDown) follows from two
// of the fields, and judgeLocked alone says so to the programs:
//
//	missed | witness | in service
//	no     | none    | yes: the host reaches it, or has not tried
//	yes    | none    | no
//	yes    | one     | yes
//
// missed begins with a failed connect of the host while it has no i-sock there (missLocked), but not at a loopback address while other workloads are served:
// it is another server's for each of them. It ends with a connect of the host, with the endpoint, and at a loopback address with the first other workload that
// joins (upLocked). Until then the host goes on to try (Pool.retry).
//
// witness is the first other workload of which a connect succeeds, an i-sock's or a probe's, while the host misses the endpoint (reachedLocked). It ends with
// the first connect of that workload that fails, of either kind, whatever i-socks it has (unreachedLocked), and with missed. When the witness leaves, another
// workload that uses the cluster takes its place, and is probed at once (handOverLocked). Behind a witness none begins for a pause, each twice as long as the
// one before where it has not lasted: what a workload reaches in turns would go in and out of service for all at its pace, and fill the log.
//
// A probe is a connection that a workload's namespace opens, and closes, to find that out. It is no i-sock: it takes none of the workload's slots, of its connects
// in progress, or of its connections to the cluster. While the host misses an endpoint, the witness is probed now and then; where there is no witness, a workload
// that has got a response, which may have come on an old connection, or any that has i-socks to the cluster. A workload that has none in progress is searched for;
// of what it is known to reach, or has answered it, each has maxProbesOfWorkload at a time. All together have maxProbes.
type reach struct {
	missed  bool
	witness *origin
	// answered is a workload that has got a response since the last probe; nil: none.
	answered *origin
	// prober is the workload in whose queue of probes the endpoint is; nil: in none.
	prober *origin
	// probeAt is when it is to be probed again.
	probeAt time.Time
	// since is when the witness began. Until wary no other one does; pause is how long that was.
	since, wary time.Time
	pause       time.Duration
}

const (
	// probeTimeout is how long a probe may take, if the endpoint's connect timeout is no shorter: a SYN that is lost is sent again after a second.
	probeTimeout = 2 * time.Second
	// probePause is between two probes of an endpoint that no workload reaches, as between the host's connects; confirmPause behind a connect of the witness.
	probePause   = longestWait
	confirmPause = 10 * time.Second
	// longestPause is the longest without a witness behind one that has not lasted for a confirmPause.
	longestPause = time.Minute
	// maxProbes bounds their descriptors, two each, which are of the daemon's own: no quota has them.
	maxProbes = 16
	// maxProbesOfWorkload are those of one: what it is the witness of may hang all at once.
	maxProbesOfWorkload = 4
)

// downLocked reports whether an endpoint is out of service.
func (p *Pool) downLocked(d *destination) bool {
	return atomic.LoadUint32(&p.cfg.Shared.Endpoints[d.Index].Flags)&uint32(maps.EndpointDown) != 0
}

// judgeLocked puts an endpoint in service, or out of it, and reports whether that is a change.
func (p *Pool) judgeLocked(d *destination) (changed bool) {
	flags, down := &p.cfg.Shared.Endpoints[d.Index].Flags, uint32(maps.EndpointDown)
	if d.missed && d.witness == nil {
		return atomic.OrUint32(flags, down)&down == 0
	}
	return atomic.AndUint32(flags, ^down)&down != 0
}

// upLocked forgets that the host has missed an endpoint, and reports whether it was out of service.
func (p *Pool) upLocked(d *destination) bool {
	d.reach = reach{prober: d.prober}
	return p.judgeLocked(d)
}

// missLocked notes that the host does not reach an endpoint.
func (p *Pool) missLocked(d *destination, err error) {
	if !d.missed {
		d.missed, d.probeAt = true, time.Time{}
	}
	if p.judgeLocked(d) {
		p.cfg.Logger.Warn("endpoint is out of service", "endpoint", d.Address, "err", err)
	}
	p.probeLocked(d, time.Now())
}

// reachedLocked notes that a workload other than the host has connected to an endpoint.
func (p *Pool) reachedLocked(d *destination, by *origin) {
	if !d.missed || by.left || d.witness != nil && d.witness != by {
		return // one that reaches it now and then does not take the place of one that always does
	}
	now := time.Now()
	if d.witness == nil {
		if now.Before(d.wary) {
			return
		}
		d.since = now
	}
	d.witness, d.probeAt = by, now.Add(confirmPause)
	if p.judgeLocked(d) {
		by.Logger(p.cfg.Logger).Info("endpoint is back: a workload reaches it, though the host does not", "endpoint", d.Address)
	}
}

// unreachedLocked notes that a workload other than the host could not connect to an endpoint.
func (p *Pool) unreachedLocked(d *destination, by *origin, err error) {
	if d.witness != by {
		return
	}
	now := time.Now()
	if d.pause = min(2*d.pause, longestPause); d.pause == 0 || now.Sub(d.since) > confirmPause {
		d.pause = probePause
	}
	d.witness, d.wary = nil, now.Add(d.pause)
	if p.judgeLocked(d) {
		by.Logger(p.cfg.Logger).Warn("endpoint is out of service: neither the host nor the workload that did reaches it", "endpoint", d.Address, "err", err)
	}
}

// Answered notes that a workload has got a response of an endpoint that is out of service. The workload is probed: the response may have come on a connection
// that was open before.
func (p *Pool) Answered(index uint32, id workload.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, o := p.destinations[index], p.origins[id]
	if id == workload.Host || o == nil || o.left || d == nil || !d.missed {
		return
	}
	d.answered = o
	p.probeLocked(d, time.Now())
}

var errLeft = errors.New("the workload has left, or the pool closes")

// probeLocked has a workload probed, if it is time.
func (p *Pool) probeLocked(d *destination, now time.Time) {
	if !d.missed || d.prober != nil || now.Before(d.probeAt) || now.Before(d.wary) || p.others == 0 {
		return
	}
	by := d.witness
	if by == nil {
		by, d.answered = d.answered, nil
	}
	if (by == nil || by.left) && p.probers < maxProbes {
		// Those that hang keep no witness waiting for longer than one, and no search is for each of thousands of endpoints and workloads.
		by = p.userLocked(d.Cluster, func(o *origin) bool { return len(o.probes) == 0 })
	}
	if by != nil && !by.left {
		p.probeByLocked(d, by)
	}
}

// userLocked is any workload but the host that has i-socks to a cluster, and is suitable; nil: none.
func (p *Pool) userLocked(cluster model.ClusterKey, suits func(*origin) bool) *origin {
	for o := range p.users[cluster] {
		if o.ID != workload.Host && !o.left && suits(o) {
			return o
		}
	}
	return nil
}

func (p *Pool) probeByLocked(d *destination, by *origin) {
	if p.ctx.Err() != nil {
		return
	}
	d.prober = by
	by.probes = append(by.probes, d)
	if by.probing == maxProbesOfWorkload {
		return
	}
	by.probing++
	p.probers++
	p.wg.Add(1)
	go p.probe(d, by)
}

// probe probes an endpoint, and what waits for that behind it.
func (p *Pool) probe(d *destination, by *origin) {
	defer p.wg.Done()
	for d != nil {
		p.mu.Lock()
		to := d.Endpoint
		p.mu.Unlock()
		p.probeTickets <- struct{}{}
		err := p.connectOnce(by, &to)
		<-p.probeTickets
		p.mu.Lock()
		p.probedLocked(d, by, err)
		d = p.nextProbeLocked(d, by)
		p.mu.Unlock()
	}
}

// nextProbeLocked is what is to be probed behind an endpoint, nil where nothing waits.
func (p *Pool) nextProbeLocked(d *destination, by *origin) *destination {
	at := slices.Index(by.probes, d)
	by.probes = slices.Delete(by.probes, at, at+1)
	if len(by.probes) < by.probing {
		by.probing--
		p.probers--
		return nil
	}
	return by.probes[by.probing-1]
}

// probedLocked takes in what has come of a probe.
func (p *Pool) probedLocked(d *destination, by *origin, err error) {
	if d.prober != by {
		return // it has left
	}
	d.prober, d.probeAt = nil, time.Now().Add(probePause)
	switch {
	case p.ctx.Err() != nil, upstream.IsShortage(err) && !upstream.IsPortShortage(err):
		// What the daemon lacks says nothing. A workload may use its own ports up, and shows then that it reaches nothing.
	case err != nil:
		p.unreachedLocked(d, by, err)
	default:
		p.reachedLocked(d, by)
	}
}

// connectOnce opens a connection, and closes it as an i-sock.
func (p *Pool) connectOnce(by *origin, to *Endpoint) error {
	p.mu.Lock()
	left := by.left
	p.mu.Unlock()
	if left || p.ctx.Err() != nil {
		return errLeft
	}
	unannounced := func(netip.AddrPort, uint32) error { return nil }
	fd, err := p.dialer.connect(p.ctx, by, to.Address, min(to.ConnectTimeout, probeTimeout), unannounced)
	if err != nil {
		return err
	}
	if !p.probePartings.Part(fd) {
		upstream.BoundEnd(fd)
	}
	unix.Close(fd)
	return nil
}

// handOverLocked gives what a workload that has left knows of an endpoint to another one that uses the cluster.
func (p *Pool) handOverLocked(d *destination, from *origin) {
	if d.prober == from {
		d.prober = nil
	}
	if d.answered == from {
		d.answered = nil
	}
	if d.witness != from {
		return
	}
	d.witness, d.since = p.userLocked(d.Cluster, func(*origin) bool { return true }), time.Now()
	if d.witness == nil {
		d.wary = d.since.Add(probePause)
	}
	if p.judgeLocked(d) {
		from.Logger(p.cfg.Logger).Warn("endpoint is out of service: the host does not reach it, and the workload that did has left", "endpoint", d.Address)
	}
	d.probeAt = time.Time{}
	p.probeLocked(d, time.Now())
}
