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
	// tellEvery is how often the agent looks for ends.
	tellEvery = 500 * time.Millisecond
	// tellFor is how long after its last look the agent is counted on: an agent that restarts is missed by nobody. Of one that is gone the server's programs begin no connections
	// that it would have to tell of.
	tellFor = 10 * time.Second
	// tellTries is how long it is tried to tell of an end that cannot be sent: an interface may be made again.
	tellTries = time.Minute
	// timeWait is how long a socket's ends are taken after it has closed first: the kernel's TIME_WAIT, and a little more.
	timeWait = 62 * time.Second
)

// teller tells balancers that connections in confirm mode have ended: a balancer that tracks them has seen no end, would hold them for days, and must not
// give the client's end to another before that. The ends wait in pinned maps: an agent that restarts forgets none.
type teller struct {
	k *Kernel
	// raw is a socket of the network namespace that the programs are in.
	raw *reset.Socket
	// lock is held while ends are told: others may have the same to tell.
	lock *pins.Lock
	// deliver tells of one end.
	deliver    func(*kernel.Ended) error
	stop, done chan struct{}
	// untold is how many ends were not kept so far, and quietUntil, of CLOCK_MONOTONIC, when those there are can have been told.
	untold, quietUntil uint64
}

// tell starts it, for the network namespace of the calling thread.
func (k *Kernel) tell() (*teller, error) {
	t, err := newTeller(k)
	if err != nil {
		return nil, err
	}
	if t.untold, err = k.verdict(kernel.VerdictConfirmUnqueued); err == nil {
		err = t.promise()
	}
	if err != nil {
		t.release()
		return nil, err
	}
	go t.run()
	return t, nil
}

func newTeller(k *Kernel) (*teller, error) {
	raw, err := reset.Open()
	if err != nil {
		return nil, err
	}
	lock, err := pins.OpenLock(k.pin)
	if err != nil {
		raw.Close()
		return nil, err
	}
	t := &teller{k: k, raw: raw, lock: lock, stop: make(chan struct{}), done: make(chan struct{})}
	t.deliver = t.send
	return t, nil
}

func (t *teller) release() {
	t.raw.Close()
	t.lock.Close()
}

// promise says that ends will be told for a while. Not while some could not be kept: there are more than can be told, and each would be the balancer's for days.
func (t *teller) promise() error {
	now := kernel.Monotonic()
	untold, err := t.k.verdict(kernel.VerdictConfirmUnqueued)
	if err != nil {
		return err
	}
	if untold != t.untold {
		t.untold, t.quietUntil = untold, now+uint64(timeWait)
	}
	until := now + uint64(tellFor)
	if now < t.quietUntil {
		until = 0
	}
	if err := t.k.maps.HeelsConfirmUntil.Put(uint32(0), until); err != nil {
		return fmt.Errorf("write until when ends are told: %w", err)
	}
	return nil
}

func (t *teller) close() {
	close(t.stop)
	<-t.done
	t.release()
}

// tellRest tells of all ends that wait, whether their TIME_WAIT is over or not: nobody will do it later.
func (k *Kernel) tellRest() error {
	queues := []*ebpf.Map{k.maps.HeelsEndedNow, k.maps.HeelsEndedLater}
	if !slices.ContainsFunc(queues, isWaiting) {
		return nil
	}
	t, err := newTeller(k)
	if err != nil {
		return err
	}
	defer t.release()
	return t.lock.Hold(func() error {
		for _, queue := range queues {
			t.drainHeld(queue, 0)
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

func (t *teller) run() {
	defer close(t.done)
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-ticker.C:
			// What fails here is tried again, and not counted on meanwhile.
			_ = errors.Join(t.drain(t.k.maps.HeelsEndedNow, 0), t.drain(t.k.maps.HeelsEndedLater, timeWait), t.promise())
		}
	}
}

// drain tells of the ends that are old enough, each once: between a look at an end and its removal nobody else may tell of it. Those of one queue are in order.
func (t *teller) drain(queue *ebpf.Map, age time.Duration) error {
	if !isWaiting(queue) {
		return nil
	}
	return t.lock.Try(func() error {
		t.drainHeld(queue, age)
		return nil
	})
}

func (t *teller) drainHeld(queue *ebpf.Map, age time.Duration) {
	for {
		var e kernel.Ended
		select {
		case <-t.stop:
			return
		default:
		}
		if queue.Lookup(nil, &e) != nil || e.At+uint64(age) > kernel.Monotonic() {
			return
		}
		// A full device is tried again, and so is a way that is not there: nothing is taken out before it has been sent, or given up.
		err := t.deliver(&e)
		isFull := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS)
		if isFull || err != nil && kernel.Monotonic() < e.At+uint64(age+tellTries) {
			return
		}
		if queue.LookupAndDelete(nil, &e) != nil {
			return
		}
	}
}

// send sends a reset as the server's socket would, unless the same two ends have met again: then the new connection's end will be told.
func (t *teller) send(e *kernel.Ended) error {
	var live kernel.Confirmed
	if t.k.maps.HeelsConfirmed.Lookup(kernel.Tuple{Local: e.Local, Remote: e.Remote}, &live) == nil {
		return nil
	}
	return t.raw.Send(kernel.AddrPort(e.Local), kernel.AddrPort(e.Remote), e.Seq)
}
