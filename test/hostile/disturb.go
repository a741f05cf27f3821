// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/violation"
)

// Bounds of what one strike takes.
const (
	longestPause = 100 * time.Millisecond
	longestHold  = 10 * time.Millisecond
	holds        = 10
	stockPairs   = 60
)

// anyProcess draws a process of wild clients or of servers, and the port of its connections.
func (s *scene) anyProcess() (p *harness.Process, port uint16) {
	i := s.random.IntN(len(s.Clients) + len(s.endpoints))
	if i < len(s.Clients) {
		// The calm ones are the first.
		return s.running[1+i], s.service.Port()
	}
	one := s.endpoints[i-len(s.Clients)]
	return one.process, one.address.Port()
}

func (s *scene) moment(longest time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(longest)))
}

// holdLocks holds the locks of the sockets of one process after the other. Messages to them must not wait for ever.
func (s *scene) holdLocks() {
	for range holds {
		p, port := s.anyProcess()
		g, err := traffic.TakeGrip(p.PID(), port)
		if errors.Is(err, traffic.ErrNoGrip) {
			s.Errorf("hold locks: %v", err)
			return
		}
		if err != nil {
			continue // it has no connection
		}
		time.Sleep(s.moment(longestHold))
		if err := g.Release(); err != nil {
			s.Errorf("let sockets go: %v", err)
		}
	}
}

// pause stops a process and has it go on.
func (s *scene) pause() {
	p, _ := s.anyProcess()
	p.Signal(s, syscall.SIGSTOP)
	time.Sleep(s.moment(longestPause))
	p.Signal(s, syscall.SIGCONT)
}

// freeze stops the cgroup of the clients, and all other processes in it, and has them go on.
func (s *scene) freeze() {
	file := filepath.Join(s.near.Cgroup(), "cgroup.freeze")
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		s.Fatal(err)
	}
	time.Sleep(s.moment(longestPause))
	if err := os.WriteFile(file, []byte("0"), 0); err != nil {
		s.Fatal(err)
	}
}

// trace stops the threads of a process one after the other, as strace and debuggers do when they attach. This process cannot: it waits for the end
// of its children, and each stop of one that it traced would count as that.
func (s *scene) trace() {
	p, _ := s.anyProcess()
	var done struct{}
	tracer := s.near.Program(s, programs.HostileTracerProgram, traffic.TraceSpec{PID: p.PID()})
	tracer.Next(s, &done)
	tracer.Wait(s, gone)
}

// endStock judges the stock pair.
func (s *scene) endStock() {
	if s.stock == nil {
		return
	}
	counts := s.stockClient.StockCounts(s, gone)
	s.clients["stock pairs"] += int64(counts.Pairs)
	s.clients["stock pairs without an answer"] += int64(counts.Reset)
	if _, unsent := s.stock.Unsent(s); len(unsent) > 0 {
		violation.Errorf(s, "the stock server has executed what nobody has sent: %v", unsent)
	}
	if counts.Wrong > 0 {
		violation.Errorf(s, "%d requests of the stock client got an answer to what nobody asked", counts.Wrong)
	}
}
