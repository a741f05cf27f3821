// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xlb-project/xlb/internal/logging"
)

// maxQueue bounds the requests that a server has not read.
const maxQueue = 256

var (
	errDeaf   = errors.New("the server does not read requests")
	errSilent = errors.New("the server has not answered in time")
)

// stream is one stream to a server. Its fields belong to run.
type stream struct {
	client *Client
	wire   wire
	server int
	node   *corev3.Node // nil when it was sent
	queue  chan *request
	// heard: the server has sent a response.
	heard bool
	// asked: the kind was asked for on this stream, nonce: of its newest response.
	asked [kinds]bool
	nonce [kinds]string
	// repeats paces answers to what is refused again and again.
	repeats [kinds]repeat
	later   *time.Timer
}

// run asks for what the client wants and answers what comes, until the stream ends.
func (s *stream) run(ctx context.Context, cancel context.CancelFunc) error {
	responses, failures := make(chan *response), make(chan error, 2)
	var both sync.WaitGroup
	both.Go(func() { failures <- s.receive(ctx, responses) })
	both.Go(func() { failures <- s.send(ctx) })
	defer both.Wait()
	defer cancel()
	s.later = time.NewTimer(time.Hour)
	defer s.later.Stop()
	silence, stop := s.patience()
	defer stop()

	err := s.begin()
	for err == nil {
		select {
		case r := <-responses:
			s.heard = true
			stop()
			err = s.answer(r)
		case <-s.client.wake:
			err = s.resubscribe()
		case <-s.later.C:
			err = s.answerLate()
		case <-silence:
			if !s.heard {
				err = errSilent
			}
		case err = <-failures:
			err = explain(err)
		}
	}
	return err
}

// patience is how long the server may take to say anything. It matters only where there is another to ask, and nothing is known yet: a server
// that has nothing new to say to a client that has the configuration says nothing.
func (s *stream) patience() (<-chan time.Time, func()) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.config.Servers) < 2 || c.state.heard() {
		return nil, func() {}
	}
	limit := firstAnswer
	if c.config.FetchTimeout > 0 {
		limit = min(limit, c.config.FetchTimeout)
	}
	timer := time.NewTimer(limit)
	return timer.C, func() { timer.Stop() }
}

func (s *stream) receive(ctx context.Context, responses chan<- *response) error {
	for {
		r, err := s.wire.receive()
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		select {
		case responses <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send is apart from receive, lest both sides wait for each other to read.
func (s *stream) send(ctx context.Context) error {
	for {
		select {
		case r := <-s.queue:
			if err := s.wire.send(r); err != nil {
				// What ended the stream is what receive returns.
				<-ctx.Done()
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin asks for all that is wanted.
func (s *stream) begin() error {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.notKept = [kinds]uint64{} // the server sends them again
	for _, kind := range every {
		if kind.isRoot() && !c.wants(kind) || !kind.isRoot() && len(c.state.subscribed(kind)) == 0 {
			c.state.told(kind)
			continue
		}
		if err := s.ask(kind, s.first(kind)); err != nil {
			return err
		}
	}
	return nil
}

// first is a stream's first request for a kind. The lock is held.
func (s *stream) first(kind Kind) *request {
	state := s.client.state
	if !s.client.config.Delta {
		return &request{version: state.versionFor(kind, s.server), names: state.subscribed(kind)}
	}
	return &request{subscribe: state.subscribed(kind), known: state.versionsFor(kind, s.server)}
}

// ask sends a request. The lock is held.
func (s *stream) ask(kind Kind, r *request) error {
	s.asked[kind] = true
	s.client.state.told(kind)
	r.typeURL = kind.TypeURL()
	return s.enqueue(r)
}

func (s *stream) enqueue(r *request) error {
	r.node, s.node = s.node, nil
	select {
	case s.queue <- r:
		return nil
	default:
		return errDeaf
	}
}

// answer takes a response and says what came of it.
func (s *stream) answer(r *response) error {
	c := s.client
	kind, known := kindOf(r.typeURL)
	if !known {
		c.log.Warn("management server has sent what was not asked for", "type", r.typeURL)
		return s.enqueue(&request{typeURL: r.typeURL, nonce: r.nonce, fault: fmt.Sprintf("type %q is not supported", r.typeURL)})
	}
	if !s.asked[kind] {
		// An answer would ask for all of the type.
		c.log.Debug("management server has sent what was not asked for", "type", r.typeURL)
		return nil
	}
	fault := c.take(kind, r, s.server)
	c.note(kind, r, fault)
	c.news()
	poke(c.alarm)
	s.nonce[kind] = r.nonce
	text := ""
	if fault != nil {
		text = fault.Error()
		c.log.Warn("configuration of the management server was refused", "kind", kind.String(), "version", logging.NonZero(r.version), "error", text)
	}
	if wait := s.repeats[kind].wait(r.version, text); wait > 0 && r.whole {
		s.awaitDue()
	} else if err := s.acknowledge(kind, text); err != nil {
		return err
	}
	return s.resubscribe()
}

// acknowledge accepts or refuses the newest response of a kind.
func (s *stream) acknowledge(kind Kind, fault string) error {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	s.repeats[kind].due = time.Time{}
	r := &request{typeURL: kind.TypeURL(), nonce: s.nonce[kind], fault: fault}
	if !c.config.Delta {
		// In force is what this server has sent last, or nothing that it knows.
		r.version, r.names = c.state.versionOf(kind, s.server), c.state.subscribed(kind)
		c.state.told(kind)
	}
	return s.enqueue(r)
}

// answerLate sends the refusals whose time has come.
func (s *stream) answerLate() error {
	for _, kind := range every {
		if due := s.repeats[kind].due; due.IsZero() || time.Until(due) > 0 {
			continue
		}
		if err := s.acknowledge(kind, s.repeats[kind].fault); err != nil {
			return err
		}
	}
	s.awaitDue()
	return nil
}

// awaitDue sets the timer for the next refusal that waits.
func (s *stream) awaitDue() {
	var next time.Time
	for _, kind := range every {
		next = earlier(next, s.repeats[kind].due)
	}
	if !next.IsZero() {
		s.later.Reset(time.Until(next))
	}
}

// resubscribe tells the server which names are asked for, where it does not know.
func (s *stream) resubscribe() error {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range every {
		if kind.isRoot() || !c.state.untold(kind) {
			continue
		}
		r := c.change(kind, s.asked[kind])
		if r == nil {
			c.state.told(kind)
			continue
		}
		if !c.config.Delta {
			r.nonce, r.version = s.nonce[kind], c.state.versionOf(kind, s.server)
			r.fault, s.repeats[kind].due = s.repeats[kind].pending(), time.Time{}
		}
		if err := s.ask(kind, r); err != nil {
			return err
		}
	}
	return nil
}
