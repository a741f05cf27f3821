// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// CallerSpec describes clients of greeters. Each connection waits for the greeting, sends, half-closes, and reads what comes back.
type CallerSpec struct {
	Address string
	// Clients at work at once, and Connections of them all.
	Clients, Connections int
	// Opening is what each connection sends at once, before it waits for the greeting; it comes back as well.
	Opening []byte
	// Bytes is the most that one connection sends.
	Bytes int
	// Timeout of one connection.
	Timeout time.Duration
}

// CallerReport is the program's only answer.
type CallerReport struct {
	// ServedBy counts the connections that went right by the greeter's identity.
	ServedBy map[string]int
	// Peers counts what getpeername said.
	Peers map[string]int
	// Failures are the first few connections that went wrong.
	Failures []string
	Failed   int
}

func runCaller(s *stdio) error {
	var spec CallerSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		report = CallerReport{ServedBy: map[string]int{}, Peers: map[string]int{}}
		work   = make(chan struct{})
	)
	for range spec.Clients {
		wg.Go(func() {
			for range work {
				identity, peer, err := spec.call()
				mu.Lock()
				if err == nil {
					report.ServedBy[identity]++
					report.Peers[peer]++
				} else if report.Failed++; len(report.Failures) < maxFailures {
					report.Failures = append(report.Failures, err.Error())
				}
				mu.Unlock()
			}
		})
	}
	for range spec.Connections {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	return s.answer(&report)
}

func (s *CallerSpec) call() (identity, peer string, err error) {
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(s.Timeout)); err != nil {
		return "", "", err
	}
	if _, err := conn.Write(s.Opening); err != nil {
		return "", "", err
	}
	r := bufio.NewReader(conn)
	greeting, err := r.ReadString('\n')
	if err != nil {
		return "", "", fmt.Errorf("greeting: %w", err)
	}
	sent := bytes.Repeat([]byte("caller"), 1+rand.IntN(s.Bytes/6))
	go func() {
		// What is not sent does not come back.
		_ = sendInPieces(conn, sent)
	}()
	got, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(got, slices.Concat(s.Opening, sent)) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", "", fmt.Errorf("%d of %d bytes came back: %w", len(got), len(s.Opening)+len(sent), err)
	}
	return strings.TrimSuffix(greeting, "\n"), conn.RemoteAddr().String(), nil
}
