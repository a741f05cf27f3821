// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// ClientSpec describes a process of clients.
type ClientSpec struct {
	// Ledger is its directory.
	Ledger string
	Seed   uint64
	// Process is the first number of its identities, unique in the run.
	Process uint32
	// Service to connect to.
	Service string
	// Workers have one connection each.
	Workers uint32
	// Conns is the number of connections to make in all; 0 goes on until the context ends.
	Conns uint32
}

// RunClients makes connections and requests until ctx ends. Requests that have
// begun are finished.
func RunClients(ctx context.Context, spec ClientSpec) error {
	ledger, err := OpenLedger(spec.Ledger)
	if err != nil {
		return err
	}
	limit := uint32(maxConns)
	if spec.Conns > 0 {
		limit = spec.Conns
	}
	var workers sync.WaitGroup
	for first := range spec.Workers {
		workers.Go(func() {
			for conn := first; conn < limit && ctx.Err() == nil; conn += spec.Workers {
				c := &conversation{spec: &spec, ledger: ledger, conn: conn}
				c.run(ctx)
			}
		})
	}
	workers.Wait()
	return ledger.Close()
}

// conversation is one connection of a client.
type conversation struct {
	spec   *ClientSpec
	ledger *Ledger
	conn   uint32

	wire   *wire
	reader *bufio.Reader
	// last is the plan of the request before.
	last *Plan
}

// connectPause keeps a client that cannot connect from spinning.
const connectPause = 50 * time.Millisecond

func (c *conversation) run(ctx context.Context) {
	conn, err := net.DialTimeout("tcp", c.spec.Service, HangBound)
	if err != nil {
		c.ledger.count(ConnectFailed)
		time.Sleep(connectPause)
		return
	}
	c.wire = newWire(conn, HangBound)
	defer c.wire.Close()
	c.reader = bufio.NewReaderSize(c.wire, 16<<10)
	count := requestsOn(c.spec.Seed, c.spec.Process, c.conn)
	for number := uint32(0); number < count && ctx.Err() == nil; {
		plan := c.plan(number)
		number++
		if n := c.reader.Buffered(); n > 0 {
			c.answer(c.last).fail(fmt.Sprintf("%d bytes behind the response", n), &Failure{Got: string(c.wire.last)})
			return
		}
		if !plan.Paired {
			c.last = &plan
			if !c.exchange(&plan) {
				return
			}
			continue
		}
		second := c.plan(number)
		number++
		c.last = &second
		if !c.pair(&plan, &second) {
			return
		}
	}
}

func (c *conversation) plan(number uint32) Plan {
	return NewPlan(c.spec.Seed, ID{c.spec.Process, c.conn, number})
}

// begin notes that a request is about to be sent.
func (c *conversation) begin(plan *Plan) {
	c.ledger.sent(plan.ID)
	c.ledger.count(Requests)
	if plan.calm() {
		c.ledger.count(CalmRequests)
	}
}

// pair sends two requests, in one write or in two, and then reads both responses.
func (c *conversation) pair(first, second *Plan) (keep bool) {
	c.begin(first)
	c.begin(second)
	requests := [][]byte{first.request(c.spec.Seed).bytes, second.request(c.spec.Seed).bytes}
	if !first.HeadFirst {
		requests = [][]byte{slices.Concat(requests...)}
	}
	for _, b := range requests {
		// What goes wrong shows in the reading.
		_ = c.wire.send(b, c.random(first))
	}
	if !c.answer(first).read(nil) {
		c.ledger.count(Unanswered)
		return false
	}
	return c.answer(second).read(nil)
}

// exchange sends a request, reads its response meanwhile, and tells whether the
// connection can serve another.
func (c *conversation) exchange(plan *Plan) (keep bool) {
	c.begin(plan)
	s := &sending{conversation: c, plan: plan, proceed: make(chan struct{})}
	if plan.Client == clientResetsInRequest || plan.Client == clientAbandonsRequest || plan.Client == clientAbandonsUnstarted {
		s.leave()
		c.ledger.count(Left)
		return false
	}
	if plan.RequestFraming == framingNone {
		// Small: nothing has to be read for it to go. What went wrong shows in the reading.
		_ = s.run()
		return c.answer(plan).read(nil) && !plan.halfCloses()
	}
	sent := make(chan error, 1)
	go func() { sent <- s.run() }()
	keep = c.answer(plan).read(s.mayProceed)
	s.mayProceed()
	if !keep {
		// Ends a write that nobody reads any more.
		c.wire.Close()
	}
	err := <-sent
	if isTimeout(err) {
		c.answer(plan).fail(fmt.Sprintf("nothing of the request taken for %v", HangBound), nil)
	}
	return err == nil && keep && !plan.halfCloses()
}

// sending is the client's half of an exchange that writes.
type sending struct {
	*conversation
	plan *Plan

	once    sync.Once
	proceed chan struct{} // closed when the body may be sent
}

// mayProceed lets the body go that waits for 100 (Continue).
func (s *sending) mayProceed() { s.once.Do(func() { close(s.proceed) }) }

// expectPatience is how long a client waits for 100 before it sends its body
// all the same (RFC 9110 section 10.1.1).
const expectPatience = time.Second

func (s *sending) run() error {
	m := s.plan.request(s.spec.Seed)
	random := s.random(s.plan)
	switch s.plan.Client {
	case clientStalls:
		return s.inTwo(m.bytes, random, func() error { time.Sleep(s.plan.ClientPause); return nil })
	case clientHalfClosesEarly:
		return s.wireHalfClose(m.bytes[:part(len(m.bytes), s.plan.ClientAt)], random)
	case clientHalfCloses:
		return s.wireHalfClose(m.bytes, random)
	}
	if !s.plan.Expect && !s.plan.HeadFirst {
		return s.wire.send(m.bytes, random)
	}
	if err := s.wire.send(m.bytes[:m.head], random); err != nil {
		return err
	}
	if s.plan.Expect {
		select {
		case <-s.proceed:
		case <-time.After(expectPatience):
		}
	}
	return s.wire.send(m.bytes[m.head:], random)
}

func (s *sending) inTwo(b []byte, random *rand.Rand, between func() error) error {
	at := part(len(b), s.plan.ClientAt)
	return errors.Join(s.wire.send(b[:at], random), between(), s.wire.send(b[at:], random))
}

func (s *sending) wireHalfClose(b []byte, random *rand.Rand) error {
	if err := s.wire.send(b, random); err != nil {
		return err
	}
	return s.wire.CloseWrite()
}

// leave sends a part of the request, or all of it, and goes away.
func (s *sending) leave() {
	b := s.plan.request(s.spec.Seed).bytes
	if s.plan.Client != clientAbandonsUnstarted {
		b = b[:part(len(b), s.plan.ClientAt)]
	}
	// The other side may have gone first.
	_ = s.wire.send(b, s.random(s.plan))
	if s.plan.Client == clientResetsInRequest {
		s.wire.reset()
	}
}

// random returns the source for pieces, nil when the plan sends whole.
func (c *conversation) random(plan *Plan) *rand.Rand {
	if !plan.RequestPieces {
		return nil
	}
	return rand.New(rand.NewPCG(plan.ID.key(c.spec.Seed, 'w'), 0))
}
