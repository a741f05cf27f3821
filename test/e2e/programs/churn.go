// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// ChurnSpec describes connections that are opened and closed at once.
type ChurnSpec struct {
	Address     string
	Connections int
	// Concurrency is how many clients do it.
	Concurrency int
	// Say is sent before the close by every second client; it may be empty.
	Say string
	// Take is how many bytes of the answer are read before the close.
	Take int64 `json:",omitempty"`
	// Reset makes the close a reset.
	Reset bool `json:",omitempty"`
}

// ChurnReport is the program's only answer.
type ChurnReport struct {
	Opened  int64
	Problem string
}

func runChurn(s *stdio) error {
	var spec ChurnSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	var (
		opened  atomic.Int64
		problem atomic.Pointer[string]
		clients sync.WaitGroup
	)
	for i := range spec.Concurrency {
		clients.Go(func() {
			for range spec.Connections / spec.Concurrency {
				if err := spec.once(i%2 == 0); err != nil {
					message := fmt.Sprint(err)
					problem.Store(&message)
					continue
				}
				opened.Add(1)
			}
		})
	}
	clients.Wait()
	report := ChurnReport{Opened: opened.Load()}
	if message := problem.Load(); message != nil {
		report.Problem = *message
	}
	return s.answer(report)
}

func (s *ChurnSpec) once(speak bool) error {
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.Reset {
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
			return err
		}
	}
	if !speak {
		return nil
	}
	if _, err := io.WriteString(conn, s.Say); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, conn, s.Take)
	return err
}
