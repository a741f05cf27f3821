// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// CrowdSpec describes many connections that stay open and rarely speak.
type CrowdSpec struct {
	Address     string
	Connections int
}

// CrowdReport is the first answer, when every connection has made a request,
// and the answer to every command, when each has made one more.
type CrowdReport struct {
	Answered int
	Problems []string
	Elapsed  time.Duration
}

// crowdWorkers bounds the requests in flight.
const crowdWorkers = 32

// crowdTimeout of one request.
const crowdTimeout = 30 * time.Second

func runCrowd(s *stdio) error {
	var spec CrowdSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	conns := make([]*clientConn, spec.Connections)
	for {
		if err := s.answer(crowdRound(spec.Address, conns)); err != nil {
			return err
		}
		if _, err := s.command(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
	}
}

// crowdRound makes one request on every connection, opening it if need be.
func crowdRound(address string, conns []*clientConn) *CrowdReport {
	report := &CrowdReport{}
	began := time.Now()
	var mu sync.Mutex // guards report
	var workers sync.WaitGroup
	for first := range crowdWorkers {
		workers.Go(func() {
			for i := first; i < len(conns); i += crowdWorkers {
				err := crowdAsk(address, &conns[i])
				mu.Lock()
				if err == nil {
					report.Answered++
				} else if len(report.Problems) < 10 {
					report.Problems = append(report.Problems, err.Error())
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	report.Elapsed = time.Since(began)
	return report
}

func crowdAsk(address string, conn **clientConn) error {
	if *conn == nil {
		opened, err := dialClient(address, crowdTimeout)
		if err != nil {
			return err
		}
		*conn = opened
	}
	answer, err := (*conn).get(Ask{Path: "/"}, crowdTimeout)
	if err != nil {
		return err
	}
	if answer.status != http.StatusOK || answer.last {
		return fmt.Errorf("status %d, connection closing %v", answer.status, answer.last)
	}
	return nil
}
