// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/workload"
)

// origin is a workload as what connects to endpoints: its i-socks are in its network namespace.
type origin struct {
	*workload.Workload
	// ports are those that its network namespace gives to clients.
	ports portRange
	// dials bounds connects in progress: those of a workload that reaches no endpoint do not keep another's waiting.
	dials chan struct{}
	// left: none of its requests gets an i-sock any more. Guarded by Pool.mu.
	left bool
	// subpools counts those that it has. Guarded by Pool.mu.
	subpools int
	// probes are the endpoints that it is to probe, and it does so with as many of the first of them as probing says; see reach. Guarded by Pool.mu.
	probes  []*destination
	probing int
	// warned is when a lack of room for its i-socks was logged last. Guarded by Pool.mu.
	warned time.Time
}

const (
	// maxDials is of the host, maxDialsOfWorkload of each other workload: each takes a source port and two descriptors, and no thread.
	maxDials           = 16
	maxDialsOfWorkload = 4
)

func newOrigin(w *workload.Workload, dials int) *origin {
	return &origin{Workload: w, ports: portsOf(w), dials: make(chan struct{}, dials)}
}

// socket opens a socket in the workload's network namespace, where it stays. Whatever follows is done by any thread.
func (o *origin) socket(family, kind int) (fd int, err error) {
	fd = -1
	err = o.Within(func() (err error) {
		fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// Join lets a workload's requests have i-socks: from its first request to an endpoint on.
func (p *Pool) Join(w *workload.Workload) {
	if w.ID == workload.Host {
		return
	}
	o := newOrigin(w, maxDialsOfWorkload)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.origins[w.ID] != nil {
		return
	}
	p.origins[w.ID] = o
	p.slots.Join(w.Account())
	p.others++
	p.shareLocked()
	for _, d := range p.destinations {
		// What the host has found says nothing of the new workload's server there.
		if d.Address.Addr().IsLoopback() && p.upLocked(d) {
			w.Logger(p.cfg.Logger).Info("endpoint is in service: a workload may reach another server there", "endpoint", d.Address)
		}
	}
}

// Leave drains a workload's i-socks: idle ones close at once, leased ones when their lease ends. From now on its requests get none.
func (p *Pool) Leave(id workload.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.origins[id]
	if o == nil || o.left || id == workload.Host {
		return
	}
	o.left = true
	p.others--
	p.shareLocked()
	for _, d := range p.destinations {
		if sub := d.subpools[id]; sub != nil {
			p.drainLocked(sub)
		}
		p.handOverLocked(d, o)
	}
	// Those in progress end by themselves; each of the others would hold the network namespace as long.
	o.probes = o.probes[:o.probing]
	p.releaseOriginLocked(o)
}

// releaseOriginLocked forgets a workload that has left, and has no i-sock, unless the end of its last subpool has done so.
func (p *Pool) releaseOriginLocked(o *origin) {
	if o.left && o.subpools == 0 && p.origins[o.ID] == o {
		delete(p.origins, o.ID)
		p.slots.Leave(o.Account())
	}
}

// decidesLocked reports whether a failed connect of a subpool says something of the endpoint for all workloads. Those of the host do, but not to a
// loopback address, which is another server's in each network namespace.
func (p *Pool) decidesLocked(sub *subpool) bool {
	return sub.isHosts() && (p.others == 0 || !sub.Address.Addr().IsLoopback())
}
