// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/reset"
)

const (
	// notifyEvery is how often the agent looks for ends.
	notifyEvery = 500 * time.Millisecond
	// promiseFor is how long after its last look the programs count on the agent: a restart takes less. Without an agent the server's programs take no
	// connections of whose ends it would have to notify balancers.
	promiseFor = 10 * time.Second
	// notifyTries is how long an end is tried again that cannot be sent: an interface may be made again.
	notifyTries = time.Minute
	// timeWait is how long a socket's ends are taken after it has closed first: the kernel's TIME_WAIT, and a little more.
	timeWait = 62 * time.Second
)

// endNotifier tells balancers that connections in confirm mode have ended: a balancer that tracks them has seen no end, would hold them for days, and must not
// give the client's end to another before that. The ends wait in pinned maps: an agent that restarts forgets none.
type endNotifier struct {
	k *Kernel
	// raw is a socket of the network namespace that the programs are in.
	raw *reset.Socket
	// lock is held while balancers are notified: another process may have the same ends.
	lock *pins.Lock
	// deliver notifies the balancer of one end.
	deliver    func(*kernel.Ended) error
	stop, done chan struct{}
	// dropped is how many ends the queue has had no room for, and quietUntil, of CLOCK_MONOTONIC, when the balancers of all others can have been notified.
	dropped, quietUntil uint64
}

// startNotifier starts it, for the network namespace of the calling thread.
func (k *Kernel) startNotifier() (*endNotifier, error) {
	n, err := newEndNotifier(k)
	if err != nil {
		return nil, err
	}
	if n.dropped, err = k.verdict(kernel.VerdictConfirmUnqueued); err == nil {
		err = n.promise()
	}
	if err != nil {
		n.release()
		return nil, err
	}
	go n.run()
	return n, nil
}

func newEndNotifier(k *Kernel) (*endNotifier, error) {
	raw, err := reset.Open()
	if err != nil {
		return nil, err
	}
	lock, err := pins.OpenLock(k.pin)
	if err != nil {
		raw.Close()
		return nil, err
	}
	n := &endNotifier{k: k, raw: raw, lock: lock, stop: make(chan struct{}), done: make(chan struct{})}
	n.deliver = n.send
	return n, nil
}

func (n *endNotifier) release() {
	n.raw.Close()
	n.lock.Close()
}

// promise tells the programs that balancers will be notified for a while. Not while the queue has no room: there are more ends than the agent can report, and the
// balancer would keep each of the others for days.
func (n *endNotifier) promise() error {
	now := kernel.Monotonic()
	dropped, err := n.k.verdict(kernel.VerdictConfirmUnqueued)
	if err != nil {
		return err
	}
	if dropped != n.dropped {
		n.dropped, n.quietUntil = dropped, now+uint64(timeWait)
	}
	until := now + uint64(promiseFor)
	if now < n.quietUntil {
		until = 0
	}
	if err := n.k.maps.HeelsConfirmUntil.Put(uint32(0), until); err != nil {
		return fmt.Errorf("write until when ends are told: %w", err)
	}
	return nil
}

func (n *endNotifier) close() {
	close(n.stop)
	<-n.done
	n.release()
}

// notifyRemaining notifies balancers of all ends that wait, whether their TIME_WAIT is over or not: no agent will do it later.
func (k *Kernel) notifyRemaining() error {
	queues := []*ebpf.Map{k.maps.HeelsEndedNow, k.maps.HeelsEndedLater}
	if !slices.ContainsFunc(queues, isWaiting) {
		return nil
	}
	n, err := newEndNotifier(k)
	if err != nil {
		return err
	}
	defer n.release()
	return n.lock.Hold(func() error {
		for _, queue := range queues {
			n.drainHeld(queue, 0)
			if isWaiting(queue) {
				return errors.New("tell balancers of ends: the device is full, or there is no way to them; try again, or leave them until they time out: --force")
			}
		}
		return nil
	})
}

func isWaiting(queue *ebpf.Map) bool {
	var e kernel.Ended
	return queue.Lookup(nil, &e) == nil
}

func (n *endNotifier) run() {
	defer close(n.done)
	ticker := time.NewTicker(notifyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-ticker.C:
			// What fails here is tried again, and not counted on meanwhile.
			_ = errors.Join(n.drain(n.k.maps.HeelsEndedNow, 0), n.drain(n.k.maps.HeelsEndedLater, timeWait), n.promise())
		}
	}
}

// drain notifies balancers of the ends that are old enough, once of each: the lock is held from a look at an end to its removal. Those of one queue are in order.
func (n *endNotifier) drain(queue *ebpf.Map, age time.Duration) error {
	if !isWaiting(queue) {
		return nil
	}
	return n.lock.Try(func() error {
		n.drainHeld(queue, age)
		return nil
	})
}

func (n *endNotifier) drainHeld(queue *ebpf.Map, age time.Duration) {
	for {
		var e kernel.Ended
		select {
		case <-n.stop:
			return
		default:
		}
		if queue.Lookup(nil, &e) != nil || e.At+uint64(age) > kernel.Monotonic() {
			return
		}
		// A full device is tried again, and so is a way that is not there: nothing is taken out before it has been sent, or its time is over.
		err := n.deliver(&e)
		isFull := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS)
		if isFull || err != nil && kernel.Monotonic() < e.At+uint64(age+notifyTries) {
			return
		}
		if queue.LookupAndDelete(nil, &e) != nil {
			return
		}
	}
}

// send sends a reset as the server's socket would, unless the same two ends have met again: then the balancer hears of the new connection's end.
func (n *endNotifier) send(e *kernel.Ended) error {
	var live kernel.Confirmed
	if n.k.maps.HeelsConfirmed.Lookup(kernel.Tuple{Local: e.Local, Remote: e.Remote}, &live) == nil {
		return nil
	}
	return n.raw.Send(kernel.AddrPort(e.Local), kernel.AddrPort(e.Remote), e.Seq)
}
