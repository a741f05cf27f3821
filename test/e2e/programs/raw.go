// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// RawSpec describes connections on which bytes are sent as they are, each on
// one of its own.
type RawSpec struct {
	Sends []RawSend
	// Patience is how long an answer may take to begin; 0 is as long as Quiet.
	Patience time.Duration `json:",omitempty"`
	// Quiet is how long an answer may pause before it counts as ended.
	Quiet time.Duration
	// Concurrency is the number of connections at a time.
	Concurrency int
}

// RawSend is one connection.
type RawSend struct {
	Address string
	// Bytes are written in one call.
	Bytes []byte
	// Delay is between the connection and what is sent.
	Delay time.Duration `json:",omitempty"`
}

// RawReport is the program's only answer: one entry per send.
type RawReport struct{ Answers []RawAnswer }

// RawAnswer is what came back.
type RawAnswer struct {
	// Bytes are its beginning.
	Bytes []byte
	// Closed tells that the other side closed, or reset, the connection.
	Closed bool
	// Error is set when the connection could not be opened.
	Error string
}

// maxRawAnswer bounds what is kept of an answer.
const maxRawAnswer = 4 << 10

func runRaw(s *stdio) error {
	var spec RawSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	report := RawReport{Answers: make([]RawAnswer, len(spec.Sends))}
	turns := make(chan struct{}, spec.Concurrency)
	var wg sync.WaitGroup
	for i, send := range spec.Sends {
		turns <- struct{}{}
		wg.Go(func() {
			report.Answers[i] = send.exchange(cmp.Or(spec.Patience, spec.Quiet), spec.Quiet)
			<-turns
		})
	}
	wg.Wait()
	return s.answer(report)
}

func (s *RawSend) exchange(patience, quiet time.Duration) RawAnswer {
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		return RawAnswer{Error: err.Error()}
	}
	defer conn.Close()
	time.Sleep(s.Delay)
	// A refusal may come before everything is written: the answer tells.
	_, _ = conn.Write(s.Bytes)
	var answer RawAnswer
	buffer := make([]byte, 16<<10)
	for {
		// The connection is open: setting a deadline cannot fail.
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		n, err := conn.Read(buffer)
		patience = quiet
		answer.Bytes = append(answer.Bytes, buffer[:min(n, maxRawAnswer-len(answer.Bytes))]...)
		if err != nil {
			answer.Closed = errors.Is(err, io.EOF) || !errors.Is(err, os.ErrDeadlineExceeded)
			return answer
		}
	}
}
